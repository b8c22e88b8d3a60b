"""Background runs, alone and in conversations, while everything that they stand on is killed, frozen or out of service."""

import asyncio
import random
import time

from checks import Checks
from clients import Clients
from conversations import Conversation
from harm import CRASH, Destruction
from probes import Probes

# One conversation for so many runs. Its runs are shorter, as they are made one after the other.
RUNS_PER_CONVERSATION = 25
QUEUED = 4, 6
TURNS_IN_CONVERSATION = 2


class Chaos:
    def __init__(self, scene, seed: int):
        self.scene = scene
        self.clients = Clients(scene.replicas, seed)
        self.probes = Probes(scene.options.outages)
        self.destruction = Destruction(scene.replicas, scene.database, scene.nats, self.probes, seed)
        self.shapes = random.Random(f"shapes {seed}")
        self.conversations: list[Conversation] = []
        self.faults: list[str] = []

    async def run(self, runs: int, turns: int, seconds: float, outages: int) -> dict:
        sizes = [self.shapes.randint(*QUEUED) for _ in range(runs // RUNS_PER_CONVERSATION)]
        alone = runs - sum(sizes)
        self.conversations = [Conversation(f"c{i}", size) for i, size in enumerate(sizes)]
        begun = time.monotonic()
        destruction = asyncio.create_task(self.destruction.go_on(seconds, outages))
        # The first run is what probes read.
        first = await self.clients.submit("r0", turns)
        self.probes.known = first.id if first else ""
        await asyncio.gather(
            *(self.alone(i, turns, seconds * i / alone) for i in range(1, alone)),
            *(each.queue(self.clients, TURNS_IN_CONVERSATION, seconds * i / len(sizes)) for i, each in enumerate(self.conversations)),
        )
        await asyncio.sleep(max(0, begun + seconds - time.monotonic()))
        self.destruction.is_over = True
        await destruction
        await self.all_ready()
        checks = Checks(self.scene, self.clients, self.destruction.harms)
        figures = await checks.run(self.conversations)
        if outages:
            await self.destruction.outage_at_rest()
        self.faults = [*self.clients.faults, *self.destruction.faults, *self.probes.faults, *checks.faults]
        harms = self.destruction.harms
        return {
            **figures,
            **dict(sorted(harms.counts().items())),
            "longest crash of PostgreSQL": f"{harms.longest(CRASH):.1f} s",
            "frozen within a transaction": self.destruction.in_transactions,
            "freezes after which leases were looked at": self.destruction.looked_at,
            **(self.probes.figures() if outages else {}),
        }

    async def alone(self, number: int, turns: int, delay: float) -> None:
        await asyncio.sleep(delay)
        run = await self.clients.submit(f"r{number}", turns)
        if run and number % 2:
            await self.clients.follow(run)

    async def all_ready(self) -> None:
        while not all([await each.ready() for each in self.scene.replicas]):
            await asyncio.sleep(0.1)
