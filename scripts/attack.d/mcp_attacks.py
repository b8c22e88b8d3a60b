"""Attacks by MCP servers: unsolicited messages, lists of tools, results."""

import json
import sys
import time

import mcp_server
from gateway import MIB
from lab import Lab, at_once, attack
from mcp_server import STDIO_SERVER, tool
from provider import calling


def pings(count: int = 2000) -> bytes:
    return b"".join(mcp_server.event({"jsonrpc": "2.0", "id": f"p{i}", "method": "ping"}) for i in range(count))


class Flood:
    """Sends a server's messages for ever, and remembers how many were taken and whether the connection went."""

    def __init__(self, data: bytes, messages: int):
        self.data, self.messages, self.sent, self.cut = data, messages, 0, False

    def __call__(self, server, exchange, message=None) -> None:
        if message is not None:
            exchange.stream()
        exchange.connection.settimeout(3)
        try:
            while not server.over.is_set():
                exchange.send(self.data)
                self.sent += self.messages
        except OSError:
            self.cut = True


@attack("an MCP server that answers a call with pings, without end")
def requests_in_calls(lab: Lab) -> None:
    flood = Flood(pings(), 2000)
    server = lab.mcp(on_call=flood, on_answer=lambda server, exchange: time.sleep(0.2))
    gateway = lab.gateway(lab.provider(calling(("work", "{}"))))
    with lab.watched(gateway):
        answer = gateway.create(tools=[server.as_tool()], timeout=8)
        lab.expect(answer, "a response with this server")
    lab.check(flood.cut, "the connection is kept")
    lab.note(f"{flood.sent:,} pings were taken, {server.answers:,} were answered")


@attack("an MCP server that sends pings on its session's stream, with no run at all")
def requests_on_streams(lab: Lab) -> None:
    flood = Flood(pings(), 2000)
    server = lab.mcp(on_stream=flood, on_answer=lambda server, exchange: time.sleep(0.2))
    gateway = lab.gateway()
    with lab.watched(gateway):
        lab.expect(gateway.create(tools=[server.as_tool()]), "a response with this server")
        time.sleep(5)
        before = server.answers
        time.sleep(1)
    rate = server.answers - before
    lab.check(rate <= 200, f"{rate} answers a second go out, six seconds later")
    lab.note(f"{flood.sent:,} pings were taken, {server.answers:,} were answered, {rate} in the last second")


@attack("an MCP server that is a program and writes pings without end")
def requests_of_programs(lab: Lab) -> None:
    gateway = lab.gateway(
        lab.provider(calling(("work", "{}"))),
        mcp={"servers": {"s": {"command": sys.executable, "args": [STDIO_SERVER, str(lab.folder / "pids"), "asks"]}}},
    )
    with lab.watched(gateway):
        answer = gateway.create(tools=[{"type": "mcp", "server_label": "s"}], timeout=12)
        lab.check(answer.status in (200, 0), f"a response with this server: {answer}")
    lab.note(f"the call: {call_error(answer)}")


def call_error(answer) -> str:
    calls = [item for item in answer.json.get("output", []) if item.get("type") == "mcp_call"]
    return json.dumps(calls[0].get("error"))[:100] if calls else str(answer)


def big_list(mark: str) -> list[dict]:
    """Some 1.9 MiB of tools, whose schemas are within their bound."""
    properties = {f"property_{mark}_{i:04}": {"type": "string"} for i in range(1500)}
    return [tool(f"tool{i}", inputSchema={"type": "object", "properties": properties}) for i in range(30)]


def sessions_with_lists(lab: Lab, tools_of) -> None:
    def listed(server, exchange, message):
        server.result(exchange, message, {"tools": tools_of(exchange.path)})

    server = lab.mcp(on_list=listed)
    gateway = lab.gateway()
    lab.budget("mcp.sessions.max_list_bytes", 64 * MIB)
    # Three responses at a time show a list each.
    lab.budget("3 x engine.max_item_bytes", 48 * MIB)
    count = 24
    with lab.watched(gateway):
        answers = at_once(
            3,
            lambda i: [
                gateway.create(tools=[server.as_tool(server_url=f"{server.url}?i={j}")], store=False, timeout=15).status
                for j in range(i, count, 3)
            ],
        )
    served = sum(status == 200 for some in answers for status in some)
    lab.check(served > 0, "no server was used")
    lab.note(f"{served} of {count} served, {server.sessions} sessions")


@attack("24 sessions with one list of 1.9 MiB")
def equal_lists(lab: Lab) -> None:
    tools = big_list("a")
    sessions_with_lists(lab, lambda path: tools)


@attack("24 sessions with 24 lists of 1.9 MiB")
def different_lists(lab: Lab) -> None:
    sessions_with_lists(lab, lambda path: big_list(path.rsplit("=", 1)[1]))


@attack("MCP servers that write into the gateway's log, within calls and between runs")
def log_messages(lab: Lab) -> None:
    data = (
        mcp_server.event(
            {
                "jsonrpc": "2.0",
                "method": "notifications/message",
                "params": {"level": "error", "logger": "l", "data": "a" * 4000},
            }
        )
        * 16
    )
    provider = lab.provider(calling(("work", "{}")))
    flood = Flood(data, 16)
    brought = lab.mcp(on_call=flood, on_stream=flood)
    configured = lab.mcp(on_call=flood, on_stream=flood)
    gateway = lab.gateway(
        provider,
        mcp={
            "servers": {"c": {"url": configured.url, "timeout": "3s", "max_time": "3s"}},
            "requests": {"timeout": "3s", "max_time": "3s"},
        },
    )
    sizes = []
    with lab.watched(gateway):
        for tools in ([brought.as_tool()], [{"type": "mcp", "server_label": "c"}]):
            before = gateway.log_file.stat().st_size
            gateway.create(tools=tools, timeout=6)
            time.sleep(1)
            sizes.append(gateway.log_file.stat().st_size - before)
            gateway.log_file.open("r+b").truncate(0) if sizes[-1] > 256 * MIB else None
    lab.check(sizes[0] < 64 * 1024, f"a server of a request wrote {sizes[0] / MIB:.1f} MiB in some seconds")
    lab.check(sizes[1] < MIB, f"a configured one wrote {sizes[1] / MIB:.1f} MiB in some seconds")
    lab.note(
        f"{sizes[0] / 1024:.0f} KiB and {sizes[1] / 1024:.0f} KiB of log, of {flood.sent * 4 / 1024:,.0f} MiB taken"
    )


@attack("progress without end, which keeps a call alive")
def progress_messages(lab: Lab) -> None:
    def report(server, exchange, message):
        token = message["params"].get("_meta", {}).get("progressToken", 0)
        data = b"".join(
            mcp_server.event(
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": i, "message": "a" * 200},
                }
            )
            for i in range(500)
        )
        Flood(data, 500)(server, exchange, message)

    server = lab.mcp(on_call=report)
    gateway = lab.gateway(lab.provider(calling(("work", "{}"))), mcp={"requests": {"timeout": "2s", "max_time": "4s"}})
    with lab.watched(gateway):
        answer = gateway.create(tools=[server.as_tool()], timeout=12)
        lab.expect(answer, "a response with this server")
    lab.note(f"the call: {call_error(answer)}")


@attack("results of a gigabyte, and lists of tools whose pages have no end")
def large_results(lab: Lab) -> None:
    def huge(server, exchange, message):
        exchange.stream()
        exchange.send(b'data: {"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % message["id"])
        Flood(b"a" * MIB, 1)(server, exchange)

    def pages(server, exchange, message):
        cursor = message.get("params", {}).get("cursor", "0")
        tools = [tool(f"t{cursor}_{i}") for i in range(50)]
        server.result(exchange, message, {"tools": tools, "nextCursor": str(int(cursor) + 1)})

    lab.budget("mcp.max_message_bytes", 8 * MIB)
    gateway = lab.gateway(lab.provider(calling(("work", "{}"))))
    endless = lab.mcp(on_list=pages)
    with lab.watched(gateway):
        answer = gateway.create(tools=[lab.mcp(on_call=huge).as_tool()], timeout=15)
        lab.expect(answer, "a response with a result of a gigabyte")
        lab.expect(gateway.create(tools=[endless.as_tool()], timeout=15), "a response with a list without an end")
    lab.note(f"the call: {call_error(answer)}")
