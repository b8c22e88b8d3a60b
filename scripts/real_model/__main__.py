"""Drives the parts that scripts/real-model got: starts them, runs the checks, stops them, counts.

Exits with 0 only when every check held; servers that could not be started fail them all.
"""

import argparse
import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path

import counting
import responses
import upstream
import wire
from processes import Fleet, NotReady, Server, free_ports

MODEL = "smollm2-135m"


def main() -> int:
    options = arguments()
    # Being told to end runs the clean-up too, as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    checks = responses.CHECKS + counting.CHECKS if options.gateway else upstream.CHECKS
    with tempfile.TemporaryDirectory(prefix="real-model-") as directory, Fleet(Path(directory)) as fleet:
        passed = run_all(checks, options, fleet)
    print(f"\nreal model: {passed} passed, {len(checks) - passed} failed")
    return 0 if passed == len(checks) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="real_model", description=__doc__)
    parser.add_argument("--llama-server", required=True, help="llama.cpp's server")
    parser.add_argument("--model", required=True, help="GGUF file")
    parser.add_argument("--tools-template", required=True, help="chat template that offers tools")
    parser.add_argument("--gateway", help="antwort's binary; without it the model servers are asked directly")
    return parser.parse_args()


def run_all(checks: list, options: argparse.Namespace, fleet: Fleet) -> int:
    """Runs each check against the server it needs, and returns how many held."""
    try:
        servers = start(options, fleet)
    except NotReady as reason:
        print(f"could not start: {reason}")
        return 0
    passed = 0
    for heading, check, kind in checks:
        if run(heading, check, wire.Server(servers[kind].port, MODEL)):
            passed += 1
        else:
            show_logs(fleet, kind)
    return passed


def start(options: argparse.Namespace, fleet: Fleet) -> dict[str, Server]:
    """Starts the servers and returns those to ask, by what they are for.

    Two of each: a llama-server has one template, and none serves both. The model's own one drops
    tools, and the one that offers tools makes poor chat.
    """
    models = {"chat": [], "tools": ["--chat-template-file", options.tools_template]}
    ports = iter(free_ports(2 * len(models)))
    upstreams = {
        kind: fleet.start(f"llama-{kind}", llama_command(options, port, extra), port)
        for (kind, extra), port in zip(models.items(), ports)
    }
    for server in upstreams.values():
        fleet.wait(server, "/health")
    if not options.gateway:
        return upstreams
    gateways = {
        kind: fleet.start(
            f"antwort-{kind}", [options.gateway, "serve"], port, gateway_env(fleet, kind, port, upstreams[kind].port)
        )
        for kind, port in zip(models, ports)
    }
    for server in gateways.values():
        fleet.wait(server, "/readyz")
    return gateways


def llama_command(options: argparse.Namespace, port: int, extra: list[str]) -> list[str]:
    # One thread each: two servers, a gateway and this driver share what may be two cores.
    return [
        *(options.llama_server, "-m", options.model, "--host", "127.0.0.1", "--port", str(port)),
        *("--jinja", "-c", "16384", "-np", "2", "-t", "1", "--alias", MODEL, *extra),
    ]


def gateway_env(fleet: Fleet, kind: str, port: int, upstream_port: int) -> dict[str, str]:
    """The caller's environment with exactly our settings in it: theirs are for another gateway."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ANTWORT_")}
    return inherited | {
        "ANTWORT_LISTEN": f"127.0.0.1:{port}",
        "ANTWORT_UPSTREAM_URL": f"http://127.0.0.1:{upstream_port}/v1",
        "ANTWORT__PROVIDERS__DEFAULT__PRESET": "llama_cpp",
        # The same model once more, of which the gateway only estimates the tokens.
        "ANTWORT__PROVIDERS__ESTIMATED__URL": f"http://127.0.0.1:{upstream_port}/v1",
        "ANTWORT__PROVIDERS__ESTIMATED__PREFIX": "estimated",
        "ANTWORT__PROVIDERS__ESTIMATED__TOKENIZER": "none",
        "ANTWORT_STORE_URL": f"sqlite:{fleet.directory / f'{kind}.db'}",
        "ANTWORT_LOG": "warn",
        "NO_PROXY": "127.0.0.1",
    }


def run(heading: str, check, client: wire.Server) -> bool:
    """Runs one check under a heading; any exception is its failure, so that the others still run."""
    print(f"\n== {heading} ==", flush=True)
    try:
        check(client)
    except AssertionError as reason:
        print(f"FAILED: {reason}", flush=True)
        return False
    except Exception:  # a missing field or a cut connection is a finding, not a crash of ours
        print(f"FAILED: {traceback.format_exc()}", flush=True)
        return False
    print("ok", flush=True)
    return True


def show_logs(fleet: Fleet, kind: str) -> None:
    for server in fleet.servers:
        if server.name.endswith(f"-{kind}"):
            print(server.log_tail(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
