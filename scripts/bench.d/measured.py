"""What is measured and what it needs: gateways on one of the stores, and the load kit's provider."""

import asyncio
import os
from pathlib import Path

from processes import Failed, Process, free_port
from servers import SEAL_KEY, Postgres, Replica

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_of(pid: int, with_ended: bool = False) -> float:
    """Seconds, of the system for the process, too; `with_ended`: and of those of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(int(field) for field in fields[11 : 15 if with_ended else 13]) / TICKS


class Gateway(Replica):
    @property
    def cpu(self) -> float:
        return cpu_of(self.process.pid)

    async def stop(self) -> None:
        self.signal(15)
        if code := await self.ended(40):
            raise Failed(f"{self.name} exited with code {code}: {self.log().strip()[-400:]}")


class Database(Postgres):
    """A cluster that commits as in production; each group of gateways gets an empty database of it."""

    def __init__(self, folder: Path, **settings: str):
        super().__init__(folder, **settings)
        self.made = 0

    async def create(self) -> None:
        await super().create()
        if (fsync := self.ask("SHOW fsync")) != "on" or self.ask("SHOW synchronous_commit") != "on":
            raise Failed(f"fsync is {fsync}")

    def fresh(self) -> str:
        """The URL of an empty database."""
        self.made += 1
        name = f"antwort{self.made}"
        self.ask(f"CREATE DATABASE {name}")
        return f"{self.url.rsplit('/', 1)[0]}/{name}"

    @property
    def cpu(self) -> float:
        own = self.process.pid
        backends = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        total = cpu_of(own, with_ended=True)
        for pid in backends:
            try:
                total += cpu_of(int(pid))
            except FileNotFoundError:
                pass  # it has ended just now
        return total


class Kit(Process):
    """The load kit's provider."""

    def __init__(self, folder: Path):
        super().__init__("upstream", folder)
        if "BENCH_BIN" not in os.environ:
            raise Failed("BENCH_BIN must name the folder with the load kit's programs")
        self.bin, self.port = Path(os.environ["BENCH_BIN"]), free_port()

    async def start(self) -> None:
        self.spawn([str(self.bin / "upstream"), "--port", str(self.port)])
        for _ in range(200):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.close()
                return
            except OSError:
                await asyncio.sleep(0.05)
        raise Failed("the kit's provider does not serve")


class Scene:
    """The provider, PostgreSQL if it is needed, and gateways as they are asked for."""

    def __init__(self, binary: str, folder: Path, upstream):
        self.binary, self.folder, self.upstream = binary, folder, upstream
        self.database: Database | None = None
        self.count = 0

    async def start(self, stores: list[str], **settings: str) -> None:
        """`settings` are PostgreSQL's."""
        await self.upstream.start()
        if "postgres" in stores:
            self.database = Database(self.folder, **settings)
            await self.database.create()

    async def gateways(self, store: str, count: int = 1, **more) -> list[Gateway]:
        """Gateways that share an empty database of this kind."""
        self.count += 1
        url = self.database.fresh() if store == "postgres" else f"sqlite:{self.folder}/bench-{self.count}.db"
        config = {
            "store": {"url": url},
            "seal": {"keys": [SEAL_KEY]},
            "providers": {"mock": {"url": f"http://127.0.0.1:{self.upstream.port}/v1"}},
            "log": {"filter": "error"},
            **more,
        }
        made = [Gateway(f"gateway-{self.count}-{i}", self.folder, self.binary, config) for i in range(count)]
        for each in made:
            await each.start()
        return made


def percentile(histogram: dict[int, int], share: float) -> int:
    """The value below or at which this share of what was counted is."""
    left = share * sum(histogram.values())
    for value in sorted(histogram):
        left -= histogram[value]
        if left <= 0:
            return value
    return 0
