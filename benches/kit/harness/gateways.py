"""Gateways that can be measured: antwort's own binaries, the floor, and peers. Each start is a fresh process with an
empty database of its own."""

import os
import pathlib
import shutil
import socket
import subprocess
import time

import machine
from processes import KIT, Failed, first_line, free_port, post, spawn, stop

CONFIG = """\
egress: {allow: ["127.0.0.1"]}
engine: {limits: {max_turns: 30, max_identical_calls: 100}}
server: {max_runs: 10000}
tools: {cache: {enabled: false}, mock: {noop: {output: ok, delay: 0s, parameters: {type: object, properties: {}}}}}
"""


class Gateway:
    """One process, or a tree of them, that serves on `port`."""

    prefix, path, direct, headers, stream_only = "", "/v1/responses", False, {}, False
    process = None

    def __init__(self, name, folder):
        self.name, self.folder = name, pathlib.Path(folder, name)

    def start(self, provider, keep=False):
        """`keep`: on the database of the last start. Gives the milliseconds from exec until it was ready."""
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        begun = time.monotonic()
        with open(self.folder / "log.txt", "ab") as log:
            self.process = self.launch(provider, log)
        self.wait(begun)
        return 1000 * (time.monotonic() - begun)

    def stop(self):
        if self.process:
            stop(self.process)
        self.process = None

    def log(self):
        return first_line((self.folder / "log.txt").read_text(errors="replace")[-600:])

    @property
    def pid(self):
        return self.process.pid

    @property
    def cpu(self):
        return machine.cpu_seconds(self.pid)


class Antwort(Gateway):
    """A binary of ours, as a user would start it: SQLite, and no log but of errors."""

    def __init__(self, name, folder, binary):
        super().__init__(name, folder)
        self.binary = str(pathlib.Path(binary).resolve())

    def version(self):
        return subprocess.run([self.binary, "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def launch(self, provider, log):
        (self.folder / "antwort.yaml").write_text(CONFIG)
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "ANTWORT_LISTEN": f"127.0.0.1:{self.port}",
               "ANTWORT_UPSTREAM_URL": provider.url + "/v1", "ANTWORT_LOG": "error",
               "ANTWORT_STORE_URL": f"sqlite:{self.folder}/bench.db"}
        return spawn([self.binary, "serve"], log, self.folder, env)

    def wait(self, begun):
        """Asks over a bare socket each millisecond: a client library's own time would count."""
        while time.monotonic() < begun + 30:
            if self.process.poll() is not None:
                raise Failed(f"{self.name} ended: {self.log()}")
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as s:
                    s.settimeout(1)
                    s.sendall(b"GET /readyz HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n")
                    if b" 200 " in s.recv(64):
                        return
            except OSError:
                pass
            time.sleep(0.001)
        raise Failed(f"{self.name} did not become ready: {self.log()}")


class Peer(Gateway):
    """What peers/NAME.sh starts; its `info` says how it wants to be asked."""

    def __init__(self, name, folder):
        super().__init__(name, folder)
        self.info = dict(line.split("=", 1) for line in self.script("info").splitlines() if "=" in line)
        self.direct, self.stream_only = self.info.get("direct") == "1", self.info.get("stream_only") == "1"
        self.prefix = self.info.get("model_prefix", "")
        self.path = "/v1/chat/completions" if self.direct else self.info.get("path", "/v1/responses")
        self.headers = dict([self.info["header"].split(": ", 1)]) if self.info.get("header") else {}

    def version(self):
        return self.info.get("version", "")

    def install(self):
        """Into PEERS_DIR, unless it is there."""
        pathlib.Path(os.environ["PEERS_DIR"]).mkdir(parents=True, exist_ok=True)
        if not self.version():
            self.script("install")
            self.__init__(self.name, self.folder.parent)

    def script(self, *words):
        done = subprocess.run(["bash", KIT / "peers" / f"{self.name}.sh", *words], capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"peers/{self.name}.sh {' '.join(words)}: {first_line(done.stderr)}")
        return done.stdout

    def launch(self, provider, log):
        argv = ["bash", KIT / "peers" / f"{self.name}.sh", "start", self.port, provider.port]
        return spawn(argv, log, self.folder, os.environ)

    def wait(self, begun):
        question = {"messages": [{"role": "user", "content": "hi"}]} if self.direct else {"input": "hi"}
        body = {"model": self.prefix + "text-20", **question, **({"stream": True} if self.stream_only else {})}
        last = (0, b"")
        while time.monotonic() < begun + float(self.info.get("startup_limit_s", 120)):
            last = post(self.url + self.path, body, timeout=20, headers=self.headers)
            if last[0] == 200:
                return
            if self.process.poll() is not None:
                raise Failed(f"{self.name} ended: {self.log()}")
            time.sleep(0.02 if last[0] == 0 else 0.2)
        raise Failed(f"{self.name} never answered 200; last {last[0]}: {first_line(last[1])}")
