"""What the runs of a fleet meet: a model that calls a tool in each of its turns, the tool, and a receiver of webhooks."""

import asyncio
import base64
import hashlib
import hmac
import json
import math
import time
from collections import Counter
from dataclasses import dataclass, field

from http1 import Server, reply
from upstream import chunk, framed, text_of, whole_answer


# How many words a run of `work` ends with.
ANSWER = 20
# A notice that is so old, in seconds, was sent before.
FIRST = 4


@dataclass
class Served:
    """What a replica asked for: from when until when, and what the model was shown of the conversation before."""

    whom: str
    begun: float = field(default_factory=time.monotonic)
    # It was answered, or was gone.
    ended: float = math.inf
    before: list["Shown"] = field(default_factory=list)


@dataclass
class Shown:
    """An earlier turn of a conversation: the results of its tool, and how many times its answer stands there."""

    run: str
    results: int = 0
    answers: int = 0


class Model(Server):
    """`work RUN TURNS PAUSE`: a call of the tool in each turn, then some words; `say WORDS PAUSE`: words."""

    def __init__(self):
        super().__init__()
        # By run and step, in the order in which they came.
        self.asked: dict[tuple[str, int], list[Served]] = {}

    async def handle(self, method, path, headers, body, writer) -> None:
        if method == "GET":
            reply(writer, {"object": "list", "data": [{"id": "m", "object": "model"}]})
            return
        request = json.loads(body)
        messages = request["messages"]
        last = max(i for i, message in enumerate(messages) if message["role"] == "user")
        said = text_of(messages[last]).split()
        if said[0] == "work":
            done = sum(message["role"] == "tool" for message in messages[last:])
            run, turns, pause = said[1], int(said[2]), float(said[3])
            served = Served(headers.get("x-replica", ""), before=shown(messages[:last]))
            self.asked.setdefault((run, done), []).append(served)
            try:
                if done < turns:
                    await self._say(writer, request, [{"content": "one moment "}, self._call(request, run, done)], pause, "tool_calls")
                else:
                    await self._say(writer, request, words(ANSWER), pause, "stop")
            finally:
                served.ended = time.monotonic()
        else:
            await self._say(writer, request, words(int(said[1])), float(said[2]), "stop")

    def _call(self, request: dict, run: str, step: int) -> dict:
        name = next(tool["function"]["name"] for tool in request["tools"])
        arguments = json.dumps({"run": run, "step": step})
        function = {"name": name, "arguments": arguments}
        return {"tool_calls": [{"index": 0, "id": f"call_{run}_{step}", "type": "function", "function": function}]}

    async def _say(self, writer, request: dict, deltas: list[dict], pause: float, finish: str) -> None:
        if not request.get("stream"):
            await asyncio.sleep(pause * len(deltas))
            message = {"role": "assistant", "content": "".join(delta.get("content", "") for delta in deltas)}
            calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
            reply(writer, whole_answer({**message, **({"tool_calls": calls} if calls else {})}, finish))
            return
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for delta in [{"role": "assistant"}, *deltas]:
            writer.write(chunk(delta))
            await writer.drain()
            await asyncio.sleep(pause)
        writer.write(chunk({}, finish) + framed(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        await writer.drain()


def words(count: int) -> list[dict]:
    return [{"content": f"word{i} "} for i in range(count)]


def text(count: int) -> str:
    return "".join(word["content"] for word in words(count))


def shown(messages: list[dict]) -> list[Shown]:
    turns: list[Shown] = []
    for message in messages:
        match message["role"]:
            case "user":
                turns.append(Shown(text_of(message).split()[1]))
            case "tool":
                turns[-1].results += 1
            case "assistant" if message.get("content") and text(ANSWER) in text_of(message):
                turns[-1].answers += 1
    return turns


class Tool(Server):
    """An MCP server over streamable HTTP whose tool must not be called twice for one step of a run."""

    def __init__(self):
        super().__init__()
        self.calls: Counter[tuple[str, int]] = Counter()
        # By run and step, too.
        self.served: dict[tuple[str, int], list[Served]] = {}

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
                    "serverInfo": {"name": "fleet", "version": "1"},
                }
                more = "mcp-session-id: one\r\n"
            case "tools/list":
                schema = {"type": "object", "properties": {"run": {"type": "string"}, "step": {"type": "integer"}}}
                result = {"tools": [{"name": "work", "description": "Works.", "inputSchema": schema}]}
            case "tools/call":
                arguments = message["params"]["arguments"]
                key = arguments["run"], arguments["step"]
                self.calls[key] += 1
                self.served.setdefault(key, []).append(served := Served(headers.get("x-replica", "")))
                await asyncio.sleep(0.1)
                served.ended = time.monotonic()
                result = {"content": [{"type": "text", "text": "done"}]}
            case _:
                result = {}
        reply(writer, {"jsonrpc": "2.0", "id": message["id"], "result": result}, more=more)


class Hooks(Server):
    """Receives webhooks, checks their signatures, and refuses every tenth notice once, so that it has to come again."""

    def __init__(self):
        super().__init__()
        self.key = b"a key of this test alone, thirty-two."[:32]
        self.secret = "whsec_" + base64.b64encode(self.key).decode()
        self.ids: dict[str, set[tuple[str, str]]] = {}
        self.deliveries = self.wrong = 0
        self.seen: set[str] = set()

    async def handle(self, method, path, headers, body, writer) -> None:
        self.deliveries += 1
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        expected = "v1," + base64.b64encode(hmac.new(self.key, signed, hashlib.sha256).digest()).decode()
        if expected not in headers["webhook-signature"].split():
            self.wrong += 1
            reply(writer, {}, "401 Unauthorized")
            return
        event = json.loads(body)
        if self.is_refused(headers["webhook-id"], event["created_at"]):
            reply(writer, {}, "503 Service Unavailable")
        else:
            self.ids.setdefault(event["data"]["id"], set()).add((event["id"], event["type"]))
            reply(writer, {})

    def is_refused(self, id: str, created_at: float) -> bool:
        """The first delivery at most, also of one that was lost with its gateway: pauses between deliveries grow to minutes."""
        is_first = id not in self.seen and time.time() - created_at < FIRST
        self.seen.add(id)
        return is_first and len(self.seen) % 10 == 0
