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
sys.path += [str(DEPLOY), str(Path(__file__).parent.parent / "lib")]

import notify  # noqa: E402
import rolling  # noqa: E402
import soak  # noqa: E402
from chaos import Chaos  # noqa: E402
from clients import KEY  # noqa: E402
from probes import new_keys  # noqa: E402
from processes import end_all, say  # noqa: E402
from servers import Nats, Postgres, Replica, Sqlite, configuration  # noqa: E402
from upstreams import Hooks, Model, Tool  # noqa: E402


class Scene:
    """PostgreSQL, a bus, what the runs meet, and replicas that serve."""

    def __init__(self, options: argparse.Namespace, folder: Path):
        self.options, self.folder = options, folder
        self.is_alone = options.store == "sqlite"
        # Crashes are those of the server, not of the machine, and are to be over soon: so nothing has to reach the disk.
        settings = {"fsync": "off"} if options.command == "chaos" else {}
        self.database = Sqlite(folder) if self.is_alone else Postgres(folder, **settings)
        self.model, self.tool, self.hooks = Model(), Tool(), Hooks()
        self.nats = Nats(folder) if options.bus == "nats" and not self.is_alone else None
        self.replicas: list[Replica] = []

    async def start(self, count: int) -> None:
        await asyncio.gather(self.database.create(), self.model.start(), self.tool.start(), self.hooks.start())
        if self.nats:
            self.nats.start()
        bus = self.nats.url if self.nats else None if self.is_alone else f"{self.options.bus}:"
        for name in (f"replica-{i}" for i in range(count)):
            config = configuration(name, self.database, bus, self.model, self.tool, self.hooks)
            config["auth"] = {"keys": {"fleet": {"key": KEY}, **new_keys(self.options.outages)}}
            self.replicas.append(Replica(name, self.folder, self.options.binary, config))
        await asyncio.gather(*(each.start() for each in self.replicas))
        say(f"{count} replicas serve")

    def faults(self, of_test: list[str]) -> list[str]:
        """Those of the test, and panics."""
        panics = [f"{each.name} panicked {count} times" for each in self.replicas if (count := each.panics())]
        return [*of_test, *panics]


async def chaos(options: argparse.Namespace, folder: Path) -> list[str]:
    scene = Scene(options, folder)
    await scene.start(options.replicas or 3)
    test = Chaos(scene, options.seed)
    # Most of an outage is over in half a minute, its probes included.
    shown(await test.run(options.runs, options.turns, options.seconds or 60 + 30 * options.outages, options.outages))
    return scene.faults(test.faults)


async def rolling_restart(options: argparse.Namespace, folder: Path) -> list[str]:
    scene = Scene(options, folder)
    await scene.start(options.replicas or 2)
    test = rolling.Rolling(scene.replicas)
    shown(await test.run(options.streams, 50))
    return scene.faults(test.faults)


async def soaked(options: argparse.Namespace, folder: Path) -> list[str]:
    scene = Scene(options, folder)
    await scene.start(1 if scene.is_alone else options.replicas or 2)
    test = soak.Soak(scene.replicas, scene.database, options.seconds or 1800, 64)
    shown(await test.run())
    if options.write:
        test.write(Path(options.write))
    return scene.faults(test.faults)


async def notifications(_: argparse.Namespace, folder: Path) -> list[str]:
    await notify.run(folder)
    return []


COMMANDS = {"chaos": chaos, "rolling": rolling_restart, "soak": soaked, "notify": notifications}


def shown(figures: dict) -> None:
    for name, figure in figures.items():
        print(f"{name:64} {figure}", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/fleet")
    parser.add_argument("command", choices=list(COMMANDS))
    parser.add_argument("--binary", default="")
    parser.add_argument("--bus", default="nats", choices=["nats", "postgres", "poll"])
    parser.add_argument("--store", default="postgres", choices=["postgres", "sqlite"], help="sqlite: a soak of one gateway")
    parser.add_argument("--replicas", type=int, help="3, or 2 where nothing is killed")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--outages", type=int, nargs="?", const=6, default=0, help="of PostgreSQL, under chaos; 6 if no number is given")
    parser.add_argument("--streams", type=int, default=300, help="of a rolling restart")
    parser.add_argument("--seconds", type=float, help="how long things are killed, at least, or load goes on")
    parser.add_argument("--write", help="a folder for the samples and the plot of a soak")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", action="store_true", help="keep the folder with the logs")
    options = parser.parse_args()
    if options.store == "sqlite" and options.command != "soak":
        parser.error("a fleet needs PostgreSQL")
    return options


def run() -> int:
    options = arguments()
    folder = Path(tempfile.mkdtemp(prefix="antwort-fleet-"))
    say(f"seed {options.seed}, logs in {folder}")
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
    print(f"{'FAILED' if faults else 'passed'}: {len(faults)} faults")
    return bool(faults)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(run())
