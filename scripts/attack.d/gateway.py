"""One gateway under attack: started fresh with a configuration, in a folder of its own, watched, and ended."""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import wire

MIB = 1024 * 1024
# It is killed when it has grown by this, and cannot have more address space than that.
MAX_GROWTH = 2048 * MIB
MAX_ADDRESS_SPACE = 16 * 1024 * MIB
START_SECONDS = 15
# Header fields beside those of every request.
Headers = Iterable[tuple[str, str]]


class NotStarted(Exception):
    """The gateway ended, or did not serve in time."""


class Gateway:
    def __init__(
        self,
        binary: str,
        folder: Path,
        config: dict,
        *,
        key: str = "",
        open_files: int = 0,
        wrapper: Iterable[str] = (),
        wait: bool = True,
        unread_log: bool = False,
    ):
        self.folder, self.key = folder, key
        folder.mkdir(parents=True, exist_ok=True)
        # Keys of several tenants make no operator unless they name the scope.
        self.monitor_key = None
        if len({each.get("tenant") for each in config.get("auth", {}).get("keys", {}).values()}) > 1:
            self.monitor_key = "key-monitor"
            monitor = {"key": self.monitor_key, "scopes": ["metrics:read"]}
            config = {**config, "auth": {**config["auth"], "keys": {**config["auth"]["keys"], "monitor": monitor}}}
        self.config, self.file = config, folder / "antwort.yaml"
        self.file.write_text(json.dumps(config))  # JSON is YAML
        self.log_file = folder / f"log-{time.monotonic_ns()}"
        # A pipe in place of the file: what `log` does not read stays in it.
        self.log_pipe, write_end = os.pipe() if unread_log else (None, None)

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESS_SPACE, MAX_ADDRESS_SPACE))
            if open_files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))

        with self.log_file.open("wb") if write_end is None else open(write_end, "wb") as log:
            self.process = subprocess.Popen(
                [*wrapper, binary, "serve", "--config", str(self.file)],
                cwd=folder,
                env={"PATH": os.environ.get("PATH", ""), "HOME": str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=limit,
                start_new_session=True,
            )
        self.pid = self.process.pid
        self.port = self._serving() if wait else 0

    def _serving(self) -> int:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if port := self.served_port():
                return port
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        self.kill()
        raise NotStarted("the gateway did not start: " + self.log().strip()[-300:])

    def served_port(self) -> int | None:
        for line in self.log().splitlines():
            if '"serving"' in line:
                return int(json.loads(line)["address"].rsplit(":", 1)[1])
        return None

    # What it is asked.

    def headers(self, body: bytes | None = None, key: str | None = None, more: Headers = ()) -> list[tuple[str, str]]:
        """What a proper client sends."""
        headers = [("host", f"127.0.0.1:{self.port}"), ("connection", "close")]
        if key := self.key if key is None else key:
            headers.append(("authorization", f"Bearer {key}"))
        if body is not None:
            headers += [("content-type", "application/json"), ("content-length", str(len(body)))]
        return [*headers, *more]

    def get(self, path: str, key: str | None = None, timeout: float = 10) -> wire.Answer:
        return wire.exchange(self.port, wire.head("GET", path, self.headers(key=key)), timeout)

    def delete(self, path: str, key: str | None = None) -> wire.Answer:
        return wire.exchange(self.port, wire.head("DELETE", path, self.headers(key=key)))

    def post(self, path: str, body: bytes | dict, key: str | None = None, timeout: float = 10) -> wire.Answer:
        return wire.exchange(self.port, self.posted(path, body, key), timeout)

    def create(
        self, body: bytes | dict | None = None, /, key: str | None = None, timeout: float = 10, **fields
    ) -> wire.Answer:
        """`POST /v1/responses`; without a body of its own, the shortest with these fields."""
        return self.post(
            "/v1/responses", body if body is not None else {"model": "m", "input": "x", **fields}, key, timeout
        )

    def posted(self, path: str, body: bytes | dict, key: str | None = None, more: Headers = ()) -> bytes:
        """The bytes of a request."""
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        return wire.head("POST", path, self.headers(body, key, more)) + body

    def send(self, data: bytes, timeout: float = 10, takes_nothing: bool = False):
        """A connection on which this was sent, and of which nothing was read."""
        connection = wire.connect(self.port, timeout, takes_nothing)
        with contextlib.suppress(OSError):  # not taken to its end: the answer will say why, if there is one
            connection.sendall(data)
        return connection

    # How it is.

    def log(self) -> str:
        if self.log_pipe is not None:
            self._empty_pipe()
        return self.log_file.read_text(errors="replace")

    def _empty_pipe(self) -> None:
        os.set_blocking(self.log_pipe, False)
        with self.log_file.open("ab") as log, contextlib.suppress(BlockingIOError):
            while piece := os.read(self.log_pipe, 65536):
                log.write(piece)

    def cpu(self) -> float:
        """Seconds of CPU so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels; 0 where it was never counted."""
        lines = self.get("/metrics", self.monitor_key).body.decode(errors="replace").splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name)

    def alive(self) -> bool:
        return self.process.poll() is None

    # How it ends, and begins to obey another configuration.

    def reload(self, **sections) -> bool:
        """Replaces sections of its configuration while it serves; whether it said so in time."""
        said = '"configuration reloaded"'
        before = self.log().count(said)
        self.config = {**self.config, **sections}
        self.file.write_text(json.dumps(self.config))
        self.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 5 * wire.patience
        while self.log().count(said) == before and time.monotonic() < deadline:
            time.sleep(0.02)
        return self.log().count(said) > before

    def stop(self, seconds: float = 10) -> bool:
        """Ends it politely; whether it ended in time."""
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(seconds)
            return True
        except subprocess.TimeoutExpired:
            self.kill()
            return False

    def kill(self) -> None:
        if self.alive():
            self.process.kill()
        self.process.wait()
        if self.log_pipe is not None:
            os.close(self.log_pipe)
            self.log_pipe = None


class Watch:
    """A watcher beside a gateway; see watch.py."""

    def __init__(self, gateway: Gateway):
        authorization = f"Bearer {gateway.key}" if gateway.key else ""
        command = [sys.executable, "-B", str(Path(__file__).with_name("watch.py"))]
        arguments = [str(gateway.pid), str(gateway.port), authorization, str(MAX_GROWTH)]
        self.process = subprocess.Popen(command + arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def end(self) -> dict:
        try:
            output, _ = self.process.communicate("over\n", timeout=15)
            return json.loads(output)
        except (subprocess.TimeoutExpired, ValueError, OSError):
            self.abandon()
            return {"growth": 0, "killed": False, "waits": [{"longest": 15.0, "failed": 1, "asked": 1}] * 2}

    def abandon(self) -> None:
        self.process.kill()
        self.process.wait()
