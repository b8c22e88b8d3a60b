"""Runs the attacks on a built gateway, one after the other, and prints a line for each.

Exits with 0 only when every attack that could be run was held off.
"""

import argparse
import importlib
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import wire
from gateway import MIB, NotStarted
from lab import ATTACKS, Attack, Lab, NotRun

# Each registers its attacks.
for module in "web connection request store provider mcp call tenant share answer async machine file memory".split():
    importlib.import_module(f"{module}_attacks")

# Of one attack, in seconds.
TIME_LIMIT = 20
# What another client's small request may take meanwhile, in seconds.
LONGEST_WAIT = 0.5
# Failures of one attack that its line names.
SHOWN = 4


class OutOfTime(Exception):
    """The attack exceeded its time limit."""


def main() -> int:
    options = arguments()
    if options.list:
        for each in ATTACKS:
            print(f"{each.name:28} {each.about}")
        return 0
    chosen = [each for each in ATTACKS if not options.only or any(word in each.name for word in options.only)]
    if not chosen:
        print(f"attack: no attack is called {' or '.join(options.only)}; --list has their names", file=sys.stderr)
        return 2
    wire.patience = max(1.0, options.time_limit / TIME_LIMIT)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    begun = time.monotonic()
    results = [run(each, options) for each in chosen]
    counts = {word: results.count(word) for word in ("pass", "FAIL", "not run")}
    seconds = time.monotonic() - begun
    print(f"\nattack: {counts['pass']} held, {counts['FAIL']} failed, {counts['not run']} not run, {seconds:.0f} s")
    return 1 if counts["FAIL"] else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/attack", description=__doc__)
    parser.add_argument("--binary", required=True, help=argparse.SUPPRESS)
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="attacks whose names contain this; may be repeated"
    )
    parser.add_argument("--list", action="store_true", help="say what there is, and run nothing")
    parser.add_argument(
        "--strict-time",
        action="store_true",
        help=f"a wait of another client of more than {LONGEST_WAIT * 1000:.0f} ms fails; else it is marked with !",
    )
    parser.add_argument(
        "--time-limit",
        type=float,
        default=TIME_LIMIT,
        metavar="SECONDS",
        help="of one attack (default: 20; a busy machine needs more)",
    )
    return parser.parse_args()


def run(attack: Attack, options: argparse.Namespace) -> str:
    """Runs one attack and prints its line."""
    lab = Lab(options.binary, Path(tempfile.mkdtemp(prefix=f"antwort-{attack.name}-")))
    begun = time.monotonic()
    try:
        bounded(lambda: attack.run(lab), options.time_limit)
    except NotRun as reason:
        lab.end()
        return line("not run", attack, str(reason))
    except NotStarted as reason:
        lab.failures.append(str(reason))
    except OutOfTime:
        lab.failures.append(f"did not end within {options.time_limit:g} s")
    except Exception as error:  # an attack that breaks has not shown that the gateway holds
        place = traceback.extract_tb(error.__traceback__)[-1]
        lab.failures.append(f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})")
    finally:
        seconds = time.monotonic() - begun
        lab.end()
    return report(attack, lab, seconds, options.strict_time)


def bounded(work, seconds: float) -> None:
    def expired(*_):
        raise OutOfTime

    signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        work()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def report(attack: Attack, lab: Lab, seconds: float, strict: bool) -> str:
    figures, parts = lab.figures, []
    if figures.watched:
        allowed = f"+{figures.growth / MIB:.0f} MiB of {lab.allowed / MIB:.0f}"
        if lab.budgets:
            allowed += " (64 + " + " + ".join(f"{size / MIB:.0f} {name}" for name, size in lab.budgets) + ")"
        late = "!" if max(figures.healthz, figures.read) > LONGEST_WAIT else ""
        parts += [allowed, f"healthz {figures.healthz * 1000:.0f} ms, read {figures.read * 1000:.0f} ms{late}"]
        judge(lab, strict and bool(late))
    more = [f"and {len(lab.failures) - SHOWN} more"] if len(lab.failures) > SHOWN else []
    parts += [*lab.failures[:SHOWN], *more, *lab.seen, f"{seconds:.1f} s"]
    return line("FAIL" if lab.failures else "pass", attack, "; ".join(parts))


def judge(lab: Lab, late: bool) -> None:
    figures = lab.figures
    if figures.killed:
        lab.failures.insert(0, "killed, since it took too much memory")
    elif figures.growth > lab.allowed:
        lab.failures.insert(0, "it grew by too much")
    if figures.unanswered and not figures.killed:
        lab.failures.append(f"{figures.unanswered} requests of another client failed")
    if late:
        lab.failures.append("another client waited for too long")


def line(outcome: str, attack: Attack, text: str) -> str:
    print(f"{outcome:7} {attack.name:28} {text}", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
