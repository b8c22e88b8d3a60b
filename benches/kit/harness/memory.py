"""Memory: idle, through a burst of slow streams, and when it is over; and how soon a process is ready."""

import statistics
import time

import load
import machine
from gateways import Antwort
from processes import Provider

BEFORE, AFTER, SETTLED = 2, 15, 10
# Each stream has a descriptor to the client and one to the provider, beside what a process has anyway.
FILES_OF_WIDE = 2 * 9000 + 1000


def measure(contestants, files, folder, starts=5, wide=True):
    return {gateway.name: one(gateway, files, folder, starts, wide) for gateway in contestants}


def one(gateway, files, folder, starts, wide):
    provider = Provider(folder)
    try:
        gateway.start(provider)
        time.sleep(1.5)
        figures = {"idle": machine.rss(gateway.pid)}
        load.run("a32", gateway, requests=2000)
        load.run("b32", gateway, requests=1000)
        time.sleep(5)
        figures["warmed"] = machine.rss(gateway.pid)
        figures["burst"] = burst("d1000", gateway)
        if isinstance(gateway, Antwort):
            if wide and files >= FILES_OF_WIDE:
                figures["wide"] = burst("e9000", gateway)
            figures["ready_ms"] = restarts(gateway, provider, starts)
        return figures
    finally:
        gateway.stop()
        provider.stop()


def burst(scenario, gateway):
    """Resident memory each 100 ms across a burst, from before it until it has settled."""
    machine.begin_peak(gateway.pid)
    series = machine.Series(gateway.pid)
    time.sleep(BEFORE)
    begun = series.now()
    result = load.run(scenario, gateway, timeout=120)
    ended = series.now()
    time.sleep(AFTER)
    samples = series.stop()
    settled = [mib for at, mib in samples if at >= ended + SETTLED]
    return {"streams": load.SCENARIOS[scenario][2], "failures": result["failures"],
            "failure_kinds": result["failure_kinds"], "begun": round(begun, 2), "ended": round(ended, 2),
            "before": samples[0][1], "files": series.files, "peak": machine.peak(gateway.pid), "settled": settled[0], "samples": samples}


def restarts(gateway, provider, count):
    """The median time from exec until `/readyz` answers, on a database that is there."""
    times = []
    for _ in range(count):
        gateway.stop()
        times.append(gateway.start(provider, keep=True))
    return statistics.median(times) if times else None
