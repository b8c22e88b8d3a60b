"""How fast a finished stream is sent again: bytes per second, and per second of the gateway's CPU."""

import argparse
import asyncio
import json
import sys
from pathlib import Path

from http1 import Client
from processes import Failed
from measured import Gateway, Kit, Scene

EVENTS, PAUSE_MS = 2000, 2
CONNECTIONS = [1, 4]
READER = Path(__file__).with_name("stream_reader.py")


async def run(options: argparse.Namespace, folder: Path) -> list[str]:
    scene = Scene(options.gateway, folder, Kit(folder))
    await scene.start(options.stores)
    events, pause = options.events or EVENTS, PAUSE_MS if options.pause is None else options.pause
    for store in options.stores:
        [gateway] = await scene.gateways(store)
        path = await finished_stream(gateway, events, pause)
        for connections in CONNECTIONS:
            await measure(scene, store, gateway, path, connections, options.seconds)
        await gateway.stop()
    return []


async def finished_stream(gateway: Gateway, words: int, pause: int) -> str:
    """Has a background stream made, and returns where it is read again."""
    model = f"text-{words}" + (f"-{pause * 1000}us" if pause else "")
    made = await Client(gateway.port).ask("POST", "/v1/responses", {"model": model, "input": "go", "background": True, "stream": True})
    id = (await Client(gateway.port).ask("GET", "/v1/responses?limit=1")).json["data"][0]["id"]
    path = f"/v1/responses/{id}?stream=true"
    again = await Client(gateway.port).ask("GET", path)
    if made.terminal != "response.completed" or again.events != made.events:
        raise Failed(f"the stream is not the same again: {len(made.events)} events, then {len(again.events)}")
    print(f"a stream of {len(made.events)} events, one each {pause} ms", flush=True)
    return path


async def measure(scene: Scene, store: str, gateway: Gateway, path: str, connections: int, seconds: float) -> None:
    await read(gateway, path, connections, 0.5)
    database = scene.database if store == "postgres" else None
    before = gateway.cpu, database.cpu if database else 0.0
    results = await read(gateway, path, connections, seconds)
    used, of_database = gateway.cpu - before[0], (database.cpu if database else 0.0) - before[1]
    streams, size = sum(each["streams"] for each in results), sum(each["bytes"] for each in results) / 1e6
    rate = sum(each["bytes"] / each["seconds"] for each in results) / 1e6
    print(f"{store:9} {connections} readers: {rate:6.1f} MB/s, {streams / seconds:6.1f} streams/s of {size / streams:.2f} MB; "
          f"{size / used:6.1f} MB per CPU second of the gateway ({1000 * used / streams:.2f} ms each), "
          f"{1000 * of_database / streams:.2f} ms of the database's", flush=True)


async def read(gateway: Gateway, path: str, connections: int, seconds: float) -> list[dict]:
    """Reads the stream again and again, each connection by a process of its own."""
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, READER, str(gateway.port), path, str(seconds), stdout=asyncio.subprocess.PIPE)
        for _ in range(connections)
    ]
    return [json.loads((await process.communicate())[0]) for process in processes]
