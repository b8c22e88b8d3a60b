"""An MCP server over streamable HTTP that is polite until it is told what to do instead."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

from wire import Exchange, Server

# One that is a program.
STDIO_SERVER = str(Path(__file__).with_name("stdio_server.py"))


def tool(name: str, **fields) -> dict:
    return {"name": name, "description": "A tool.", "inputSchema": {"type": "object"}, **fields}


def event(message: dict) -> bytes:
    return b"data: " + json.dumps(message).encode() + b"\n\n"


class McpServer(Server):
    """What it does may be said for each kind of message, by functions of the server and the exchange:
    `on_list`, `on_call` and `on_request` (for all others; these also of the JSON-RPC message), `on_stream` for the
    session's stream, `on_answer` for what the gateway answers to requests of the server."""

    def __init__(
        self,
        over: threading.Event,
        tools: list[dict] | None = None,
        on_list: Callable | None = None,
        on_call: Callable | None = None,
        on_stream: Callable | None = None,
        on_answer: Callable | None = None,
        on_request: Callable | None = None,
        capabilities: dict | None = None,
    ):
        self.over = over
        self.capabilities = {"tools": {}, "logging": {}, **(capabilities or {})}
        self.on_request = on_request
        self.tools = tools if tools is not None else [tool("work")]
        self.on_list, self.on_call, self.on_stream, self.on_answer = on_list, on_call, on_stream, on_answer
        self.calls: list[dict] = []
        self.raw_calls: list[bytes] = []
        self.authorizations: list[str] = []
        self.sessions = 0
        self.answers = 0
        super().__init__(self._handle)
        self.url = f"http://127.0.0.1:{self.port}/mcp"

    def as_tool(self, label: str = "s", approval: str = "never", **fields) -> dict:
        """The server as a request brings it."""
        return {"type": "mcp", "server_label": label, "server_url": self.url, "require_approval": approval, **fields}

    def _handle(self, exchange: Exchange) -> None:
        if exchange.method == "GET":
            if self.on_stream:
                exchange.stream()
                self.on_stream(self, exchange)
            else:
                exchange.reply({}, 405)
            return
        if exchange.method != "POST":
            exchange.reply({})
            return
        message = exchange.json
        match message.get("method"):
            case None:
                self.answers += 1
                if self.on_answer:
                    self.on_answer(self, exchange)
                exchange.reply(b"", 202)
            case "initialize":
                self.sessions += 1
                result = {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": self.capabilities,
                    "serverInfo": {"name": "hostile", "version": "1"},
                }
                self.result(exchange, message, result, {"mcp-session-id": f"session-{self.sessions}"})
            case "tools/list":
                if self.on_list:
                    self.on_list(self, exchange, message)
                else:
                    self.result(exchange, message, {"tools": self.tools})
            case "tools/call":
                self.calls.append(message["params"])
                self.raw_calls.append(exchange.body)
                self.authorizations.append(exchange.headers.get("authorization", ""))
                if self.on_call:
                    self.on_call(self, exchange, message)
                else:
                    self.result(exchange, message, {"content": [{"type": "text", "text": "done"}]})
            case _ if "id" in message and self.on_request:
                self.on_request(self, exchange, message)
            case _ if "id" in message:
                self.result(exchange, message, {})
            case _:
                exchange.reply(b"", 202)

    @staticmethod
    def result(exchange: Exchange, message: dict, result: dict, headers: dict | None = None) -> None:
        exchange.reply({"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=headers)

    def count(self, name: str) -> int:
        return sum(call["name"] == name for call in self.calls)
