"""Attacks by whoever can open a connection: web pages, silence, drips, odd requests, bodies, addresses."""

import gzip
import json
import socket
import sqlite3
import struct
import time
import zlib

import wire
from gateway import MIB
from lab import Lab, at_once, attack
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


def closed(connection: socket.socket) -> bool:
    """Whether the other side has ended the connection, with a word or without."""
    connection.setblocking(False)
    try:
        while connection.recv(65536):
            pass
        return True
    except BlockingIOError:
        return False
    except OSError:
        return True


@attack("connections that send nothing, or half of a preface, until the descriptors run out")
def silent_connections(lab: Lab) -> None:
    gateway = lab.gateway(open_files=1024)
    count, begun = 1100, time.monotonic()
    beginnings = [b"", b"PRI * HTTP/2.0\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n", b"G"]
    connections = []
    with lab.watched(gateway):
        for i in range(count):
            try:
                connection = wire.connect(gateway.port, 1)
                connections.append(lab.closing(connection))
                connection.sendall(beginnings[i % len(beginnings)])
            except OSError:
                break  # it takes no more, which is a way to hold
        lab.note(f"{len(connections)} were opened")
        # Whoever sends nothing is closed after 10 s (server.first_byte_timeout), half of a request after 30 s.
        while time.monotonic() - begun < 13:
            time.sleep(0.25)
        first = [connection for i, connection in enumerate(connections) if i % len(beginnings) != 3]
        left = sum(not closed(connection) for connection in first)
        lab.check(left == 0, f"{left} of {len(first)} that sent no request are open after 13 s")
    lab.expect(gateway.get("/healthz", timeout=3), "healthz afterwards")


@attack("bodies of which a byte comes now and then, and bodies that stop")
def dripping_bodies(lab: Lab) -> None:
    gateway = lab.gateway(server={"body_idle_timeout": "1s"})
    promised = wire.head(
        "POST",
        "/v1/responses",
        [*gateway.headers(), ("content-type", "application/json"), ("content-length", "30000000")],
    )
    with lab.watched(gateway):
        stopped = [lab.closing(gateway.send(promised + b'{"input":"')) for _ in range(50)]
        drip = lab.closing(gateway.send(promised + b'{"input":"'))
        begun, dripped = time.monotonic(), True
        while time.monotonic() - begun < 6:
            time.sleep(0.4)
            try:
                drip.sendall(b"a")
            except OSError:
                dripped = False
                break
        left = sum(not closed(connection) for connection in stopped)
        lab.check(left == 0, f"{left} of 50 bodies that stopped are waited for after 6 s")
        lab.note("a byte each 0.4 s " + ("is taken" if dripped and not closed(drip) else "is not waited for"))


@attack("bodies that are complete but for their last byte, before anything is admitted")
def unfinished_bodies(lab: Lab) -> None:
    keys = {"a": {"key": "key-a", "tenant": "a"}, "b": {"key": "key-b", "tenant": "b"}}
    gateway = lab.gateway(keys=keys, key="key-b")
    lab.budget("server.max_buffered_body_bytes", 256 * MIB)
    length = 30 * MIB
    begin = wire.head(
        "POST",
        "/v1/responses",
        [*gateway.headers(key="key-a"), ("content-type", "application/json"), ("content-length", str(length))],
    )
    piece = b"a" * MIB

    def send(_: int):
        connection = lab.closing(wire.connect(gateway.port, 12))
        try:
            connection.sendall(begin + b'{"model":"m","input":"')
            for _ in range(29):
                connection.sendall(piece)
        except OSError:
            pass
        return connection

    with lab.watched(gateway):
        connections = at_once(30, send)
        refused = 0
        for connection in connections:
            connection.settimeout(0.05)
            refused += wire.receive(connection).status in (408, 413, 503)
        lab.note(f"30 bodies of 30 MiB, {refused} refused")
        lab.expect(gateway.create(input="small"), "another tenant's request meanwhile")


@attack("a compressed body of a few KiB that is 2 GiB, and one of 100 MiB that is nothing")
def compressed_bodies(lab: Lab) -> None:
    gateway = lab.gateway()
    lab.budget("server.request_body_limit", 32 * MIB)

    def ask(encoding: str, pieces: list[bytes]):
        headers = [
            *gateway.headers(),
            ("content-type", "application/json"),
            ("content-encoding", encoding),
            ("content-length", str(sum(map(len, pieces)))),
        ]
        return wire.exchange(gateway.port, [wire.head("POST", "/v1/responses", headers), *pieces], 15)

    def bomb(bits: int) -> bytes:
        packer = zlib.compressobj(9, zlib.DEFLATED, bits)
        zeros = b" " * (16 * MIB)
        return b"".join(packer.compress(zeros) for _ in range(16)) + packer.flush()

    # A frame of zstd that decoders skip, and one with the request as it is.
    skipped = struct.pack("<II", 0x184D2A50, MIB) + bytes(MIB)
    request = b'{"model":"m","input":"x"}'
    frame = (
        struct.pack("<IBB", 0xFD2FB528, 0x20, len(request)) + (len(request) << 3 | 1).to_bytes(3, "little") + request
    )
    packed = bomb(31)
    with lab.watched(gateway):
        lab.expect(ask("gzip", [packed]), "a bomb in gzip", 413)
        lab.expect(ask("gzip", [gzip.compress(packed)]), "a bomb in a bomb", (400, 413))
        lab.expect(ask("deflate", [bomb(15)]), "a bomb in deflate", 413)
        lab.expect(ask("zstd", [frame]), "a request in zstd")
        lab.expect(ask("zstd", [*[skipped] * 100, frame]), "100 MiB of skipped frames", (413, 0))
    lab.held("413")


@attack("floods of headers: many, long, without an end")
def headers(lab: Lab) -> None:
    gateway = lab.gateway()
    host = ("host", f"127.0.0.1:{gateway.port}")
    many = [(f"x-{i}", "a" * 100) for i in range(20_000)]
    with lab.watched(gateway):
        for what, data in [
            ("20,000 headers", wire.head("GET", "/healthz", [host, *many])),
            ("a header of 4 MiB", wire.head("GET", "/healthz", [host, ("x", "a" * 4 * MIB)])),
            ("a path of 4 MiB", wire.head("GET", "/" + "a" * 4 * MIB, [host])),
            ("headers without an end", b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * 2_000_000),
        ]:
            lab.expect(wire.exchange(gateway.port, data), what, (400, 404, 414, 431, 0))
    lab.held("refused or cut")


@attack("requests that two readers would read differently: hosts, authorizations, lengths")
def ambiguous_requests(lab: Lab) -> None:
    gateway = lab.gateway(keys={"k": {"key": "one"}, "l": {"key": "two"}}, key="one")
    host, close = ("host", f"127.0.0.1:{gateway.port}"), ("connection", "close")
    key = ("authorization", "Bearer one")
    json_type, body = ("content-type", "application/json"), b'{"model":"m","input":"x"}'

    def get(*headers):
        return wire.exchange(gateway.port, wire.head("GET", "/v1/models", [*headers, close]))

    lab.expect(get(host, key), "a proper request")
    lab.expect(get(key), "no host", 400)
    lab.expect(get(host, ("host", "other.example"), key), "two hosts", 400)
    lab.expect(get(host, host, key), "the same host twice", 400)
    lab.expect(get(host, key, ("authorization", "Bearer two")), "two authorizations", 400)
    for what, lengths in [
        ("two lengths", [("content-length", "25"), ("content-length", "2")]),
        ("a length and chunks", [("content-length", "25"), ("transfer-encoding", "chunked")]),
    ]:
        answer = wire.exchange(
            gateway.port,
            wire.head("POST", "/v1/responses", [host, key, json_type, *lengths, close])
            + body
            + b"GET /v1/models HTTP/1.1\r\n\r\n",
            3,
        )
        lab.check(answer.status != 200, f"{what} were served")
    lab.held("400")


@attack("HTTP/2: requests that are taken back at once, by the hundred thousand")
def rapid_reset(lab: Lab) -> None:
    gateway = lab.gateway()

    def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
        return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

    authority = f"127.0.0.1:{gateway.port}".encode()
    fields = b"\x82\x86" + b"\x04\x08/healthz" + b"\x01" + bytes([len(authority)]) + authority
    flood = b"".join(frame(1, 5, i, fields) + frame(3, 0, i, b"\0\0\0\x08") for i in range(1, 200_001, 2))
    with lab.watched(gateway):
        connection = lab.closing(gateway.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0)))
        try:
            connection.sendall(flood)
            ended = False
        except OSError:
            ended = True
        time.sleep(0.5)
        lab.check(ended or closed(connection), "the connection goes on")
    lab.held("the connection was ended")


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


@attack("readers that take nothing of their streams")
def slow_readers(lab: Lab) -> None:
    def endless(provider, exchange, request):
        exchange.stream()
        piece = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"a" * 65536 + b'"}}]}\n\n'
        exchange.flood(piece, provider.stopped)

    gateway = lab.gateway(lab.provider(endless), server={"write_timeout": "2s"})
    lab.budget("10 x engine.max_item_bytes", 160 * MIB)
    with lab.watched(gateway):
        body = {"model": "m", "input": "x", "stream": True, "store": False}
        for _ in range(10):
            connection = wire.connect(gateway.port)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lab.closing(connection).sendall(gateway.posted("/v1/responses", body))
        deadline, running = time.monotonic() + 12, 1.0
        while running and time.monotonic() < deadline:
            time.sleep(0.5)
            running = gateway.metric("antwort_runs_active")
        lab.check(not running, f"{running:.0f} of 10 runs go on")
    lab.held("10 runs were cancelled")
