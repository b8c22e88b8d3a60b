"""Starts the servers, waits until they answer, and stops exactly what was started.

Knows nothing of what the servers do beyond a path that answers 200 once they are ready.
"""

import http.client
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

READY_SECONDS = 120  # loading takes 2 s; the rest is for a machine that is busy with something else
STOP_SECONDS = 10


class NotReady(Exception):
    """A server ended, or said nothing for too long, before it was ready."""


@dataclass
class Server:
    """One running process that leads a process group of its own."""

    name: str
    port: int
    process: subprocess.Popen
    log: Path

    def log_tail(self, lines: int = 25) -> str:
        text = self.log.read_text(errors="replace").splitlines()
        return "\n".join(f"  {self.name}| {line}" for line in text[-lines:])


class Fleet:
    """The processes of one run. As a context manager it stops them all, whatever happened."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.servers: list[Server] = []

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_exception) -> None:
        # A second Ctrl-C must not leave half of them running.
        for impatience in (signal.SIGINT, signal.SIGTERM):
            signal.signal(impatience, signal.SIG_IGN)
        # Gateways were started last and go first: none of them should see its upstream vanish.
        for server in reversed(self.servers):
            stop(server.process)

    def start(self, name: str, argv: list[str], port: int, env: dict[str, str] | None = None) -> Server:
        """Starts one process with its output in a log; `wait` says when it can be used."""
        log = self.directory / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                argv,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # its own group: Ctrl-C reaches us only, and we stop it whole
            )
        server = Server(name, port, process, log)
        self.servers.append(server)
        return server

    def wait(self, server: Server, path: str) -> None:
        """Returns once GET `path` answers 200."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if server.process.poll() is not None:
                raise NotReady(f"{server.name} ended with {server.process.returncode}\n{server.log_tail()}")
            if answers_ok(server.port, path):
                return
            time.sleep(0.1)
        raise NotReady(f"{server.name} was not ready after {READY_SECONDS} s\n{server.log_tail()}")


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on, all held at once so that no two are the same."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def answers_ok(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def stop(process: subprocess.Popen) -> None:
    """Ends the process and its children: politely, then not."""
    # A process that was already reaped no longer owns its number, so it must not be signalled by it.
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
