"""A rolling restart of the fleet under open streams and background runs."""

import asyncio
from collections import Counter

from clients import KEY, TERMINAL
from http1 import Client, Cut
from servers import Replica

# Seconds between words: the streams last 5 to 25 s.
PAUSES = [0.05, 0.1, 0.15, 0.25]
WORDS = 100


class Rolling:
    def __init__(self, replicas: list[Replica]):
        self.replicas = replicas
        self.faults: list[str] = []
        self.ends: Counter[str] = Counter()
        # Streams that had an event, and those that ended without any.
        self.open = self.refused = 0

    async def run(self, streams: int, background: int) -> dict:
        tasks = [asyncio.create_task(self.stream(i)) for i in range(streams)]
        jobs = await asyncio.gather(*(self.submit(i) for i in range(background)))
        while self.open + self.refused < streams:
            await asyncio.sleep(0.05)
        at_start = self.open - self.ends.total()
        for each in self.replicas:
            each.signal(15)
            if code := await each.ended(60):
                self.faults.append(f"{each.name} exited with code {code}")
            await each.start()
        await asyncio.gather(*tasks)
        ended = Counter([await self.finished(id) for id in jobs])
        return {
            "streams open at the restart": at_start,
            "streams refused": self.refused,
            **{f"streams {end}": count for end, count in sorted(self.ends.items())},
            **{f"background runs {status}": count for status, count in sorted(ended.items())},
        }

    async def stream(self, number: int) -> None:
        client = Client(self.replicas[number % len(self.replicas)].port, KEY)
        is_open = False

        def opened(_event: str) -> None:
            nonlocal is_open
            self.open += not is_open
            is_open = True

        body = {"model": "m", "input": f"say {WORDS} {PAUSES[number % len(PAUSES)]}", "stream": True}
        try:
            reply = await client.ask("POST", "/v1/responses", body, on_event=opened)
            end = reply.terminal or f"cut: {reply.cut}"
        except (Cut, TimeoutError) as error:
            end = f"cut: {error}"
        finally:
            client.close()
        if is_open:
            self.ends[end] += 1
        else:
            self.refused += 1
        if end != "response.completed":
            self.faults.append(f"stream {number}: {end}")

    async def submit(self, number: int) -> str:
        client = Client(self.replicas[number % len(self.replicas)].port, KEY)
        tools = [{"type": "mcp", "server_label": "work"}]
        body = {"model": "m", "input": f"work rolling{number} 5 0.5", "background": True, "tools": tools}
        reply = await client.ask("POST", "/v1/responses", body)
        client.close()
        return reply.json["id"]

    async def finished(self, id: str) -> str:
        client = Client(self.replicas[0].port, KEY)
        try:
            for _ in range(600):
                reply = await client.ask("GET", f"/v1/responses/{id}")
                if reply.json.get("status") in TERMINAL:
                    if reply.json["status"] != "completed":
                        self.faults.append(f"{id} is {reply.json['status']}: {reply.json.get('error')}")
                    return reply.json["status"]
                await asyncio.sleep(0.1)
        finally:
            client.close()
        self.faults.append(f"{id} has not ended")
        return "open"
