"""HTTP/1.1 on plain sockets: a client that may send anything, and a server that may answer anything.

Libraries refuse to send what attackers send; here bytes go out as they are written.
"""

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

# One thread serves one connection, and a thousand connections are common here.
threading.stack_size(256 * 1024)

# By how much longer than usual everything is waited for, on a machine that is busy with something else.
patience = 1.0


@dataclass
class Answer:
    """What a request was answered with; status 0 where the connection ended without an answer."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self):
        try:
            return json.loads(self.body)
        except ValueError:
            return {}

    @property
    def error(self) -> dict:
        error = self.json.get("error") if isinstance(self.json, dict) else None
        return error if isinstance(error, dict) else {}

    @property
    def code(self) -> str:
        return str(self.error.get("code") or "")

    def __str__(self) -> str:
        return f"{self.status or 'no answer'} {self.code}".strip()


def connect(port: int, timeout: float = 10, takes_nothing: bool = False) -> socket.socket:
    """A connection; one that is not going to be read from has the smallest buffer."""
    connection = socket.socket()
    connection.settimeout(timeout * patience)
    if takes_nothing:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    try:
        connection.connect(("127.0.0.1", port))
    except OSError:
        connection.close()
        raise
    return connection


def head(method: str, path: str, headers: Iterable[tuple[str, str]]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def receive(connection: socket.socket) -> Answer:
    """Reads one answer; whatever is wrong with the connection is an answer of status 0."""
    response = http.client.HTTPResponse(connection)
    try:
        response.begin()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    except (OSError, http.client.HTTPException, ValueError):
        return Answer(0)
    finally:
        response.close()


def read_until(connection: socket.socket, mark: bytes, seconds: float = 5) -> bytes:
    """What comes on a connection until this is in it, the connection ends or the time is over."""
    received = b""
    deadline = time.monotonic() + seconds * patience
    with contextlib.suppress(OSError):
        while mark not in received and (left := deadline - time.monotonic()) > 0:
            connection.settimeout(left)
            if not (piece := connection.recv(65536)):
                break
            received += piece
    return received


def exchange(port: int, data: bytes | Iterable[bytes], timeout: float = 10) -> Answer:
    """Sends bytes and reads the answer, which may come before all of them were taken."""
    try:
        with connect(port, timeout) as connection:
            with contextlib.suppress(OSError):  # refused in the middle: the answer may be there all the same
                for piece in [data] if isinstance(data, bytes) else data:
                    connection.sendall(piece)
            return receive(connection)
    except OSError:
        return Answer(0)


class Exchange:
    """One request at a server of ours, and what is answered to it."""

    def __init__(self, connection: socket.socket, method: str, path: str, headers: dict[str, str], body: bytes):
        self.connection, self.method, self.path, self.headers, self.body = connection, method, path, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def reply(self, body: bytes | dict | list, status: int = 200, headers: dict[str, str] | None = None) -> None:
        """A whole answer; the connection is kept."""
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        fields = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
        self.connection.sendall(self._head(status, fields) + body)

    def stream(self, headers: dict[str, str] | None = None) -> None:
        """The head of an event stream, which ends with the connection; `send` follows."""
        self.connection.sendall(
            self._head(200, {"content-type": "text/event-stream", "connection": "close", **(headers or {})})
        )

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def flood(self, data: bytes, stop: threading.Event) -> int:
        """Sends the same bytes until they are not taken any more, or all is over; how often they were taken."""
        sent = 0
        self.connection.settimeout(5)
        while not stop.is_set():
            try:
                self.connection.sendall(data)
                sent += 1
            except TimeoutError:
                raise ConnectionError("not read any more") from None  # a part may have been taken: no way on
        return sent

    @staticmethod
    def _head(status: int, headers: dict[str, str]) -> bytes:
        lines = [f"HTTP/1.1 {status} {http.client.responses.get(status, 'Unknown')}"]
        return ("\r\n".join(lines + [f"{k}: {v}" for k, v in headers.items()]) + "\r\n\r\n").encode()


class Server:
    """A server on a free port of loopback that hands each request to `handle`, in a thread of its own."""

    # Of a body so much is kept; what is beyond it is read and dropped.
    KEEP = 8 * 1024 * 1024

    def __init__(self, handle: Callable[[Exchange], None]):
        self.handle = handle
        self.stopped = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.port = self.listener.getsockname()[1]
        self.connections: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        self.stopped.set()
        self.listener.close()
        for connection in list(self.connections):
            connection.close()

    def _accept(self) -> None:
        while not self.stopped.is_set():
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb", buffering=1 << 16) as reader:
                while request := self._request(connection, reader):
                    self.handle(request)
        except (OSError, ValueError):
            pass  # the gateway has closed it, or `stop` has
        finally:
            self.connections.discard(connection)

    def _request(self, connection: socket.socket, reader) -> Exchange | None:
        words = reader.readline().split()
        if len(words) != 3:
            return None
        headers = {}
        while line := reader.readline().rstrip():
            name, _, value = line.partition(b":")
            headers[name.decode("latin-1").lower()] = value.strip().decode("latin-1")
        body = (
            self._chunked(reader) if "chunked" in headers.get("transfer-encoding", "") else self._sized(reader, headers)
        )
        return Exchange(connection, words[0].decode(), words[1].decode(), headers, body)

    def _sized(self, reader, headers: dict[str, str]) -> bytes:
        length = int(headers.get("content-length", "0"))
        body = reader.read(min(length, self.KEEP))
        rest = length - len(body)
        while rest > 0 and (piece := reader.read(min(rest, 1 << 20))):
            rest -= len(piece)
        return body

    def _chunked(self, reader) -> bytes:
        body = b""
        while size := int(reader.readline().split(b";")[0] or b"0", 16):
            piece = reader.read(size)
            reader.readline()
            if len(body) < self.KEEP:
                body += piece
        reader.readline()
        return body
