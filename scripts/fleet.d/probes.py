"""How long a replica takes to answer while its database does not: whatever it says, it says it in time."""

import asyncio
import time
from collections import Counter

from clients import KEY
from http1 import Client, Cut
from servers import Replica

# Seconds within which reads and creates are answered.
BOUNDS = {"read": 10, "create": 15}
# A probe waits longer than it may, so that the figures tell by how much a bound was missed.
WAIT = 60
EVERY = 1.0


def new_keys(outages: int) -> dict[str, dict]:
    """Keys that nobody has used before, one for each outage and the one at the end, as the configuration has them."""
    return {f"new-{i}": {"key": f"sk-new-{i}"} for i in range(outages + 1)}


class Probes:
    def __init__(self, outages: int):
        self.new_keys = (each["key"] for each in new_keys(outages).values())
        # What is read: a run that was acknowledged.
        self.known = ""
        self.longest = dict.fromkeys(BOUNDS, 0.0)
        self.answers: Counter[str] = Counter()
        self.faults: list[str] = []

    async def ask(self, replica: Replica, seconds: float) -> None:
        """Asks all that there is to ask every second, as long as the database is away. The first creates are those of
        somebody of whom the replica knows nothing."""
        until, creator = time.monotonic() + seconds, next(self.new_keys)
        work = {"model": "m", "input": "say 5 0"}
        asked = []
        while time.monotonic() < until:
            for kind, key, method, path, body in [
                ("read", KEY, "GET", f"/v1/responses/{self.known}", None),
                ("read", KEY, "GET", "/v1/responses?limit=20", None),
                ("create", creator, "POST", "/v1/responses", work),
                ("create", creator, "POST", "/v1/responses", {**work, "background": True}),
                ("create", creator, "POST", "/v1/conversations", {}),
            ]:
                asked.append(asyncio.create_task(self.one(replica, key, kind, method, path, body)))
            creator = KEY
            await asyncio.sleep(EVERY)
        took = await asyncio.gather(*asked)
        for kind, bound in BOUNDS.items():
            late = [seconds for which, seconds in took if which == kind and seconds > bound]
            if late:
                most = f"{max(late):.2f} s at most"
                self.faults.append(f"{len(late)} {kind}s of {replica.name} took more than {bound} s without its database, {most}")

    async def one(self, replica: Replica, key: str, kind: str, method: str, path: str, body: dict | None = None) -> tuple[str, float]:
        client, begun = Client(replica.port, key), time.monotonic()
        try:
            reply = await client.ask(method, path, body, timeout=WAIT)
            self.answers[f"{kind}s answered {reply.status} {reply.code}".strip()] += 1
        except (Cut, TimeoutError) as error:
            self.faults.append(f"{replica.name} did not answer {method} {path.split('?')[0]}: {error!r}")
        finally:
            client.close()
        took = time.monotonic() - begun
        self.longest[kind] = max(self.longest[kind], took)
        return kind, took

    def figures(self) -> dict:
        longest = {f"longest {kind} in an outage": f"{seconds:.2f} s" for kind, seconds in self.longest.items()}
        return {**longest, **{f"{answer} in an outage": count for answer, count in sorted(self.answers.items())}}
