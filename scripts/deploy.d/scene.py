"""What the phases act on, two gateways behind a balancer, and the line of the table that each of them makes."""

from dataclasses import dataclass, field

from http1 import Client, Cut, Reply
from processes import Balancer, Failed, Gateway
from traffic import Retrieval, Traffic, create
from upstream import Provider


# Keys of several tenants make no operator unless they name the scope.
MONITOR_KEY = "sk-monitor"


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
        return Traffic(self.balancer.port, self.keys, self.tls, self.label, self.provider)

    def client(self, number: int) -> Client:
        return Client(self.balancer.port, self.keys[number % len(self.keys)], self.tls)

    async def stored(self, gateway: Gateway) -> str:
        """The id of a response that this gateway has made."""
        reply = await once(Client(gateway.port, self.keys[0]))
        if reply.status != 200:
            raise Failed(f"{gateway.name} answers {reply.status} {reply.code} {reply.cut}")
        return reply.json["id"]

    async def retrievals(self) -> list[Retrieval]:
        return [Retrieval(each.port, self.keys[0], await self.stored(each)) for each in self.gateways]

    async def metric(self, gateway: Gateway, name: str, label: str = "") -> int:
        """The sum of a metric's values, of those with this label; 0 where it has none yet."""
        client = Client(gateway.port, MONITOR_KEY)
        reply = await client.ask("GET", "/metrics", timeout=30)
        client.close()
        lines = reply.body.decode().splitlines()
        if reply.status != 200 or not any(line.startswith("antwort_connections ") for line in lines):
            raise Failed(f"{gateway.name} shows no metrics: {reply.status}")
        values = [line.rsplit(" ", 1) for line in lines if line.split("{")[0].split(" ")[0] == name]
        return sum(int(float(value)) for series, value in values if label in series)


async def once(client: Client) -> Reply:
    """A short request on a connection of its own."""
    try:
        return await client.ask("POST", "/v1/responses", create("say 1 0"), timeout=60)
    except (Cut, TimeoutError) as error:
        return Reply(0, {}, cut=str(error) or "nothing within a minute")
    finally:
        client.close()


async def judged(retrievals: list[Retrieval]) -> tuple[str, list[str]]:
    """How often stored responses were there, and what came instead."""
    for each in retrievals:
        await each.stop()
    faults = [f"a stored response was missing: {dict(each.missed)}" for each in retrievals if each.missed]
    faults += ["a response was never asked for" for each in retrievals if not each.found and not each.missed]
    return f"{sum(each.found for each in retrievals)} retrievals", faults
