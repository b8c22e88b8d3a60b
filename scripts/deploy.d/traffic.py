"""Clients of all kinds through a balancer, and the counts of what they got."""

import asyncio
import random
import ssl
from collections import Counter
from dataclasses import dataclass, field

from http1 import Client, Cut, Reply


@dataclass
class Counts:
    """What clients saw. An answer that never came counts as cut, unless the connection had been idle and was new then."""

    answers: Counter = field(default_factory=Counter)
    streams: int = 0
    ends: Counter = field(default_factory=Counter)
    unended: list[str] = field(default_factory=list)
    server_errors: Counter = field(default_factory=Counter)
    cut: list[str] = field(default_factory=list)
    # A connection that the balancer closed while the client began to use it; asked again on a new one, and answered.
    stale: int = 0
    tool_calls: int = 0

    def faults(self) -> list[str]:
        found = [f"{len(self.unended)} streams without a terminal event: {self.unended[0]}"] if self.unended else []
        found += [f"{count} answers of {what}" for what, count in self.server_errors.items()]
        return found + ([f"{len(self.cut)} requests without an answer: {self.cut[0]}"] if self.cut else [])


class Traffic:
    def __init__(self, port: int, keys: list[str], tls: ssl.SSLContext, label: str):
        self.port, self.keys, self.tls, self.label = port, keys, tls, label
        self.counts = Counts()
        self.over = asyncio.Event()
        self.tasks: list[asyncio.Task] = []

    def start(self, streams: int, plain: int, tools: int, idle: int) -> None:
        kinds = [self._streams] * streams + [self._plain] * plain + [self._tools] * tools + [self._idle] * idle
        self.tasks = [asyncio.create_task(kind(self.keys[i % len(self.keys)])) for i, kind in enumerate(kinds)]

    async def stop(self) -> Counts:
        self.over.set()
        await asyncio.gather(*self.tasks)
        return self.counts

    # --- what clients do ------------------------------------------------------------------------------------

    async def _streams(self, key: str) -> None:
        await self._again(key, lambda: create(f"say {random.randint(5, 30)} 0.1", stream=True), 0.2)

    async def _plain(self, key: str) -> None:
        await self._again(key, lambda: create("say 2 0.05"), 0.3)

    async def _tools(self, key: str) -> None:
        tool = {"type": "mcp", "server_label": self.label}
        await self._again(key, lambda: create("call", tools=[tool], stream=random.random() < 0.5), 0.5)

    async def _idle(self, key: str) -> None:
        """A connection on which something is asked only now and then."""
        await self._again(key, lambda: create("say 1 0"), 8)

    async def _again(self, key: str, body, pause: float) -> None:
        client = Client(self.port, key, self.tls)
        while not self.over.is_set():
            await self.asked(client, body())
            try:
                await asyncio.wait_for(self.over.wait(), random.uniform(0.5, 1.5) * pause)
            except TimeoutError:
                pass
        client.close()

    async def asked(self, client: Client, body: dict, on_event=None) -> Reply | None:
        """Asks once, counts, and repeats only what met a connection that was closed while it was idle."""
        counts = self.counts
        for _ in range(2):
            try:
                reply = await client.ask("POST", "/v1/responses", body, on_event)
            except Cut as error:
                if error.stale:
                    counts.stale += 1
                    continue
                counts.cut.append(str(error))
                return None
            except TimeoutError:
                client.close()
                counts.cut.append("nothing within five minutes")
                return None
            counts.answers[reply.status] += 1
            if reply.status >= 500:
                counts.server_errors[f"{reply.status} {reply.code}".strip()] += 1
            elif body.get("stream") and reply.status == 200:
                counts.streams += 1
                counts.ends[reply.terminal] += 1
                if not reply.terminal:
                    counts.unended.append(f"{len(reply.events)} events, then {reply.cut or 'the end'}")
            counts.tool_calls += sum(item.get("type") == "mcp_call" for item in reply.json.get("output", []))
            counts.tool_calls += reply.events.count("response.mcp_call.completed")
            return reply
        counts.cut.append("two connections in a row were closed")
        return None


def create(text: str, **more) -> dict:
    return {"model": "m", "input": text, **more}


class Retrieval:
    """Asks for one stored response again and again, and counts the times that it was not there."""

    def __init__(self, port: int, key: str, identifier: str, tls: ssl.SSLContext | None = None):
        self.client, self.identifier = Client(port, key, tls), identifier
        self.times = 0
        self.missed: Counter = Counter()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            while True:
                try:
                    reply = await self.client.ask("GET", f"/v1/responses/{self.identifier}", timeout=10)
                    outcome = f"{reply.status} {reply.code}".strip()
                except (Cut, TimeoutError) as error:
                    outcome = str(error) or "nothing within 10 s"
                    if isinstance(error, Cut) and error.stale:
                        continue
                self.times += 1
                if outcome != "200":
                    self.missed[outcome] += 1
                await asyncio.sleep(0.1)
        finally:
            self.client.close()

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
