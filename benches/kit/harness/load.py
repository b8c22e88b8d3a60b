"""Drives the load generator through the scenarios."""

import json
import subprocess

from processes import Failed, first_line, programs

NOOP = [{"type": "antwort:noop"}]
SLOW = "text-50-100000us"
# name: (model, stream, clients, requests, more of the request)
SCENARIOS = {
    "a1": ("text-20", False, 1, 1500, {}),
    "a32": ("text-20", False, 32, 6000, {}),
    "a32-nostore": ("text-20", False, 32, 6000, {"store": False}),
    "a256": ("text-20", False, 256, 6000, {}),
    "b1": ("text-100", True, 1, 800, {}),
    "b32": ("text-100", True, 32, 3000, {}),
    "b256": ("text-100", True, 256, 3000, {}),
    "d1000": (SLOW, True, 1000, 1000, {}),
    "e9000": ("text-20-1000000us", True, 9000, 9000, {}),
    "loop0": ("loop-0", True, 8, 1500, {"tools": NOOP}),
    "loop10": ("loop-10", True, 8, 500, {"tools": NOOP}),
}


def run(scenario, gateway, requests=None, clients=None, seconds=None, timeout=60):
    """One load on a gateway, or, if that is the provider itself, on it directly. Gives the generator's figures."""
    model, stream, own_clients, own_requests, more = SCENARIOS[scenario]
    direct = getattr(gateway, "direct", True)
    url, path = gateway.url, getattr(gateway, "path", "/v1/chat/completions")
    argv = [programs() / "load", "--url", url, "--path", path, "--model", getattr(gateway, "prefix", "") + model,
            "--concurrency", clients or own_clients, "--requests", requests or own_requests, "--label", scenario,
            "--timeout", timeout]
    argv += ["--stream"] if stream else []
    argv += ["--direct"] if direct else []
    argv += ["--seconds", seconds] if seconds else []
    if more and not direct:
        body = gateway.folder / "body.json"
        body.write_text(json.dumps({"input": "Tell me about the weather in Paris.", **more}))
        argv += ["--body-file", body]
    for name, value in getattr(gateway, "headers", {}).items():
        argv += ["--header", f"{name}: {value}"]
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise Failed(f"load {scenario}: {first_line(done.stderr)}")
    return json.loads(done.stdout)


def measured(scenario, gateway, **options):
    """The same behind a warm-up, with the CPU of the gateway for each request, in microseconds."""
    _, _, clients, requests, _ = SCENARIOS[scenario]
    if clients <= 256:
        run(scenario, gateway, requests=max(20, min(requests // 10, 400)), **({"seconds": 2} if options.get("seconds") else {}))
    before = gateway.cpu
    result = run(scenario, gateway, **options)
    served = max(1, result["ok"] + result["failures"])
    result["cpu_us"] = round(1e6 * (gateway.cpu - before) / served, 2)
    if result.get("events_per_response"):
        result["cpu_us_per_event"] = round(result["cpu_us"] / result["events_per_response"], 3)
    return result
