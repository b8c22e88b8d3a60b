"""The CPU of the gateway's process for a stored JSON response, on each of the stores in turn."""

import argparse
import asyncio
import json
import statistics
from pathlib import Path

from processes import Failed
from measured import Gateway, Kit, Scene

MODEL, CLIENTS = "text-20", 32
STORES = ["sqlite", "postgres"]


async def run(options: argparse.Namespace, folder: Path) -> list[str]:
    scene = Scene(options.gateway, folder, Kit(folder))
    await scene.start(STORES)
    rounds = []
    for number in range(options.rounds):
        order = STORES if number % 2 == 0 else STORES[::-1]
        rounds.append({store: await measure(scene, store, options.requests) for store in order})
    for store in STORES:
        figures = {key: statistics.median(row[store][key] for row in rounds) for key in rounds[0][store]}
        shown = ", ".join(f"{name} {figure:.0f}" for name, figure in figures.items())
        print(f"{store:9} {shown}", flush=True)
    ratios = sorted(row["postgres"]["us of CPU"] / row["sqlite"]["us of CPU"] for row in rounds)
    print(f"postgres / sqlite: median {statistics.median(ratios):.3f}, from {ratios[0]:.3f} to {ratios[-1]:.3f}")
    return []


async def measure(scene: Scene, store: str, requests: int) -> dict:
    [gateway] = await scene.gateways(store)
    await send(scene, gateway, requests // 10)
    database = scene.database if store == "postgres" else None
    before = gateway.cpu, database.cpu if database else 0.0
    result = await send(scene, gateway, requests)
    used = (gateway.cpu - before[0]) * 1e6 / requests
    of_database = ((database.cpu if database else 0.0) - before[1]) * 1e6 / requests
    await gateway.stop()
    return {"us of CPU": used, "us of the database's": of_database, "requests/s": result["rps"],
            "p50 us": result["latency_us"]["p50"], "p99 us": result["latency_us"]["p99"]}


async def send(scene: Scene, gateway: Gateway, requests: int) -> dict:
    body = scene.folder / "body.json"
    body.write_text(json.dumps({"model": MODEL, "input": "go"}))
    process = await asyncio.create_subprocess_exec(
        scene.upstream.bin / "load", "--url", f"http://127.0.0.1:{gateway.port}", "--model", MODEL, "--body-file", body,
        "--concurrency", str(CLIENTS), "--requests", str(requests), "--timeout", "120", stdout=asyncio.subprocess.PIPE)
    result = json.loads((await process.communicate())[0])
    if result["failures"]:
        raise Failed(f"{result['failures']} requests failed: {result['failure_kinds']}")
    return result
