"""Runs two gateways behind each balancer, restarts and reloads them under load, and prints a table of what clients saw."""

import argparse
import asyncio
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import papers
import phases
import upgrade
from processes import Failed, Gateway, Haproxy, Nginx, end_all, say
from scene import MONITOR_KEY, Row, Scene
from upstream import Provider, Tools

BALANCERS = {"nginx": Nginx, "haproxy": Haproxy}
KEYS = [f"sk-deploy-{i}" for i in range(16)]
MONITOR = {"key": MONITOR_KEY, "scopes": ["metrics:read"]}
# `streams` are open at each restart and reload, `outage` when the provider goes.
LONG = {"restarts": 20, "reloads": 20, "streams": 200, "outage": 200, "idle": 62.0}
SHORT = {"restarts": 1, "reloads": 3, "streams": 20, "outage": 50, "idle": 3.0}


async def main(options: argparse.Namespace, folder: Path) -> list[Row]:
    rows = [papers.check(options.binary, folder)] if wanted("papers", options) else []
    if wanted("upgrade", options):
        rows.append(await upgrade.run(*versions(options), folder, migrates=not options.old_binary))
    for name, kind in BALANCERS.items():
        if wanted(name, options):
            rows += await behind(name, kind, options, folder)
    return rows


def versions(options: argparse.Namespace) -> tuple[str, str]:
    """The binary of an older version, and that of the newer one."""
    if options.old_binary:
        return options.old_binary, options.binary
    if not options.next_binary:
        raise Failed("an upgrade needs --old-binary or --next-binary")
    return options.binary, options.next_binary


def wanted(name: str, options: argparse.Namespace) -> bool:
    return not options.only or name in options.only


async def behind(name: str, kind, options: argparse.Namespace, parent: Path) -> list[Row]:
    folder = parent / name
    folder.mkdir()
    tls = certificate(folder)
    provider, tools = Provider(), Tools()
    await provider.start()
    await tools.start()
    config = configuration(options.binary, provider, tools)
    gateways = [Gateway(f"{name}-gateway-{i}", folder, options.binary, config) for i in (1, 2)]
    await asyncio.gather(*(each.start() for each in gateways))
    balancer = kind(folder, gateways)
    balancer.start()
    await balancer.serving(tls)
    rows = await steps(Scene(balancer, gateways, provider, KEYS, tls, "work"), options)
    for each in gateways:
        await each.stop()
    balancer.kill()
    provider.stop()
    tools.stop()
    return rows


def configuration(binary: str, provider: Provider, tools: Tools) -> dict:
    config = {
        "providers": {"mock": {"url": f"http://127.0.0.1:{provider.port}/v1", "retries": {"max": 0}}},
        "auth": {"keys": {"monitor": MONITOR, **{f"k{i}": {"key": key, "tenant": f"t{i}"} for i, key in enumerate(KEYS)}}},
        "mcp": {"servers": {"work": {"url": f"http://127.0.0.1:{tools.port}/mcp", "trust": "trusted"}}},
        "egress": {"allow": ["127.0.0.1"]},
        "server": {"drain_timeout": "20s"},
    }
    if knows(binary, "shutdown_delay"):
        config["server"]["shutdown_delay"] = "5s"  # what it is by itself where it listens beyond loopback
    return config


async def steps(scene: Scene, options: argparse.Namespace) -> list[Row]:
    size = options.size
    does = {
        "idle": lambda: phases.idle(scene, size["idle"]),
        "restarts": lambda: phases.restarts(scene, size["restarts"], size["streams"]),
        "untold": lambda: phases.restarts(scene, size["restarts"], size["streams"], told=False),
        "reloads": lambda: phases.reloads(scene, size["reloads"], size["streams"]),
        "outage": lambda: phases.outage(scene, size["outage"]),
    }
    rows = []
    for name, step in does.items():
        if options.step and name not in options.step:
            continue
        rows.append(await step())
        for each in scene.gateways:
            if panics := each.panics():
                rows[-1].faults.append(f"{each.name} panicked {panics} times so far")
            if not each.alive:
                rows[-1].faults.append(f"{each.name} has exited: {each.log().strip()[-400:]}")
                await each.start()
        shown(rows[-1])
    return rows


def knows(binary: str, setting: str) -> bool:
    """Whether a gateway has a setting: older ones are tried, too."""
    said = subprocess.run([binary, "config", "show", "--defaults"], capture_output=True, text=True)
    return f"{setting}:" in said.stdout


def certificate(folder: Path) -> ssl.SSLContext:
    """A certificate for the balancer, and what trusts it alone."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "antwort.key",
         "-out", folder / "antwort.crt"],
        check=True, capture_output=True,
    )
    return ssl.create_default_context(cafile=folder / "antwort.crt")


def shown(row: Row) -> None:
    say(f"{'FAIL' if row.faults else 'pass'} {row.balancer}: {row.what}: {row.figures}")
    for fault in row.faults:
        say(f"     {fault}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/test-deploy")
    parser.add_argument("--binary", required=True)
    parser.add_argument("--old-binary", default="")
    parser.add_argument("--next-binary", default="")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", action="append", choices=["papers", "upgrade", *BALANCERS])
    parser.add_argument("--step", action="append", choices=["idle", "restarts", "untold", "reloads", "outage"])
    parser.add_argument("--rounds", type=int, help="restarts and reloads, instead of those of the form")
    options = parser.parse_args()
    options.size = dict(SHORT if options.short else LONG)
    if options.rounds:
        options.size["restarts"] = options.size["reloads"] = options.rounds
    return options


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="antwort-deploy-") as temporary:
        try:
            results = asyncio.run(main(arguments(), Path(temporary)))
        except (Failed, LookupError) as error:
            say(f"FAIL {error}")
            sys.exit(1)
        except Exception:
            traceback.print_exc()
            for log in sorted(Path(temporary).rglob("*.log")):
                say(f"{log.name}: {log.read_text(errors='replace')[-600:]}")
            sys.exit(1)
        finally:
            end_all()
    print("\n| behind | what | figures | result |\n|---|---|---|---|")
    for row in results:
        print(f"| {row.balancer} | {row.what} | {row.figures} | {'; '.join(row.faults) or 'held'} |")
    failed = sum(bool(row.faults) for row in results)
    print(f"\n{len(results) - failed} passed, {failed} failed")
    say(f"{time.monotonic() - begun:.0f} s")
    sys.exit(bool(failed) or not results)
