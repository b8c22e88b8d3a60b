"""Many background responses that wait: how they drain, and how long the claims of the first and the last ones take."""

import argparse
import asyncio
import sqlite3
import time
from pathlib import Path

from http1 import Client, Server, reply
from processes import Failed, say
from measured import Gateway, Scene
from upstream import chunk, framed

SUBMITTERS, PARTS = 32, 10
SAMPLE_SECONDS = 0.25
# The statements of claims, of all gateways: those that lock runs that wait, and those that take them; and all statements.
SPENT = """SELECT coalesce(sum(calls) FILTER (WHERE is_claim), 0), coalesce(sum(total_exec_time) FILTER (WHERE is_claim), 0),
    sum(total_exec_time) FROM (SELECT calls, total_exec_time,
        query LIKE '%FOR UPDATE SKIP LOCKED%' OR query LIKE 'WITH sized AS%' AS is_claim FROM pg_stat_statements) statements"""
ANSWER = b"".join([
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    chunk({"role": "assistant"}), chunk({"content": "done"}), chunk({}, "stop"), framed(b"data: [DONE]\n\n"), b"0\r\n\r\n",
])


class Gated(Server):
    """A provider that answers nobody before it may, and then at once."""

    def __init__(self):
        super().__init__()
        self.may_answer = asyncio.Event()

    async def handle(self, method, path, headers, body, writer) -> None:
        if method == "GET":
            reply(writer, {"object": "list", "data": [{"id": "m", "object": "model"}]})
            return
        await self.may_answer.wait()
        writer.write(ANSWER)


async def run(options: argparse.Namespace, folder: Path) -> list[str]:
    scene = Scene(options.gateway, folder, Gated())
    await scene.start(options.stores, shared_preload_libraries="pg_stat_statements")
    if scene.database:
        scene.database.ask("CREATE EXTENSION pg_stat_statements")
    faults = []
    for store in options.stores:
        scene.upstream.may_answer.clear()
        gateways = await scene.gateways(store, options.replicas if store == "postgres" else 1)
        await submit(gateways, options.jobs)
        faults += await drain(scene, store, gateways, options.jobs)
        for each in gateways:
            await each.stop()
    return faults


async def submit(gateways: list[Gateway], count: int) -> None:
    left = iter(range(count))
    begun = time.monotonic()

    async def submitter(number: int) -> None:
        client = Client(gateways[number % len(gateways)].port)
        for _ in left:
            answer = await client.ask("POST", "/v1/responses", {"model": "m", "input": "go", "background": True})
            if answer.status != 200:
                raise Failed(f"{answer.status}: {answer.body[:300]}")

    await asyncio.gather(*(submitter(number) for number in range(SUBMITTERS)))
    say(f"{count} responses queued in {time.monotonic() - begun:.1f} s")


async def drain(scene: Scene, store: str, gateways: list[Gateway], count: int) -> list[str]:
    """Lets the provider answer; prints how each tenth of the responses was completed."""
    samples = []
    url = gateways[0].config["store"]["url"]
    cpu = sum(each.cpu for each in gateways)
    scene.upstream.may_answer.set()
    begun = time.monotonic()
    while True:
        left = await asyncio.to_thread(left_of, scene, url)
        spent = await asyncio.to_thread(spent_by, scene) if store == "postgres" else ()
        samples.append((count - left, time.monotonic() - begun, *spent))
        if not left:
            break
        if time.monotonic() - begun > 600:
            return [f"{store}: {left} responses wait after ten minutes"]
        await asyncio.sleep(SAMPLE_SECONDS)
    cpu = sum(each.cpu for each in gateways) - cpu
    done = ask(scene, url, "SELECT status, count(*), min(finished_at), max(finished_at) FROM responses GROUP BY status")
    say(f"{store}: {done}")
    times = [int(row[0]) for row in ask(scene, url, "SELECT finished_at FROM responses ORDER BY finished_at")]
    print(f"{store:9} {count} on {len(gateways)} gateways in {samples[-1][1]:.1f} s, {1000 * cpu / count:.2f} ms of CPU each")
    size = count // PARTS
    for part in range(PARTS):
        of = times[part * size : (part + 1) * size]
        line = f"          {part * size:6} to {(part + 1) * size:6}: {1000 * (size - 1) / max(of[-1] - of[0], 1):7.0f}/s"
        if store == "postgres":
            line += claim_of(samples, part * size, (part + 1) * size)
        print(line, flush=True)
    completed = sum(int(row[1]) for row in done if row[0] == "completed")
    return [] if completed == count else [f"{store}: {completed} of {count} completed"]


def claim_of(samples: list[tuple], first: int, last: int) -> str:
    """What the database has done between the samples around these responses."""
    before = max((sample for sample in samples if sample[0] <= first), key=lambda sample: sample[1], default=samples[0])
    after = next(sample for sample in samples if sample[0] >= last)
    done, _, calls, spent, total = (later - earlier for later, earlier in zip(after, before))
    return f"; {calls:4.0f} statements of claims, {spent / max(calls, 1):.3f} ms each; all statements {total / max(done, 1):.3f} ms a response"


def spent_by(scene: Scene) -> tuple[float, ...]:
    return tuple(float(figure) for figure in scene.database.ask(SPENT).split("|"))


def left_of(scene: Scene, url: str) -> int:
    return int(ask(scene, url, "SELECT count(*) FROM runs")[0][0])


def ask(scene: Scene, url: str, statement: str) -> list[tuple]:
    if url.startswith("sqlite:"):
        connection = sqlite3.connect(f"file:{url.removeprefix('sqlite:')}?mode=ro", uri=True)
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()
    return [tuple(line.split("|")) for line in scene.database.ask(statement, url.rsplit("/", 1)[1]).splitlines()]
