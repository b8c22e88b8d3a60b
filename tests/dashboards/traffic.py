"""Traffic against a gateway that leaves something in every metric: runs, tools, MCP servers, failures, queues, background runs."""

import base64
import concurrent.futures
import http.client
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

CALCULATE = {"type": "antwort:calculate"}
SUMS = {"type": "mcp", "server_label": "sums", "require_approval": "never"}
LEAVING = {"type": "mcp", "server_label": "leaving", "require_approval": "never"}
BROKEN = {"type": "mcp", "server_label": "broken", "require_approval": "never"}


class Client:
    def __init__(self, address: str, key: str):
        self.address, self.key = address, key

    def ask(self, method: str, path: str, body: dict | None = None, **headers) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self.address, timeout=30)
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"} | headers
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def respond(self, text: str, model: str = "scripted", headers: dict = {}, **more) -> tuple[int, str]:
        return self.ask("POST", "/v1/responses", {"model": model, "input": text, **more}, **headers)


def expect(status: int, answer: tuple[int, str]) -> str:
    assert answer[0] == status, f"{answer[0]} instead of {status}: {answer[1]}"
    return answer[1]


def a_round(client: Client, number: int) -> None:
    """One request of each kind."""
    expect(200, client.respond("Hello there."))
    expect(200, client.respond("Hello there, one word after the other.", stream=True))
    expect(200, client.respond('calculate {"expression": "2 + 3"}', "caller", tools=[CALCULATE], stream=True))
    expect(200, client.respond('calculate {"expression": "1/0"}', "caller", tools=[CALCULATE]))
    expect(200, client.respond('add {"a": 2, "b": 3}', "caller", tools=[SUMS], stream=True))
    expect(200, client.respond("burn {}", "caller", tools=[SUMS]))
    expect(200, client.respond("no tools please", tools=[BROKEN]))
    function = {"type": "function", "name": "order", "parameters": {"type": "object", "properties": {}}}
    expect(200, client.respond("order {}", "caller", tools=[function]))
    for model, status in [("err-401", 502), ("err-429", 429), ("err-503", 503)]:
        expect(status, client.respond("Hello.", f"flaky/{model}"))
    again = {"idempotency-key": f"round-{number}"}
    for _ in range(2):
        expect(200, client.respond("Once.", headers=again))
    stored = json.loads(expect(200, client.respond("Later.", background=True)))
    client.ask("GET", f"/v1/responses/{stored['id']}")
    expect(200, client.ask("GET", "/v1/models"))


def a_crowd(client: Client) -> None:
    """More slow runs at a time than there are places: some wait, some are refused."""
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        statuses = [answer[0] for answer in pool.map(lambda _: client.respond("Hello.", "slow"), range(6))]
    assert 503 in statuses and 200 in statuses, statuses
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for answer in pool.map(lambda _: client.respond("Hello."), range(24)):
            expect(200, answer)


def a_server_leaves(client: Client, port: int) -> None:
    """An MCP server lists its tools and is stopped: from then on calls do not reach it."""
    program = Path(__file__).resolve().parents[1] / "sdk" / "mcp_server.py"
    server = subprocess.Popen([sys.executable, "-B", str(program), str(port)])
    try:
        until = time.monotonic() + 10
        while socket.socket().connect_ex(("127.0.0.1", port)):
            assert time.monotonic() < until, "the MCP server does not listen"
            time.sleep(0.05)
        assert "The tools said: 5" in expect(200, calls_leaving(client))
    finally:
        server.terminate()
        server.wait()
    expect(200, calls_leaving(client))


def calls_leaving(client: Client) -> tuple[int, str]:
    return client.respond('add {"a": 2, "b": 3}', "caller", tools=[LEAVING])


def over_websocket(client: Client) -> None:
    """One request over a WebSocket connection, which is left open while it is answered."""
    host, port = client.address.split(":")
    key = base64.b64encode(os.urandom(16)).decode()
    hello = f"GET /v1/responses HTTP/1.1\r\nHost: {client.address}\r\nAuthorization: Bearer {client.key}\r\n"
    hello += f"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
    message = json.dumps({"type": "response.create", "model": "scripted", "input": "Hello."}).encode()
    mask = os.urandom(4)
    masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(message))
    assert len(message) < 126
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(hello.encode())
        received = b""
        while b"response.completed" not in received:
            piece = connection.recv(65536)
            assert piece, received
            if b"101" in piece and not received:
                connection.sendall(bytes([0x81, 0x80 | len(message)]) + mask + masked)
            received += piece
