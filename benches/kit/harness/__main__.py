"""Measures antwort beside the floor and prints the table of targets.

    scripts/bench [--before BINARY] [--after BINARY] [--rounds 5] [--out FILE] [--peers [NAME,...]] [--accept]

`--after` is the binary that is measured; without it the release binary is built. `--before` is an older one, measured in
the same rounds. Exits with 1 if a ratio is more than 15 % worse than that of benches/ratios.json, which `--accept`
rewrites, or if a request failed. A target that is missed is said and is no error. Everything stays on loopback."""

import argparse
import datetime
import json
import os
import pathlib
import sys
import tempfile

import extra
import memory
import report
import rounds
from gateways import Antwort, Peer
from processes import KIT, Failed, raise_limits
from targets import FLOOR

RATIOS = KIT.parent / "ratios.json"


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--after", required=True)
    parser.add_argument("--before")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of requests")
    parser.add_argument("--only", choices=["rounds", "memory"], help="one part alone")
    parser.add_argument("--narrow", action="store_true", help="leaves out the 9,000 streams")
    parser.add_argument("--peers", nargs="?", const="smg,agentic-api", default="",
                        help="with other gateways, installed if need be; default: smg,agentic-api")
    parser.add_argument("--out", type=pathlib.Path, help="where the whole run is written, for scripts/bench-plot")
    parser.add_argument("--accept", action="store_true", help=f"rewrites {RATIOS.parent.name}/{RATIOS.name}")
    parser.add_argument("--commits", metavar="COMMAND", help="prints the longest commit in ms as its last word")
    parser.add_argument("--demo", action="store_true", help="also times a cold `cargo run -- demo`")
    parser.add_argument("--build", action="store_true", help="also times a release build from nothing")
    return parser.parse_args()


def main():
    options = arguments()
    files = raise_limits()
    accepted = json.loads(RATIOS.read_text()) if RATIOS.exists() else {}
    with tempfile.TemporaryDirectory(prefix="antwort-bench-") as name:
        try:
            run = measured(options, files, pathlib.Path(name))
        except Failed as failure:
            sys.exit(f"FAILED: {failure}")
    verdicts = run["rows"] = list(report.rows_of(run, accepted))
    peers = [peer for peer in options.peers.split(",") if peer]
    print("\n".join(report.table(run, verdicts, peers)))
    if options.out:
        options.out.write_text(json.dumps(run) + "\n")
    if options.accept:
        report.accept(RATIOS, verdicts, accepted)
        return 0
    return int(any(verdict["regressed"] for verdict in verdicts))


def measured(options, files, folder):
    floor, after = Peer(FLOOR, folder), Antwort("after", folder, options.after)
    before = [Antwort("before", folder, options.before)] if options.before else []
    peers = [Peer(name, folder) for name in options.peers.split(",") if name]
    for peer in peers:
        peer.install()
    contestants = [floor, *before, after, *peers]
    run = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cores": os.cpu_count(), "versions": {each.name: each.version() for each in contestants},
        "rounds": [], "memory": {},
        "extra": {"after": extra.measured(options.commits, options.demo, options.build)},
    }
    if options.only != "memory":
        run["rounds"] = rounds.measure(contestants, options.rounds, options.scale, folder)
    if options.only != "rounds":
        run["memory"] = memory.measure([floor, *before, after], files, folder, wide=not options.narrow)
    return run


if __name__ == "__main__":
    sys.exit(main())
