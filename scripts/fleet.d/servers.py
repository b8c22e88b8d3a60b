"""What a fleet stands on: PostgreSQL, NATS, and the replicas themselves, all on free ports of loopback."""

import asyncio
import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import time
from pathlib import Path

from http1 import Client, Cut
from processes import START_SECONDS, Failed, Process, free_port

# 32 bytes, for a database of this test alone.
SEAL_KEY = "A" * 43 + "="


class Postgres(Process):
    """A cluster of the installed version. PostgreSQL refuses to run as root: then it is `postgres` or `nobody`."""

    def __init__(self, folder: Path, **settings: str):
        super().__init__("postgres", folder)
        self.port, self.data = free_port(), folder / "postgres"
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        self.bin = found[-1] if found else Path(shutil.which("postgres") or "/usr/bin/postgres").parent
        self.settings = {"listen_addresses": "127.0.0.1", "port": str(self.port), "max_connections": "200",
                         "unix_socket_directories": "", **settings}

    @property
    def url(self) -> str:
        return f"postgres://antwort@127.0.0.1:{self.port}/antwort"

    def url_of(self, name: str) -> str:
        """With the name of who connects, so that its transactions are known."""
        return f"{self.url}?application_name={name}"

    def as_user(self, *command) -> list[str]:
        if os.getuid():
            return [str(word) for word in command]
        name = next(name for name in ("postgres", "nobody") if any(user.pw_name == name for user in pwd.getpwall()))
        user = pwd.getpwnam(name)
        own = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        return [*own, *(str(word) for word in command)]

    async def create(self) -> None:
        self.data.mkdir()
        if not os.getuid():
            user = pwd.getpwnam("postgres" if any(u.pw_name == "postgres" for u in pwd.getpwall()) else "nobody")
            os.chown(self.data, user.pw_uid, user.pw_gid)
            for parent in [self.folder, *self.folder.parents]:
                if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
                    parent.chmod(parent.stat().st_mode | 0o711)
        self.run("initdb", "-D", self.data, "-U", "antwort", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start()
        await self.serving()
        self.run("createdb", "-h", "127.0.0.1", "-p", self.port, "-U", "antwort", "antwort")

    def run(self, program: str, *arguments) -> str:
        done = subprocess.run(self.as_user(self.bin / program, *arguments), capture_output=True, text=True, cwd="/")
        if done.returncode:
            raise Failed(f"{program}: {done.stderr.strip()}")
        return done.stdout

    def ask(self, statement: str, database: str = "antwort") -> str:
        return self.run("psql", "-h", "127.0.0.1", "-p", self.port, "-U", "antwort", "-At", "-c", statement, database).strip()

    def start(self) -> None:
        given = [word for name, value in self.settings.items() for word in ("-c", f"{name}={value}")]
        self.spawn(self.as_user(self.bin / "postgres", "-D", self.data, *given))

    async def serving(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        check = self.as_user(self.bin / "pg_isready", "-q", "-h", "127.0.0.1", "-p", self.port, "-U", "antwort")
        while subprocess.run(check, cwd="/").returncode:
            if not self.alive or time.monotonic() > deadline:
                raise Failed(f"postgres does not serve: {self.log().strip()[-400:]}")
            await asyncio.sleep(0.05)

    async def restart(self) -> None:
        """As after a crash: connections are cut, nothing is flushed that was not committed."""
        self.signal(signal.SIGQUIT)
        await self.ended(START_SECONDS)
        self.start()
        await self.serving()

    async def stand_still(self, seconds: float) -> None:
        """No connection is cut, and none is answered: the processes are stopped for so long."""
        self.signal(signal.SIGSTOP)  # first, so that it makes no more of them
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        try:
            self._signal_all(children, signal.SIGSTOP)
            await asyncio.sleep(seconds)
        finally:
            self._signal_all(children, signal.SIGCONT)
            self.signal(signal.SIGCONT)

    @staticmethod
    def _signal_all(children: list[str], number: int) -> None:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), number)

    async def be_down(self, seconds: float) -> None:
        """Shuts down as an administrator does, so that connections are refused for so long."""
        self.signal(signal.SIGINT)
        await self.ended(START_SECONDS)
        await asyncio.sleep(seconds)
        self.start()
        await self.serving()

    def locks_runs(self, name: str) -> bool:
        """Whether a transaction of this application has locked or changed rows of runs, and waits for its next statement."""
        locks = "pid = a.pid AND relation = 'runs'::regclass AND mode IN ('RowShareLock', 'RowExclusiveLock')"
        where = f"application_name = '{name}' AND state = 'idle in transaction' AND EXISTS (SELECT FROM pg_locks WHERE {locks})"
        return self.ask(f"SELECT count(*) FROM pg_stat_activity a WHERE {where}") != "0"


class Nats(Process):
    def __init__(self, folder: Path):
        super().__init__("nats", folder)
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.spawn(["nats-server", "--addr", "127.0.0.1", "--port", str(self.port)])

    async def restart(self) -> None:
        self.kill()
        await asyncio.sleep(0.5)
        self.start()


class Replica(Process):
    """One gateway of the fleet."""

    def __init__(self, name: str, folder: Path, binary: str, config: dict):
        super().__init__(name, folder)
        self.binary, self.port = binary, free_port()
        self.config = {**config, "listen": f"127.0.0.1:{self.port}"}
        self.file = folder / f"{name}.yaml"
        self.starts = 0

    def launch(self) -> None:
        self.file.write_text(json.dumps(self.config, indent=1))  # JSON is YAML
        self.starts += 1
        self.spawn([self.binary, "serve", "--config", str(self.file)])

    async def start(self) -> None:
        self.launch()
        deadline = time.monotonic() + START_SECONDS
        while not await self.ready():
            if not self.alive or time.monotonic() > deadline:
                raise Failed(f"{self.name} did not become ready: {self.log().strip()[-600:]}")
            await asyncio.sleep(0.05)

    async def ready(self) -> bool:
        client = Client(self.port)
        try:
            return (await client.ask("GET", "/readyz", timeout=5)).status == 200
        except (Cut, TimeoutError):
            return False
        finally:
            client.close()

    async def metric(self, name: str) -> float:
        client = Client(self.port)
        text = (await client.ask("GET", "/metrics", timeout=10)).body.decode()
        client.close()
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))

    @property
    def memory(self) -> float:
        """Resident memory, in MiB."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    @property
    def files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def panics(self) -> int:
        return self.log().count("panicked")


class Sqlite:
    """A file, for a replica that is alone."""

    def __init__(self, folder: Path):
        self.url = f"sqlite:{folder}/alone.db"

    def url_of(self, _name: str) -> str:
        return self.url

    async def create(self) -> None:
        """The replica makes it."""


def configuration(name: str, database: Postgres | Sqlite, bus: str | None, provider, tools, hooks=None) -> dict:
    # The model and the tool know who asks them.
    headers = {"x-replica": name}
    config = {
        "store": {"url": database.url_of(name), "lease": "6s", "maintenance_interval": "1s"},
        "seal": {"keys": [SEAL_KEY]},
        "providers": {"mock": {"url": f"http://127.0.0.1:{provider.port}/v1", "retries": {"max": 0}, "headers": headers}},
        "mcp": {"servers": {"work": {"url": f"http://127.0.0.1:{tools.port}/mcp", "trust": "trusted", "headers": headers}}},
        "egress": {"allow": ["127.0.0.1"]},
        "server": {"drain_timeout": "20s", "shutdown_delay": "0s"},
        "engine": {"limits": {"max_turns": 20}},
    }
    if bus:
        config["bus"] = {"url": bus}
    if hooks:
        config["webhooks"] = {"chaos": {"url": f"http://127.0.0.1:{hooks.port}/hook", "secret": hooks.secret}}
    return config
