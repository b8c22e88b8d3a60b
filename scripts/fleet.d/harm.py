"""What is done to a fleet: replicas are killed and frozen, NATS is killed, and PostgreSQL crashes or is out of service."""

import asyncio
import math
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass

from probes import Probes
from processes import Failed, say
from servers import Nats, Postgres, Replica

DATABASE = "postgres"
KILL, FREEZE, CRASH, NATS = "replicas killed", "replicas frozen", "PostgreSQL crashed", "NATS killed"
STAND_STILL, SHUTDOWN = "PostgreSQL stood still", "PostgreSQL shut down"
# The lease of a run is 6 s (`servers.configuration`): whoever is frozen for so long has lost its runs.
FROZEN = 9.0, 12.5
# What a frozen replica has made is taken over so long after its lease: queues are looked at every two seconds.
OVERDUE = 3.0
# A crash is over before leases end. If it lasts longer, as the machine is slow, it is an outage like others.
OUTAGE = 3.0
# After a crash the queue is looked at again within this time.
RECOVERED = 5.0
# Longer than whatever a replica does about an outage may take.
AT_REST = 25.0
# Looks for a moment in which a replica has runs locked, and the pause between two.
LOOKS, PAUSE = 60, 0.01


@dataclass
class Harm:
    """What was done to one process, and from when until when it did not serve."""

    kind: str
    whom: str
    begun: float
    ended: float = math.inf


class Harms(list[Harm]):
    def touched(self, whom: str, begun: float, ended: float, least: float = 0.0) -> bool:
        """Whether something was done to this one in that time, which lasted so long at least."""
        return any(harm.whom == whom and harm.begun <= ended and harm.ended >= max(begun, harm.begun + least) for harm in self)

    def returned(self, whom: str, at: float) -> bool:
        """Whether it came back shortly before, so that it has perhaps lost its leases and is superseded a little later."""
        kinds = FREEZE, STAND_STILL, SHUTDOWN
        return any(harm.whom == whom and harm.kind in kinds and harm.ended <= at <= harm.ended + RECOVERED for harm in self)

    def longest(self, kind: str) -> float:
        return max((harm.ended - harm.begun for harm in self if harm.kind == kind), default=0.0)

    def begin(self, kind: str, whom: str) -> Harm:
        self.append(harm := Harm(kind, whom, time.monotonic()))
        return harm

    def counts(self) -> Counter[str]:
        return Counter(harm.kind for harm in self)


class Destruction:
    """Its decisions depend on the seed, and on nothing that happens."""

    def __init__(self, replicas: list[Replica], database: Postgres, nats: Nats | None, probes: Probes, seed: int):
        self.replicas, self.database, self.nats, self.probes = replicas, database, nats, probes
        self.random, self.outages = random.Random(f"destruction {seed}"), random.Random(f"outages {seed}")
        self.harms = Harms()
        self.faults: list[str] = []
        self.frozen: dict[Replica, asyncio.Task] = {}
        self.in_transactions = self.looked_at = 0
        self.is_over = False

    async def go_on(self, seconds: float, outages: int) -> None:
        """Until all is over, and the outages were. They are spread over these seconds: every other time PostgreSQL stands still."""
        begun, done = time.monotonic(), 0
        while not self.is_over or done < outages:
            await asyncio.sleep(self.random.uniform(1, 3))
            if done < outages and time.monotonic() - begun >= seconds * (done + 1) / (outages + 1):
                done += 1
                await self.outage(done % 2 == 1)
                continue
            # The same numbers are taken whatever is done with them.
            kind = self.random.choices([KILL, FREEZE, CRASH, NATS], [5, 3, 1, 1])[0]
            victim, pause = self.random.randrange(len(self.replicas)), self.random.random()
            if kind == CRASH:
                harm = self.harms.begin(CRASH, DATABASE)
                await self.database.restart()
                harm.ended = time.monotonic()
            elif kind == NATS and self.nats:
                harm = self.harms.begin(NATS, self.nats.name)
                await self.nats.restart()
                harm.ended = time.monotonic()
            elif kind == FREEZE and not self.frozen:
                await self.freeze(self.replicas[victim], FROZEN[0] + pause * (FROZEN[1] - FROZEN[0]))
            else:
                await self.kill(self.upright(victim), pause)
        await asyncio.gather(*self.frozen.values())

    def upright(self, number: int) -> Replica:
        """That one, or the next one if it is frozen. One is frozen at a time."""
        victim = self.replicas[number]
        return self.replicas[(number + 1) % len(self.replicas)] if victim in self.frozen else victim

    async def kill(self, victim: Replica, pause: float) -> None:
        harm = self.harms.begin(KILL, victim.name)
        victim.kill()
        await asyncio.sleep(pause)
        victim.launch()
        harm.ended = time.monotonic()

    async def freeze(self, victim: Replica, seconds: float) -> None:
        """Stops a replica, within a transaction that has runs locked if there is such a moment soon; others go on meanwhile."""
        harm = self.harms.begin(FREEZE, victim.name)
        is_within = False
        for _ in range(LOOKS):
            victim.signal(signal.SIGSTOP)
            # What it had sent before is done at the second look.
            is_within = await self.locks_runs(victim) and await self.locks_runs(victim)
            if is_within:
                break
            victim.signal(signal.SIGCONT)
            await asyncio.sleep(PAUSE)
        self.in_transactions += is_within
        victim.signal(signal.SIGSTOP)
        self.frozen[victim] = asyncio.create_task(self.thaw(victim, harm, seconds))

    async def locks_runs(self, victim: Replica) -> bool:
        try:
            return await asyncio.to_thread(self.database.locks_runs, victim.name)
        except Failed:
            return False  # the database is not there

    async def thaw(self, victim: Replica, harm: Harm, seconds: float) -> None:
        begun = time.monotonic()
        try:
            await asyncio.sleep(seconds)
            await self.look_at_leases(victim, begun)
        finally:
            victim.signal(signal.SIGCONT)
            harm.ended = time.monotonic()
            del self.frozen[victim]

    async def look_at_leases(self, victim: Replica, begun: float) -> None:
        """Others have taken over what it was making, unless there was none of them, or no database."""
        now = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
        where = f"instance LIKE '%:{victim.port}/%' AND lease_until < {now} - {OVERDUE * 1000:.0f}"
        try:
            left = await asyncio.to_thread(self.database.ask, f"SELECT count(*) FROM runs WHERE {where}")
        except Failed:
            return
        touched, recently = self.harms.touched, time.monotonic() - RECOVERED
        if touched(DATABASE, recently, math.inf) or touched(DATABASE, begun, math.inf, OUTAGE):
            return
        if all(touched(each.name, recently + OVERDUE, math.inf) for each in self.replicas):
            return
        self.looked_at += 1
        if left != "0":
            self.faults.append(f"{left} runs of {victim.name} were not taken over {OVERDUE:g} s after their leases, while it was frozen")

    async def outage(self, is_freeze: bool) -> None:
        """PostgreSQL stands still, or is down; in half of the cases a replica is killed meanwhile. Another is asked all the time."""
        seconds, kills = self.outages.uniform(5, 20) if is_freeze else self.outages.uniform(3, 10), self.outages.random() < 0.5
        number, pause = self.outages.randrange(len(self.replicas)), self.outages.random()
        asked = self.upright(number)
        say(f"PostgreSQL {'stands still' if is_freeze else 'is down'} for {seconds:.1f} s")
        harm = self.harms.begin(STAND_STILL if is_freeze else SHUTDOWN, DATABASE)
        probing = asyncio.create_task(self.probes.ask(asked, seconds))
        if kills and (victim := self.upright((number + 1) % len(self.replicas))) is not asked:
            await asyncio.gather(self.out_of_service(is_freeze, seconds), self.kill(victim, pause))
        else:
            await self.out_of_service(is_freeze, seconds)
        harm.ended = time.monotonic()
        await probing

    async def outage_at_rest(self) -> None:
        """When nothing goes on: no write has found out before the first create that PostgreSQL stands still."""
        harm = self.harms.begin(STAND_STILL, DATABASE)
        await asyncio.gather(self.database.stand_still(AT_REST), self.probes.ask(self.replicas[0], AT_REST))
        harm.ended = time.monotonic()

    async def out_of_service(self, is_freeze: bool, seconds: float) -> None:
        await (self.database.stand_still(seconds) if is_freeze else self.database.be_down(seconds))
