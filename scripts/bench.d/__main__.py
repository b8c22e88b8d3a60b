"""What storing costs a gateway: responses, streams that are read again, followers, and the queue of background responses."""

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
import traceback
from pathlib import Path

SCRIPTS = Path(__file__).parent.parent
sys.path += [str(SCRIPTS / "deploy.d"), str(SCRIPTS / "fleet.d")]

import followers  # noqa: E402
import json_cost  # noqa: E402
import queued_jobs  # noqa: E402
import replay  # noqa: E402
from processes import end_all, say  # noqa: E402

COMMANDS = {"json": json_cost.run, "replay": replay.run, "followers": followers.run, "jobs": queued_jobs.run}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench-store")
    parser.add_argument("command", choices=list(COMMANDS))
    parser.add_argument("gateway")
    parser.add_argument("--store", default="sqlite,postgres")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=6000)
    parser.add_argument("--events", type=int)
    parser.add_argument("--pause", type=int)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    options.gateway = str(Path(options.gateway).resolve())
    options.stores = options.store.split(",")
    return options


def run() -> int:
    options = arguments()
    folder = Path(tempfile.mkdtemp(prefix="antwort-bench-store-"))
    if options.keep:
        say(f"databases and logs in {folder}")
    try:
        faults = asyncio.run(COMMANDS[options.command](options, folder))
    except Exception:
        traceback.print_exc()
        return 1
    finally:
        end_all()
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    for fault in faults:
        say(f"FAIL {fault}")
    return bool(faults)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(run())
