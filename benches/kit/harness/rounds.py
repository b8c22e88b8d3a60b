"""The rounds: in each, every contestant is measured in turn as a fresh process, so that what the machine does meanwhile
meets all alike. What counts are the ratios within a round, and of these the medians."""

import os
import resource
import sys
import time

import load
import machine
from gateways import Antwort
from processes import Failed, Provider, first_line

OF_ALL = ["a32", "b32", "a1", "b1", "d1000"]
TOOLS = ["loop0", "loop10"]
KEPT = ("ok", "failures", "failure_kinds", "rps", "cpu_us", "latency_us", "first_delta_us", "events_per_response",
        "cpu_us_per_event", "wall_s")
# A peer that takes seconds for what others do in one does not hold up the round.
SECONDS_OF_PEER = 8


class Conditions:
    """What others took of the machine meanwhile, as a share of all its cores."""

    def __init__(self):
        self.wall, self.busy, self.stolen, self.own = self.now()

    def now(self):
        used = [resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)]
        return (time.monotonic(), machine.busy_seconds(), machine.stolen_seconds(),
                sum(each.ru_utime + each.ru_stime for each in used))

    def shares(self):
        wall, busy, stolen, own = self.now()
        whole = (wall - self.wall) * os.cpu_count()
        return {"others": round((busy - self.busy - own + self.own) / whole, 3),
                "stolen": round((stolen - self.stolen) / whole, 3)}


def measure(contestants, count, scale, folder):
    """The figures of `count` rounds: for each a dictionary contestant -> scenario -> figures, with `direct` for the
    provider without a gateway."""
    rounds = []
    for number in range(count):
        conditions, figures = Conditions(), {}
        turn = number % len(contestants)
        for gateway in contestants[turn:] + contestants[:turn]:
            figures[gateway.name] = one(gateway, scale, folder)
        figures["direct"] = direct(scale, folder)
        figures["conditions"] = conditions.shares()
        rounds.append(figures)
        print(f"round {number + 1} of {count}: others took {figures['conditions']['others']:.0%} of the machine",
              file=sys.stderr, flush=True)
    return rounds


def one(gateway, scale, folder):
    """A provider of its own for each, so that connections of the last contestant are gone."""
    provider = Provider(folder)
    is_ours = isinstance(gateway, Antwort)
    bound = {} if is_ours or gateway.name.startswith("floor") else {"seconds": SECONDS_OF_PEER}
    figures = {}
    try:
        gateway.start(provider)
        for name in OF_ALL + (TOOLS if is_ours else []):
            if gateway.stream_only and not load.SCENARIOS[name][1]:
                continue
            clients, requests = load.SCENARIOS[name][2:4]
            result = load.measured(name, gateway, requests=max(clients, int(requests * scale)), timeout=90, **bound)
            if result["failures"] and not bound:
                raise Failed(f"{gateway.name} {name}: {result['failures']} requests failed: {result['failure_kinds']}")
            figures[name] = {key: result[key] for key in KEPT if result.get(key) is not None}
    except Failed as failure:
        if is_ours:
            raise
        figures["error"] = first_line(failure)
    finally:
        gateway.stop()
        provider.stop()
    return figures


def direct(scale, folder):
    provider = Provider(folder)
    try:
        load.run("a32", provider, requests=400)
        return {"a32": {"rps": load.run("a32", provider, requests=int(20000 * scale))["rps"]}}
    finally:
        provider.stop()
