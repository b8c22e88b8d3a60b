"""Attacks by one tenant on what all tenants share: the store, stored results, background runs, operators' views."""

import json
import re
import time

from gateway import MIB
from lab import Lab, at_once, attack, until
from mcp_server import tool
from provider import slow_or_not

KEYS = {"a": {"key": "key-a", "tenant": "a"}, "b": {"key": "key-b", "tenant": "b"}}


@attack("a tenant that fills a small store, and another's responses and conversations in it")
def store_of_one_tenant(lab: Lab) -> None:
    store = {"max_size": "20MiB", "maintenance_interval": "1s", "lease": "5s"}
    gateway = lab.gateway(keys=KEYS, key="key-b", store=store)
    ids = [gateway.create(input=f"small {i}").json["id"] for i in range(20)]
    items = [{"type": "message", "role": "user", "content": "kept"}]
    conversations = [gateway.post("/v1/conversations", {"items": items}).json["id"] for _ in range(5)]
    large = []
    with lab.watched(gateway):
        for i in range(60):
            large.append(gateway.create(input=f"{i} " + "a" * MIB, key="key-a").json.get("id"))
        evicted = until(lambda: gateway.get(f"/v1/responses/{large[0]}", "key-a").status == 404, 6)
        time.sleep(1.5)  # one more round of the upkeep
    lab.check(evicted, "nothing was removed, though more than store.max_size was stored")
    left = sum(gateway.get(f"/v1/responses/{id}").status == 200 for id in ids)
    kept = sum(gateway.get(f"/v1/conversations/{id}/items").json.get("data", []) != [] for id in conversations)
    lab.check(left == 20, f"{left} of another's 20 responses are left")
    lab.check(kept == 5, f"{kept} of another's 5 conversations are left")
    own = sum(gateway.get(f"/v1/responses/{id}", "key-a").status == 200 for id in large)
    lab.check(own > 0, "nothing is left of what filled it")
    lab.held(f"of 60 that filled it {own} are left, of another's all")


@attack("a tenant whose large results of tools push out what another may still read")
def results_of_one_tenant(lab: Lab) -> None:
    def large(server, exchange, message):
        text = f"BEGIN {server.count('work')} " + "a" * (3 * MIB)
        server.result(exchange, message, {"content": [{"type": "text", "text": text}]})

    server = lab.mcp(on_call=large)
    gateway = lab.gateway(
        keys=KEYS,
        key="key-b",
        mcp={"servers": {"s": {"url": server.url, "trust": "trusted"}}},
        tools={"results": {"store_bytes": "8MiB"}},
    )
    lab.budget("tools.results.store_bytes", 8 * MIB)

    def execute(path: str, arguments: dict, key: str = "key-b") -> str:
        answer = gateway.post(f"/v1/tools/{path}", {"arguments": arguments}, key)
        lab.expect(answer, f"a call of {path}")
        return json.dumps(answer.json, ensure_ascii=False)

    work, read = "work/execute?server_label=s", "read_tool_output/execute"
    shown = execute(work, {})
    note = re.search(r"read_tool_output with (\{.*?\})", shown.replace('\\"', '"'))
    if not lab.check(note is not None, f"nobody is told how to read the rest: {shown[-200:]}"):
        return
    lab.check("aaaa" in execute(read, json.loads(note[1])), "it cannot be read at once")
    with lab.watched(gateway):
        for _ in range(12):
            execute(work, {}, "key-a")
        after = execute(read, json.loads(note[1]))
    lab.check("aaaa" in after, f"after 12 results of another tenant: {after[:100]}")
    lab.held("another's result is still there after 12 of 3 MiB, of 8 MiB in all")


@attack("background runs of one tenant on a model that hangs, and another's behind them")
def jobs_of_one_tenant(lab: Lab) -> None:
    gateway = lab.gateway(lab.provider(slow_or_not), keys=KEYS, key="key-b", jobs={"concurrency": 16})
    with lab.watched(gateway):
        slow = {"model": "slow", "input": "x", "background": True}
        queued = at_once(4, lambda _: [gateway.post("/v1/responses", slow, "key-a").status for _ in range(10)])
        lab.check(sum(map(len, queued)) == 40, "40 background responses were not queued")
        time.sleep(1)
        begun = time.monotonic()
        own = [gateway.create(background=True).json.get("id") for _ in range(5)]

        def completed() -> int:
            return sum(gateway.get(f"/v1/responses/{id}").json.get("status") == "completed" for id in own)

        lab.check(until(lambda: completed() == 5, 6), f"{completed()} of another's 5 were made, the others wait")
    lab.held(f"another's five were made within {time.monotonic() - begun:.1f} s")


OPERATOR = {"key": "key-op", "tenant": "a", "scopes": ["mcp:admin", "tools:admin", "metrics:read"]}


@attack("a tenant's key with the default scopes at the operators' views and switches")
def views_of_operators(lab: Lab) -> None:
    def model(provider, exchange, request):
        if any(message.get("role") == "tool" for message in request["messages"]):
            provider.say(exchange, request, "ok")
        else:
            name = "look" if "look" in json.dumps(request.get("tools", [])) else "work"
            provider.call(exchange, request, (name, "{}"))

    brought = lab.mcp()
    configured = lab.mcp(tools=[tool("look", annotations={"readOnlyHint": True})])
    gateway = lab.gateway(
        lab.provider(model),
        keys={**KEYS, "op": OPERATOR},
        key="key-b",
        mcp={"servers": {"own": {"url": configured.url, "trust": "trusted", "tenants": ["b"]}}},
        tools={"overrides": {"own__look": {"cacheable": True}}},
    )
    address = f"{brought.url}/SECRET-PATH?key=SECRET-QUERY"
    lab.expect(gateway.create(tools=[brought.as_tool(server_url=address)]), "a response with a server of its own")
    lab.check(len(brought.calls) == 1, "the server was not called")

    def look() -> int:
        lab.expect(gateway.create(tools=[{"type": "mcp", "server_label": "own"}]), "a response with a cached tool")
        return len(configured.calls)

    look()
    lab.check(look() == 1, f"the result is not cached: {len(configured.calls)} calls")
    views = {key: gateway.get("/v1/mcp/servers", key) for key in ("key-a", "key-b", "key-op")}
    for key, view in views.items():
        lab.expect(view, f"the servers for {key}")
        lab.check(b"SECRET" not in view.body, f"{key} is shown the path or query of a server that a request brought")
    for text in (str(brought.port), str(configured.port), '"b"'):
        lab.check(text not in views["key-a"].body.decode(), f"another tenant's server is shown: {text}")
    for key in ("key-b", "key-op"):
        lab.check(str(brought.port) in views[key].body.decode(), f"{key} does not see its session")
    lab.expect(gateway.get("/metrics", "key-a"), "/metrics", 403, "insufficient_scope")
    lab.expect(gateway.post("/v1/tools/refresh", {}, "key-a"), "tools refresh", 403, "insufficient_scope")
    gateway.delete("/v1/tool_cache", "key-a")
    lab.check(look() == 1, "a tenant emptied another's cache")
    lab.expect(gateway.get("/metrics", "key-op"), "/metrics for an operator")
    lab.expect(gateway.delete("/v1/tool_cache", "key-op"), "DELETE of the cache by an operator", (200, 204))
    lab.check(look() == 2, "an operator does not empty the cache")
    lab.held("own servers only, 403 for what all share; the path is shown to nobody")
