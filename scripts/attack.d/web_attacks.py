"""Attacks by web pages and by addresses: other origins, names of this machine, probes, servers that are private."""

import json
import socket
import sqlite3
import time

import wire
from lab import Lab, attack
from mcp_server import tool

EVIL = ("origin", "https://evil.example")


@attack("a web page calls tools and reads responses: requests without a type, foreign origins, DNS rebinding")
def web_pages(lab: Lab) -> None:
    server = lab.mcp(tools=[tool("write_file")])
    keyless = lab.gateway(mcp={"servers": {"files": {"url": server.url}}})
    execute = "/v1/tools/write_file/execute?server_label=files"
    call, create = b'{"arguments":{"path":"/x"}}', b'{"model":"m","input":"x"}'

    def ask(method, path, body, *headers, host=None, gateway=keyless):
        fields = [("host", host or f"127.0.0.1:{gateway.port}"), ("connection", "close"), *headers]
        if body is not None:
            fields.append(("content-length", str(len(body))))
        return wire.exchange(gateway.port, wire.head(method, path, fields) + (body or b""))

    typed = ("content-type", "application/json")
    for path, body in [(execute, call), ("/v1/responses", create), ("/v1/chat/completions", create)]:
        lab.expect(ask("POST", path, body), f"{path} without a type", 415, "unsupported_media_type")
        lab.expect(
            ask("POST", path, body, ("content-type", "text/plain")), f"{path} as text", 415, "unsupported_media_type"
        )
        lab.expect(ask("POST", path, body, typed, EVIL), f"{path} of another origin", 403, "origin_not_allowed")
    for headers in [
        [EVIL],
        [("sec-fetch-site", "cross-site")],
        [("sec-fetch-site", "same-site")],
        [("origin", "null")],
    ]:
        for method, path, body in [
            ("POST", execute, call),
            ("POST", "/v1/tools/refresh", None),
            ("DELETE", "/v1/tool_cache", None),
            ("GET", "/v1/responses", None),
            ("GET", "/metrics", None),
        ]:
            refused = ask(method, path, body, *headers, *([typed] if body else []))
            lab.expect(refused, f"{method} {path} with {headers[0][0]}: {headers[0][1]}", 403, "origin_not_allowed")
    upgrade = [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA=="),
    ]
    lab.expect(
        wire.exchange(
            keyless.port, wire.head("GET", "/v1/responses", [("host", f"127.0.0.1:{keyless.port}"), EVIL, *upgrade])
        ),
        "an upgrade",
        403,
        "origin_not_allowed",
    )
    rebound = f"rebind.evil.example:{keyless.port}"
    for path in ["/v1/responses", "/v1/mcp/servers", "/metrics", "/v1/models", "/openapi.json"]:
        lab.expect(ask("GET", path, None, host=rebound), f"{path} by another name", 403, "host_not_allowed")
    lab.expect(
        ask("POST", "/v1/responses", create, typed, host=rebound), "a response by another name", 403, "host_not_allowed"
    )
    with_key = lab.gateway(keys={"k": {"key": "key-of-the-page"}}, key="key-of-the-page")
    authorization = ("authorization", "Bearer key-of-the-page")
    lab.expect(
        ask("GET", "/v1/responses", None, EVIL, authorization, gateway=with_key),
        "another origin, with a key",
        403,
        "origin_not_allowed",
    )
    # What is not an attack goes on.
    own = ("origin", f"http://127.0.0.1:{keyless.port}")
    lab.expect(ask("POST", "/v1/responses", create, typed, own, ("sec-fetch-site", "same-origin")), "its own page")
    lab.expect(ask("GET", "/v1/models", None, host=f"localhost:{keyless.port}"), "localhost")
    lab.expect(ask("GET", "/healthz", None, host=rebound), "a probe by another name")
    lab.expect(
        ask("GET", "/v1/models", None, authorization, host="gateway.example.com", gateway=with_key),
        "another name, with a key",
    )
    lab.check(not server.calls, f"the MCP server was called {len(server.calls)} times")
    lab.held("415, 403 origin_not_allowed, 403 host_not_allowed")


@attack("readiness is asked without a key, again and again, while the provider is down")
def readiness_probes(lab: Lab) -> None:
    listed = []
    provider = lab.provider()
    provider.handle = lambda exchange: (listed.append(exchange.path), exchange.connection.close())
    gateway = lab.gateway(provider)
    gateway.get("/readyz")
    listed.clear()
    database = lab.closing(sqlite3.connect(f"file:{gateway.folder}/antwort.db?mode=ro", uri=True))
    versions, begun = set(), time.monotonic()
    with lab.watched(gateway):
        for _ in range(200):
            gateway.get("/readyz")
            versions.add(database.execute("PRAGMA data_version").fetchone()[0])
    seconds = time.monotonic() - begun
    allowed = 5 + 3 * seconds
    lab.check(len(listed) <= allowed, f"the provider was asked {len(listed)} times by 200 probes in {seconds:.1f} s")
    lab.check(len(versions) <= allowed, f"200 probes in {seconds:.1f} s changed the database {len(versions)} times")
    lab.note(f"200 probes in {seconds:.1f} s: the provider was asked {len(listed)} times, {len(versions) - 1} commits")


# One address in many spellings, and others that are nobody's business.
SPELLINGS = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "0x7f.0.0.1",
    "0x7f000001",
    "2130706433",
    "017700000001",
    "0177.0.0.1",
    "127.0.0.1.",
    "localhost",
    "localhost.",
    "LOCALHOST",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "0.0.0.0",
    "0",
    "127.127.127.127",
    "①②⑦.⓪.⓪.①",
    "127。0。0。1",
    "%31%32%37.0.0.1",
    "user@127.0.0.1",
    "public.example@127.0.0.1",
    "127.0.0.1#@public.example",
    "169.254.169.254",
    "[fd00:ec2::254]",
    "metadata.google.internal",
    "10.0.0.1",
    "192.168.0.1",
    "172.16.0.1",
    "100.64.0.1",
    "[fe80::1]",
    "[fc00::1]",
]


@attack("MCP servers of requests at private addresses, in every spelling")
def private_addresses(lab: Lab) -> None:
    reached: list[str] = []
    victim = lab.provider()
    victim.handle = lambda exchange: (reached.append(exchange.path), exchange.reply({}))
    gateway = lab.gateway(egress={"allow": []})
    refused = 0
    with lab.watched(gateway):
        for scheme in ["https", "http"]:
            for spelling in SPELLINGS:
                tools = [
                    {
                        "type": "mcp",
                        "server_label": "s",
                        "server_url": f"{scheme}://{spelling}:{victim.port}/{spelling.encode().hex()}",
                        "require_approval": "never",
                    }
                ]
                answer = gateway.create(tools=tools, store=False)
                refused += answer.status == 400
    lab.check(not reached, f"reached: {', '.join(bytes.fromhex(path[1:]).decode() for path in reached[:5])}")
    lab.note(f"{2 * len(SPELLINGS)} URLs, {refused} of them 400, the victim was reached {len(reached)} times")


@attack("names of machines inside, told apart from names that nobody has by the error of their MCP server")
def names_inside(lab: Lab) -> None:
    gateway = lab.gateway(egress={"allow": []})

    def said(host: str) -> str:
        tools = [
            {"type": "mcp", "server_label": "s", "server_url": f"https://{host}:9/mcp", "require_approval": "never"}
        ]
        answer = gateway.create(tools=tools, store=False)
        errors = [item.get("error") for item in answer.json.get("output", []) if item.get("type") == "mcp_list_tools"]
        return json.dumps([answer.status, answer.error, errors]).replace(host, "HOST")

    inside = private_name()
    known, unknown = said(inside), said("no-such-name-here.invalid")
    lab.check(known == unknown, f"{inside}: {known[:120]}, but of a name that nobody has: {unknown[:120]}")
    lab.held("one text for both")


def private_name() -> str:
    """A name that this machine resolves to a private address, other than `localhost` where there is one."""
    for name in [socket.gethostname(), "ip6-localhost"]:
        try:
            if socket.gethostbyname(name).startswith(("127.", "10.", "192.168.", "172.")) and name != "localhost":
                return name
        except OSError:
            continue
    return "localhost"
