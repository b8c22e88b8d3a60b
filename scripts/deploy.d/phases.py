"""What is done to the gateways while clients go on: idle connections, restarts, reloads, an outage of the provider."""

import asyncio
import signal
import time
from dataclasses import dataclass, field

from http1 import Client, Cut, Reply
from processes import Balancer, Failed, Gateway, say
from traffic import Retrieval, Traffic, create
from upstream import Provider


@dataclass
class Row:
    """A line of the table."""

    balancer: str
    what: str
    figures: str
    faults: list[str] = field(default_factory=list)


@dataclass
class Scene:
    balancer: Balancer
    gateways: list[Gateway]
    provider: Provider
    keys: list[str]
    tls: object
    label: str

    def traffic(self) -> Traffic:
        return Traffic(self.balancer.port, self.keys, self.tls, self.label)

    async def stored(self, gateway: Gateway) -> str:
        """The id of a response that this gateway has made."""
        client = Client(gateway.port, self.keys[0])
        reply = await client.ask("POST", "/v1/responses", create("say 1 0"))
        client.close()
        if reply.status != 200:
            raise Failed(f"{gateway.name} answers {reply.status} {reply.code}")
        return reply.json["id"]

    async def retrievals(self) -> list[Retrieval]:
        return [Retrieval(each.port, self.keys[0], await self.stored(each)) for each in self.gateways]


def summary(traffic: Traffic) -> str:
    counts = traffic.counts
    total = sum(counts.answers.values())
    text = f"{total} answers, {counts.streams} of them streams, {counts.tool_calls} calls of tools"
    return text + (f"; {counts.stale} idle connections closed by the balancer" if counts.stale else "")


async def judged(retrievals: list[Retrieval]) -> tuple[str, list[str]]:
    for each in retrievals:
        await each.stop()
    times, missed = sum(each.times for each in retrievals), [each.missed for each in retrievals if each.missed]
    return f"{times} retrievals", [f"a response was not there: {dict(each)}" for each in missed]


async def idle(scene: Scene, seconds: float, connections: int = 20) -> Row:
    """Connections of clients on which nothing is asked for so long; the balancer's own to the gateways, too."""
    traffic = scene.traffic()
    clients = [Client(traffic.port, scene.keys[i % len(scene.keys)], scene.tls) for i in range(connections)]
    for _ in range(2):
        await asyncio.gather(*(traffic.asked(each, create("say 1 0")) for each in clients))
        await asyncio.sleep(seconds)
    await asyncio.gather(*(traffic.asked(each, create("say 1 0")) for each in clients))
    for each in clients:
        each.close()
    closed = sum([await closed_by_gateway(each, scene.keys[0]) for each in scene.gateways])
    faults = traffic.counts.faults()
    if closed:
        faults.append(f"the gateways closed {closed} connections that the balancer kept")
    if traffic.counts.stale:
        faults.append(f"the balancer closed {traffic.counts.stale} connections of clients")
    figures = f"{connections} connections, twice {seconds:g} s; {summary(traffic)}; {closed} closed by a gateway"
    return Row(scene.balancer.name, "idle connections", figures, faults)


async def closed_by_gateway(gateway: Gateway, key: str) -> int:
    """Connections that its own timeout of idle ones ended."""
    client = Client(gateway.port, key)
    metrics = (await client.ask("GET", "/metrics")).body.decode()
    client.close()
    lines = [line for line in metrics.splitlines() if "connections_closed_total" in line and "keep_alive_timeout" in line]
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines)


async def restarts(scene: Scene, times: int, load: dict[str, int]) -> Row:
    """Rolling restarts: both gateways, one after the other, each while clients go on."""
    traffic = scene.traffic()
    traffic.start(**load)
    await asyncio.sleep(1)
    begun = time.monotonic()
    for number in range(times):
        for gateway in scene.gateways:
            await scene.balancer.take_out(gateway)
            await gateway.stop()
            await gateway.start()
            await scene.balancer.put_back(gateway)
        say(f"{scene.balancer.name}: rolling restart {number + 1} of {times}; {summary(traffic)}")
    seconds = time.monotonic() - begun
    await asyncio.sleep(1)
    counts = await traffic.stop()
    faults = counts.faults() + [f"{each.name} panicked" for each in scene.gateways if each.panics()]
    if not counts.tool_calls:
        faults.append("no tool was called")
    return Row(scene.balancer.name, f"{times} rolling restarts", f"{summary(traffic)}; {seconds:.0f} s", faults)


async def reloads(scene: Scene, times: int, load: dict[str, int]) -> Row:
    """SIGHUP with another key each time: it is known afterwards, the one before is not."""
    traffic, retrievals = scene.traffic(), await scene.retrievals()
    traffic.start(**load)
    faults = []
    for number in range(times):
        for gateway in scene.gateways:
            keys = {name: key for name, key in gateway.config["auth"]["keys"].items() if not name.startswith("reload")}
            new = f"sk-reload-{number}"
            gateway.config["auth"]["keys"] = {**keys, f"reload{number}": {"key": new}}
            gateway.write_config()
            gateway.signal(signal.SIGHUP)
            if not await known(gateway, new):
                faults.append(f"{gateway.name} does not know the key of reload {number + 1} after 10 s")
                break
            if number and await status(gateway, f"sk-reload-{number - 1}") != 401:
                faults.append(f"{gateway.name} still knows a key that was taken away")
        if faults:
            break
        await asyncio.sleep(0.3)
    counts = await traffic.stop()
    figures, missed = await judged(retrievals)
    return Row(scene.balancer.name, f"{times} reloads", f"{summary(traffic)}; {figures}", faults + counts.faults() + missed)


async def known(gateway: Gateway, key: str) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and gateway.alive:
        if await status(gateway, key) == 200:
            return True
        await asyncio.sleep(0.05)
    return False


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
    balanced = Retrieval(scene.balancer.port, scene.keys[0], await balanced_id(scene), scene.tls)
    begun: set[int] = set()

    def on_event(number: int):
        return lambda name: begun.add(number) if name == "response.output_text.delta" else None

    clients = [Client(traffic.port, scene.keys[i % len(scene.keys)], scene.tls) for i in range(streams)]
    body = create("say 300 0.5", stream=True)
    running = [asyncio.create_task(traffic.asked(each, body, on_event(i))) for i, each in enumerate(clients)]
    deadline = time.monotonic() + 100
    while len(begun) < streams and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    scene.provider.stop()
    await asyncio.gather(*running)
    refused = await asyncio.gather(*(once(scene, key) for key in scene.keys))
    await asyncio.sleep(3)  # longer than health checks take to notice
    await scene.provider.start()
    back = await asyncio.gather(*(once(scene, key) for key in scene.keys))
    for each in clients:
        each.close()
    figures, faults = await judged([*retrievals, balanced])
    faults += traffic.counts.faults()
    failed = traffic.counts.ends["response.failed"]
    if failed != streams:
        faults.append(f"of {streams} streams {failed} ended as failed: {dict(traffic.counts.ends)}")
    codes = sorted({f"{reply.status} {reply.code}" for reply in refused})
    faults += [f"new requests were answered {code} in the outage" for code in codes if not code.startswith("5")]
    faults += [f"after the outage: {reply.status} {reply.code}" for reply in back if reply.status != 200]
    said = f"{failed} streams ended as failed, new requests {', '.join(codes)}; {figures}"
    return Row(scene.balancer.name, f"outage of the provider under {streams} streams", said, faults)


async def once(scene: Scene, key: str) -> Reply:
    """A short request through the balancer, on a connection of its own."""
    client = Client(scene.balancer.port, key, scene.tls)
    try:
        return await client.ask("POST", "/v1/responses", create("say 1 0"))
    except (Cut, TimeoutError) as error:
        return Reply(0, {}, cut=str(error))
    finally:
        client.close()


async def balanced_id(scene: Scene) -> str:
    reply = await once(scene, scene.keys[0])
    if reply.status != 200:
        raise Failed(f"through {scene.balancer.name}: {reply.status} {reply.code} {reply.cut}")
    return reply.json["id"]
