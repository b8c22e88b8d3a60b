"""The processes under test: gateways with a database each, and the balancers before them."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import documents
from http1 import Client, Cut

START_SECONDS = 30


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Failed(Exception):
    """A precondition of the test failed."""


class Process:
    """One process of ours, with a log file, ended with the test."""

    started: list["Process"] = []

    def __init__(self, name: str, folder: Path):
        self.name, self.folder = name, folder
        self.process: subprocess.Popen | None = None
        self.log_file = folder / f"{name}.log"
        Process.started.append(self)

    def spawn(self, command: list[str], env: dict[str, str] | None = None) -> None:
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={"PATH": os.environ.get("PATH", ""), "HOME": str(self.folder), **(env or {})},
            )

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    async def ended(self, seconds: float) -> int:
        deadline = time.monotonic() + seconds
        while self.alive:
            if time.monotonic() > deadline:
                raise Failed(f"{self.name} did not end within {seconds:g} s: {self.log().strip()[-400:]}")
            await asyncio.sleep(0.02)
        return self.process.returncode

    def kill(self) -> None:
        if self.alive:
            self.process.kill()
            self.process.wait()

    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""


class Gateway(Process):
    def __init__(self, name: str, folder: Path, binary: str, config: dict):
        super().__init__(name, folder)
        self.binary, self.port = binary, free_port()
        self.database = folder / f"{name}.db"
        self.config = {
            **config,
            "listen": f"127.0.0.1:{self.port}",
            "store": {"url": f"sqlite:{self.database}"},
        }
        self.file = folder / f"{name}.yaml"

    def write_config(self) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(self.config, indent=1))  # JSON is YAML
        new.replace(self.file)

    async def start(self, binary: str = "") -> None:
        self.write_config()
        self.spawn([binary or self.binary, "serve", "--config", str(self.file)])
        deadline = time.monotonic() + START_SECONDS
        while not await self.ready():
            if not self.alive or time.monotonic() > deadline:
                raise Failed(f"{self.name} did not become ready: {self.log().strip()[-400:]}")
            await asyncio.sleep(0.05)

    async def ready(self) -> bool:
        client = Client(self.port)
        try:
            return (await client.ask("GET", "/readyz", timeout=5)).status == 200
        except (Cut, TimeoutError):
            return False
        finally:
            client.close()

    async def stop(self, seconds: float = 40) -> None:
        self.signal(signal.SIGTERM)
        if code := await self.ended(seconds):
            raise Failed(f"{self.name} exited with code {code}: {self.log().strip()[-400:]}")

    def panics(self) -> int:
        return self.log().count("panicked")


class Balancer(Process):
    """A balancer with its configuration from docs/deploying.md, TLS to the clients included."""

    # Whether it has connections to a gateway left on which nothing was asked for most of a minute.
    keeps_idle = False

    def __init__(self, folder: Path, gateways: list[Gateway]):
        super().__init__(type(self).__name__.lower(), folder)
        self.gateways, self.port = gateways, free_port()
        self.addresses = {f"antwort-{i}.internal:8080": f"127.0.0.1:{each.port}" for i, each in enumerate(gateways, 1)}

    async def serving(self, tls) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            client = Client(self.port, tls=tls)
            try:
                if (await client.ask("GET", "/readyz", timeout=5)).status == 200:
                    return
            except (Cut, TimeoutError):
                pass
            finally:
                client.close()
            if not self.alive or time.monotonic() > deadline:
                raise Failed(f"{self.name} does not serve: {self.log().strip()[-400:]}")
            await asyncio.sleep(0.1)

    async def take_out(self, gateway: Gateway) -> None:
        """What the page says is done before a gateway is stopped."""

    async def put_back(self, gateway: Gateway) -> None:
        """What the page says is done when it is ready again."""


class Nginx(Balancer):
    keeps_idle = True

    def __init__(self, folder: Path, gateways: list[Gateway]):
        super().__init__(folder, gateways)
        self.down: set[int] = set()
        self.main = folder / "nginx.conf"
        user = "user root;" if os.getuid() == 0 else ""
        self.main.write_text(
            f"{user} daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr warn;\n"
            "events { worker_connections 4096; }\n"
            f"http {{ access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;\n"
            f"fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;\n"
            f"include {folder}/antwort.conf; }}\n"
        )

    def write(self) -> None:
        text = documents.filled("/etc/nginx/conf.d/antwort.conf", {
            **self.addresses,
            "listen 443 ssl http2": f"listen 127.0.0.1:{self.port} ssl http2",
            "/etc/nginx/tls/antwort.crt": str(self.folder / "antwort.crt"),
            "/etc/nginx/tls/antwort.key": str(self.folder / "antwort.key"),
        })
        for port in self.down:
            text = text.replace(f"server 127.0.0.1:{port} ", f"server 127.0.0.1:{port} down ")
        (self.folder / "antwort.conf").write_text(text)
        said = subprocess.run(["nginx", "-p", str(self.folder), "-t", "-c", str(self.main)], capture_output=True, text=True)
        if said.returncode or "[warn]" in said.stderr:
            raise Failed(f"nginx -t: {said.stderr.strip()}")

    def start(self) -> None:
        self.write()
        self.spawn(["nginx", "-p", str(self.folder), "-c", str(self.main)])

    async def _reload(self) -> None:
        self.write()
        before = self._workers()
        self.signal(signal.SIGHUP)
        deadline = time.monotonic() + START_SECONDS
        while not self._workers() - before:
            if time.monotonic() > deadline:
                raise Failed(f"nginx did not reload: {self.log().strip()[-400:]}")
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.2)  # the old worker stops to accept

    def _workers(self) -> set[str]:
        return set(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split())

    async def take_out(self, gateway: Gateway) -> None:
        self.down.add(gateway.port)
        await self._reload()

    async def put_back(self, gateway: Gateway) -> None:
        self.down.discard(gateway.port)
        await self._reload()


class Haproxy(Balancer):
    """It asks /readyz: a gateway is stopped and started, and nobody tells it."""

    def start(self) -> None:
        (self.folder / "antwort.pem").write_text(
            (self.folder / "antwort.crt").read_text() + (self.folder / "antwort.key").read_text()
        )
        file = self.folder / "haproxy.cfg"
        file.write_text(documents.filled("/etc/haproxy/haproxy.cfg", {
            **self.addresses,
            "bind :443": f"bind 127.0.0.1:{self.port}",
            "/etc/haproxy/tls/antwort.pem": str(self.folder / "antwort.pem"),
        }))
        said = subprocess.run(["haproxy", "-c", "-f", str(file)], capture_output=True, text=True)
        if said.returncode or "WARNING" in said.stderr:
            raise Failed(f"haproxy -c: {said.stderr.strip()}")
        self.spawn(["haproxy", "-db", "-f", str(file)])

    async def put_back(self, gateway: Gateway) -> None:
        """Waits until it has seen what a gateway behind it says again."""
        server = f"antwort/antwort-{self.gateways.index(gateway) + 1} is "
        deadline = time.monotonic() + START_SECONDS
        while (states := re.findall(f"{server}(UP|DOWN)", self.log())) and states[-1] == "DOWN":
            if time.monotonic() > deadline:
                raise Failed(f"HAProxy did not mark {gateway.name} as UP again: {self.log().strip()[-400:]}")
            await asyncio.sleep(0.1)


def end_all() -> None:
    for process in Process.started:
        process.kill()


def say(text: str) -> None:
    print(f"{Path(sys.argv[0]).stem}: {text}", file=sys.stderr, flush=True)
