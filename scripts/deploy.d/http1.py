"""HTTP/1.1 for asyncio: a client that keeps one connection, and what our servers need to read requests."""

import asyncio
import json
import ssl
from dataclasses import dataclass, field


# What may be the last event of a stream.
ENDS = {"response.completed", "response.incomplete", "response.failed"}


class Cut(Exception):
    """The connection ended before the response did; `silent`: before its first byte; `stale`: the same, on a reused connection."""

    def __init__(self, text: str, silent: bool = False, reused: bool = False):
        super().__init__(text)
        self.silent, self.stale = silent, silent and reused


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes = b""
    events: list[str] = field(default_factory=list)
    # Whether a stream said that it was over.
    done: bool = False
    # A stream that was cut says how.
    cut: str = ""

    @property
    def json(self) -> dict:
        try:
            return json.loads(self.body)
        except ValueError:
            return {}

    @property
    def code(self) -> str:
        return str((self.json.get("error") or {}).get("code") or "")

    @property
    def terminal(self) -> str:
        """The last event of a stream that is whole: the only one that may be the last, `[DONE]` and the end of the body behind it."""
        ends = [event for event in self.events if event in ENDS]
        return ends[0] if self.done and not self.cut and ends == self.events[-1:] else ""


class Client:
    def __init__(self, port: int, key: str = "", tls: ssl.SSLContext | None = None):
        self.port, self.key, self.tls = port, key, tls
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.used = False

    async def ask(
        self, method: str, path: str, body: dict | None = None, on_event=None, timeout: float = 300, on_frame=None,
        more: dict[str, str] | None = None,
    ) -> Reply:
        """`on_event` is given the name of each event, `on_frame` its bytes; `more` are headers."""
        try:
            async with asyncio.timeout(timeout):
                return await self._ask(method, path, body, more or {}, on_event, on_frame)
        except TimeoutError:
            self.close()  # else what comes late would be taken for the next answer
            raise

    async def _ask(self, method: str, path: str, body: dict | None, more: dict[str, str], on_event, on_frame) -> Reply:
        reused = self.writer is not None
        if not reused:
            try:
                self.reader, self.writer = await asyncio.open_connection(
                    "127.0.0.1", self.port, ssl=self.tls, server_hostname="localhost" if self.tls else None
                )
            except OSError as error:
                raise Cut(f"no connection: {error}") from None
        try:
            self.writer.write(self._request(method, path, body, more))
            await self.writer.drain()
            first = await self.reader.readuntil(b"\r\n")
        except (OSError, asyncio.IncompleteReadError) as error:
            self.close()
            how = "a used connection" if reused else "a new connection"
            raise Cut(f"no answer on {how}: {error!r}", not getattr(error, "partial", b""), reused) from None
        try:
            reply = Reply(int(first.split()[1]), headers := await read_headers(self.reader))
        except (OSError, asyncio.IncompleteReadError, ValueError, IndexError) as error:
            self.close()
            raise Cut(f"incomplete response head: {error!r}") from None
        try:
            if headers.get("content-type", "").startswith("text/event-stream"):
                await self._events(reply, on_event, on_frame)
            else:
                reply.body = b"".join([piece async for piece in self._pieces(headers)])
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            reply.cut = repr(error)
            self.close()
            if not reply.events:
                raise Cut(f"incomplete response body: {error!r}") from None
        if headers.get("connection", "").lower() == "close":
            self.close()
        return reply

    def _request(self, method: str, path: str, body: dict | None, more: dict[str, str]) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", "host: localhost", *(f"{name}: {value}" for name, value in more.items())]
        if self.key:
            lines.append(f"authorization: Bearer {self.key}")
        data = b"" if body is None else json.dumps(body).encode()
        if body is not None:
            lines += ["content-type: application/json", f"content-length: {len(data)}"]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + data

    async def _pieces(self, headers: dict[str, str]):
        if "content-length" in headers:
            yield await self.reader.readexactly(int(headers["content-length"]))
        elif headers.get("transfer-encoding") == "chunked":
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                yield (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readuntil(b"\r\n")
        else:
            while piece := await self.reader.read(65536):
                yield piece
            self.close()

    async def _events(self, reply: Reply, on_event, on_frame) -> None:
        rest = b""
        async for piece in self._pieces(reply.headers):
            *frames, rest = (rest + piece).split(b"\n\n")
            for frame in frames:
                reply.done = frame == b"data: [DONE]"
                if frame.startswith(b"event: "):
                    reply.events.append(frame.split(b"\n", 1)[0][7:].decode())
                    if on_event:
                        on_event(reply.events[-1])
                    if on_frame:
                        on_frame(frame)

    def close(self) -> None:
        if self.writer:
            self.writer.transport.abort()
        self.reader = self.writer = None


async def read_headers(reader: asyncio.StreamReader) -> dict[str, str]:
    headers = {}
    while line := (await reader.readuntil(b"\r\n")).strip():
        name, _, value = line.partition(b":")
        headers[name.decode("latin-1").lower()] = value.strip().decode("latin-1")
    return headers


class Server:
    """A server on a free port of loopback; `handle(method, path, headers, body, writer)` answers each request."""

    def __init__(self):
        self.port = 0
        self.connections: set[asyncio.StreamWriter] = set()
        self.listener: asyncio.Server | None = None

    async def start(self) -> None:
        self.listener = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=1024, reuse_address=True)
        self.port = self.listener.sockets[0].getsockname()[1]

    def stop(self) -> None:
        """At once: new connections are refused, open ones are reset."""
        self.listener.close()
        for writer in list(self.connections):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.add(writer)
        try:
            while line := await reader.readline():
                method, path, _ = line.decode("latin-1").split()
                headers = await read_headers(reader)
                if headers.get("transfer-encoding") == "chunked":
                    body = b""
                    while size := int(await reader.readuntil(b"\r\n"), 16):
                        body += (await reader.readexactly(size + 2))[:-2]
                    await reader.readuntil(b"\r\n")
                else:
                    body = await reader.readexactly(int(headers.get("content-length", 0)))
                await self.handle(method, path, headers, body, writer)
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass  # the other side has gone, or the test is over
        finally:
            self.connections.discard(writer)
            writer.close()

    async def handle(self, method, path, headers, body, writer) -> None:
        raise NotImplementedError


def reply(writer: asyncio.StreamWriter, body: dict | None, status: str = "200 OK", more: str = "") -> None:
    data = b"" if body is None else json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n{more}\r\n"
    writer.write(head.encode() + data)
