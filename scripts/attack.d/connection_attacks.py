"""Attacks by clients on connections: idle and slow senders, large bodies and headers, clients that do not read."""

import contextlib
import gzip
import socket
import struct
import time
import zlib

import wire
from gateway import MIB
from lab import Lab, at_once, attack


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
    # Those beyond server.max_connections, 384 here, wait until others were closed: there are three rounds of them.
    gateway = lab.gateway(open_files=1024, server={"first_byte_timeout": "3s", "header_timeout": "3s"})
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
        while time.monotonic() - begun < 13:
            time.sleep(0.25)
        left = sum(not closed(connection) for connection in connections)
        lab.check(left == 0, f"{left} of {len(connections)} that sent no request are open after 13 s")
    lab.expect(gateway.get("/healthz", timeout=3), "healthz afterwards")


@attack("bodies of which a byte comes now and then, and bodies that stop")
def dripping_bodies(lab: Lab) -> None:
    gateway = lab.gateway(server={"body_idle_timeout": "1s"})
    promised = wire.head(
        "POST",
        "/v1/responses",
        [*gateway.headers(), ("content-type", "application/json"), ("content-length", "1000000")],
    )
    with lab.watched(gateway):
        stopped = [lab.closing(gateway.send(promised + b'{"input":"')) for _ in range(20)]
        drip = lab.closing(gateway.send(promised + b'{"input":"'))
        left = stopped
        for _ in range(30):
            time.sleep(0.4)
            with contextlib.suppress(OSError):
                drip.sendall(b"a")
            left = [connection for connection in left if not closed(connection)]
            if not left and closed(drip):
                break
        lab.check(not left, f"{len(left)} of 20 bodies that stopped are waited for after 12 s")
        lab.check(closed(drip), "a byte each 0.4 s is waited for after 12 s")
    lab.held("closed")


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


@attack("readers that take nothing of their streams")
def slow_readers(lab: Lab) -> None:
    def endless(provider, exchange, request):
        exchange.stream()
        piece = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"a" * 65536 + b'"}}]}\n\n'
        exchange.flood(piece, provider.stopped)

    gateway = lab.gateway(lab.provider(endless), server={"write_timeout": "2s"})
    lab.budget("4 x engine.max_item_bytes", 64 * MIB)
    with lab.watched(gateway):
        body = {"model": "m", "input": "x", "stream": True, "store": False}
        for _ in range(4):
            lab.closing(gateway.send(gateway.posted("/v1/responses", body), takes_nothing=True))
        deadline, running = time.monotonic() + 15, 1.0
        while running and time.monotonic() < deadline:
            time.sleep(0.5)
            running = gateway.metric("antwort_runs_active")
        lab.check(not running, f"{running:.0f} of 4 runs go on")
    lab.held("4 runs were cancelled")


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
