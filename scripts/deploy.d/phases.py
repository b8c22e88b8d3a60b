"""What is done to the gateways while clients go on: idle connections, restarts, reloads, an outage of the provider."""

import asyncio
import signal
import time
from dataclasses import dataclass, field

from http1 import Client, Cut
from processes import Failed, Gateway, say
from scene import Row, Scene, judged, once
from traffic import Retrieval, Traffic, create, missing

# Clients beside those that stream.
OTHERS = {"plain": 6, "tools": 4, "idle": 10}
# Within that long so many streams are open again.
OPEN_SECONDS = 60


@dataclass
class Moments:
    """How many streams were open when something was done to a gateway, and how many runs it had itself."""

    streams: int
    open: list[int] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)

    def load(self) -> dict[str, int]:
        """Some more clients than streams: one that has its answer waits before it asks again."""
        return {"streams": self.streams + self.streams // 5 + 2, **OTHERS}

    async def awaited(self, scene: Scene, traffic: Traffic, gateway: Gateway) -> None:
        """Until that many are open, and the gateway has a part of them again."""
        deadline = time.monotonic() + OPEN_SECONDS
        while await scene.metric(gateway, "antwort_runs_active") < self.streams // 10 and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        await traffic.until_open(self.streams, deadline - time.monotonic())

    async def noted(self, scene: Scene, traffic: Traffic, gateway: Gateway) -> None:
        """What it is now, a second later at most: streams that ended while a balancer was told are followed by others."""
        self.open.append(await traffic.until_open(self.streams, 1))
        self.runs.append(await scene.metric(gateway, "antwort_runs_active"))

    def faults(self) -> list[str]:
        found = [f"at one point only {min(self.open)} streams were open"] if min(self.open, default=0) < self.streams else []
        return found + ([] if min(self.runs, default=0) else ["once a gateway had nothing to do"])

    def __str__(self) -> str:
        return f"{min(self.open)} to {max(self.open)} streams open at each, {min(self.runs)} to {max(self.runs)} runs at that gateway"


async def idle(scene: Scene, seconds: float, connections: int = 20) -> Row:
    """Connections of clients on which nothing is asked for so long; the balancer's own to the gateways, too."""
    traffic = scene.traffic()
    clients = [scene.client(i) for i in range(connections)]

    async def all_ask() -> None:
        await asyncio.gather(*(traffic.asked(each, "idle", create("say 1 0")) for each in clients))

    kept = []
    for _ in range(2):
        await all_ask()
        await asyncio.sleep(seconds * 0.8)
        # Less the one that asks.
        kept.append(sum([await scene.metric(each, "antwort_connections") - 1 for each in scene.gateways]))
        await asyncio.sleep(seconds * 0.2)
    await all_ask()
    for each in clients:
        each.close()
    closed = sum([await scene.metric(each, "antwort_connections_closed_total", "keep_alive_timeout") for each in scene.gateways])
    counts = traffic.counts
    faults = counts.faults()
    if (answers := sum(counts.answers.values())) != 3 * connections:
        faults.append(f"{answers} answers of {3 * connections}")
    if closed:
        faults.append(f"the gateways closed {closed} connections that the balancer kept")
    if counts.unread:
        faults.append(f"the balancer closed {counts.unread} connections of clients")
    if scene.balancer.keeps_idle and not min(kept):
        faults.append("the balancer had no connection to a gateway left")
    figures = f"{connections} connections, twice {seconds:g} s; {counts}; {min(kept)} of the balancer's kept, {closed} closed by a gateway"
    return Row(scene.balancer.name, "idle connections", figures, faults)


async def restarts(scene: Scene, times: int, streams: int, told: bool = True) -> Row:
    """Rolling restarts: both gateways, one after the other, each while clients go on. `told`: the balancer is told before and after,
    as the page says; else it finds out by itself, and the next gateway follows when the one before has work again."""
    stored = {each.name: await scene.stored(each) for each in scene.gateways}
    traffic, moments, faults = scene.traffic(), Moments(streams), []
    traffic.start(moments.load())
    begun = time.monotonic()
    for number in range(times):
        for gateway in scene.gateways:
            await moments.awaited(scene, traffic, gateway)
            if told:
                await scene.balancer.take_out(gateway)
            await moments.noted(scene, traffic, gateway)
            await gateway.stop()
            await gateway.start()
            if outcome := await missing(Client(gateway.port, scene.keys[0]), stored[gateway.name]):
                faults.append(f"a stored response was missing after a restart: {outcome}")
            if told:
                await scene.balancer.put_back(gateway)
            else:
                await moments.awaited(scene, traffic, gateway)
        say(f"{scene.balancer.name}: rolling restart {number + 1} of {times}; {traffic.counts}; {moments}")
    seconds = time.monotonic() - begun
    await asyncio.sleep(1)
    faults += await traffic.stop() + moments.faults()
    figures = f"{traffic.counts}; {moments}; {seconds:.0f} s"
    what = "rolling restarts" if told else "rolling restarts of which the balancer is not told"
    return Row(scene.balancer.name, f"{times} {what} under {streams} streams", figures, faults)


async def reloads(scene: Scene, times: int, streams: int) -> Row:
    """SIGHUP with another key each time: it is known afterwards, the one before is not."""
    traffic, moments, retrievals, faults = scene.traffic(), Moments(streams), await scene.retrievals(), []
    traffic.start(moments.load())
    for number in range(times):
        for gateway in scene.gateways:
            await moments.awaited(scene, traffic, gateway)
            await moments.noted(scene, traffic, gateway)
            faults += await reloaded(gateway, number)
        if faults:
            break
        await asyncio.sleep(0.3)
    faults += await traffic.stop() + moments.faults()
    figures, missed = await judged(retrievals)
    figures = f"{traffic.counts}; {moments}; {figures}"
    return Row(scene.balancer.name, f"{times} reloads under {streams} streams", figures, faults + missed)


async def reloaded(gateway: Gateway, number: int) -> list[str]:
    """Takes one key away and gives another."""
    keys = {name: key for name, key in gateway.config["auth"]["keys"].items() if not name.startswith("reload")}
    new, process = f"sk-reload-{number}", gateway.process.pid
    if await status(gateway, new) != 401:
        return [f"{gateway.name} accepts the key of reload {number + 1} before the reload"]
    gateway.config["auth"]["keys"] = {**keys, f"reload{number}": {"key": new}}
    gateway.write_config()
    gateway.signal(signal.SIGHUP)
    deadline = time.monotonic() + 10
    while (last := await status(gateway, new)) != 200:
        if time.monotonic() > deadline or not gateway.alive:
            return [f"{gateway.name} rejects the key of reload {number + 1} 10 s after the reload: {last}"]
        await asyncio.sleep(0.05)
    if number and await status(gateway, f"sk-reload-{number - 1}") != 401:
        return [f"{gateway.name} still accepts a removed key"]
    return [] if gateway.process.pid == process else [f"{gateway.name} was replaced by another process"]


async def status(gateway: Gateway, key: str) -> int:
    client = Client(gateway.port, key)
    try:
        return (await client.ask("GET", "/v1/responses?limit=1", timeout=10)).status
    except (Cut, TimeoutError):
        return 0
    finally:
        client.close()


async def outage(scene: Scene, streams: int) -> Row:
    """The provider goes while this many streams run; what is stored stays, and all is well when it is back."""
    traffic, retrievals = scene.traffic(), await scene.retrievals()
    retrievals.append(Retrieval(scene.balancer.port, scene.keys[0], await balanced_id(scene), scene.tls))
    clients = [scene.client(i) for i in range(streams)]
    body = create("say 300 0.5", stream=True)
    running = [asyncio.create_task(traffic.asked(each, "streams", body)) for each in clients]
    opened = await traffic.until_open(streams, 100)
    scene.provider.stop()
    before = [each.found for each in retrievals]
    await asyncio.gather(*running)
    refused = await asyncio.gather(*(once(scene.client(i)) for i in range(len(scene.keys))))
    await asyncio.sleep(3)  # longer than health checks take to notice
    during = min(each.found - earlier for each, earlier in zip(retrievals, before))
    await scene.provider.start()
    back = await asyncio.gather(*(once(scene.client(i)) for i in range(len(scene.keys))))
    for each in clients:
        each.close()
    figures, faults = await judged(retrievals)
    counts = traffic.counts
    faults += counts.faults("response.failed")
    if opened != streams:
        faults.append(f"only {opened} streams were open when the provider stopped")
    if not during:
        faults.append("a response was not asked for during the outage")
    codes = sorted({f"{reply.status} {reply.code or reply.cut}" for reply in refused})
    # Of the gateway, and of the provider: that a balancer has taken both gateways out would be 5xx, too.
    faults += [f"new requests were answered {code} in the outage" for code in codes if not code.startswith("502 upstream_")]
    faults += [f"after the outage: {reply.status} {reply.code}{reply.cut}" for reply in back if reply.status != 200]
    said = f"{counts.ends['response.failed']} streams ended as failed, new requests {', '.join(codes)}; {figures}"
    return Row(scene.balancer.name, f"outage of the provider under {streams} streams", said, faults)


async def balanced_id(scene: Scene) -> str:
    reply = await once(scene.client(0))
    if reply.status != 200:
        raise Failed(f"through {scene.balancer.name}: {reply.status} {reply.code} {reply.cut}")
    return reply.json["id"]
