"""What stands behind the gateways: a model server that speaks slowly, and an MCP server with one tool."""

import asyncio
import json

from http1 import Server, reply


class Provider(Server):
    """A request's last message says what it does: `say WORDS PAUSE`, one event a word, or `call`, one call of a tool first.

    Its last word marks the request, so that a client can ask whether it came this far.
    """

    def __init__(self):
        super().__init__()
        self.seen: set[str] = set()

    async def handle(self, method, path, headers, body, writer) -> None:
        if method == "GET":
            reply(writer, {"object": "list", "data": [{"id": "m", "object": "model"}]})
            return
        request = json.loads(body)
        messages = request["messages"]
        said = next(text_of(message) for message in reversed(messages) if message["role"] == "user").split()
        self.seen.add(said[-1])
        # Without tools it says words, and the client misses its call.
        if said[0] == "call" and messages[-1]["role"] != "tool" and request.get("tools"):
            name = request["tools"][0]["function"]["name"]
            call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": "{}"}}
            await self._say(writer, request, [{"tool_calls": [call]}], 0, "tool_calls")
            return
        count, pause = (int(said[1]), float(said[2])) if said[0] == "say" else (3, 0.01)
        await self._say(writer, request, [{"content": f"word{i} "} for i in range(count)], pause, "stop")

    async def _say(self, writer, request: dict, deltas: list[dict], pause: float, finish: str) -> None:
        if not request.get("stream"):
            await asyncio.sleep(pause * len(deltas))
            whole = {"content": "".join(delta.get("content", "") for delta in deltas), **deltas[0]}
            reply(writer, whole_answer({"role": "assistant", **whole}, finish))
            return
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for delta in [{"role": "assistant"}, *deltas]:
            writer.write(chunk(delta))
            await writer.drain()
            await asyncio.sleep(pause)
        end = chunk({}, finish) + framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"
        writer.write(end)
        await writer.drain()


def text_of(message: dict) -> str:
    content = message["content"]
    return content if isinstance(content, str) else content[0]["text"]


def whole_answer(message: dict, finish: str) -> dict:
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}


def chunk(delta: dict, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    event = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
    return framed(b"data: " + json.dumps(event).encode() + b"\n\n")


def framed(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


class Tools(Server):
    """An MCP server over streamable HTTP; its tool takes a moment."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    async def handle(self, method, path, headers, body, writer) -> None:
        if method != "POST":
            reply(writer, {}, "200 OK" if method == "DELETE" else "405 Method Not Allowed")
            return
        message = json.loads(body)
        if "id" not in message:
            reply(writer, None, "202 Accepted")
            return
        more = ""
        match message["method"]:
            case "initialize":
                result = {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "deploy", "version": "1"},
                }
                more = "mcp-session-id: one\r\n"
            case "tools/list":
                result = {"tools": [{"name": "work", "description": "Works.", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                self.calls += 1
                await asyncio.sleep(0.1)
                result = {"content": [{"type": "text", "text": "done"}]}
            case _:
                result = {}
        reply(writer, {"jsonrpc": "2.0", "id": message["id"], "result": result}, more=more)
