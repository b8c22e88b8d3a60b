"""A model server that says what it is told to, in chat completions, as JSON or as a stream."""

import json
from collections.abc import Callable

from wire import Exchange, Server

END = b"data: [DONE]\n\n"


def event(delta: dict, finish: str | None = None) -> bytes:
    """One event of a stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return (
        b"data: "
        + json.dumps({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}).encode()
        + b"\n\n"
    )


def answer(message: dict, finish: str = "stop") -> dict:
    """An answer that is no stream."""
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": finish}
    return {
        "id": "c",
        "object": "chat.completion",
        "model": "m",
        "choices": [choice],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def tool_calls(*calls: tuple[str, str]) -> list[dict]:
    """Calls of tools by name and arguments, as they were written."""
    return [
        {
            "index": i,
            "id": f"call_{i}_{name}"[:40],
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for i, (name, arguments) in enumerate(calls)
    ]


class Provider(Server):
    """`script` has what is asked of it answered: a function; None says `ok`."""

    def __init__(self, script: Callable[["Provider", Exchange, dict], None] | None = None):
        self.script = script or (lambda provider, exchange, request: provider.say(exchange, request, "ok"))
        self.requests: list[dict] = []
        self.asked = 0
        self.listed = 0
        super().__init__(self._answer)
        self.url = f"http://127.0.0.1:{self.port}/v1"

    def _answer(self, exchange: Exchange) -> None:
        if exchange.method == "GET":
            self.listed += 1
            exchange.reply({"object": "list", "data": [{"id": "m", "object": "model"}]})
            return
        self.asked += 1
        try:
            request = exchange.json
        except ValueError:
            request = {}  # too large to be kept
        if len(exchange.body) < 1 << 20:
            self.requests.append(request)
        self.script(self, exchange, request)

    def say(self, exchange: Exchange, request: dict, text: str) -> None:
        if not request.get("stream"):
            exchange.reply(answer({"content": text}))
            return
        exchange.stream()
        exchange.send(event({"role": "assistant", "content": text}) + event({}, "stop") + END)
        exchange.connection.close()

    def call(self, exchange: Exchange, request: dict, *calls: tuple[str, str]) -> None:
        made = tool_calls(*calls)
        if not request.get("stream"):
            exchange.reply(answer({"tool_calls": made}, "tool_calls"))
            return
        exchange.stream()
        exchange.send(event({"role": "assistant", "tool_calls": made}) + event({}, "tool_calls") + END)
        exchange.connection.close()


def calling(*calls: tuple[str, str]):
    """A model that makes these calls first, and says `ok` when it has seen a result."""

    def script(provider: Provider, exchange: Exchange, request: dict) -> None:
        if any(message.get("role") == "tool" for message in request.get("messages", [])):
            provider.say(exchange, request, "ok")
        else:
            provider.call(exchange, request, *calls)

    return script


def silent(provider: Provider, exchange: Exchange, request: dict) -> None:
    """A model that says nothing until all is over."""
    provider.stopped.wait(60)


def slow_or_not(provider, exchange, request) -> None:
    """A model that is called `slow` and hangs, or is called something else and does not."""
    if request.get("model") == "slow":
        silent(provider, exchange, request)
    else:
        provider.say(exchange, request, "ok")
