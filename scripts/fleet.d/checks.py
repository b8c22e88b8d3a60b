"""What must be true of all that was acknowledged, when nothing is done to the fleet any more."""

import asyncio
import json
import math
import time
from collections import Counter

from clients import KEY, TERMINAL, Accepted, Clients, sequence_number
from conversations import Conversation
from harm import Harms
from http1 import Client, Cut
from upstreams import ANSWER, Served, text

# Faults, unless the process was lost that had asked: then an outcome is unknown as it must be.
UNKNOWN, TWICE = "results that are outcome_unknown", "final answers that stand twice"
# A call whose process has lost its run before it was made, as nobody else knows.
NOT_MADE = "calls not made that are outcome_unknown"
LOST = {name: f"{name}, by the loss of a process" for name in (UNKNOWN, NOT_MADE, TWICE)}


class Checks:
    def __init__(self, scene, clients: Clients, harms: Harms):
        self.model, self.tool, self.hooks, self.replicas = scene.model, scene.tool, scene.hooks, scene.replicas
        self.clients, self.harms = clients, harms
        self.faults: list[str] = []
        # What went with a process that was killed, or that was frozen until others had its runs.
        self.lost: Counter[str] = Counter()
        self.responses: dict[str, dict] = {}

    async def run(self, conversations: list[Conversation]) -> dict:
        deadline = time.monotonic() + 180
        statuses: Counter[str] = Counter()
        for run in self.clients.accepted:
            status, code = await self.terminal_status(run, deadline)
            statuses[f"{status}: {code}" if code else status] += 1
            # Whoever is killed with a run for the third time leaves it failed.
            if status != "completed" and code != "run_attempts_exhausted":
                self.faults.append(f"{run.id} is {status}: {code}")
            self.check_output(run, status)
            await self.check_events(run, status)
        await self.check_hooks(deadline)
        for call, count in self.tool.calls.items():
            if count > 1:
                self.faults.append(f"the tool was called {count} times for {call}")
        for each in conversations:
            self.faults += await each.check(self.clients, self.responses, self.model, self.harms)
        return {
            "runs accepted": len(self.clients.accepted),
            **{f"runs {status}": count for status, count in sorted(statuses.items())},
            "runs in conversations": sum(len(each.runs) for each in conversations),
            "calls of the tool": sum(self.tool.calls.values()),
            "calls made twice": sum(count > 1 for count in self.tool.calls.values()),
            "streams followed": sum(bool(run.frames) for run in self.clients.accepted),
            "streams cut and resumed": sum(run.cuts for run in self.clients.accepted),
            "requests that timed out": self.clients.timeouts,
            "webhooks delivered": self.hooks.deliveries,
            **{LOST[name]: self.lost[name] for name in LOST},
        }

    async def terminal_status(self, run: Accepted, deadline: float) -> tuple[str, str]:
        """The status, and the code of the error of a failed run."""
        while True:
            reply = await self.clients.ask("GET", f"/v1/responses/{run.id}")
            if not reply or reply.status != 200:
                self.faults.append(f"{run.id} was acknowledged and is missing: {reply and reply.status}")
                return "missing", ""
            if (status := reply.json["status"]) in TERMINAL:
                self.responses[run.id] = reply.json
                return status, (reply.json.get("error") or {}).get("code", "")
            if time.monotonic() > deadline:
                self.faults.append(f"{run.id} has not ended: {status}")
                return status, ""
            await asyncio.sleep(0.2)

    def check_output(self, run: Accepted, status: str) -> None:
        """Each step has its call, and the answer stands there once."""
        output = self.responses.get(run.id, {}).get("output", [])
        calls = [item for item in output if item["type"] == "mcp_call" and item["status"] != "incomplete"]
        steps = [json.loads(call["arguments"])["step"] for call in calls]
        if status == "completed" and steps != list(range(run.turns)):
            self.faults.append(f"{run.id}: its calls are those of the steps {steps}, not {run.turns}")
        for step, call in zip(steps, calls):
            if "outcome_unknown" in json.dumps(call.get("error")):
                made, go_on = self.tool.served.get((run.name, step), []), self.model.asked.get((run.name, step + 1))
                asked = [*self.model.asked.get((run.name, step), []), *made]
                self.account(f"{run.id}: step {step}", UNKNOWN if made else NOT_MADE, asked, go_on[-1].begun if go_on else math.inf)
        answers = sum(item["type"] == "message" and item["status"] == "completed" and said(item) == text(ANSWER) for item in output)
        if status == "completed" and not answers:
            self.faults.append(f"{run.id}: it has no answer")
        if answers > 1:
            *asked, last = self.model.asked[run.name, run.turns]
            self.account(run.id, TWICE, asked, last.begun)

    def account(self, what: str, name: str, asked: list[Served], until: float) -> None:
        """Lost until then with the process that had asked; else a fault."""
        touched, returned = self.harms.touched, self.harms.returned
        if any(touched(each.whom, each.begun, until) or returned(each.whom, each.begun) for each in asked):
            self.lost[name] += 1
        else:
            self.faults.append(f"{what}: {name}")

    async def check_events(self, run: Accepted, status: str) -> None:
        """The stored stream has no gap and one end, and what a follower got is a beginning of it, byte for byte."""
        whole: list[bytes] = []
        client = Client(self.clients.random.choice(self.replicas).port, KEY)
        try:
            reply = await client.ask("GET", f"/v1/responses/{run.id}?stream=true", timeout=60, on_frame=whole.append)
        except (Cut, TimeoutError) as error:
            self.faults.append(f"{run.id}: its events cannot be read: {error}")
            return
        finally:
            client.close()
        numbers = [sequence_number(frame) for frame in whole]
        if numbers != list(range(len(numbers))):
            self.faults.append(f"{run.id}: sequence numbers {numbers[:5]}… have gaps")
        kinds = [f"event: response.{end}\n".encode() for end in ("completed", "failed", "incomplete")]
        ends = [frame for frame in whole if any(kind in frame for kind in kinds)]
        if len(ends) != 1 or ends[0] is not whole[-1]:
            self.faults.append(f"{run.id}: {len(ends)} terminal events, status {status}, stream {reply.status} {reply.code}")
        if run.frames and run.frames != whole:
            self.faults.append(f"{run.id}: a follower got {len(run.frames)} frames that are not the {len(whole)} stored ones")

    async def check_hooks(self, deadline: float) -> None:
        accepted = self.clients.accepted
        while (missing := [run.id for run in accepted if run.id not in self.hooks.ids]) and time.monotonic() < deadline:
            await asyncio.sleep(0.5)
        for id in missing:
            self.faults.append(f"{id}: no webhook came")
        for id, events in self.hooks.ids.items():
            if len(events) != 1:
                self.faults.append(f"{id}: webhooks of {len(events)} events: {events}")
        if self.hooks.wrong:
            self.faults.append(f"{self.hooks.wrong} webhooks had a wrong signature")


def said(item: dict) -> str:
    return "".join(part.get("text", "") for part in item["content"])
