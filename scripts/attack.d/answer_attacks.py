"""Attacks on responses beside their requests: answers to their questions, erasures and deletions under way."""

import json
import threading
import time

import mcp_server
import wire
from gateway import MIB, Gateway
from lab import Lab, at_once, attack, until
from provider import calling

FUNCTION = {"type": "function", "name": "ask", "parameters": {"type": "object"}}
INLINE = {"antwort": {"client_tools": "inline"}, "tools": [FUNCTION]}


def asking(count: int):
    """A model that calls a function of the client so often at once; its calls are `call_0_ask` and so on."""
    calls = [("ask", json.dumps({"i": i})) for i in range(count)]

    def script(provider, exchange, request) -> None:
        # What the answers make too large to be kept is no first request.
        if request and request["messages"][-1].get("role") == "user":
            provider.call(exchange, request, *calls)
        else:
            provider.say(exchange, request or {"stream": True}, "ok")

    return script


def answer(gateway: Gateway, id: str, call_id: str, output) -> wire.Answer:
    return gateway.post(f"/v1/responses/{id}/inputs", {"call_id": call_id, "output": output}, timeout=20)


@attack("a client that answers a run's twelve questions with 9 MiB each, and one with 17 MiB")
def answers_of_clients(lab: Lab) -> None:
    count, text = 12, "z" * (9 * MIB)
    gateway = lab.gateway(lab.provider(asking(count)), engine={"max_response_bytes": "24MiB"})
    lab.budget("9 x engine.max_response_bytes", 9 * 24 * MIB)
    lab.budget("the largest body, and the value that it is", 2 * 17 * MIB)
    with lab.watched(gateway):
        id = gateway.create(background=True, **INLINE).json.get("id")
        lab.check(until(lambda: gateway.metric("antwort_runs_waiting") == 1, 5), "the run does not wait for its client")
        parts = [{"type": "input_text", "text": "z" * (17 * MIB // 2)}] * 2
        lab.expect(answer(gateway, id, "call_0_ask", parts), "17 MiB", 413, "output_too_large")
        answers = [answer(gateway, id, f"call_{i}_ask", text) for i in range(count)]
        taken = sum(each.status == 202 for each in answers)
        for each in answers[taken:]:
            lab.expect(each, "an answer beyond engine.max_response_bytes", 413, "output_too_large")
        lab.check(1 <= taken <= 2, f"{taken} answers of 9 MiB were taken, of a response of 24 MiB at most")
        by_a2a = {"taskId": id, "inputId": f"call_{count - 1}_ask", "success": True, "result": text}
        answered = gateway.post("/api/a2a/input", by_a2a, timeout=20)
        lab.expect(answered, "the last of them again, as A2A clients do", 413, "output_too_large")
        # Those that were refused can still be answered.
        short = [answer(gateway, id, f"call_{i}_ask", "too much").status for i in range(taken, count)]
        lab.check(set(short) <= {202}, f"short answers in place of those that were refused: {short}")
        ended = until(lambda: ended_response(gateway, id), 15)
        lab.check(ended, "the response did not end")
        size = len(gateway.get(f"/v1/responses/{id}", timeout=20).body)
        lab.check(9 * MIB < size <= 25 * MIB, f"the stored response has {size / MIB:.0f} MiB")
    lab.note(f"{taken} of {count} were taken, a response of {size / MIB:.0f} MiB")


def ended_response(gateway: Gateway, id: str) -> bool:
    """Whether it has left the list of those in progress; it is too large to be read for that."""
    running = gateway.get("/v1/responses?status=in_progress").json.get("data", [])
    queued = gateway.get("/v1/responses?status=queued").json.get("data", [])
    return id not in {each["id"] for each in running + queued}


class Asking:
    """An MCP server that asks the user in the middle of each call, and remembers what it was told."""

    def __init__(self, question: dict):
        self.question, self.told, self.answered = question, [], threading.Event()

    def call(self, server, exchange, message) -> None:
        self.answered.clear()
        exchange.stream()
        ask = {"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": self.question}
        exchange.send(mcp_server.event(ask))
        self.answered.wait(15)
        result = {"content": [{"type": "text", "text": "done"}]}
        exchange.send(mcp_server.event({"jsonrpc": "2.0", "id": message["id"], "result": result}))
        exchange.connection.close()

    def answer(self, server, exchange) -> None:
        self.told.append((len(exchange.body), exchange.json.get("result", {}) if len(exchange.body) < MIB else {}))
        self.answered.set()


@attack("a form of an MCP server that is filled in with 25 MiB, and with 100 KiB")
def answers_to_forms(lab: Lab) -> None:
    asks = Asking({"message": "Which one?", "requestedSchema": {"type": "object", "properties": {}}})
    server = lab.mcp(on_call=asks.call, on_answer=asks.answer)
    gateway = lab.gateway(lab.provider(calling(("work", "{}"))))
    lab.budget("two bodies", 50 * MIB)
    with lab.watched(gateway):
        created = gateway.create(background=True, tools=[server.as_tool()], antwort={"elicitation": ["form"]})
        lab.expect(created, "a response that shows forms")
        id = created.json.get("id")
        with gateway.send(wire.head("GET", f"/v1/responses/{id}?stream=true", gateway.headers())) as stream:
            asked = wire.read_until(stream, b'"call_id":"elicit:', 5)
            asked += wire.read_until(stream, b"\n\n", 1)
        call_id = "elicit:" + asked.partition(b'"call_id":"elicit:')[2].partition(b'"')[0].decode()
        lab.check(call_id != "elicit:", "no question")
        for size in (25 * MIB, 100 * 1024):
            form = {"action": "accept", "content": {"which": "z" * size}}
            lab.expect(answer(gateway, id, call_id, form), f"{size // 1024} KiB", 413, "output_too_large")
        small = {"action": "accept", "content": {"which": "red"}}
        taken = until(lambda: answer(gateway, id, call_id, small).status == 202, 5)
        lab.check(taken, "a small answer is refused afterwards")
        ended = until(lambda: gateway.get(f"/v1/responses/{id}").json.get("status") == "completed", 8)
        lab.check(ended, "the response did not end")
    largest = max((size for size, _ in asks.told), default=0)
    lab.check(largest < 64 * 1024, f"the server was sent {largest / MIB:.1f} MiB")
    lab.held("413; the small one was handed on")


ADDRESSES = {
    # What must not be shown at all: another scheme, a user, a host that nobody sees, invisible letters.
    "javascript:alert(1)": None,
    "data:text/html,x": None,
    "file:///etc/passwd": None,
    "blob:https://good.example/x": None,
    "https://good.example@evil.example/": None,
    "https://user:word@evil.example/": None,
    "https://good.example%2f@evil.example/": None,
    "https://good.example/\u202egpj.exe": None,
    "https://good\u200b.example/\u200b": None,
    "https:///": None,
    # What is shown, and how: as browsers understand it, with the letters that the host really has.
    "https://login.example/x": b"https://login.example/x",
    "https://\u0430pple.example/": b"https://xn--pple-43d.example/",
    "https:\\\\evil.example\\@good.example": b"https://evil.example/@good.example",
}


@attack("addresses that an MCP server wants opened: users in them, other schemes, hosts that look alike")
def addresses_of_questions(lab: Lab) -> None:
    asks = Asking({})
    server = lab.mcp(on_call=asks.call, on_answer=asks.answer)
    gateway = lab.gateway(lab.provider(calling(("work", "{}"))))
    shows = {"tools": [server.as_tool()], "antwort": {"elicitation": ["url"]}}
    shown = 0
    for address, expected in ADDRESSES.items():
        asks.question = {"mode": "url", "message": "Sign in.", "url": address, "elicitationId": "e"}
        asks.told.clear()
        body = {"model": "m", "input": "x", "stream": True, **shows}
        with gateway.send(gateway.posted("/v1/responses", body)) as stream:
            stream.settimeout(5)
            received = b""
            while b"antwort:input_required" not in received and b"response.completed" not in received:
                if not (piece := stream.recv(65536)):
                    break
                received += piece
            received += wire.read_until(stream, b"\n\n", 0.2)
        asks.answered.set()
        question = received.partition(b"antwort:input_required\ndata: ")[2]
        if expected is None:
            lab.check(not question, f"{address!r} is shown")
            lab.check([told.get("action") for _, told in asks.told] == ["decline"], f"{address!r}: {asks.told}")
        elif lab.check(bool(question), f"{address!r} is not shown"):
            lab.check(b'"url":"' + expected + b'"' in question, f"{address!r} is shown as it was said")
            shown += 1
    lab.held(f"{len(ADDRESSES) - shown} of {len(ADDRESSES)} are declined, the others shown with their real host")


@attack("an erasure whose parameters are given twice")
def erasures_said_twice(lab: Lab) -> None:
    keys = {
        "a": {"key": "key-a", "tenant": "a"},
        "b": {"key": "key-b", "tenant": "b"},
        "eraser": {"key": "key-e", "tenant": "o", "scopes": ["data:admin"]},
    }
    gateway = lab.gateway(keys=keys, key="key-e")
    for key in ("key-a", "key-b"):
        lab.expect(gateway.create(key=key), "a response")
    for query in (
        "tenant=a&tenant=b",
        "tenant=a&owner=a&owner=b",
        "tenant=a&tenant=b&owner=a&owner=b",
        "tenant=a&owner=a&tenant=b",
        "tenant[]=a&tenant[]=b",
        "tenant=a&owner[]=a",
        "tenant=a&%74enant=b",
    ):
        lab.expect(gateway.delete(f"/v1/admin/data?{query}"), query, 400)
    left = [len(gateway.get("/v1/responses", key).json.get("data", [])) for key in ("key-a", "key-b")]
    lab.check(left == [1, 1], f"of one response each {left} are left")
    lab.expect(gateway.delete("/v1/admin/data?tenant=a&owner=a"), "each once")
    left = [len(gateway.get("/v1/responses", key).json.get("data", [])) for key in ("key-a", "key-b")]
    lab.check(left == [0, 1], f"an erasure of the first left {left}")
    lab.held("400, and nothing was erased")


@attack("streams whose responses are erased in the moment in which they are made")
def erased_while_created(lab: Lab) -> None:
    gateway = lab.gateway(lab.provider(asking(1)))
    over = threading.Event()

    def erase() -> None:
        while not over.is_set():
            gateway.delete("/v1/admin/data?tenant=default")

    request = gateway.posted("/v1/responses", {"model": "m", "input": "x", "stream": True, **INLINE})
    answers: list[bytes] = []

    def create(_: int) -> None:
        until_when = time.monotonic() + 4
        while time.monotonic() < until_when:
            with gateway.send(request) as stream:
                answers.append(wire.read_until(stream, b"\r\n\r\n", 3)[9:12])

    erasers = [threading.Thread(target=erase, daemon=True) for _ in range(4)]
    with lab.watched(gateway):
        for eraser in erasers:
            eraser.start()
        at_once(8, create)
        over.set()
        for eraser in erasers:
            eraser.join()
        gateway.delete("/v1/admin/data?tenant=default")
        left = ("antwort_runs_active", "antwort_runs_waiting")
        idle = until(lambda: not any(map(gateway.metric, left)), 5)
    counts = {status.decode(): answers.count(status) for status in sorted(set(answers))}
    lab.check(set(counts) <= {"200", "410"}, f"streams were answered with {counts}")
    lab.check(len(answers) > 100, f"{len(answers)} streams in 4 s")
    lab.check(idle, "runs are left")
    lab.note("answered with " + ", ".join(f"{count} x {status}" for status, count in counts.items()))


@attack("streams that are followed when their response is deleted")
def streams_of_deleted_responses(lab: Lab) -> None:
    gateway = lab.gateway(lab.provider(asking(1)))
    seen = []
    for what in ("its own stream", "a background response's"):
        is_own = what == "its own stream"
        if is_own:
            request = gateway.posted("/v1/responses", {"model": "m", "input": "x", "stream": True, **INLINE})
        else:
            created = gateway.create(background=True, **INLINE)
            request = wire.head("GET", f"/v1/responses/{created.json.get('id')}?stream=true", gateway.headers())
        with gateway.send(request) as stream:
            received = wire.read_until(stream, b"antwort:input_required", 5)
            id = received.partition(b'"id":"resp_')[2].partition(b'"')[0].decode()
            lab.expect(gateway.delete(f"/v1/responses/resp_{id}"), f"DELETE of {what}")
            begun = time.monotonic()
            rest = wire.read_until(stream, b"\r\n0\r\n\r\n", 5)
            seconds = time.monotonic() - begun
        lab.check(rest.endswith(b"0\r\n\r\n"), f"{what} has no end: {rest[-60:]!r} after {seconds:.1f} s")
        lab.check(b"event: error" in rest and b"response_deleted" in rest, f"{what}: no event says that it was deleted")
        seen.append(f"{seconds * 1000:.0f} ms")
    lab.held(f"an error event and the end of the chunks after {' and '.join(seen)}")
