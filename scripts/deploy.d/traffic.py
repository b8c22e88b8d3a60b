"""Clients of all kinds through a balancer, and the counts of what they got."""

import asyncio
import itertools
import random
import ssl
import time
from collections import Counter
from dataclasses import dataclass, field

from http1 import Client, Cut, Reply
from upstream import Provider

COMPLETED = "response.completed"
# One for all clients: the provider remembers the requests of every phase.
NUMBERS = itertools.count()


@dataclass
class Counts:
    """What clients saw. An answer that never came counts as cut, unless nobody had read the request when the connection went."""

    # Answers with status 200, by kind of client.
    answers: Counter = field(default_factory=Counter)
    # All others: our clients cause none.
    refused: Counter = field(default_factory=Counter)
    ends: Counter = field(default_factory=Counter)
    unended: list[str] = field(default_factory=list)
    # Answers with 200 that are not what was asked for.
    wrong: Counter = field(default_factory=Counter)
    cut: list[str] = field(default_factory=list)
    # Connections that the balancer closed while the client began to use them: asked again on a new one, and answered.
    unread: int = 0
    tool_calls: int = 0

    def faults(self, end: str = COMPLETED) -> list[str]:
        """What should not have been; streams end with this event."""
        found = [f"{len(self.unended)} streams without a terminal event: {self.unended[0]}"] if self.unended else []
        found += [f"{count} streams ended with {what}" for what, count in self.ends.items() if what != end]
        found += [f"{count} answers of {what}" for what, count in self.refused.items()]
        found += [f"{count} answers with {what}" for what, count in self.wrong.items()]
        return found + ([f"{len(self.cut)} requests without an answer: {self.cut[0]}"] if self.cut else [])

    def __str__(self) -> str:
        text = f"{sum(self.answers.values())} answers, {sum(self.ends.values())} of them streams, {self.tool_calls} calls of tools"
        return text + (f"; {self.unread} connections closed by the balancer before a request was read" if self.unread else "")


class Traffic:
    def __init__(self, port: int, keys: list[str], tls: ssl.SSLContext, label: str, provider: Provider):
        self.port, self.keys, self.tls, self.label, self.provider = port, keys, tls, label, provider
        self.counts = Counts()
        # Streams of which the first words have come, and not yet the end.
        self.open = 0
        self.over = asyncio.Event()
        self.tasks: list[asyncio.Task] = []
        self.kinds: set[str] = set()

    def start(self, load: dict[str, int]) -> None:
        """So many clients of each kind."""
        does = {"streams": self._streams, "plain": self._plain, "tools": self._tools, "idle": self._idle}
        kinds = [kind for kind, clients in load.items() for _ in range(clients)]
        self.kinds = set(kinds)
        self.tasks = [asyncio.create_task(does[kind](self.keys[i % len(self.keys)])) for i, kind in enumerate(kinds)]

    async def until_open(self, streams: int, seconds: float) -> int:
        """How many streams are open, as soon as there are so many."""
        deadline = time.monotonic() + seconds
        while self.open < streams and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        return self.open

    async def stop(self) -> list[str]:
        """Lets every client have the answer that it waits for; what should not have been."""
        self.over.set()
        await asyncio.gather(*self.tasks)
        return self.counts.faults() + [f"no answer for {kind}" for kind in self.kinds if not self.counts.answers[kind]]

    # --- what clients do ------------------------------------------------------------------------------------

    async def _streams(self, key: str) -> None:
        await self._again("streams", key, lambda: create(f"say {random.randint(30, 60)} 0.1", stream=True), 0.1)

    async def _plain(self, key: str) -> None:
        await self._again("plain", key, lambda: create("say 2 0.05"), 0.3)

    async def _tools(self, key: str) -> None:
        tool = {"type": "mcp", "server_label": self.label}
        await self._again("tools", key, lambda: create("call", tools=[tool], stream=random.random() < 0.5), 0.5)

    async def _idle(self, key: str) -> None:
        """A connection on which something is asked only now and then."""
        await self._again("idle", key, lambda: create("say 1 0"), 8)

    async def _again(self, kind: str, key: str, body, pause: float) -> None:
        client = Client(self.port, key, self.tls)
        while not self.over.is_set():
            await self.asked(client, kind, body())
            try:
                await asyncio.wait_for(self.over.wait(), random.uniform(0.5, 1.5) * pause)
            except TimeoutError:
                pass
        client.close()

    async def asked(self, client: Client, kind: str, body: dict) -> None:
        """Asks once, counts, and repeats only what met a connection that was closed before the request came to the provider.

        A balancer that is reloaded does so: to idle connections, and to new ones on which nothing has come yet.
        """
        counts, mark = self.counts, f"request-{next(NUMBERS)}"
        body = {**body, "input": f"{body['input']} {mark}"}
        for _ in range(3):
            stream = OpenStream(self)
            try:
                reply = await client.ask("POST", "/v1/responses", body, stream.on_event)
                return self._judged(kind, bool(body.get("stream")), reply)
            except Cut as error:
                if not error.silent or mark in self.provider.seen:
                    return counts.cut.append(f"{error}, {'asked' if mark in self.provider.seen else 'not asked'} of the provider")
                counts.unread += 1
            except TimeoutError:
                return counts.cut.append("nothing within five minutes")
            finally:
                stream.close()
        counts.cut.append("three connections in a row were closed")

    def _judged(self, kind: str, stream: bool, reply: Reply) -> None:
        counts = self.counts
        if reply.status != 200:
            counts.refused[f"{reply.status} {reply.code}".strip()] += 1
            return
        counts.answers[kind] += 1
        if not stream:
            if (status := reply.json.get("status")) != "completed":
                counts.wrong[f"status {status}"] += 1
        elif reply.terminal:
            counts.ends[reply.terminal] += 1
        else:
            counts.unended.append(f"{len(reply.events)} events, then {reply.cut or 'the end'}")
        calls = calls_in(reply)
        counts.tool_calls += calls
        if kind == "tools" and not calls:
            counts.wrong["no finished call of the tool"] += 1


class OpenStream:
    """Counts one stream among the open ones, from its first words on."""

    def __init__(self, traffic: Traffic):
        self.traffic, self.counted = traffic, False

    def on_event(self, name: str) -> None:
        if name == "response.output_text.delta" and not self.counted:
            self.counted = True
            self.traffic.open += 1

    def close(self) -> None:
        self.traffic.open -= self.counted
        self.counted = False


def calls_in(reply: Reply) -> int:
    """Calls of MCP servers that went well."""
    calls = [item for item in reply.json.get("output", []) if item.get("type") == "mcp_call"]
    done = [call for call in calls if call.get("status") == "completed" and not call.get("error")]
    return len(done) + reply.events.count("response.mcp_call.completed")


def create(text: str, **more) -> dict:
    return {"model": "m", "input": text, **more}


class Retrieval:
    """Asks for one stored response again and again, and counts the times that it was not there."""

    def __init__(self, port: int, key: str, identifier: str, tls: ssl.SSLContext | None = None):
        self.client, self.identifier = Client(port, key, tls), identifier
        self.found = 0
        self.missed: Counter = Counter()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            while True:
                if outcome := await missing(self.client, self.identifier):
                    self.missed[outcome] += 1
                else:
                    self.found += 1
                await asyncio.sleep(0.1)
        finally:
            self.client.close()

    async def stop(self) -> None:
        """An error of its own is raised: then nobody asked any more."""
        self.task.cancel()
        try:
            await self.task
        except asyncio.CancelledError:
            pass


async def missing(client: Client, identifier: str) -> str:
    """What came instead of a stored response, if something did. A connection that had been idle may be closed once."""
    for _ in range(2):
        try:
            reply = await client.ask("GET", f"/v1/responses/{identifier}", timeout=10)
        except TimeoutError:
            return "nothing within 10 s"
        except Cut as error:
            if error.stale:
                continue
            return str(error)
        if reply.status == 200 and (reply.json.get("id"), reply.json.get("status")) == (identifier, "completed"):
            return ""
        return f"{reply.status} {reply.code or reply.body[:100]}"
    return "two connections in a row were closed"
