"""The blocks of docs/deploying.md that serve no traffic here: the unit is verified, manifests are read and judged."""

import os
import shutil
import subprocess
from pathlib import Path

import yaml

import documents
from scene import Row

# What an operator sets; secrets of the right shape.
ENVIRONMENT = {
    "ANTWORT_API_KEY": "sk-one",
    "ANTWORT_SEAL_KEYS": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
    "ANTWORT_STORE_URL": "postgres://antwort:secret@database/antwort",
}
# `server.shutdown_delay: auto` of a gateway that listens beyond loopback.
SHUTDOWN_DELAY = 5


def check(binary: str, parent: Path) -> Row:
    folder = parent / "papers"
    folder.mkdir()
    faults, checked = [], []
    others = {"/etc/nginx/conf.d/antwort.conf", "/etc/haproxy/haproxy.cfg"}
    checks = {
        "/etc/envoy/envoy.yaml": envoy,
        "/etc/systemd/system/antwort.service": unit,
        "compose.yaml": compose,
        "compose.internal.yaml": compose_internal,
        "kubernetes.yaml": kubernetes,
        "compose.fleet.yaml": compose_fleet,
        "kubernetes.sqlite.yaml": kubernetes_sqlite,
    }
    for name in documents.names():
        if name in others:
            continue
        checked.append(name.rsplit("/", 1)[-1])
        one = checks.pop(name, None)
        faults += [f"{name}: {fault}" for fault in one(binary, folder)] if one else [f"no check for {name}"]
    faults += [f"docs/deploying.md has no {name}" for name in checks]
    return Row("", "what docs/deploying.md shows", ", ".join(checked), faults)


def config_check(binary: str, folder: Path, text: str, env: dict[str, str]) -> list[str]:
    """What the gateway says against a configuration; it was only read."""
    file = folder / "antwort.yaml"
    file.write_text(text)
    said = subprocess.run(
        [binary, "config", "check", "--config", str(file)], cwd=folder, env={"PATH": os.environ["PATH"], **env},
        capture_output=True, text=True,
    )
    return [] if said.returncode == 0 else [(said.stderr or said.stdout).strip()]


def envoy(_binary: str, _folder: Path):
    config = yaml.safe_load(documents.block("/etc/envoy/envoy.yaml"))["static_resources"]
    connection = config["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    route = connection["route_config"]["virtual_hosts"][0]["routes"][0]["route"]
    cluster = config["clusters"][0]
    if route["cluster"] != cluster["name"] or route["retry_policy"]["retry_on"] != "connect-failure":
        yield "the route"
    if cluster["health_checks"][0]["http_health_check"]["path"] != "/readyz":
        yield "the health check"


def least_grace(binary: str) -> int:
    """What a supervisor has to wait longer than, before it kills: the delay and the drain of the gateway's defaults."""
    said = subprocess.run([binary, "config", "show", "--defaults"], capture_output=True, text=True, check=True)
    return SHUTDOWN_DELAY + int(yaml.safe_load(said.stdout)["server"]["drain_timeout"].removesuffix("s")) + 1


def unit(binary: str, folder: Path):
    name = "/etc/systemd/system/antwort.service"
    if stop_seconds(documents.block(name)) < least_grace(binary):
        yield "TimeoutStopSec is too short"
    if not shutil.which("systemd-analyze"):
        yield "there is no systemd-analyze here"
        return
    file = folder / "antwort.service"
    file.write_text(documents.filled(name, {"/usr/local/bin/antwort": binary}))
    said = subprocess.run(["systemd-analyze", "verify", "--man=no", str(file)], capture_output=True, text=True)
    ours = [line for line in (said.stderr + said.stdout).splitlines() if "antwort.service" in line]
    if said.returncode or ours:
        yield "; ".join(ours) or said.stderr.strip()


def stop_seconds(text: str) -> int:
    line = next(line for line in text.splitlines() if line.startswith("TimeoutStopSec="))
    return int(line.split("=")[1].removesuffix("s"))


def service(name: str) -> dict:
    return yaml.safe_load(documents.block(name))["services"]["antwort"]


def compose(binary: str, folder: Path):
    one = service("compose.yaml")
    if int(one["stop_grace_period"].removesuffix("s")) < least_grace(binary):
        yield "stop_grace_period is too short"
    # As Compose puts them in; the image says where to listen.
    env = {name: ENVIRONMENT.get(name, value) for name, value in one["environment"].items()}
    if missing := [name for name, value in env.items() if "${" in value]:
        yield f"no value for {', '.join(missing)}"
    yield from config_check(binary, folder, "listen: 0.0.0.0:8080\n", env)


def compose_internal(binary: str, folder: Path):
    whole = yaml.safe_load(documents.block("compose.internal.yaml"))
    if int(service("compose.internal.yaml")["stop_grace_period"].removesuffix("s")) < least_grace(binary):
        yield "stop_grace_period is too short"
    config = whole["configs"]["antwort"]["content"]
    if yaml.safe_load(config)["server"]["allowed_hosts"] != list(whole["services"]):
        yield "server.allowed_hosts is not the service's name"
    yield from config_check(binary, folder, config, {})


def compose_fleet(binary: str, folder: Path):
    services = yaml.safe_load(documents.block("compose.fleet.yaml"))["services"]
    for name, role in [("antwort", "gateway"), ("worker", "worker")]:
        one = services[name]
        if int(one["stop_grace_period"].removesuffix("s")) < least_grace(binary):
            yield f"stop_grace_period of {name} is too short"
        env = {name: ENVIRONMENT.get(name, value) for name, value in one["environment"].items()}
        if env["ANTWORT_ROLE"] != role or any("${" in value for value in env.values()):
            yield f"the environment of {name}"
        yield from config_check(binary, folder, "listen: 0.0.0.0:8080\n", env)


def manifests(name: str) -> dict[str, dict]:
    return {each["kind"]: each for each in yaml.safe_load_all(documents.block(name))}


def kubernetes(binary: str, folder: Path):
    objects = manifests("kubernetes.yaml")
    deployment = objects["Deployment"]["spec"]
    for kind in ["Service", "PodDisruptionBudget"]:
        selector = objects[kind]["spec"]["selector"]
        if selector.get("matchLabels", selector) != deployment["selector"]["matchLabels"]:
            yield f"{kind} selects something else"
    if "Ingress" not in objects:
        yield "there is no Ingress"
    yield from pods(binary, folder, objects, deployment, {"DB_PASSWORD": "secret"})


def kubernetes_sqlite(binary: str, folder: Path):
    objects = manifests("kubernetes.sqlite.yaml")
    stateful = objects["StatefulSet"]["spec"]
    if manifests("kubernetes.yaml")["Service"]["spec"]["selector"] != stateful["selector"]["matchLabels"]:
        yield "the service selects something else"
    # Each pod has a database of its own.
    if stateful["replicas"] != 1:
        yield "more than one pod"
    yield from pods(binary, folder, objects, stateful, {})


def pods(binary: str, folder: Path, objects: dict, spec: dict, env: dict[str, str]):
    pod = spec["template"]["spec"]
    container = pod["containers"][0]
    if pod["terminationGracePeriodSeconds"] < least_grace(binary):
        yield "terminationGracePeriodSeconds is too short"
    if container["livenessProbe"]["httpGet"]["path"] != "/healthz" or container["readinessProbe"]["httpGet"]["path"] != "/readyz":
        yield "the probes"
    mounted = {each["name"] for each in container["volumeMounts"]}
    given = {each["name"] for each in pod["volumes"]} | {each["metadata"]["name"] for each in spec.get("volumeClaimTemplates", [])}
    if mounted != given:
        yield f"volumes {sorted(given)}, mounts {sorted(mounted)}"
    if spec["template"]["metadata"]["labels"] != spec["selector"]["matchLabels"]:
        yield "the labels of the pods"
    if {each["name"] for each in container.get("env", [])} != set(env):
        yield "the environment of the pods"
    for name, value in [("api-key", "sk-one"), ("seal-key", ENVIRONMENT["ANTWORT_SEAL_KEYS"])]:
        (folder / name).write_text(value)
    config = objects["ConfigMap"]["data"]["antwort.yaml"].replace("/run/secrets/antwort/", f"{folder}/")
    yield from config_check(binary, folder, config, env)
