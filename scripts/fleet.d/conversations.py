"""Background runs that are queued one after the other in one conversation: they are made in that order, and none is lost."""

import asyncio
import json

from clients import Accepted, Clients
from harm import Harms
from upstreams import Model, Served

# Items of a page.
PAGE = 20


class Conversation:
    def __init__(self, name: str, size: int):
        self.name, self.size = name, size
        self.id = ""
        # In the order in which they were acknowledged.
        self.runs: list[Accepted] = []

    async def queue(self, clients: Clients, turns: int, delay: float) -> None:
        """Each create is acknowledged before the next is sent."""
        await asyncio.sleep(delay)
        made = await clients.ask("POST", "/v1/conversations", {})
        if not made or made.status != 200:
            clients.faults.append(f"conversation {self.name} was not made: {made and (made.status, made.body[:300])}")
            return
        self.id = made.json["id"]
        following = []
        for number in range(self.size):
            run = await clients.submit(f"{self.name}.{number}", turns, {"conversation": self.id})
            if not run:
                break
            self.runs.append(run)
            if number % 2:
                following.append(asyncio.create_task(clients.follow(run)))
        await asyncio.gather(*following)

    async def check(self, clients: Clients, responses: dict[str, dict], model: Model, harms: Harms) -> list[str]:
        """What is wrong with it, with the responses of its runs as they have ended."""
        faults = []
        before: list[Accepted] = []
        for place, run in enumerate(self.runs):
            asked = inferences(model, run)
            faults += self.seen(run, before, asked)
            if asked and place:
                faults += self.begun(run, asked[0].begun, inferences(model, self.runs[place - 1]), harms)
            # One that failed has added nothing.
            if responses.get(run.id, {}).get("status") == "completed":
                before.append(run)
        return faults + await self.kept(clients, before, responses)

    def seen(self, run: Accepted, before: list[Accepted], asked: list[Served]) -> list[str]:
        """Whenever the model was asked, it saw the turns before, whole and in order."""
        names = [each.name for each in before]
        wrong = [f"{run.id} is {run.name}: the model saw {found} before it, not {names}"
                 for each in asked if (found := [turn.run for turn in each.before]) != names]
        turns = {each.name: each.turns for each in before}
        parts = [f"{run.id} is {run.name}: of {turn.run} the model saw {turn.results} results and {turn.answers} answers"
                 for each in asked for turn in each.before if turn.results != turns.get(turn.run, turn.results) or not turn.answers]
        return [*dict.fromkeys([*wrong, *parts])]

    def begun(self, run: Accepted, first: float, earlier: list[Served], harms: Harms) -> list[str]:
        """The run before had ended: of it the model was not asked any more, but by one that was frozen meanwhile."""
        late = [each for each in earlier if each.begun > first and not harms.touched(each.whom, first, each.begun)]
        return [f"{run.id} is {run.name}, and was begun while the one before it went on"] if late else []

    async def kept(self, clients: Clients, done: list[Accepted], responses: dict[str, dict]) -> list[str]:
        """The items of the conversation are those of its runs, in order."""
        found: list[dict] = []
        after = ""
        while True:
            page = await clients.ask("GET", f"/v1/conversations/{self.id}/items?order=asc&limit={PAGE}{after}")
            if not page or page.status != 200:
                return [f"the items of {self.id} cannot be read: {page and (page.status, page.body[:300])}"]
            found += page.json["data"]
            if not page.json["has_more"]:
                break
            after = f"&after={page.json['last_id']}"
        expected = []
        for run in done:
            expected += [("message", "user", run.name), *(told(item) for item in responses[run.id]["output"])]
        if (told_all := [told(item) for item in found]) == expected:
            return []
        place = next((i for i, (one, other) in enumerate(zip(told_all, expected)) if one != other), min(len(told_all), len(expected)))
        at = f"at {place} it has {told_all[place : place + 2]}, not {expected[place : place + 2]}"
        return [f"{self.id} ({self.name}) has {len(found)} items, not the {len(expected)} of its runs: {at}"]


def inferences(model: Model, run: Accepted) -> list[Served]:
    return sorted((each for step in range(run.turns + 1) for each in model.asked.get((run.name, step), [])), key=lambda each: each.begun)


def told(item: dict) -> tuple:
    """What an item tells: an item of a response may have another id in the conversation."""
    match item["type"]:
        case "message":
            text = "".join(part.get("text", "") for part in item["content"])
            return "message", item["role"], text.split()[1] if item["role"] == "user" else text
        case "mcp_call":
            return "mcp_call", json.dumps(item["arguments"]), item.get("output")
        case other:
            return (other,)
