"""Attacks by tools whose work goes on after their calls: results that lead to further calls, tasks that never end."""

import time
from urllib.parse import urlsplit

from gateway import MIB, Gateway
from lab import Lab, at_once, attack, until
from mcp_server import tool

STARTED = {"content": [{"type": "text", "text": "Started."}], "_meta": {"antwort/async": True}}
SHOP = {"type": "mcp", "server_label": "shop", "require_approval": "never"}


def shop(lab: Lab, provider, server, on_complete: str = "follow_up", **config) -> Gateway:
    """A gateway whose tool `report` may answer before its work is done."""
    return lab.gateway(
        provider,
        server={"public_url": "https://gateway.example.com"},
        mcp={"servers": {"shop": {"url": server.url, "trust": "trusted"}}},
        tools={"overrides": {"shop__report": {"async": "allow", "on_complete": on_complete}}},
        **config,
    )


class Reporter:
    """Says that the work was started, and reports a result at once."""

    def __init__(self):
        self.gateway: Gateway | None = None
        self.answers = []

    def __call__(self, server, exchange, message) -> None:
        server.result(exchange, message, STARTED)
        url = message["params"].get("_meta", {}).get("antwort/callback", {}).get("url", "")
        self.answers.append(self.gateway.post(urlsplit(url).path, {"output": "done"}))


class Calling:
    """A model that calls tools whenever it is told something, and says `ok` to what they answer."""

    def __init__(self, *names: str, seconds: float = 0):
        self.names, self.seconds, self.told = names, seconds, 0

    def __call__(self, provider, exchange, request) -> None:
        if request["messages"][-1].get("role") == "tool":
            provider.say(exchange, request, "ok")
            return
        self.told += 1
        time.sleep(self.seconds)
        provider.call(exchange, request, *((name, "{}") for name in self.names))


def settled(count, seconds: float = 2, most: int = 40) -> int:
    """What a count is when it has not grown for so long, or is as much as this."""
    last, since = count(), time.monotonic()
    while time.monotonic() - since < seconds and last < most:
        time.sleep(0.05)
        if count() != last:
            last, since = count(), time.monotonic()
    return last


@attack("an asynchronous tool whose result has the model call it again, without end")
def endless_follow_ups(lab: Lab) -> None:
    def calls(limits: dict) -> tuple[int, int]:
        reporter, provider = Reporter(), lab.provider(Calling("report"))
        server = lab.mcp(tools=[tool("report")], on_call=reporter)
        reporter.gateway = gateway = shop(lab, provider, server, engine={"limits": limits})
        with lab.watched(gateway):
            lab.expect(gateway.create(tools=[SHOP]), "a response with the tool")
            made = settled(lambda: len(server.calls))
        if made:
            lab.check(all(answer.status == 200 for answer in reporter.answers), "reports were refused")
        return made, provider.asked

    # Turns add up over the chain, too; here only engine.limits.max_follow_ups (10) ends it.
    made, asked = calls({"max_turns": 1000, "max_tool_calls": 1000})
    lab.check(made == 11, f"one request led to {made} calls (looked at no further) instead of 11, {asked} inferences")
    turns, of_turns = calls({})
    lab.check(of_turns <= 10, f"{of_turns} inferences with max_turns 10")
    lab.note(f"{made} calls and {asked} inferences of one request; {turns} and {of_turns} with max_turns 10")


@attack("results of an asynchronous tool for a key that is gone, for another tenant's now, or may create nothing")
def follow_ups_of_revoked_keys(lab: Lab) -> None:
    key, other = {"key": "key-a", "tenant": "a"}, {"key": "key-b", "tenant": "b"}
    seen = []
    for what, now in [
        ("removed", {"b": other}),
        ("without its scope", {"a": {**key, "scopes": ["responses:read"]}, "b": other}),
        ("another tenant's", {"a": {**key, "tenant": "b"}, "b": other}),
    ]:
        reporter = Reporter()
        server = lab.mcp(tools=[tool("report")], on_call=reporter)
        # Slow enough that its chain (of at most ten) is under way when the key goes.
        provider = lab.provider(Calling("report", seconds=0.25))
        gateway = shop(lab, provider, server, keys={"a": key, "b": other}, key="key-a")
        reporter.gateway = gateway
        lab.expect(gateway.create(tools=[SHOP]), "a response with the tool")
        lab.check(until(lambda: len(server.calls) >= 3, 8), "nothing follows the result of a key that is valid")
        lab.check(gateway.reload(auth={"keys": now}), "the keys were not reloaded")
        before = len(server.calls)
        made = settled(lambda: len(server.calls)) - before
        lab.check(made <= 1, f"{made} further calls for a key that is {what}")
        audited = sum('"antwort::audit"' in line and '"follow_up"' in line for line in gateway.log().splitlines())
        lab.check(audited > 0, f"no line of the audit log about a key that is {what}")
        seen.append(f"{what} {made}")
        gateway.stop()
    lab.note("further calls: " + ", ".join(seen))


@attack("a model that calls, when a result has come, what the request had excluded")
def options_of_follow_ups(lab: Lab) -> None:
    only = {"type": "mcp", "server_label": "shop", "name": "report"}
    limits = {"max_output_tokens": 50, "temperature": 0.5, "max_tool_calls": 3, "instructions": "Be short."}
    for what, chosen in [
        ("allowed_tools", {"allowed_tools": ["report"]}),
        ("tool_choice", {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [only]}}),
        ("a tool", {"tool_choice": only}),
    ]:
        reporter = Reporter()
        server = lab.mcp(tools=[tool("report"), tool("delete")], on_call=reporter)
        provider = lab.provider(Calling("report", "delete"))
        reporter.gateway = gateway = shop(lab, provider, server)
        first = gateway.create(tools=[SHOP], **chosen, **limits)
        lab.expect(first, f"a response with {what}")
        settled(lambda: len(server.calls) + provider.asked, 1)
        lab.check(provider.asked > 2, f"{what}: nothing followed")
        lab.check(server.count("delete") == 0, f"{what}: {server.count('delete')} calls of a tool that it excludes")
        lab.check(server.count("report") <= 3, f"{what}: {server.count('report')} calls, max_tool_calls is 3")
        follow = [each for each in gateway.get("/v1/responses").json["data"] if each["id"] != first.json.get("id")]
        for name in ("max_output_tokens", "temperature", "instructions"):
            others = {repr(each.get(name)) for each in follow} - {repr(limits[name])}
            lab.check(not others, f"{what}: {name} became {', '.join(others)}")
        gateway.stop()
    lab.held("none was called; limits and options were kept")


@attack("reports of asynchronous tools: above the size of an item, with a token of nobody, twenty at once")
def reports_of_tools(lab: Lab) -> None:
    urls = []

    def starts(server, exchange, message):
        urls.append(urlsplit(message["params"]["_meta"]["antwort/callback"]["url"]).path)
        server.result(exchange, message, STARTED)

    server = lab.mcp(tools=[tool("report")], on_call=starts)
    limits = {"max_item_bytes": "1MiB"}
    gateway = shop(lab, lab.provider(Calling("report")), server, on_complete="store", engine=limits)
    lab.expect(created := gateway.create(tools=[SHOP]), "a response with the tool")
    with lab.watched(gateway):
        large = {"output": "a" * (9 * MIB)}
        lab.expect(gateway.post(urls[0], large), "a report above engine.max_item_bytes", 413, "output_too_large")
        lab.expect(gateway.post(urls[0][:-4] + "AAAA", {"output": "x"}), "a token that is changed", 404)
        answers = at_once(20, lambda i: gateway.post(urls[0], {"output": f"result {i}"}))
    lab.check({answer.status for answer in answers} == {200}, f"20 reports: {', '.join(map(str, answers))}")
    stored = gateway.get(f"/v1/responses/{created.json['id']}").json
    results = [item.get("output") for item in stored["output"] if item["type"] == "mcp_call"]
    lab.check(len(results) == 1 and str(results[0]).startswith("result "), f"the result is {str(results)[:60]}")
    lab.held("413, 404; one of twenty counts")


class Tasks:
    """A server's tasks that are worked on for ever, unless they are cancelled."""

    def __init__(self):
        self.made, self.polls, self.cancelled = 0, 0, set()

    def call(self, server, exchange, message) -> None:
        if "task" not in message["params"]:
            server.result(exchange, message, {"content": [{"type": "text", "text": "no task"}]})
            return
        self.made += 1
        server.result(exchange, message, {"task": self.described(f"task-{self.made}")})

    def request(self, server, exchange, message) -> None:
        id = message.get("params", {}).get("taskId", "")
        if message["method"] == "tasks/cancel":
            self.cancelled.add(id)
        elif message["method"] == "tasks/get":
            self.polls += 1
        server.result(exchange, message, self.described(id))

    def described(self, id: str) -> dict:
        status, when = "cancelled" if id in self.cancelled else "working", "2026-01-01T00:00:00Z"
        task = {"taskId": id, "status": status, "createdAt": when, "lastUpdatedAt": when}
        return {**task, "ttl": 600_000, "pollInterval": 0}


@attack("sixty tasks of an MCP server that never end, and want to be looked at all the time")
def endless_tasks(lab: Lab) -> None:
    tasks, count, seconds = Tasks(), 60, 4
    server = lab.mcp(
        tools=[tool("report", execution={"taskSupport": "optional"})],
        on_call=tasks.call,
        on_request=tasks.request,
        capabilities={"tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}},
    )
    gateway = shop(lab, lab.provider(Calling("report")), server, on_complete="store")
    with lab.watched(gateway):
        made = at_once(4, lambda _: [gateway.create(tools=[SHOP]) for _ in range(count // 4)])
        ids = [answer.json.get("id") for some in made for answer in some]
        lab.check(tasks.made == count, f"{tasks.made} of {count} calls became tasks")
        time.sleep(1)
        before, cpu = tasks.polls, gateway.cpu()
        time.sleep(seconds)
        rate, cpu = (tasks.polls - before) / seconds, (gateway.cpu() - cpu) / seconds
        lab.check(0 < rate <= 15, f"{rate:.0f} looks a second; mcp.tasks.max_polls_per_second is 10")
        deleted = [gateway.delete(f"/v1/responses/{id}").status for id in ids]
        lab.check(deleted.count(200) == count, f"{deleted.count(200)} of {count} responses were deleted")
        all_told = until(lambda: len(tasks.cancelled) == count, 5)
        lab.check(all_told, f"{len(tasks.cancelled)} of {count} tasks were cancelled after DELETE")
        before = tasks.polls
        time.sleep(1)
        lab.check(tasks.polls - before <= 1, f"{tasks.polls - before} looks at tasks of deleted responses")
    lab.note(f"{rate:.0f} looks a second at {count} tasks, {cpu * 100:.0f} % of a core; {len(tasks.cancelled)} ended")
