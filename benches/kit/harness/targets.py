"""The rows of the table: what each is, how it follows from the figures, and what it has to reach."""

import statistics
from dataclasses import dataclass
from typing import Callable

FLOOR = "floor-batch"


@dataclass
class Row:
    """`value` is what the target is about; `ratio` what is compared with the accepted ratios: as little of it as
    possible depends on the machine. None: not compared."""

    key: str
    title: str
    target: float
    unit: str
    value: Callable
    ratio: Callable | None = None
    more_is_better: bool = False
    beside: Callable | None = None  # the figure itself, shown behind a ratio

    def is_reached(self, value):
        return value >= self.target if self.more_is_better else value <= self.target

    def change(self, ratio, accepted):
        """How much worse than the accepted ratio this one is, as a share of it."""
        return (accepted - ratio) / accepted if self.more_is_better else (ratio - accepted) / accepted


def of_rounds(figure):
    """The median over the rounds of a figure of one round."""

    def median(run, who):
        values = [figure(one, who) for one in run["rounds"] if who in one]
        return statistics.median(values) if values else None

    return median


def cpu(scenario):
    return of_rounds(lambda one, who: one[who][scenario]["cpu_us"])


def to_floor(scenario):
    return of_rounds(lambda one, who: one[who][scenario]["cpu_us"] / one[FLOOR][scenario]["cpu_us"])


def added(scenario, what):
    return of_rounds(lambda one, who: (one[who][scenario][what]["p50"] - one[FLOOR][scenario][what]["p50"]) / 1000)


def slower(scenario, what):
    return of_rounds(lambda one, who: one[who][scenario][what]["p50"] / one[FLOOR][scenario][what]["p50"])


def median_ms(scenario, what):
    return of_rounds(lambda one, who: one[who][scenario][what]["p50"] / 1000)


def turn(one, who):
    return (one[who]["loop10"]["cpu_us"] - one[who]["loop0"]["cpu_us"]) / 10


def of_memory(figure):
    return lambda run, who: figure(run["memory"][who])


def each_of_wide(memory):
    """Above warmed idle; only if all were open at the same time, each with a descriptor to the client and to the provider."""
    wide = memory["wide"]
    if wide["failures"] or wide["files"] < 2 * wide["streams"]:
        return float("inf")
    return 1024 * (wide["peak"] - memory["warmed"]) / wide["streams"]


def peak_of_burst(memory):
    return float("inf") if memory["burst"]["failures"] else memory["burst"]["peak"]


ROWS = [
    Row("cpu-json", "CPU per stored JSON response, c=32 / floor", 2.5, "", to_floor("a32"), to_floor("a32"),
        beside=lambda run, who: f"{cpu('a32')(run, who):.0f} µs"),
    Row("cpu-stream", "CPU per stored stream of 100 deltas, c=32 / floor", 2.0, "", to_floor("b32"), to_floor("b32"),
        beside=lambda run, who: f"{cpu('b32')(run, who):.0f} µs"),
    # Both are divided by the same number of events of the provider, so it need not be known here.
    Row("cpu-event", "CPU per event that arrives alone, 1,000 streams / floor", 1.5, "", to_floor("d1000"),
        to_floor("d1000"), beside=lambda run, who: f"{cpu('d1000')(run, who) / 58:.0f} µs"),
    Row("added-json", "p50 added over the floor, c=1: JSON stored", 0.2, "ms", added("a1", "latency_us"),
        slower("a1", "latency_us"), beside=lambda run, who: f"of {median_ms('a1', 'latency_us')(run, who):.2f} ms"),
    Row("added-delta", "p50 added over the floor, c=1: first delta", 0.15, "ms", added("b1", "first_delta_us"),
        slower("b1", "first_delta_us"),
        beside=lambda run, who: f"of {median_ms('b1', 'first_delta_us')(run, who):.2f} ms"),
    Row("rate", "requests/s over the direct rate, stored JSON, c=32", 0.2, "",
        of_rounds(lambda one, who: one[who]["a32"]["rps"] / one["direct"]["a32"]["rps"]),
        of_rounds(lambda one, who: one[who]["a32"]["rps"] / one["direct"]["a32"]["rps"]), more_is_better=True,
        beside=lambda run, who: f"{of_rounds(lambda one, w: one[w]['a32']['rps'])(run, who):.0f}/s"),
    Row("peak-1000", "peak RSS, 1,000 slow streams", 60, "MiB", of_memory(peak_of_burst), of_memory(peak_of_burst)),
    Row("each-9000", "RSS of each of 9,000 slow streams, no failures", 40, "KiB", of_memory(each_of_wide),
        of_memory(each_of_wide), beside=of_memory(lambda m: f"{m['wide']['files']} files, {m['wide']['failures']} failed")),
    Row("settled-1000", "RSS 10 s after 1,000 streams / warmed idle", 1.2, "",
        of_memory(lambda m: m["burst"]["settled"] / m["warmed"]), of_memory(lambda m: m["burst"]["settled"] / m["warmed"]),
        beside=of_memory(lambda m: f"{m['burst']['settled']:.1f} MiB")),
    Row("settled-9000", "RSS 10 s after 9,000 streams / warmed idle", 1.2, "",
        of_memory(lambda m: m["wide"]["settled"] / m["warmed"]), of_memory(lambda m: m["wide"]["settled"] / m["warmed"]),
        beside=of_memory(lambda m: f"{m['wide']['settled']:.1f} MiB")),
    Row("idle", "idle RSS", 16, "MiB", of_memory(lambda m: m["idle"]), of_memory(lambda m: m["idle"])),
    Row("ready", "ready after exec", 60, "ms", of_memory(lambda m: m["ready_ms"])),
    Row("tool-turn", "CPU per tool turn, streamed and stored", 150, "µs", of_rounds(turn),
        of_rounds(lambda one, who: turn(one, who) / one[FLOOR]["a32"]["cpu_us"])),
    Row("commit", "longest commit", 50, "ms", lambda run, who: run["extra"][who]["commit"]),
    Row("demo", "cold `cargo run -- demo`", 5, "min", lambda run, who: run["extra"][who]["demo"]),
    Row("build", "release build", 6, "min", lambda run, who: run["extra"][who]["build"]),
]


def asked(function, run, who):
    """The figure, or None where it was not measured."""
    try:
        return function(run, who)
    except (KeyError, TypeError, ZeroDivisionError):
        return None
