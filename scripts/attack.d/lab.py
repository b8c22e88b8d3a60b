"""The environment of an attack: gateways, providers and MCP servers that end with it, and the record of its outcome.

An attack is a function in one of the `*_attacks` modules that takes a `Lab`; `@attack(...)` registers it.
"""

import contextlib
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import wire
from gateway import MIB, Gateway, Watch
from mcp_server import McpServer
from provider import Provider

# What the gateway may grow by beyond the byte budgets that an attack may fill.
ALLOWED_GROWTH = 64 * MIB


class NotRun(Exception):
    """The attack needs something that this machine does not have."""


@dataclass
class Attack:
    name: str
    about: str
    run: Callable[["Lab"], None]


ATTACKS: list[Attack] = []


def attack(about: str):
    """Registers a function as an attack, by its name."""

    def register(function):
        ATTACKS.append(Attack(function.__name__.replace("_", "-"), about, function))
        return function

    return register


@dataclass
class Figures:
    """What was measured over all watched stretches of one attack."""

    growth: int = 0
    healthz: float = 0
    read: float = 0
    unanswered: int = 0
    killed: bool = False
    watched: bool = False


@dataclass
class Lab:
    binary: str
    folder: Path
    figures: Figures = field(default_factory=Figures)
    seen: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    budgets: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self):
        self.over = threading.Event()
        self._closing = contextlib.ExitStack()
        self._gateways = 0

    # What takes part.

    def provider(self, answer=None) -> Provider:
        return self._until_the_end(Provider(answer))

    def mcp(self, **behaviour) -> McpServer:
        return self._until_the_end(McpServer(over=self.over, **behaviour))

    def gateway(
        self,
        provider: Provider | None = None,
        *,
        provider_settings: dict | None = None,
        keys: dict | None = None,
        key: str = "",
        open_files: int = 0,
        wrapper: Iterable[str] = (),
        folder: Path | None = None,
        wait: bool = True,
        unread_log: bool = False,
        **config,
    ) -> Gateway:
        """A gateway with its defaults but for `config`, whose sections are merged with what the laboratory needs."""
        self._gateways += 1
        folder = folder or self.folder / f"gateway-{self._gateways}"
        provider = provider or self.provider()
        settings = {
            "listen": "127.0.0.1:0",
            "log": {"format": "json"},
            "store": {"url": f"sqlite:{folder}/antwort.db"},
            "egress": {"allow": ["127.0.0.1"]},
            "providers": {"mock": {"url": provider.url, "default": True, **(provider_settings or {})}},
        }
        if keys:
            settings["auth"] = {"keys": keys}
        for section, value in config.items():
            settings[section] = {**settings.get(section, {}), **value}
        gateway = Gateway(
            self.binary,
            folder,
            settings,
            key=key,
            open_files=open_files,
            wrapper=wrapper,
            wait=wait,
            unread_log=unread_log,
        )
        self._closing.callback(gateway.kill)
        return gateway

    def closing(self, thing):
        """Closes a connection or the like at the end."""
        return self._until_the_end(thing, "close")

    def _until_the_end(self, thing, method: str = "stop"):
        self._closing.callback(getattr(thing, method))
        return thing

    # What is seen.

    @contextlib.contextmanager
    def watched(self, gateway: Gateway):
        """Measures the gateway's growth and another client's waits meanwhile."""
        if self.figures.watched is False:
            gateway.get("/v1/responses/resp_other")  # what a first request costs is no growth
        watch = Watch(gateway)
        try:
            yield
        finally:
            # The figures are wanted most where the attack runs out of time, so that must not end the watch.
            left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
            self._measured(watch.end())
            signal.setitimer(signal.ITIMER_REAL, left)

    def _measured(self, seen: dict) -> None:
        figures, (healthz, read) = self.figures, seen["waits"]
        figures.watched = True
        figures.growth = max(figures.growth, seen["growth"])
        figures.healthz = max(figures.healthz, healthz["longest"])
        figures.read = max(figures.read, read["longest"])
        figures.unanswered += healthz["failed"] + read["failed"]
        figures.killed |= seen["killed"]

    def budget(self, name: str, size: int) -> None:
        """Bytes that the attack may fill by the configuration."""
        self.budgets.append((name, size))

    def check(self, held: bool, failure: str) -> bool:
        if not held:
            self.failures.append(failure)
        return held

    def expect(self, answer, what: str, status: int | tuple = 200, code: str | tuple = "") -> bool:
        """An answer with this status and error code (or one of these)."""
        statuses = status if isinstance(status, tuple) else (status,)
        codes = code if isinstance(code, tuple) else (code,)
        held = answer.status in statuses and (answer.status < 400 or not any(codes) or answer.code in codes)
        wanted = " or ".join(map(str, statuses)) + (f" {' or '.join(codes)}" if any(codes) else "")
        return self.check(held, f"{what}: {answer} instead of {wanted}")

    def note(self, text: str) -> None:
        """Says what was seen, whether the attack was held off or not."""
        self.seen.append(text)

    def held(self, text: str) -> None:
        """Says how the attack was held off, where nothing failed."""
        if not self.failures:
            self.seen.append(text)

    @property
    def allowed(self) -> int:
        return ALLOWED_GROWTH + sum(size for _, size in self.budgets)

    def end(self) -> None:
        self.over.set()
        self._closing.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def at_once(count: int, work: Callable[[int], object]) -> list:
    """The results of so many calls at the same time."""
    pool = ThreadPoolExecutor(count)
    try:
        return list(pool.map(work, range(count)))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # an attack whose time is over does not wait for them


def until(condition: Callable[[], object], seconds: float = 10) -> bool:
    """Waits for something to become true; whether it did in time."""
    deadline = time.monotonic() + seconds * wire.patience
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
