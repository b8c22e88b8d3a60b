"""A model server that says what a test tells it to, and a proxy that lets nothing out."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def text(words, reasoning=None, usage=(1000, 50), silences=(0, 0)):
    """An answer, with so many seconds of silence before its first chunk and behind it."""
    return {"content": words, "reasoning": reasoning, "calls": [], "usage": usage, "silences": silences}


def call(name, arguments, reasoning=None, usage=(1000, 50)):
    """A call of a function, or of a custom tool, which gets its input as a string."""
    arguments = {"input": arguments} if isinstance(arguments, str) else arguments
    calls = [(name, json.dumps(arguments))]
    return {"content": None, "reasoning": reasoning, "calls": calls, "usage": usage, "silences": (0, 0)}


class Model:
    """Answers chat completions with replies in their order. A reply may be a function of the request."""

    def __init__(self):
        self.replies, self.requests, self.faults = [], [], []
        self.server = serve(type("Handler", (ModelHandler,), {"model": self}))
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def script(self, *replies):
        self.replies, self.requests = list(replies), []

    def answer(self, request):
        self.requests.append(request)
        if not self.replies:
            self.faults.append("asked once more than expected")
            return text("I was not expected to be asked.")
        reply = self.replies.pop(0)
        if not callable(reply):
            return reply
        try:
            return reply(request)
        except AssertionError as fault:
            self.faults.append(repr(fault))
            return text(f"Something is wrong: {fault}")

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class ModelHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model = None

    def log_message(self, *_):
        pass

    def do_GET(self):
        models = ["test-model", "gpt-5.5", "gpt-6-sol"]
        self.send(json.dumps({"object": "list", "data": [{"id": m, "object": "model"} for m in models]}))

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        fault = strict(request)
        if fault:
            self.model.faults.append(fault)
            return self.send(json.dumps({"error": {"message": fault}}), status=400)
        reply = self.model.answer(request)
        if not any(reply["silences"]):
            return self.send("".join(f"data: {chunk}\n\n" for chunk in chunks(reply)), "text/event-stream")
        self.trickle(reply)

    def trickle(self, reply):
        """Says nothing for a while, twice."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        try:
            for number, chunk in enumerate(chunks(reply)):
                if number < len(reply["silences"]):
                    self.wfile.flush()
                    time.sleep(reply["silences"][number])
                self.wfile.write(f"data: {chunk}\n\n".encode())
        except ConnectionError:
            self.model.faults.append("the gateway went away in a silence")

    def send(self, body, kind="application/json", status=200):
        body = body.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def strict(request):
    """What the strictest servers refuse."""
    if request.get("stream") is not True:
        return "not streamed"
    names = [tool["function"]["name"] for tool in request.get("tools", [])]
    if len(set(names)) != len(names):
        return f"names are not unique: {names}"
    waiting = []
    for message in request["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return f"an output of no call, or a second one: {message}"
            waiting.remove(message["tool_call_id"])
        elif waiting:
            return f"calls without outputs: {waiting}"
        waiting += [call["id"] for call in message.get("tool_calls") or []]
    return f"calls without outputs: {waiting}" if waiting else None


def chunks(reply):
    def chunk(delta, finish=None, **more):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return json.dumps({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                           "choices": [choice], **more})

    if reply["reasoning"]:
        yield chunk({"reasoning_content": reply["reasoning"]})
    for part in (reply["content"] or "").split("\n"):
        if reply["content"]:
            yield chunk({"content": part + "\n"})
    for i, (name, arguments) in enumerate(reply["calls"]):
        begin = {"index": i, "id": f"call_{id(reply)}_{i}", "type": "function",
                 "function": {"name": name, "arguments": ""}}
        yield chunk({"tool_calls": [begin]})
        for at in range(0, len(arguments), 40):
            yield chunk({"tool_calls": [{"index": i, "function": {"arguments": arguments[at:at + 40]}}]})
    yield chunk({}, "tool_calls" if reply["calls"] else "stop")
    prompt, completion = reply["usage"]
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    yield json.dumps({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [],
                      "usage": usage})
    yield "[DONE]"


class Outside:
    """The proxy: whatever is not for this machine ends here, and is remembered."""

    def __init__(self):
        self.wanted = []
        self.server = serve(type("Handler", (OutsideHandler,), {"wanted": self.wanted}))
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class OutsideHandler(BaseHTTPRequestHandler):
    wanted = None

    def log_message(self, *_):
        pass

    def refuse(self):
        self.wanted.append(self.path)
        self.send_error(403)

    do_CONNECT = do_GET = do_POST = do_HEAD = refuse


def serve(handler):
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
