"""Attacks by one tenant on another: its places, its responses."""

import time

from lab import Lab, attack
from provider import slow_or_not

KEYS = {
    "a": {"key": "key-a", "tenant": "a"},
    "b": {"key": "key-b", "tenant": "b"},
    "b2": {"key": "key-b2", "tenant": "b"},
}


@attack("one tenant's streams on a slow model take every run")
def runs_of_one_tenant(lab: Lab) -> None:
    gateway = lab.gateway(lab.provider(slow_or_not), keys=KEYS, key="key-b", server={"max_runs": 16})
    slow = gateway.posted("/v1/responses", {"model": "slow", "input": "x", "stream": True}, "key-a")
    with lab.watched(gateway):
        for _ in range(40):
            lab.closing(gateway.send(slow))
        time.sleep(1.5)
        for _ in range(10):
            lab.expect(gateway.create(), "another tenant's response meanwhile")
        active = gateway.metric("antwort_runs_active")
    lab.check(active <= 8, f"one tenant has {active:.0f} of 16 runs")
    lab.note(f"40 streams of one tenant have {active:.0f} of 16 runs")


@attack("responses of other tenants and owners: retrieved, deleted, continued, referred to")
def responses_of_others(lab: Lab) -> None:
    gateway = lab.gateway(keys=KEYS, key="key-a")
    stored = gateway.create(input="SECRET-OF-A")
    lab.expect(stored, "a response")
    id, item = stored.json["id"], stored.json["output"][0]["id"]
    nowhere = "resp_" + "0" * (len(id) - 5)

    def alike(what: str, ask) -> None:
        """Another tenant's response must be answered like one that does not exist."""
        theirs, nobodys = ask(id, item), ask(nowhere, "msg_" + "0" * (len(item) - 4))
        lab.check(theirs.status == nobodys.status, f"{what}: {theirs}, and for one that does not exist: {nobodys}")
        lab.check(theirs.code == nobodys.code, f"{what}: {theirs.code}, and for one that does not exist: {nobodys.code}")
        lab.check(b"SECRET-OF-A" not in theirs.body, f"{what} shows it")

    for key in ("key-b", "key-b2"):
        alike("GET", lambda response, _: gateway.get(f"/v1/responses/{response}", key))
        alike("DELETE", lambda response, _: gateway.delete(f"/v1/responses/{response}", key))
        alike("input items", lambda response, _: gateway.get(f"/v1/responses/{response}/input_items", key))
        alike("continuing", lambda response, _: gateway.create(previous_response_id=response, key=key))
        alike("a reference", lambda _, item: gateway.create(input=[{"type": "item_reference", "id": item}], key=key))
        alike("a cursor", lambda response, _: gateway.get(f"/v1/responses?after={response}", key))
        listed = gateway.get("/v1/responses?limit=100", key)
        lab.check(id not in listed.body.decode() and b"SECRET-OF-A" not in listed.body, "it is listed")
    lab.expect(gateway.get(f"/v1/responses/{id}"), "its owner's retrieval")
    lab.held("as if they were not there")
