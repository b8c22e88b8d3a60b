"""Background runs while everything that they stand on is killed, and what must be true of them afterwards."""

import asyncio
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field

from http1 import Client, Cut
from processes import say
from servers import Nats, Postgres, Replica
from upstreams import Hooks, Tool

TERMINAL = {"completed", "failed", "incomplete", "cancelled"}
KEY = "sk-fleet"


@dataclass
class Accepted:
    """A run whose create was acknowledged."""

    id: str
    # The frames that a follower has got, in order.
    frames: list[bytes] = field(default_factory=list)
    cuts: int = 0


class Chaos:
    def __init__(self, replicas: list[Replica], database: Postgres, nats: Nats | None, tool: Tool, hooks: Hooks, seed: int):
        self.replicas, self.database, self.nats, self.tool, self.hooks = replicas, database, nats, tool, hooks
        self.random = random.Random(seed)
        self.accepted: list[Accepted] = []
        self.killed: Counter[str] = Counter()
        self.faults: list[str] = []
        self.is_over = False

    async def run(self, runs: int, turns: int, seconds: float) -> dict:
        destruction = asyncio.create_task(self.destroy())
        begun = time.monotonic()
        await asyncio.gather(*(self.one(i, turns, seconds * i / runs) for i in range(runs)))
        await asyncio.sleep(max(0, begun + seconds - time.monotonic()))
        self.is_over = True
        await destruction
        figures = await self.check()
        return {**figures, **{f"{name} killed": count for name, count in sorted(self.killed.items())}}

    async def destroy(self) -> None:
        while not self.is_over:
            await asyncio.sleep(self.random.uniform(1, 3))
            kind = self.random.choices(["replica", "postgres", "nats"], [6, 1, 1])[0]
            if kind == "postgres":
                await self.database.restart()
            elif kind == "nats" and self.nats:
                await self.nats.restart()
            else:
                kind = "replica"
                victim = self.random.choice(self.replicas)
                victim.kill()
                await asyncio.sleep(self.random.uniform(0, 1))
                victim.launch()
            self.killed[kind] += 1

    async def ask(self, method: str, path: str, body: dict | None = None, key: str = "", until: float = 120):
        """Asks replicas until one answers with a status that is not its failure."""
        deadline = time.monotonic() + until
        while time.monotonic() < deadline:
            client = Client(self.random.choice(self.replicas).port, KEY)
            try:
                reply = await client.ask(method, path, body, timeout=15, more={"idempotency-key": key} if key else {})
                if reply.status < 500 and reply.status not in (409, 429):
                    return reply
            except (Cut, TimeoutError):
                pass
            finally:
                client.close()
            await asyncio.sleep(0.2)
        return None

    async def one(self, number: int, turns: int, delay: float) -> None:
        await asyncio.sleep(delay)
        body = {"model": "m", "input": f"work r{number} {turns} 0.05", "background": True, "tools": [{"type": "mcp", "server_label": "work"}]}
        reply = await self.ask("POST", "/v1/responses", body, key=f"run-{number}")
        if not reply or reply.status != 200:
            self.faults.append(f"run {number} was not accepted: {reply and (reply.status, reply.body[:300])}")
            return
        accepted = Accepted(reply.json["id"])
        self.accepted.append(accepted)
        if number % 2:
            await self.follow(accepted)

    async def follow(self, run: Accepted) -> None:
        """Follows a run from one replica, or another, to its end."""
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline:
            client = Client(self.random.choice(self.replicas).port, KEY)
            after = f"&starting_after={sequence_number(run.frames[-1])}" if run.frames else ""
            try:
                reply = await client.ask("GET", f"/v1/responses/{run.id}?stream=true{after}", timeout=60, on_frame=run.frames.append)
                if reply.status == 200 and reply.done and not reply.cut:
                    return
            except (Cut, TimeoutError):
                pass
            finally:
                client.close()
            run.cuts += 1
            await asyncio.sleep(0.1)
        self.faults.append(f"{run.id} was not followed to its end")

    async def check(self) -> dict:
        for each in self.replicas:
            if not each.alive:
                each.launch()
        while not all([await each.ready() for each in self.replicas]):
            await asyncio.sleep(0.1)
        deadline = time.monotonic() + 180
        statuses: Counter[str] = Counter()
        for run in self.accepted:
            status, code = await self.terminal_status(run, deadline)
            statuses[f"{status}: {code}" if code else status] += 1
            # Whoever is killed with a run for the third time leaves it failed.
            if status != "completed" and code != "run_attempts_exhausted":
                self.faults.append(f"{run.id} is {status}: {code}")
            await self.check_events(run, status)
        await self.check_hooks(deadline)
        for call, count in self.tool.calls.items():
            if count > 1:
                self.faults.append(f"the tool was called {count} times for {call}")
        return {
            "runs accepted": len(self.accepted),
            **{f"runs {status}": count for status, count in sorted(statuses.items())},
            "calls of the tool": sum(self.tool.calls.values()),
            "calls made twice": sum(count > 1 for count in self.tool.calls.values()),
            "streams followed": sum(bool(run.frames) for run in self.accepted),
            "streams cut and resumed": sum(run.cuts for run in self.accepted),
            "webhooks delivered": self.hooks.deliveries,
        }

    async def terminal_status(self, run: Accepted, deadline: float) -> tuple[str, str]:
        """The status, and the code of the error of a failed run."""
        while True:
            reply = await self.ask("GET", f"/v1/responses/{run.id}")
            if not reply or reply.status != 200:
                self.faults.append(f"{run.id} was acknowledged and is missing: {reply and reply.status}")
                return "missing", ""
            if (status := reply.json["status"]) in TERMINAL:
                return status, (reply.json.get("error") or {}).get("code", "")
            if time.monotonic() > deadline:
                self.faults.append(f"{run.id} has not ended: {status}")
                return status, ""
            await asyncio.sleep(0.2)

    async def check_events(self, run: Accepted, status: str) -> None:
        """The stored stream has no gap and one end, and what a follower got is a beginning of it, byte for byte."""
        whole: list[bytes] = []
        client = Client(self.random.choice(self.replicas).port, KEY)
        try:
            await client.ask("GET", f"/v1/responses/{run.id}?stream=true", timeout=60, on_frame=whole.append)
        except (Cut, TimeoutError) as error:
            self.faults.append(f"{run.id}: its events cannot be read: {error}")
            return
        finally:
            client.close()
        numbers = [sequence_number(frame) for frame in whole]
        if numbers != list(range(len(numbers))):
            self.faults.append(f"{run.id}: sequence numbers {numbers[:5]}… have gaps")
        ends = [frame for frame in whole if any(f"event: response.{end}\n".encode() in frame for end in ("completed", "failed", "incomplete"))]
        if len(ends) != 1 or ends[0] is not whole[-1]:
            self.faults.append(f"{run.id}: {len(ends)} terminal events, status {status}")
        if run.frames and run.frames != whole:
            self.faults.append(f"{run.id}: a follower got {len(run.frames)} frames that are not the {len(whole)} stored ones")

    async def check_hooks(self, deadline: float) -> None:
        while (missing := [run.id for run in self.accepted if run.id not in self.hooks.ids]) and time.monotonic() < deadline:
            await asyncio.sleep(0.5)
        for id in missing:
            self.faults.append(f"{id}: no webhook came")
        for id, events in self.hooks.ids.items():
            if len(events) != 1:
                self.faults.append(f"{id}: webhooks of {len(events)} events: {events}")
        if self.hooks.wrong:
            self.faults.append(f"{self.hooks.wrong} webhooks had a wrong signature")


def sequence_number(frame: bytes) -> int:
    data = next(line[6:] for line in frame.split(b"\n") if line.startswith(b"data: "))
    return json.loads(data)["sequence_number"]
