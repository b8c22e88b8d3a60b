"""HTTP with JSON and server-sent events, for one server on a loopback port.

The standard library's client is used bare, so that no proxy setting, retry or lenient decoding of
somebody else's stands between the gateway's bytes and the checks.
"""

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass

# For one read. The model answers in seconds; this only ends a run that hangs.
TIMEOUT_SECONDS = 120


class Refused(AssertionError):
    """The server answered with another status than 200."""


@dataclass(frozen=True)
class Frame:
    """One server-sent event: its `event:` line (None when absent) and its `data:`."""

    event: str | None
    data: str


@dataclass(frozen=True)
class Server:
    """Where requests go, and the model they name."""

    port: int
    model: str

    def get(self, path: str) -> dict:
        return self._json("GET", path, None)

    def post(self, path: str, body: dict) -> dict:
        return self._json("POST", path, {"model": self.model} | body)

    def post_for_headers(self, path: str, body: dict):
        """The body of the answer, and its headers."""
        connection, response = self._send("POST", path, {"model": self.model} | body)
        try:
            return json.loads(response.read()), response.headers
        finally:
            connection.close()

    def stream(self, path: str, body: dict) -> Iterator[Frame]:
        """Yields each event as it arrives."""
        connection, response = self._send("POST", path, {"model": self.model, "stream": True} | body)
        try:
            kind = response.getheader("content-type", "")
            assert kind.startswith("text/event-stream"), f"content-type is {kind!r}, not an event stream"
            yield from frames(response)
        finally:
            connection.close()

    def _json(self, method: str, path: str, body: dict | None) -> dict:
        connection, response = self._send(method, path, body)
        try:
            return json.loads(response.read())
        finally:
            connection.close()

    def _send(self, method: str, path: str, body: dict | None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_SECONDS)
        payload = None if body is None else json.dumps(body)
        connection.request(method, path, payload, {"content-type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            text = response.read().decode(errors="replace")
            connection.close()
            raise Refused(f"{method} {path} -> {response.status}: {text[:600]}")
        return connection, response


def frames(lines) -> Iterator[Frame]:
    """Cuts an event stream, given as lines of bytes, into events; comments (keep-alives) are skipped."""
    event, data = None, []
    for raw in lines:
        line = raw.decode().rstrip("\r\n")
        if not line:
            if data:
                yield Frame(event, "\n".join(data))
            event, data = None, []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            event = value
        elif field == "data":
            data.append(value)
    assert not data, f"the stream was cut inside an event: {data}"
