"""A fleet of replicas on one PostgreSQL, and what is done to it."""

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

DEPLOY = Path(__file__).parent.parent / "deploy.d"
sys.path.append(str(DEPLOY))

from chaos import KEY, Chaos  # noqa: E402
from processes import end_all, say  # noqa: E402
from servers import Nats, Postgres, Replica, configuration  # noqa: E402
from upstreams import Hooks, Model, Tool  # noqa: E402


async def chaos(options: argparse.Namespace, folder: Path) -> list[str]:
    database, model, tool, hooks = Postgres(folder), Model(), Tool(), Hooks()
    nats = Nats(folder) if options.bus == "nats" else None
    await asyncio.gather(database.create(), model.start(), tool.start(), hooks.start())
    if nats:
        nats.start()
    bus = nats.url if nats else f"{options.bus}:"
    config = configuration(database, bus, model, tool, hooks)
    config["auth"] = {"keys": {"fleet": {"key": KEY}}}
    replicas = [Replica(f"replica-{i}", folder, options.binary, config) for i in range(options.replicas)]
    await asyncio.gather(*(each.start() for each in replicas))
    say(f"{options.replicas} replicas serve; {options.runs} runs of {options.turns} turns begin")
    test = Chaos(replicas, database, nats, tool, hooks, options.seed)
    for name, figure in (await test.run(options.runs, options.turns, options.seconds)).items():
        print(f"{name:26} {figure}", flush=True)
    return test.faults


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/chaos")
    parser.add_argument("--binary", required=True)
    parser.add_argument("--bus", default="nats", choices=["nats", "postgres", "poll"])
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60, help="how long things are killed, at least")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", action="store_true", help="keep the folder with the logs")
    return parser.parse_args()


def run() -> int:
    options = arguments()
    folder = Path(tempfile.mkdtemp(prefix="antwort-fleet-"))
    say(f"seed {options.seed}, logs in {folder}")
    try:
        faults = asyncio.run(chaos(options, folder))
    except Exception:
        traceback.print_exc()
        return 1
    finally:
        end_all()
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    for fault in faults:
        say(f"FAIL {fault}")
    print(f"{'FAILED' if faults else 'passed'}: {len(faults)} faults")
    return bool(faults)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(run())
