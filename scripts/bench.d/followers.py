"""One background stream and many followers: whether each gets all of it, and how late.

The provider writes the moment into each word. The delay of a word is from there until a follower has it; the gap at a follower is
between one time that it gets something and the next.
"""

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from pathlib import Path

from http1 import Client, Server, reply
from measured import Gateway, Scene, percentile
from upstream import chunk, framed

WORDS, PAUSE_MS = 600, 50
PROCESS = Path(__file__).with_name("follower_process.py")


class Paced(Server):
    """A provider that says a word at a time, as soon as it may."""

    def __init__(self, words: int, pause: float):
        super().__init__()
        self.words, self.pause, self.may_begin = words, pause, asyncio.Event()

    async def handle(self, method, path, headers, body, writer) -> None:
        if method == "GET":
            reply(writer, {"object": "list", "data": [{"id": "m", "object": "model"}]})
            return
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        writer.write(chunk({"role": "assistant"}))
        await self.may_begin.wait()
        begun = time.monotonic()
        for i in range(self.words):
            await asyncio.sleep(max(0.0, begun + i * self.pause - time.monotonic()))
            writer.write(chunk({"content": f"w{i}@{time.monotonic_ns()} "}))
        writer.write(chunk({}, "stop") + framed(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        await writer.drain()


async def run(options: argparse.Namespace, folder: Path) -> list[str]:
    words, pause = options.events or WORDS, PAUSE_MS if options.pause is None else options.pause
    scene = Scene(options.gateway, folder, Paced(words, pause / 1000))
    await scene.start(options.stores)
    faults = []
    for store in options.stores:
        scene.upstream.may_begin.clear()
        gateways = await scene.gateways(store, options.replicas if store == "postgres" else 1)
        faults += await follow(scene, store, gateways, options.clients, words)
        for each in gateways:
            await each.stop()
    return faults


async def follow(scene: Scene, store: str, gateways: list[Gateway], clients: int, words: int) -> list[str]:
    made = await Client(gateways[0].port).ask("POST", "/v1/responses", {"model": "m", "input": "go", "background": True})
    path = f"/v1/responses/{made.json['id']}?stream=true"
    processes = []
    for number, gateway in enumerate(gateways * (1 if len(gateways) > 1 else 2)):
        share = clients // (max(len(gateways), 2)) + (number < clients % max(len(gateways), 2))
        processes.append((gateway, await asyncio.create_subprocess_exec(
            sys.executable, PROCESS, str(gateway.port), path, str(share), stdout=asyncio.subprocess.PIPE, limit=1 << 24)))
    for _, process in processes:
        assert await process.stdout.readline() == b"all follow\n"
    before = sum(each.cpu for each in gateways)
    of_database = scene.database.cpu if store == "postgres" else 0.0
    scene.upstream.may_begin.set()
    results = [(gateway, json.loads(await process.stdout.readline())) for gateway, process in processes]
    used = sum(each.cpu for each in gateways) - before
    of_database = (scene.database.cpu if store == "postgres" else 0.0) - of_database
    stored = await Client(gateways[-1].port).ask("GET", path)
    faults = []
    delays, gaps = Counter(), Counter()
    for gateway, result in results:
        if result["words"] != {str(words): result["followers"]}:
            faults.append(f"{store}: followers at {gateway.name} have so many words: {result['words']}")
        if result["ends"] != {"response.completed": result["followers"]}:
            faults.append(f"{store}: the streams at {gateway.name} end so: {result['ends']}")
        delays.update({int(key): count for key, count in result["delays"].items()})
        gaps.update({int(key): count for key, count in result["gaps"].items()})
    if len(hashes := {each for _, result in results for each in result["hashes"]}) != 1:
        faults.append(f"{store}: followers have {len(hashes)} different streams")
    shares = lambda of: ", ".join(f"{name} {percentile(of, share)}" for name, share in
                                  [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1)])
    print(f"{store:9} {clients} followers on {len(gateways)} gateways, {len(stored.events)} events ({words} words): "
          f"delay ms {shares(delays)}; gap ms {shares(gaps)}; CPU {used:.1f} s of the gateways, {of_database:.1f} s of the database",
          flush=True)
    return faults
