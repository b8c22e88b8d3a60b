"""Tools that the gateway runs: the SDK shows their calls as those of an MCP server, and runs none."""

import json

import openai
import pydantic
import pytest
from helpers import WEATHER, calls_of, fits, output_for, reached, types
from openai.types.responses.response_output_item import McpCall

# No `server_url`, which the SDK's types leave out as well: the gateway's own tools are one server, always there.
SERVER = {"type": "mcp", "server_label": "antwort"}
CALCULATE = {"type": "antwort:calculate"}

SUM = 'calculate {"expression": "2 + 3"}'
NO_SUM = 'calculate {"expression": "1/0"}'
IN_PARIS = 'get_weather {"city": "Paris"}'

# The accumulator copies the response, and pydantic warns of the echoed `antwort:calculate`, a type that it does not know.
pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")

CALL_EVENTS = [
    "response.output_item.added",
    "response.mcp_call.in_progress",
    "response.mcp_call_arguments.delta",
    "response.mcp_call_arguments.done",
    "response.mcp_call.completed",
    "response.output_item.done",
]


def whole(client, **request):
    return fits(client.responses.create(model="caller", **request))


def raw(client, **request):
    events = [fits(event) for event in client.responses.create(model="caller", stream=True, **request)]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    return events[-1].response


def accumulated(client, **request):
    with client.responses.stream(model="caller", **request) as stream:
        return stream.get_final_response()


def calls_run(response) -> list:
    return [item for item in response.output if item.type == "mcp_call"]


def sent(response) -> dict:
    """What came over the wire: the accumulator adds nulls where it has nothing to parse."""
    body = response.to_dict(warnings=False)
    for item in body["output"]:
        for part in item.get("content") or [item]:
            part.pop("parsed", None), part.pop("parsed_arguments", None)
    return body


def shape(response) -> dict:
    """All but what is made anew for each response: ids and times."""
    body = sent(response)
    for made in [body, *body["output"]]:
        for name in ("id", "call_id", "created_at", "completed_at"):
            made.pop(name, None)
    return body


@pytest.mark.parametrize("ask", [whole, raw, accumulated])
@pytest.mark.parametrize("tool", [SERVER, SERVER | {"allowed_tools": ["calculate"]}, CALCULATE])
def test_a_call_and_its_answer(client, ask, tool):
    response = ask(client, input=SUM, tools=[tool])
    assert response.status == "completed" and types(response.output) == ["mcp_call", "message"]
    call, message = response.output
    assert isinstance(call, McpCall)
    assert (call.server_label, call.name, call.status) == ("antwort", "calculate", "completed")
    assert json.loads(call.arguments) == {"expression": "2 + 3"}
    assert json.loads(call.output)["result"] == 5 and call.error is None and call.approval_request_id is None
    assert response.output_text == f"The tools said: {call.output}" == message.content[0].text
    [echoed] = response.tools
    assert echoed.type == tool["type"]
    # The usage is of both turns.
    assert response.usage.output_tokens > 8
    assert sent(client.responses.retrieve(response.id)) == sent(response)


@pytest.mark.parametrize("said", [SUM, NO_SUM, f"{SUM}\n{NO_SUM}", f"{SUM}\n{IN_PARIS}"])
def test_body_stream_and_accumulator_are_alike(client, said):
    request = {"input": said, "tools": [SERVER, WEATHER]}
    body = shape(whole(client, **request))
    assert shape(raw(client, **request)) == shape(accumulated(client, **request)) == body


def test_raw_events_of_a_call(client):
    stream = client.responses.create(model="caller", input=SUM, tools=[SERVER], stream=True)
    of_call = [event for event in stream if getattr(event, "output_index", None) == 0]
    assert list(dict.fromkeys(types(of_call))) == CALL_EVENTS
    added, done = of_call[0].item, of_call[-1].item
    assert isinstance(added, McpCall) and isinstance(done, McpCall)
    assert (added.status, added.arguments, added.output, added.error) == ("in_progress", "", None, None)
    assert {event.item_id for event in of_call[1:-1]} == {added.id} == {done.id}
    deltas = [event.delta for event in of_call if event.type == "response.mcp_call_arguments.delta"]
    assert "".join(deltas) == done.arguments
    assert done.status == "completed" and done.output


@pytest.mark.parametrize("ask", [whole, raw, accumulated])
def test_a_mixed_turn(client, ask):
    """The gateway has made its call when the response pauses; the client answers its own only."""
    tools = [SERVER, WEATHER]
    paused = ask(client, input=f"{SUM}\n{IN_PARIS}", tools=tools)
    assert paused.status == "requires_action" and paused.output_text == ""
    [run], [call] = calls_run(paused), calls_of(paused)
    assert run.status == "completed" and json.loads(run.output)["result"] == 5
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"})

    resumed = ask(client, previous_response_id=paused.id, input=[output_for(call)], tools=tools)
    assert resumed.status == "completed" and types(resumed.output) == ["message"], "nothing is run again"
    assert resumed.output_text == f"The tools said: {run.output}; sunny"


@pytest.mark.parametrize("ask", [whole, raw, accumulated])
def test_a_call_that_fails(client, ask):
    response = ask(client, input=NO_SUM, tools=[CALCULATE])
    assert response.status == "completed" and response.error is None
    [call] = calls_run(response)
    assert call.status == "failed" and call.output is None
    assert call.error.type == "mcp_tool_execution_error"
    [part] = call.error.content
    assert part["type"] == "text" and "calculation error" in part["text"]
    assert response.output_text == f"The tools said: Error: {part['text']}"


def test_events_of_a_call_that_fails(client):
    kinds = types(client.responses.create(model="caller", input=NO_SUM, tools=[SERVER], stream=True))
    assert "response.mcp_call.failed" in kinds and "response.mcp_call.completed" not in kinds
    assert "error" not in kinds and kinds[-1] == "response.completed"


@pytest.mark.parametrize("ask", [whole, accumulated])
@pytest.mark.parametrize("said", [SUM, NO_SUM])
def test_replay_without_storing(client, ask, said):
    """As agents do that keep their history themselves."""
    history = [{"role": "user", "content": said}]
    first = ask(client, input=history, tools=[SERVER], store=False)
    [call] = calls_run(first)
    history += first.output + [{"role": "user", "content": "again?"}]
    seen = reached(client.responses.create(model="mirror", input=history, tools=[SERVER], store=False))["messages"]
    assert [message["role"] for message in seen] == ["user", "assistant", "tool", "assistant", "user"]
    [function] = [made["function"] for made in seen[1]["tool_calls"]]
    assert (function["name"], json.loads(function["arguments"])) == ("calculate", json.loads(call.arguments))
    assert seen[2]["content"] == first.output_text.removeprefix("The tools said: ")


@pytest.mark.parametrize("ask", [whole, accumulated])
def test_a_mixed_turn_replayed_without_storing(client, ask):
    history = [{"role": "user", "content": f"{SUM}\n{IN_PARIS}"}]
    paused = ask(client, input=history, tools=[SERVER, WEATHER], store=False)
    history += paused.output + [output_for(call) for call in calls_of(paused)]
    resumed = ask(client, input=history, tools=[SERVER, WEATHER], store=False)
    [run] = calls_run(paused)
    assert resumed.status == "completed" and resumed.output_text == f"The tools said: {run.output}; sunny"


def test_a_chain(client):
    first = whole(client, input=SUM, tools=[SERVER])
    second = client.responses.create(model="mirror", previous_response_id=first.id, input="again?")
    assert [message["role"] for message in reached(second)["messages"]] == [
        "user", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip
    # An item of a stored response can be named instead of sent.
    [call] = calls_run(first)
    named = [{"type": "item_reference", "id": call.id}, {"role": "user", "content": "again?"}]
    seen = reached(client.responses.create(model="mirror", input=named))["messages"]
    assert [message["role"] for message in seen] == ["assistant", "tool", "user"] and seen[1]["content"] == call.output


@pytest.mark.parametrize("ask", [whole, raw, accumulated])
def test_items_without_their_steps(client, ask):
    response = ask(client, input=SUM, tools=[SERVER], extra_body={"antwort": {"stream_visibility": "items"}})
    assert types(response.output) == ["mcp_call", "message"] and response.output[0].output


def test_events_of_items_without_their_steps(client):
    stream = client.responses.create(
        model="caller", input=SUM, tools=[SERVER], stream=True, extra_body={"antwort": {"stream_visibility": "items"}}
    )
    of_call = [event for event in stream if getattr(event, "output_index", None) == 0]
    assert types(of_call) == ["response.output_item.added", "response.output_item.done"]


@pytest.mark.parametrize("ask", [whole, raw, accumulated])
def test_hidden(client, ask):
    """The call looks like a function's, and is over: the client has none of that name, and nothing to answer."""
    hidden = {"antwort": {"stream_visibility": "hidden"}}
    response = ask(client, input=SUM, tools=[SERVER], extra_body=hidden)
    assert response.status == "completed" and types(response.output) == ["function_call", "message"]
    [call] = calls_of(response)
    assert (call.name, json.loads(call.arguments), call.status) == ("calculate", {"expression": "2 + 3"}, "completed")
    assert json.loads(response.output_text.removeprefix("The tools said: "))["result"] == 5
    assert response.to_dict()["antwort"]["stream_visibility"] == "hidden"
    # The result is kept for the model.
    again = client.responses.create(model="mirror", previous_response_id=response.id, input="again?")
    seen = reached(again)["messages"]
    assert [message["role"] for message in seen] == ["user", "assistant", "tool", "assistant", "user"]


@pytest.mark.parametrize("ask", [whole, raw, accumulated])
def test_a_mixed_turn_hidden(client, ask):
    """The client knows its own call by the name."""
    request = {"tools": [SERVER, WEATHER], "extra_body": {"antwort": {"stream_visibility": "hidden"}}}
    paused = ask(client, input=f"{SUM}\n{IN_PARIS}", **request)
    assert paused.status == "requires_action"
    assert [call.name for call in calls_of(paused)] == ["calculate", "get_weather"]
    resumed = ask(client, previous_response_id=paused.id, input=[output_for(calls_of(paused)[1])], **request)
    assert resumed.status == "completed" and resumed.output_text.endswith("; sunny")


def test_parse(client):
    """The call does not disturb the form of the answer."""

    class Sum(pydantic.BaseModel):
        title: str

    request = {"model": "caller", "input": SUM, "tools": [SERVER], "text_format": Sum}
    assert client.responses.parse(**request).output_parsed == Sum(title="Paris")
    with client.responses.stream(**request) as stream:
        response = stream.get_final_response()
    assert response.output_parsed == Sum(title="Paris") and types(response.output) == ["mcp_call", "message"]


def test_single_shot(client):
    """Not run: the calls come back as those of functions."""
    response = whole(client, input=SUM, tools=[SERVER], extra_body={"antwort": {"execute_tools": False}})
    assert response.status == "completed" and types(response.output) == ["function_call"]


@pytest.mark.parametrize(
    "choice", [{"type": "mcp", "server_label": "antwort", "name": "calculate"}, CALCULATE, "required"]
)
def test_tool_choice(client, choice):
    response = client.responses.create(model="caller", input=SUM, tools=[CALCULATE], tool_choice=choice)
    assert types(response.output) == ["mcp_call", "message"]


SEARCH = 'web_search {"query": "learn rust"}'


@pytest.mark.parametrize("ask", [whole, raw, accumulated])
@pytest.mark.parametrize("tool", [{"type": "web_search"}, {"type": "web_search_preview", "search_context_size": "low"}])
def test_web_search(client, ask, tool):
    response = ask(client, input=SEARCH, tools=[tool])
    assert response.status == "completed" and types(response.output) == ["web_search_call", "message"]
    call, message = response.output
    assert (call.status, call.action.type, call.action.query) == ("completed", "search", "learn rust")
    assert [source.url for source in call.action.sources] == ["https://doc.rust-lang.org/book/"]
    [citation] = message.content[0].annotations
    assert (citation.type, citation.title) == ("url_citation", "The Book")
    assert response.output_text[citation.start_index : citation.end_index] == citation.url


def test_web_search_in_all_ways_and_replayed(client):
    bodies = [ask(client, input=SEARCH, tools=[{"type": "web_search"}]) for ask in (whole, raw, accumulated)]
    assert shape(bodies[0]) == shape(bodies[1]) == shape(bodies[2])
    history = [{"role": "user", "content": SEARCH}, *bodies[2].output, {"role": "user", "content": "again?"}]
    assert whole(client, input=history, store=False).output_text == "You said: again?"


@pytest.mark.parametrize("ask", [whole, raw, accumulated])
def test_a_web_search_that_fails(client, ask):
    response = ask(client, input='web_search {"query": 7}', tools=[{"type": "web_search"}])
    assert response.status == "completed" and response.output[0].status == "failed"
    assert response.output_text.startswith("The tools said: Error: ")


def test_a_tool_that_is_not_there(client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="caller", input="hi", tools=[{"type": "antwort:none"}])
    assert refused.value.code == "tool_not_found"
