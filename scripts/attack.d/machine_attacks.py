"""Attacks by what the gateway runs in: a log that nobody reads, an accept queue, few file descriptors."""

import json
import os
import signal
import socket
import time
from pathlib import Path

import wire
from gateway import Gateway
from lab import Lab, NotRun, attack, until
from provider import slow_or_not


@attack("a log pipe that nobody reads: requests, lines that are dropped, SIGTERM")
def unread_log(lab: Lab) -> None:
    gateway = lab.gateway(unread_log=True)
    with lab.watched(gateway):
        if not lab.check(answered(gateway, 300) == 300, "requests hang, as nobody reads the log"):
            return
        # More lines than the pipe and the queue (log.queue: 8192) take.
        flood(gateway, 12_000)
        dropped = gateway.metric("antwort_log_lines_dropped_total")
        lab.check(dropped > 0, "no dropped line was counted")
        lab.expect(gateway.create(), "a response when the queue is full")
    lab.check(until(lambda: "dropped" in warnings(gateway), 5), "no WARN says that lines were dropped, once it is read")
    lab.check(answered(gateway, 300) == 300, "requests hang when the pipe is full again")
    begun = time.monotonic()
    gateway.process.send_signal(signal.SIGTERM)
    lab.check(until(lambda: not gateway.alive(), 8), "SIGTERM did not end it within 8 s")
    lab.held(f"{dropped:,.0f} lines were dropped and counted, SIGTERM ended it in {time.monotonic() - begun:.1f} s")


def answered(gateway: Gateway, count: int) -> int:
    """How many of so many responses were made, up to the first that was not."""
    for made in range(count):
        if gateway.create(timeout=5).status != 200:
            return made
    return count


def flood(gateway: Gateway, count: int) -> None:
    """So many requests on one connection, whose answers are read and dropped."""
    fields = [(name, value) for name, value in gateway.headers() if name != "connection"]
    request = wire.head("GET", "/v1/responses/resp_other", fields)
    with wire.connect(gateway.port) as connection:
        for _ in range(count // 100):
            connection.sendall(request * 100)
            wanted, rest = 100, b""
            while wanted > 0 and (piece := connection.recv(1 << 20)):
                rest += piece
                wanted -= rest.count(b"HTTP/1.1 404")
                rest = rest[-11:]  # a status line that is cut in two


def warnings(gateway: Gateway) -> str:
    return "\n".join(line for line in gateway.log().splitlines() if '"WARN"' in line)


@attack("a thousand connections at once, of which none is accepted for a while")
def bursts_of_connections(lab: Lab) -> None:
    count = 1000
    if int(Path("/proc/sys/net/core/somaxconn").read_text()) < 2 * count:
        raise NotRun("needs net.core.somaxconn of 2000 or more")
    gateway = lab.gateway()
    # Stopped, it accepts nothing: connections are made as long as its queue has room, and no longer.
    os.kill(gateway.pid, signal.SIGSTOP)
    try:
        connections = [lab.closing(begin(gateway.port)) for _ in range(count)]
        until(lambda: all(map(is_made, connections)), 0.7)
        made = sum(map(is_made, connections))
    finally:
        os.kill(gateway.pid, signal.SIGCONT)
    lab.check(made == count, f"{made} of {count} connections were made: the others try again after a second")
    with lab.watched(gateway):
        lab.expect(gateway.create(), "a response afterwards")
    lab.note(f"{made} of {count} waited in the queue")


def begin(port: int) -> socket.socket:
    connection = socket.socket()
    connection.setblocking(False)
    connection.connect_ex(("127.0.0.1", port))
    return connection


def is_made(connection: socket.socket) -> bool:
    try:
        connection.getpeername()
        return True
    except OSError:
        return False


@attack("a gateway that may open 128 files: what it says, and requests beside streams")
def few_descriptors(lab: Lab) -> None:
    gateway = lab.gateway(lab.provider(slow_or_not), open_files=128)
    said = [line for line in map(json.loads, warnings(gateway).splitlines()) if line.get("nofile_limit") == 128]
    lab.check(len(said) == 1, "no WARN names the limit of open files")
    lab.check(bool(said) and "raise it" in said[0].get("message", ""), "no WARN says what to do")
    with lab.watched(gateway):
        connections = said[0].get("max_connections", 16) if said else 16
        slow = gateway.posted("/v1/responses", {"model": "slow", "input": "x", "stream": True})
        streams = [lab.closing(gateway.send(slow)) for _ in range(connections - 4)]
        for _ in range(40):
            lab.expect(gateway.create(), f"a response beside {len(streams)} streams")
    lab.held(f"WARN: {connections} connections")


@attack("a gateway that may open 128 files, and one tenant's streams on a slow model")
def connections_of_one_tenant(lab: Lab) -> None:
    keys = {"a": {"key": "key-a", "tenant": "a"}, "b": {"key": "key-b", "tenant": "b"}}
    gateway = lab.gateway(lab.provider(slow_or_not), open_files=128, keys=keys, key="key-b")
    slow = gateway.posted("/v1/responses", {"model": "slow", "input": "x", "stream": True}, "key-a")
    for _ in range(30):
        lab.closing(gateway.send(slow))
    time.sleep(0.5)
    begun = time.monotonic()
    lab.expect(gateway.create(timeout=12), "another tenant's response meanwhile")
    lab.held(f"another tenant was answered after {time.monotonic() - begun:.1f} s")
