"""Attacks on memory by one key: many that wait for one response, that follow one, that have the same tools counted.

What one of them takes is measured first, on a gateway of its own: many of them may take 64 MiB more, and no multiple.
"""

import contextlib
import time

import wire
from gateway import MIB, Gateway
from lab import Lab, at_once, attack, until

TEXT = 14 * MIB


def one_and_many(lab: Lab, many: int, run, model=None, queue_timeout: str = "3s"):
    """Has `run` act with one client, and then with so many; what it has returned for these."""
    for count in (1, many):
        gateway = lab.gateway(lab.provider(model), server={"queue_timeout": queue_timeout})
        with lab.watched(gateway):
            result = run(gateway, count)
        if count == 1:
            lab.budget("what one takes", lab.figures.growth)
            gateway.kill()  # it would wait for those that do not read
    return result


def slow_and_large(provider, exchange, request) -> None:
    """A model that thinks, and then says nearly as much as an item may have."""
    time.sleep(1.5)
    provider.say(exchange, request, "a" * TEXT)


def over(gateway: Gateway) -> bool:
    """Whether its run is over, and what came of it is on its way."""
    ended = until(lambda: gateway.metric("antwort_runs_active") == 0, 12)
    time.sleep(1.5)
    return ended


def counted(answers: list) -> dict:
    return {answer: answers.count(answer) for answer in sorted(set(answers))}


def words(counts: dict) -> str:
    return ", ".join(f"{count} x {answer}" for answer, count in counts.items())


@attack("twenty requests with one Idempotency-Key that wait for a response of 14 MiB, and do not read it")
def waiters_of_one_key(lab: Lab) -> None:
    def run(gateway: Gateway, count: int) -> dict:
        request = gateway.posted("/v1/responses", {"model": "m", "input": "x"}, more=[("idempotency-key", "one")])
        waiting = [lab.closing(gateway.send(request, takes_nothing=True)) for _ in range(count)]
        lab.check(until(lambda: gateway.metric("antwort_runs_active") > 0, 3), "no run has begun")
        lab.check(over(gateway), "the run does not end")
        return counted(at_once(count, lambda i: wire.read_until(waiting[i], b"\r\n", 8)[9:12].decode()))

    counts = one_and_many(lab, 20, run, slow_and_large)
    lab.check(set(counts) <= {"200", "503"} and "200" in counts, f"answered with {words(counts)}")
    lab.note(f"answered with {words(counts)}")


@attack("thirty that read the stream of one response of 14 MiB: by its key, and by its id")
def followers_of_one_response(lab: Lab) -> None:
    def run(gateway: Gateway, count: int) -> dict:
        body = {"model": "m", "input": "x", "stream": True}
        by_key = gateway.posted("/v1/responses", body, more=[("idempotency-key", "one")])
        first = lab.closing(gateway.send(by_key, timeout=18))
        id = wire.read_until(first, b'"id":"resp_').partition(b'"id":"')[2]
        id = (id + first.recv(100)).partition(b'"')[0].decode()
        first.settimeout(18)  # `read_until` leaves what was left
        by_id = wire.head("GET", f"/v1/responses/{id}?stream=true", gateway.headers())
        # All are read, the first as well.
        others = [gateway.send((by_key, by_id)[i % 2], timeout=18) for i in range(1, count)]
        return counted(at_once(count, lambda i: drained([first, *others][i])))

    # Those whose next event finds no room for so long are cut; all of these read what there is.
    sizes = one_and_many(lab, 30, run, slow_and_large, queue_timeout="15s")
    lab.check(min(sizes) > 5 * TEXT - 65536, f"bytes that were read: {words(sizes)}")


def drained(connection) -> int:
    """How much was read of a connection until its end, or until nothing more came."""
    size = 0
    with connection, contextlib.suppress(OSError):
        while piece := connection.recv(1 << 18):
            size += len(piece)
    return size


@attack("twelve requests at once to count tokens, with 23 MiB of tools each")
def counts_of_large_tools(lab: Lab) -> None:
    properties = {f"p{i}": {"type": "string", "description": "d" * 200} for i in range(200)}
    schema = {"type": "object", "properties": properties}
    tools = [{"type": "function", "name": f"f{i}", "parameters": schema} for i in range(480)]

    def run(gateway: Gateway, count: int) -> list[wire.Answer]:
        request = gateway.posted("/v1/responses/input_tokens", {"model": "m", "input": "x", "tools": tools})
        return at_once(count, lambda _: wire.exchange(gateway.port, request, 20))

    # They come at once, so the gateway has as many bodies as its budget for them allows.
    lab.budget("server.max_buffered_body_bytes", 256 * MIB)
    answers = one_and_many(lab, 12, run)
    counts = counted(list(map(str, answers)))
    known = set(counts) <= {"200", "503 server_is_overloaded"}
    lab.check(known and "200" in counts, f"answered with {words(counts)}")
    lab.note(f"answered with {words(counts)}")
