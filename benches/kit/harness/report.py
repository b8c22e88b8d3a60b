"""The table of targets, and the comparison with the ratios that were accepted last."""

import json
import math

from targets import FLOOR, ROWS, asked

TOLERATED = 0.15


def number(value, unit=""):
    if value is None:
        return "-"
    if math.isinf(value):
        return "failed"
    text = f"{value:.2f}" if abs(value) < 10 else f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}"
    return f"{text} {unit}".strip()


def cell(row, run, who):
    value = asked(row.value, run, who)
    if value is None:
        return "-"
    beside = asked(row.beside, run, who) if row.beside else None
    return number(value, row.unit) + (f" ({beside})" if beside else "")


def of_floor(row, run):
    """The floor has no ratio to itself: its own figure is shown."""
    shown = asked(row.beside, run, FLOOR) if row.beside else None
    return shown.removeprefix("of ") if shown else number(asked(row.value, run, FLOOR), row.unit)


def rows_of(run, accepted):
    """What the table and the JSON of a run say of each row that was measured."""
    for row in ROWS:
        value = asked(row.value, run, "after")
        if value is None:
            continue
        ratio = asked(row.ratio, run, "after") if row.ratio else None
        old = accepted.get(row.key)
        worse = row.change(ratio, old) if ratio is not None and old else None
        yield {
            "key": row.key, "title": row.title, "target": row.target, "unit": row.unit,
            "before": asked(row.value, run, "before"), "after": None if math.isinf(value) else value,
            "floor": asked(row.value, run, FLOOR), "ratio": ratio if ratio is not None and math.isfinite(ratio) else None,
            "accepted": old, "worse": worse if worse is not None and math.isfinite(worse) else None,
            "reached": row.is_reached(value), "regressed": worse is not None and worse > TOLERATED,
        }


def table(run, verdicts, peers=()):
    sign = {row.key: "≥" if row.more_is_better else "≤" for row in ROWS}
    by_key = {row.key: row for row in ROWS}
    yield "| measurement | target | before | after | floor |" + "".join(f" {peer} |" for peer in peers) + " |"
    yield "|---|---|---|---|---|" + "---|" * len(peers) + "---|"
    for verdict in verdicts:
        row = by_key[verdict["key"]]
        word = "reached" if verdict["reached"] else "missed"
        if verdict["regressed"]:
            word += f", **{verdict['worse']:.0%} worse** than accepted" if verdict["worse"] else ", **worse** than accepted"
        cells = [row.title, f"{sign[row.key]} {number(row.target, row.unit)}", cell(row, run, "before"),
                 cell(row, run, "after"), of_floor(row, run), *(cell(row, run, peer) for peer in peers), word]
        yield "| " + " | ".join(cells) + " |"


def accept(file, verdicts, accepted):
    """Rewrites the accepted ratios; rows that were not measured keep theirs."""
    new = {verdict["key"]: round(verdict["ratio"], 3) for verdict in verdicts if verdict["ratio"] is not None}
    file.write_text(json.dumps({**accepted, **new}, indent=1) + "\n")
