"""Attacks by the bodies of requests: lists, schemas, patterns, depth."""

import json
import time

from gateway import MIB
from lab import Lab, attack
from mcp_server import tool
from provider import calling, silent


def functions(count: int) -> list[dict]:
    return [{"type": "function", "name": f"f{i}", "parameters": {}} for i in range(count)]


@attack("three requests of 80,000 functions, whose senders leave after a second")
def tools_in_requests(lab: Lab) -> None:
    gateway = lab.gateway()
    lab.budget("bodies", 12 * MIB)
    body = json.dumps({"model": "m", "input": "x", "tools": functions(80_000)}).encode()
    with lab.watched(gateway):
        senders = [gateway.send(gateway.posted("/v1/responses", body)) for _ in range(3)]
        time.sleep(1)
        for sender in senders:
            sender.close()
        time.sleep(0.5)
        before, begun = gateway.cpu(), time.monotonic()
        time.sleep(1)
        busy = (gateway.cpu() - before) / (time.monotonic() - begun)
        lab.check(busy < 0.5, f"{100 * busy:.0f} % of a core goes on after they have left")
        lab.expect(gateway.create(body), "80,000 functions", 400, "array_above_max_length")
    lab.held(f"400 array_above_max_length, {100 * busy:.0f} % of a core after they have left")


@attack("every list and text of a request, one more than is allowed")
def limits_of_requests(lab: Lab) -> None:
    gateway = lab.gateway()
    message = {"role": "user", "content": ""}
    patterns = {f"p{i}": {"type": "string", "pattern": f"^a{i}$"} for i in range(101)}
    long_schema = {"type": "object", "description": "a" * 65_536}

    def text(schema: dict) -> dict:
        return {"text": {"format": {"type": "json_schema", "name": "s", "schema": schema}}}

    namespace = {"type": "namespace", "name": "n", "description": "d", "tools": functions(1025)}
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f0"}] * 1025}
    servers = [{"type": "mcp", "server_label": f"s{i}", "server_url": "https://mcp.example.com/mcp"} for i in range(17)]
    array, string = "array_above_max_length", "string_above_max_length"
    for what, fields, path, code in [
        ("tools", {"tools": functions(1025)}, "tools", array),
        ("tools of a namespace", {"tools": [namespace]}, "tools", array),
        (
            "tools within the input",
            {"input": [{"type": "additional_tools", "role": "developer", "tools": functions(1025)}, message]},
            "input",
            array,
        ),
        ("allowed tools", {"tools": functions(1), "allowed_tools": ["f0"] * 1025}, "allowed_tools", array),
        ("allowed tools of the choice", {"tools": functions(1), "tool_choice": choice}, "tool_choice", array),
        ("items", {"input": [message] * 10_001}, "input", array),
        (
            "parts",
            {"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}] * 10_001}]},
            "input",
            array,
        ),
        ("references", {"input": [{"id": f"msg_{i}"} for i in range(1001)]}, "input", array),
        ("patterns", text({"type": "object", "properties": patterns}), "text.format.schema", array),
        ("a schema of 64 KiB", text(long_schema), "text.format.schema", string),
        ("instructions", {"instructions": "a" * (MIB + 1)}, "instructions", string),
        ("servers", {"tools": servers}, "tools", array),
    ]:
        answer = gateway.create(**fields)
        if lab.expect(answer, what, 400, code):
            param = str(answer.error.get("param"))
            lab.check(param.startswith(path), f"{what}: param {param!r} does not begin with {path}")
    lab.held("12 times 400 with the path and the limit")


@attack("regular expressions of text.format that take a MiB each, for as long as the run lasts")
def patterns_of_formats(lab: Lab) -> None:
    provider = lab.provider(silent)
    gateway = lab.gateway(provider)

    def body(count: int) -> bytes:
        properties = {f"p{i}": {"type": "string", "pattern": f"((a{{100}}){{100}}){i}"} for i in range(count)}
        text = {"format": {"type": "json_schema", "name": "s", "schema": {"type": "object", "properties": properties}}}
        return gateway.posted("/v1/responses", {"model": "m", "input": "x", "stream": True, "text": text})

    with lab.watched(gateway):
        held = [lab.closing(gateway.send(body(count))) for count in [1000, 1000, 100, 100, 100, 100]]
        time.sleep(4)
        answers = [status(connection) for connection in held]
    lab.check(all(answer == 400 for answer in answers[:2]), f"1,000 patterns are answered with {answers[0]}")
    lab.note(f"1,000 patterns: {answers[0]}, 100 patterns: {answers[2]}")


def status(connection) -> int:
    """The status that has come on a connection, 0 for none yet."""
    connection.settimeout(0.5)
    try:
        return int(connection.recv(65536).split(b" ", 2)[1])
    except (OSError, IndexError, ValueError):
        return 0


@attack("regular expressions in the parameters of a thousand functions")
def patterns_of_functions(lab: Lab) -> None:
    gateway = lab.gateway(lab.provider(silent))
    parameters = {
        "type": "object",
        "properties": {f"p{i}": {"type": "string", "pattern": f"((a{{100}}){{100}}){i}"} for i in range(50)},
    }
    tools = [{"type": "function", "name": f"f{i}", "parameters": parameters, "strict": True} for i in range(500)]
    lab.budget("bodies", 4 * MIB)
    with lab.watched(gateway):
        connection = lab.closing(
            gateway.send(gateway.posted("/v1/responses", {"model": "m", "input": "x", "stream": True, "tools": tools}))
        )
        time.sleep(4)
        lab.note(f"500 functions of 50 patterns: {status(connection) or 'no answer yet'}")


@attack("regular expressions in the schema of an MCP server's tool, which are kept with its session")
def patterns_of_mcp_tools(lab: Lab) -> None:
    properties = {f"p{i}": {"type": "string", "pattern": f"((a{{100}}){{100}}){i}"} for i in range(500)}
    server = lab.mcp(
        tools=[
            tool("work"),
            *[tool(f"t{i}", inputSchema={"type": "object", "properties": properties}) for i in range(4)],
        ]
    )
    gateway = lab.gateway(lab.provider(calling(("work", "{}"), *[(f"t{i}", "{}") for i in range(4)])))
    lab.budget("mcp.sessions.max_list_bytes", 1 * MIB)
    with lab.watched(gateway):
        lab.expect(gateway.create(tools=[server.as_tool()], timeout=15), "a response with this server")
        lab.check(server.count("work") == 1, "the tool beside them was not called")
    lab.held("the tool beside them works")


@attack("30 MiB of empty messages, of parts, of references, of empty objects")
def items_of_requests(lab: Lab) -> None:
    gateway = lab.gateway()
    lab.budget("a body", 32 * MIB)

    def body(element: str, size: int, before: str = "[", after: str = "]") -> bytes:
        count = size // (len(element) + 1)
        return ('{"model":"m","store":false,"input":' + before + ",".join([element] * count) + after + "}").encode()

    with lab.watched(gateway):
        for what, data in [
            ("messages", body('{"role":"user","content":""}', 30 * MIB)),
            ("parts", body('{"type":"input_text","text":""}', 30 * MIB, '[{"role":"user","content":[', "]}]")),
            ("references", body('{"id":"x"}', 30 * MIB)),
            ("empty objects", body("{}", 30 * MIB)),
            ("texts", body('"a"', 30 * MIB)),
        ]:
            lab.expect(gateway.create(data, timeout=20), f"30 MiB of {what}", 400)
    lab.held("400")


@attack("truncation of a stored conversation of 15,000 calls with their outputs")
def truncation_of_calls(lab: Lab) -> None:
    gateway = lab.gateway(provider_settings={"context_window": {"small": 2000}})
    last = None
    for part in range(3):
        ids = [f"call_{part}_{i}" for i in range(4990)]
        items = [{"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"} for id in ids]
        items += [{"type": "function_call_output", "call_id": id, "output": "ok"} for id in ids]
        stored = gateway.create(input=items, previous_response_id=last, timeout=20)
        if not lab.expect(stored, "4,990 calls with their outputs"):
            return
        last = stored.json["id"]
    before = gateway.cpu()
    with lab.watched(gateway):
        lab.expect(
            gateway.create(model="small", previous_response_id=last, truncation="auto", timeout=20), "the truncated one"
        )
    used = gateway.cpu() - before
    lab.check(used < 2, f"{used:.1f} s of CPU")
    lab.note(f"{used:.2f} s of CPU")


@attack("requests with hundreds of MCP servers, which would fill the sessions of all")
def servers_in_requests(lab: Lab) -> None:
    server = lab.mcp()
    gateway = lab.gateway()

    def tools(count: int, mark: str) -> list[dict]:
        return [server.as_tool(f"s{i}", server_url=f"{server.url}?{mark}{i}") for i in range(count)]

    with lab.watched(gateway):
        for mark, count in [("a", 129), ("b", 129), ("c", 300)]:
            lab.expect(gateway.create(tools=tools(count, mark)), f"{count} servers", 400, "array_above_max_length")
        lab.expect(gateway.create(tools=tools(1, "d")), "one server afterwards")
    lab.check(server.sessions <= 1, f"{server.sessions} sessions were opened")
    lab.held("400, and one server is served afterwards")


@attack("nesting of a million levels, numbers of a million digits, a key 200,000 times")
def deep_bodies(lab: Lab) -> None:
    gateway = lab.gateway()
    deep = 1_000_000
    arrays = "[" * deep + "]" * deep
    objects = '{"a":' * deep + "1" + "}" * deep
    lab.budget("a body", 16 * MIB)
    with lab.watched(gateway):
        for what, field in [
            ("input", '"input":' + arrays),
            ("metadata", '"input":"x","metadata":' + objects),
            ("a schema", '"input":"x","text":{"format":{"type":"json_schema","name":"s","schema":' + objects + "}}"),
            ("parameters", '"input":"x","tools":[{"type":"function","name":"f","parameters":' + objects + "}]"),
            ("an unknown field", '"input":"x","nobody_knows":' + arrays),
            ("a number", '"input":"x","temperature":1' + "0" * deep),
            ("200,000 keys", '"input":"x"' + ',"input":"x"' * 200_000),
        ]:
            answer = gateway.create(('{"model":"m",' + field + "}").encode())
            lab.expect(answer, what, (400, 422, 413))
    lab.held("400")
