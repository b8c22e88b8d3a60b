"""Clients of a fleet: they ask replicas until one answers, and know which runs were acknowledged."""

import asyncio
import json
import random
import time
from dataclasses import dataclass, field

from http1 import Client, Cut, Reply
from servers import Replica

TERMINAL = {"completed", "failed", "incomplete", "cancelled"}
KEY = "sk-fleet"
# A client does not wait for a replica that is frozen: it asks another one.
PATIENCE = 3.0
# A follower of such a replica resumes its stream at another one.
FOLLOWED = 12.0


@dataclass
class Accepted:
    """A run whose create was acknowledged."""

    id: str
    name: str
    turns: int
    # The frames that a follower has got, in order.
    frames: list[bytes] = field(default_factory=list)
    cuts: int = 0


class Clients:
    def __init__(self, replicas: list[Replica], seed: int):
        self.replicas = replicas
        self.random = random.Random(f"clients {seed}")
        self.accepted: list[Accepted] = []
        self.faults: list[str] = []
        self.timeouts = 0

    async def ask(self, method: str, path: str, body: dict | None = None, key: str = "", until: float = 180) -> Reply | None:
        """Asks replicas until one answers with a status that is not its failure."""
        deadline = time.monotonic() + until
        while time.monotonic() < deadline:
            client = Client(self.random.choice(self.replicas).port, KEY)
            try:
                reply = await client.ask(method, path, body, timeout=PATIENCE, more={"idempotency-key": key} if key else {})
                if reply.status < 500 and reply.status not in (409, 429):
                    return reply
            except TimeoutError:
                self.timeouts += 1
            except Cut:
                pass
            finally:
                client.close()
            await asyncio.sleep(0.2)
        return None

    async def submit(self, name: str, turns: int, more: dict | None = None) -> Accepted | None:
        """A background run of so many turns, each with a call of the tool, and the words that end it."""
        tools = [{"type": "mcp", "server_label": "work"}]
        body = {"model": "m", "input": f"work {name} {turns} 0.05", "background": True, "tools": tools, **(more or {})}
        reply = await self.ask("POST", "/v1/responses", body, key=f"run-{name}")
        if not reply or reply.status != 200:
            self.faults.append(f"run {name} was not accepted: {reply and (reply.status, reply.body[:300])}")
            return None
        self.accepted.append(run := Accepted(reply.json["id"], name, turns))
        return run

    async def follow(self, run: Accepted) -> None:
        """Follows a run from one replica, or another, to its end."""
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            client = Client(self.random.choice(self.replicas).port, KEY)
            after = f"&starting_after={sequence_number(run.frames[-1])}" if run.frames else ""
            path = f"/v1/responses/{run.id}?stream=true{after}"
            try:
                reply = await client.ask("GET", path, timeout=FOLLOWED, on_frame=run.frames.append)
                if reply.status == 200 and reply.done and not reply.cut:
                    return
                if reply.status == 410 and reply.code == "stream_expired":
                    return  # what is kept of it is looked at when it has ended
                run.cuts += reply.status == 200
            except (Cut, TimeoutError):
                run.cuts += 1
            finally:
                client.close()
            await asyncio.sleep(0.2)
        self.faults.append(f"{run.id} was not followed to its end")


def sequence_number(frame: bytes) -> int:
    data = next(line[6:] for line in frame.split(b"\n") if line.startswith(b"data: "))
    return json.loads(data)["sequence_number"]
