"""Attacks by a model server: what it adds to its text, floods of small events, arrays, and what it says in errors."""

import json
import time

from gateway import MIB
from lab import Lab, attack
from provider import answer


def limited(mebibytes: int) -> dict:
    """The section `engine` with responses of this size."""
    return {"max_response_bytes": f"{mebibytes}MiB", "max_item_bytes": f"{mebibytes}MiB"}


def endless(delta: dict, **choice):
    """A model whose stream is one event for ever."""
    data = b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta, **choice}]}).encode() + b"\n\n"
    return lambda provider, exchange, request: (
        exchange.stream(),
        exchange.flood(data * max(1, 65536 // len(data)), provider.stopped),
    )


def ends_by_size(lab: Lab, script, mebibytes: int = 8, **fields) -> None:
    """A response that this model makes is ended by its size; snapshots and their text may be filled."""
    gateway = lab.gateway(lab.provider(script), engine=limited(mebibytes))
    lab.budget("4 x engine.max_response_bytes", 4 * mebibytes * MIB)
    with lab.watched(gateway):
        answer = gateway.create(timeout=15, **fields)
        reason = (answer.json.get("incomplete_details") or {}).get("reason")
        refused = answer.status == 502 or answer.json.get("status") == "failed"
        lab.check(reason == "max_response_size" or refused, f"{answer}, {answer.json.get('status')}, {reason}")
        lab.note(f"{reason or answer}")


@attack("a stream with 50 annotations of 1 KB at each letter")
def annotations_of_streams(lab: Lab) -> None:
    citation = {
        "type": "url_citation",
        "url_citation": {"url": "https://a.example/" + "a" * 1000, "title": "t", "start_index": 0, "end_index": 1},
    }
    ends_by_size(lab, endless({"content": "a", "annotations": [citation] * 50}))


@attack("a stream with a thousand log probabilities at each letter")
def logprobs_of_streams(lab: Lab) -> None:
    entries = {"content": [{"token": "a", "logprob": -1.0, "bytes": [97], "top_logprobs": []}] * 1000}
    ends_by_size(
        lab, endless({"content": "a"}, logprobs=entries), include=["message.output_text.logprobs"], top_logprobs=1
    )


@attack("a stream of single letters in answer to a request for JSON")
def letters_for_json(lab: Lab) -> None:
    ends_by_size(lab, endless({"content": "a"}), mebibytes=1, stream=False)


@attack("a stream of calls of functions that have no end, each with a name and nothing else")
def calls_of_streams(lab: Lab) -> None:
    calls = [
        {"index": i, "id": f"c{i}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        for i in range(200_000)
    ]

    def script(provider, exchange, request):
        exchange.stream()
        for i in range(0, len(calls), 500):
            exchange.send(
                b"data: "
                + json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": calls[i : i + 500]}}]}).encode()
                + b"\n\n"
            )
        exchange.connection.close()

    gateway = lab.gateway(lab.provider(script), engine=limited(8))
    lab.budget("4 x engine.max_response_bytes", 32 * MIB)
    tools = [{"type": "function", "name": "f", "parameters": {}}]
    with lab.watched(gateway):
        made = gateway.create(tools=tools, timeout=15)
        lab.check(len(made.json.get("output", [])) <= 1100, f"{len(made.json.get('output', []))} items")
        lab.note(f"{made.json.get('status') or made}, {len(made.json.get('output', []))} items")


@attack("an answer of 16 MiB whose tool calls are five million empty objects")
def arrays_of_answers(lab: Lab) -> None:
    body = (
        json.dumps(answer({"tool_calls": "HERE"})).encode().replace(b'"HERE"', b"[" + b"{}," * (16 * MIB // 3) + b"{}]")
    )
    gateway = lab.gateway(lab.provider(lambda provider, exchange, request: exchange.reply(body)))
    lab.budget("an answer", 16 * MIB)
    with lab.watched(gateway):
        lab.note(str(gateway.create(timeout=15)))


@attack("a provider that quotes the request and the agent's instructions in its error")
def quoting_errors(lab: Lab) -> None:
    def quote(provider, exchange, request):
        if request.get("stream"):
            time.sleep(1.5)  # until the status is out, and the error is an event
        exchange.reply(
            {
                "error": {
                    "message": "cannot read " + json.dumps(request["messages"]),
                    "type": "invalid_request_error",
                    "code": None,
                }
            },
            400,
        )

    gateway = lab.gateway(
        lab.provider(quote), agents={"clerk": {"model": "m", "instructions": "INSTRUCTIONS-OF-THE-AGENT"}}
    )
    plain = gateway.create(input="TEXT-OF-THE-INPUT", instructions="INSTRUCTIONS-OF-THE-CLIENT")
    streamed = gateway.create(input="TEXT-OF-THE-INPUT", agent="clerk", stream=True)
    agent = gateway.create(input="TEXT-OF-THE-INPUT", agent="clerk")
    for said, status in [(plain, 400), (streamed, 200), (agent, 400)]:
        lab.expect(said, "its error", status)
    for mark in ("TEXT-OF-THE-INPUT", "INSTRUCTIONS-OF-THE-AGENT", "INSTRUCTIONS-OF-THE-CLIENT"):
        lab.check(mark not in gateway.log(), f"the log has {mark.lower()}")
    for said in (streamed, agent):
        lab.check(b"INSTRUCTIONS-OF-THE-AGENT" not in said.body, "a client reads the agent's instructions")
    lab.held("neither in the log, nor instructions to the client")


@attack("a provider that repeats the gateway's key in its errors, where answers are passed through")
def repeating_errors(lab: Lab) -> None:
    def repeat(provider, exchange, request):
        exchange.reply(
            {
                "error": {
                    "message": f"bad {exchange.headers.get('authorization')} of {exchange.headers.get('x-team')}",
                    "type": "auth",
                }
            },
            400,
        )

    settings = {"api_key": "sk-upstream-0123456789abcdef", "headers": {"x-team": "team-of-the-operator"}}
    gateway = lab.gateway(lab.provider(repeat), provider_settings=settings)
    chat = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    for path, body in [
        ("/v1/chat/completions", chat),
        ("/v1/chat/completions", {**chat, "stream": True}),
        ("/v1/embeddings", {"model": "m", "input": "x"}),
        ("/v1/responses", {"model": "m", "input": "x"}),
    ]:
        said = gateway.post(path, body)
        for secret in (b"sk-upstream-0123456789abcdef", b"team-of-the-operator"):
            lab.check(secret not in said.body, f"{path} repeats {secret.decode()}")
    lab.check("sk-upstream-0123456789abcdef" not in gateway.log(), "the log has the key")
    lab.held("masked")
