"""Mixed load on a fleet for a long time: memory must not grow, and open files neither."""

import asyncio
import json
import random
import time
from collections import Counter
from pathlib import Path

import svg
from clients import KEY
from http1 import Client, Cut
from processes import say
from servers import Postgres, Replica, Sqlite

SAMPLE_SECONDS = 10


class Soak:
    def __init__(self, replicas: list[Replica], database: Postgres | Sqlite, seconds: float, concurrency: int):
        self.replicas, self.database = replicas, database
        self.seconds, self.concurrency = seconds, concurrency
        self.faults: list[str] = []
        self.done: Counter[str] = Counter()
        self.latencies: list[float] = []
        self.samples: list[dict] = []
        self.until = 0.0

    async def run(self) -> dict:
        self.until = time.monotonic() + self.seconds
        sampling = asyncio.create_task(self.sample())
        await asyncio.gather(*(self.client(i) for i in range(self.concurrency)))
        await sampling
        return {**{f"requests: {kind}": count for kind, count in sorted(self.done.items())}, **self.compare()}

    async def client(self, number: int) -> None:
        dice = random.Random(number)
        kinds = [self.json, self.stream, self.disconnect, self.tools, self.chain, self.background]
        while time.monotonic() < self.until:
            kind = dice.choices(kinds, [8, 6, 2, 3, 3, 2])[0]
            connection = Client(dice.choice(self.replicas).port, KEY)
            try:
                await kind(connection, f"{number}-{self.done.total()}")
                self.done[kind.__name__] += 1
            except (Cut, TimeoutError, AssertionError) as error:
                self.faults.append(f"{kind.__name__}: {error}")
            finally:
                connection.close()
            await asyncio.sleep(0.02)

    async def ask(self, client: Client, body: dict, **options):
        reply = await client.ask("POST", "/v1/responses", {"model": "m", **body}, timeout=60, **options)
        assert reply.status == 200, (reply.status, reply.body[:300])
        return reply

    async def json(self, client: Client, _name: str) -> str:
        begun = time.monotonic()
        reply = await self.ask(client, {"input": "say 5 0"})
        self.latencies.append(time.monotonic() - begun)
        assert reply.json["status"] == "completed", reply.json["status"]
        return reply.json["id"]

    async def stream(self, client: Client, _name: str) -> None:
        reply = await self.ask(client, {"input": "say 50 0.01", "stream": True})
        assert reply.terminal == "response.completed", reply.terminal

    async def disconnect(self, client: Client, _name: str) -> None:
        """A client that goes in the middle of its stream."""
        try:
            await client.ask("POST", "/v1/responses", {"model": "m", "input": "say 1000 0.01", "stream": True}, timeout=0.5)
        except TimeoutError:
            pass

    async def tools(self, client: Client, name: str) -> None:
        tools = [{"type": "mcp", "server_label": "work"}]
        reply = await self.ask(client, {"input": f"work soak-{name} 2 0", "stream": True, "tools": tools})
        assert reply.terminal == "response.completed", reply.terminal

    async def chain(self, client: Client, name: str) -> None:
        previous = await self.json(client, name)
        for _ in range(3):
            reply = await self.ask(client, {"input": "say 5 0", "previous_response_id": previous})
            previous = reply.json["id"]
        assert (await client.ask("DELETE", f"/v1/responses/{previous}")).status == 200

    async def background(self, client: Client, name: str) -> None:
        tools = [{"type": "mcp", "server_label": "work"}]
        reply = await self.ask(client, {"input": f"work soak-{name} 2 0", "background": True, "tools": tools})
        followed = await client.ask("GET", f"/v1/responses/{reply.json['id']}?stream=true", timeout=60)
        assert followed.terminal == "response.completed", (followed.status, followed.terminal)

    async def sample(self) -> None:
        begun = time.monotonic()
        while time.monotonic() < self.until:
            await asyncio.sleep(SAMPLE_SECONDS)
            latencies, self.latencies = sorted(self.latencies), []
            self.samples.append({
                "seconds": round(time.monotonic() - begun),
                "rss": [round(each.memory, 1) for each in self.replicas],
                "files": [each.files for each in self.replicas],
                "p99_ms": round(1000 * latencies[len(latencies) * 99 // 100], 1) if latencies else None,
                "requests": self.done.total(),
            })
            if len(self.samples) % 6 == 0:
                say(json.dumps(self.samples[-1]))

    def compare(self) -> dict:
        """The end against minute five, or against the first third of a short run."""
        at = min(300, self.seconds / 3)
        early = next(sample for sample in self.samples if sample["seconds"] >= at)
        late, faults = self.samples[-1], len(self.faults)
        for before, after in zip(early["rss"], late["rss"]):
            if after > before * 1.1:
                self.faults.append(f"resident memory grew from {before} to {after} MiB")
        for before, after in zip(early["files"], late["files"]):
            # Each client has a connection at most, and each of its requests one to the model and one to the tool.
            if after > before + 3 * self.concurrency:
                self.faults.append(f"open files grew from {before} to {after}")
        is_flat = len(self.faults) == faults
        return {
            f"RSS after {early['seconds']} s": f"{early['rss']} MiB",
            f"RSS after {late['seconds']} s": f"{late['rss']} MiB",
            "open files": f"{early['files']} -> {late['files']}",
            "p99 of JSON": f"{early['p99_ms']} -> {late['p99_ms']} ms",
            "memory and open files": "flat" if is_flat else "not flat",
        }

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "soak.json").write_text("[\n" + ",\n".join(json.dumps(sample) for sample in self.samples) + "\n]\n")
        series = {
            each.name: [(sample["seconds"] / 60, sample["rss"][i]) for sample in self.samples]
            for i, each in enumerate(self.replicas)
        }
        (folder / "soak-rss.svg").write_text(svg.lines(series, "minutes", "resident memory, MiB"))
