"""The five checks, through the gateway's Responses API."""

import json
from collections.abc import Iterator

import ask
from shapes import check_ended, check_message, check_object, check_usage, expect, text_of
from wire import Frame, Server

PATH = "/v1/responses"
LIMITS = {"max_output_tokens": ask.LIMIT, "temperature": 0}


def plain(server: Server) -> None:
    """One JSON body, and the same again when it is fetched by its id."""
    response = server.post(PATH, {"input": ask.FACT} | LIMITS)
    print(check_message(response, ask.LIMIT))
    stored = server.get(f"{PATH}/{response['id']}")
    expect(stored["output"] == response["output"], "the stored output differs from the one that was sent")
    expect(stored["status"] == response["status"], "the stored status differs from the one that was sent")


def streamed(server: Server) -> None:
    """Events in a legal order, whose deltas add up to the response they end with."""
    events = list(printed(server.stream(PATH, {"input": ask.STORY} | LIMITS)))
    kinds = [event["type"] for event in events]
    expect(kinds[0] == "response.created", f"the first event is {kinds[0]}")
    numbers = [event["sequence_number"] for event in events]
    expect(numbers == list(range(len(events))), f"sequence numbers have gaps: {numbers}")

    response = events[-1]["response"]
    text = check_message(response, ask.LIMIT)
    # A story may run into the limit; then, and only then, the stream ends with the other terminal event.
    expect(kinds[-1] == f"response.{response['status']}", f"the last event is {kinds[-1]}: {response['status']}")
    terminal = [kind for kind in kinds if kind in TERMINAL]
    expect(len(terminal) == 1, f"terminal events: {terminal}")

    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    expect(len(deltas) > 1, f"no stream: {len(deltas)} delta")
    expect("".join(deltas) == text, "the deltas do not add up to the text of the final response")
    expect(events[0]["response"]["id"] == response["id"], "the response changed its id on the way")
    opened, closed = (kinds.count(f"response.output_item.{kind}") for kind in ("added", "done"))
    expect(opened == closed > 0, f"{opened} items added, {closed} done")


def chained(server: Server) -> None:
    """The second turn sends only a question, yet the model reads the first turn as well."""
    first = server.post(PATH, {"input": ask.NAME} | LIMITS)
    print(f"user:  {ask.NAME}\nmodel: {check_message(first, ask.LIMIT)}")
    question = {"input": ask.WHICH_NAME} | LIMITS
    second = server.post(PATH, question | {"previous_response_id": first["id"]})
    print(f"user:  {ask.WHICH_NAME}\nmodel: {check_message(second, ask.LIMIT)}")
    expect(second["previous_response_id"] == first["id"], "previous_response_id is not echoed")

    # Words prove nothing with this model; the tokens that it was given do.
    alone, before, after = server.post(PATH, question)["usage"], first["usage"], second["usage"]
    print(f"input tokens: {alone['input_tokens']} for the question alone, {after['input_tokens']} chained")
    history = before["input_tokens"] + before["output_tokens"]
    expect(after["input_tokens"] > history, f"{after['input_tokens']} input tokens cannot hold {history} of history")
    expect(after["input_tokens"] > alone["input_tokens"], "the chained question cost no more than a bare one")

    page = server.get(f"{PATH}/{second['id']}/input_items?order=desc")
    expect(page["object"] == "list", f"input_items is a {page['object']!r}")
    expect(all(item.get("id") for item in page["data"]), "an input item without id")
    newest = page["data"][0]["content"]
    expect(newest[0]["text"] == ask.WHICH_NAME, f"the newest input item is {newest}")


def structured(server: Server) -> None:
    """llama.cpp turns the schema into a grammar, so even this model cannot leave it."""
    form = {"type": "json_schema", "name": "weather", "schema": ask.REPORT_SCHEMA, "strict": True}
    response = server.post(PATH, {"input": ask.REPORT, "text": {"format": form}} | LIMITS)
    text = check_message(response, ask.LIMIT)
    print(text)
    expect(response["status"] == "completed", "the object was cut off")
    check_object(text, ask.REPORT_SCHEMA)
    expect(response["text"]["format"]["name"] == "weather", "text.format is not echoed")


def function_call(server: Server) -> None:
    """The response pauses for the caller's function, takes its result, and comes to an end."""
    tools = [{"type": "function", **ask.WEATHER_TOOL, "strict": False}]
    limits = LIMITS | {"max_output_tokens": ask.CALL_LIMIT}
    paused = server.post(PATH, {"input": ask.WEATHER, "tools": tools, "tool_choice": "required"} | limits)
    expect(paused["status"] == "requires_action", f"status is {paused['status']!r}: {paused.get('error')}")
    check_usage(paused, ask.CALL_LIMIT)
    calls = [item for item in paused["output"] if item["type"] == "function_call"]
    expect(calls, f"no function_call in {[item['type'] for item in paused['output']]}")
    for call in calls:
        print(f"model: {call['name']}({call['arguments']})")
        expect(call["name"] == ask.WEATHER_TOOL["name"], f"called {call['name']!r}")
        expect(call["call_id"] and call["id"], "a call without call_id or id")
        check_object(call["arguments"], ask.WEATHER_TOOL["parameters"])
    expect(len({call["call_id"] for call in calls}) == len(calls), "two calls share a call_id")

    # The model may have asked several times; every open call needs its answer.
    result = {"type": "function_call_output", "output": ask.WEATHER_RESULT}
    results = [result | {"call_id": call["call_id"]} for call in calls]
    print(f"tool:  {ask.WEATHER_RESULT}")
    concluding = {"tools": tools, "tool_choice": "none"} | LIMITS  # left the choice, this model calls on and on
    final = server.post(PATH, {"input": results, "previous_response_id": paused["id"]} | concluding)
    check_usage(final, ask.LIMIT)
    check_ended(final, ask.LIMIT)
    expect(not [item for item in final["output"] if item["type"] == "function_call"], "called in spite of 'none'")
    expect(text_of(final).strip(), "no message after the tool's result")
    print(f"model: {text_of(final)}")

    # The call and its result have to be in the prompt, or the model never saw them.
    bare = server.post(PATH, {"input": ask.WEATHER} | concluding)["usage"]["input_tokens"]
    grown = final["usage"]["input_tokens"] - bare
    print(f"input tokens: {grown:+} for the call and its result")
    expect(grown > 0, "the call and its result are not in the prompt")


def server_tool(server: Server) -> None:
    """The gateway runs its own tool, and the model answers with the result before it."""
    tools = [{"type": "antwort:datetime"}]
    # One call and no more: left the choice, this model calls on and on.
    request = {"input": ask.TIME, "tools": tools, "tool_choice": tools[0], "max_tool_calls": 1}
    limits = LIMITS | {"max_output_tokens": ask.CALL_LIMIT + ask.LIMIT}
    response = server.post(PATH, request | limits)
    check_usage(response, ask.CALL_LIMIT + ask.LIMIT)
    kinds = [item["type"] for item in response["output"]]
    expect(kinds[0] == "mcp_call", f"no mcp_call first in {kinds}")
    call = response["output"][0]
    print(f"model: {call['name']}({call['arguments']})")
    expect(call["server_label"] == "antwort" and call["name"] == "datetime", f"called {call['name']!r}")
    expect(call["status"] == "completed", f"the call is {call['status']!r}: {call.get('error')}")
    print(f"tool:  {call['output']}")
    result = json.loads(call["output"])
    expect({"timestamp", "formatted", "timezone", "weekday"} <= result.keys(), f"the result is {result}")
    check_ended(response, ask.CALL_LIMIT + ask.LIMIT)
    expect("message" in kinds, f"no message after the call in {kinds}")
    print(f"model: {text_of(response)}")
    bare = server.post(PATH, {"input": ask.TIME, "tools": tools, "tool_choice": "none"} | limits)
    grown = response["usage"]["input_tokens"] - 2 * bare["usage"]["input_tokens"]
    print(f"input tokens: {grown:+} for the call and its result")
    expect(grown > 0, "the call and its result are not in the second prompt")


TERMINAL = {"response.completed", "response.incomplete", "response.failed"}


def printed(frames: Iterator[Frame]) -> Iterator[dict]:
    """Parses the events of a stream, and shows the text as it comes."""
    ended = False
    for frame in frames:
        expect(not ended, f"something follows [DONE]: {frame.data[:80]}")
        if frame.data == "[DONE]":
            ended = True
            continue
        event = json.loads(frame.data)
        expect(frame.event == event["type"], f"event line {frame.event!r} for type {event['type']!r}")
        if event["type"] == "response.output_text.delta":
            print(event["delta"], end="", flush=True)
        yield event
    print()


# (heading, check, which of the two servers it needs)
CHECKS = [
    ("plain JSON response", plain, "chat"),
    ("streamed response", streamed, "chat"),
    ("chained response", chained, "chat"),
    ("structured output", structured, "chat"),
    ("function call", function_call, "tools"),
    ("tool that the gateway runs", server_tool, "tools"),
]
