"""The same five questions, asked of llama-server itself in its own chat protocol.

When these hold and the gateway's checks do not, the gateway is at fault, not the set-up.
"""

import json

import ask
from shapes import check_object, expect
from wire import Server

PATH = "/v1/chat/completions"
LIMITS = {"max_tokens": ask.LIMIT, "temperature": 0}


def plain(server: Server) -> None:
    """A message with text, and usage."""
    answer = server.post(PATH, {"messages": [user(ask.FACT)]} | LIMITS)
    print(message(answer)["content"])
    expect(message(answer)["content"].strip(), "the message has no text")
    usage = answer["usage"]
    expect(usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"], f"usage is {usage}")


def streamed(server: Server) -> None:
    """Chunks with text, a finish reason, usage in a last chunk, and [DONE]."""
    body = {"messages": [user(ask.STORY)], "stream_options": {"include_usage": True}} | LIMITS
    chunks, ended = [], False
    for frame in server.stream(PATH, body):
        ended = frame.data == "[DONE]"
        if not ended:
            chunks.append(json.loads(frame.data))
            print(delta(chunks[-1]), end="", flush=True)
    print()
    expect(ended, "no [DONE]")
    expect(sum(bool(delta(chunk)) for chunk in chunks) > 1, "no stream")
    reasons = [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"] if choice["finish_reason"]]
    expect(reasons in (["stop"], ["length"]), f"finish reasons are {reasons}")
    expect(chunks[-1].get("usage"), "no usage in the last chunk")


def chained(server: Server) -> None:
    """The server keeps nothing: history is what the caller sends, and it is counted."""
    first = server.post(PATH, {"messages": [user(ask.NAME)]} | LIMITS)
    turns = [user(ask.NAME), message(first), user(ask.WHICH_NAME)]
    second = server.post(PATH, {"messages": turns} | LIMITS)
    print(f"user:  {ask.NAME}\nmodel: {message(first)['content']}")
    print(f"user:  {ask.WHICH_NAME}\nmodel: {message(second)['content']}")
    expect(second["usage"]["prompt_tokens"] > first["usage"]["total_tokens"], "history is not in the count")


def structured(server: Server) -> None:
    """The schema becomes a grammar."""
    form = {"type": "json_schema", "json_schema": {"name": "weather", "schema": ask.REPORT_SCHEMA, "strict": True}}
    answer = server.post(PATH, {"messages": [user(ask.REPORT)], "response_format": form} | LIMITS)
    print(message(answer)["content"])
    check_object(message(answer)["content"], ask.REPORT_SCHEMA)


def function_call(server: Server) -> None:
    """A call with valid arguments; with its result, a message."""
    tools = [{"type": "function", "function": ask.WEATHER_TOOL}]
    body = {"messages": [user(ask.WEATHER)], "tools": tools, "tool_choice": "required"}
    asked = server.post(PATH, body | LIMITS | {"max_tokens": ask.CALL_LIMIT})
    calls = message(asked).get("tool_calls")
    expect(calls, f"no tool_calls in {message(asked)}")
    for call in calls:
        print(f"model: {call['function']['name']}({call['function']['arguments']})")
        check_object(call["function"]["arguments"], ask.WEATHER_TOOL["parameters"])
    results = [{"role": "tool", "tool_call_id": call["id"], "content": ask.WEATHER_RESULT} for call in calls]
    print(f"tool:  {ask.WEATHER_RESULT}")
    turns = [user(ask.WEATHER), message(asked), *results]
    final = server.post(PATH, {"messages": turns, "tools": tools, "tool_choice": "none"} | LIMITS)
    expect((message(final)["content"] or "").strip(), f"no text in {message(final)}")
    print(f"model: {message(final)['content']}")
    grown = final["usage"]["prompt_tokens"] - asked["usage"]["prompt_tokens"]
    print(f"input tokens: {grown:+} for the call and its result")


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def message(answer: dict) -> dict:
    return answer["choices"][0]["message"]


def delta(chunk: dict) -> str:
    return "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])


# (heading, check, which of the two servers it needs)
CHECKS = [
    ("plain answer, directly", plain, "chat"),
    ("streamed answer, directly", streamed, "chat"),
    ("second turn, directly", chained, "chat"),
    ("structured output, directly", structured, "chat"),
    ("function call, directly", function_call, "tools"),
]
