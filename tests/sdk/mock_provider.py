"""A chat-completions server that follows a script, and a search engine, for tests of SDKs against the gateway.

Owns the wire: bodies, chunks, statuses, broken connections. What is said is `mock_script.py`'s.

    python3 mock_provider.py PORT
"""

import base64
import json
import re
import struct
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import mock_script

# Statuses that servers give names to; the others have no code.
CODES = {400: "invalid_prompt", 401: "invalid_api_key", 404: "model_not_found", 422: "invalid_shape", 429: "rate_limit_exceeded"}


class Provider(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # A chunk must leave when it is made, or nothing streams.
    disable_nagle_algorithm = True

    def do_GET(self):
        self.drop_base()
        if self.path == "/search":
            return self.send(200, {"results": mock_script.FOUND})
        if self.path == "/models":
            data = [{"id": id, "object": "model", "created": 1, "owned_by": "mock"} for id in mock_script.MODELS]
            return self.send(200, {"object": "list", "data": data})
        self.fail(404, f"no such path: {self.path}")

    def do_POST(self):
        self.drop_base()
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if status := re.fullmatch(r"err-(\d{3})", request["model"]):
            # Some servers repeat the key that they refuse.
            return self.fail(int(status[1]), f"scripted failure; the key was {mock_script.SECRET}")
        if self.path == "/embeddings":
            return self.send(200, embeddings(request))
        if self.path != "/chat/completions":
            return self.fail(404, f"no such path: {self.path}")
        if why := mock_script.objection(request):
            return self.fail(400, f"the mock objects: {why}")
        if request["model"] == "slow":
            time.sleep(3)
        answer = mock_script.answer(request)
        (self.stream if request.get("stream") else self.whole)(request, answer)

    def drop_base(self):
        self.path = self.path.partition("?")[0].removeprefix("/v1")

    # --- answers ---

    def whole(self, request, answer):
        choice = {"index": 0, "message": message(answer), "finish_reason": answer.finish}
        if answer.logprobs:
            choice["logprobs"] = {"content": [logprob(piece) for piece in pieces(answer.text)]}
        body = head(request) | {"object": "chat.completion", "choices": [choice], "usage": usage(request, answer)}
        if request["model"] == "failing":
            return self.fail(500, "scripted failure")
        self.send(200, body, cut=request["model"] == "cut")

    def stream(self, request, answer):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        broken = request["model"] in ("cut", "failing")
        deltas = list(chunks(answer))
        for delta, logprobs in deltas[: len(deltas) // 2] if broken else deltas:
            choice = {"index": 0, "delta": delta, "finish_reason": None}
            if logprobs:
                choice["logprobs"] = {"content": logprobs}
            self.event(request, choices=[choice])
        if request["model"] == "cut":
            # Without the last chunk: the connection ends in the middle of the body.
            self.close_connection = True
            return
        if request["model"] == "failing":
            self.data(json.dumps({"error": {"message": "scripted failure", "type": "server_error", "code": 500}}))
        else:
            self.event(request, choices=[{"index": 0, "delta": {}, "finish_reason": answer.finish}])
            if (request.get("stream_options") or {}).get("include_usage"):
                self.event(request, choices=[], usage=usage(request, answer))
            self.data("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def event(self, request, **fields):
        self.data(json.dumps(head(request) | {"object": "chat.completion.chunk"} | fields))

    def data(self, text):
        event = f"data: {text}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))

    def fail(self, status, message):
        error = {"message": message, "type": "scripted_error", "param": None, "code": CODES.get(status)}
        self.send(status, {"error": error}, {"Retry-After": "1"} if status == 429 else {})

    def send(self, status, body, headers={}, cut=False):
        body = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": len(body), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection |= cut

    def log_message(self, *_):
        pass  # the suites say what went wrong


def head(request):
    return {"id": "chatcmpl-mock", "created": int(time.time()), "model": request["model"]}


def message(answer):
    said = {"role": "assistant", "content": answer.text or None}
    if answer.reasoning:
        said["reasoning_content"] = answer.reasoning
    if answer.refusal:
        said["refusal"] = answer.refusal
    if answer.calls:
        said["tool_calls"] = [call(i, name, arguments) for i, (name, arguments) in enumerate(answer.calls)]
    return said


def call(i, name, arguments):
    # Ids that differ from request to request, as real ones do: a conversation may hold several.
    id = f"call_{time.time_ns():x}_{i}"
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def chunks(answer):
    """The deltas of a stream, each with the logprobs of its text."""
    yield {"role": "assistant", "content": ""}, None
    for piece in pieces(answer.reasoning):
        yield {"reasoning_content": piece}, None
    for piece in pieces(answer.text):
        yield {"content": piece}, [logprob(piece)] if answer.logprobs else None
    for piece in pieces(answer.refusal):
        yield {"refusal": piece}, None
    for i, (name, arguments) in enumerate(answer.calls):
        yield {"tool_calls": [{"index": i} | call(i, name, "")]}, None
        for start in range(0, len(arguments), 7):
            piece = {"arguments": arguments[start : start + 7]}
            yield {"tool_calls": [{"index": i, "function": piece}]}, None


def pieces(text):
    """Words with the spaces before them."""
    return re.findall(r" ?[^ ]+| +", text)


def logprob(piece):
    entry = {"token": piece, "logprob": -0.25, "bytes": list(piece.encode())}
    return entry | {"top_logprobs": [entry]}


def usage(request, answer):
    said = sum(len(mock_script.text_of(message).split()) for message in request["messages"])
    thought = len(answer.reasoning.split())
    spoken = thought + len(answer.text.split()) + len(answer.refusal.split()) + 8 * len(answer.calls)
    return {
        "prompt_tokens": said,
        "completion_tokens": spoken,
        "total_tokens": said + spoken,
        "prompt_tokens_details": {"cached_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


def embeddings(request):
    texts = request["input"] if isinstance(request["input"], list) else [request["input"]]
    data = []
    for i, text in enumerate(texts):
        vector = [float(len(text)), 0.5]
        if request.get("encoding_format") == "base64":
            vector = base64.b64encode(struct.pack("<2f", *vector)).decode()
        data.append({"object": "embedding", "index": i, "embedding": vector})
    return {"object": "list", "data": data, "model": request["model"], "usage": {"prompt_tokens": 1, "total_tokens": 1}}


class Server(ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, request, address):
        # Clients that go away are part of the tests.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, address)


if __name__ == "__main__":
    Server(("127.0.0.1", int(sys.argv[1])), Provider).serve_forever()
