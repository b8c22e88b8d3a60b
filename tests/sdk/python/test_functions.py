"""Functions of the client: the response pauses with `requires_action` and is resumed with their outputs."""

import json
import os

import openai
import pydantic
import pytest
from helpers import WEATHER, calls_of, fits, output_for, reached, types

TIME = WEATHER | {"name": "get_time", "description": "The time in a city."}


def test_round_trip(client):
    paused = fits(client.responses.create(model="scripted", input="weather?", tools=[WEATHER]))
    assert paused.status == "requires_action"
    [call] = calls_of(paused)
    assert (call.name, json.loads(call.arguments), call.status) == ("get_weather", {"city": "Paris"}, "completed")
    assert call.id.startswith("fc_") and call.call_id

    resumed = client.responses.create(
        model="scripted", previous_response_id=paused.id, input=[output_for(call)], tools=[WEATHER]
    )
    assert fits(resumed).status == "completed"
    assert resumed.output_text == "The tools said: sunny"
    assert resumed.previous_response_id == paused.id


def test_round_trip_as_openai_has_it(with_key):
    """The other gateway has `client_action_status: completed`."""
    client = with_key(os.environ["SDK_KEY_FULL"])
    paused = client.responses.create(model="scripted", input="weather?", tools=[WEATHER])
    assert paused.status == "completed"
    outputs = [output_for(call) for call in calls_of(paused)]
    resumed = client.responses.create(model="scripted", previous_response_id=paused.id, input=outputs)
    assert resumed.output_text == "The tools said: sunny"


def test_streamed_round_trip(client):
    with client.responses.stream(model="scripted", input="weather?", tools=[WEATHER]) as stream:
        events = list(stream)
        paused = stream.get_final_response()
    deltas = [event for event in events if event.type == "response.function_call_arguments.delta"]
    assert json.loads(deltas[-1].snapshot) == {"city": "Paris"}
    assert types(events)[-1] == "response.completed" and paused.status == "requires_action"

    [call] = calls_of(paused)
    with client.responses.stream(
        model="scripted", previous_response_id=paused.id, input=[output_for(call, "rain")], tools=[WEATHER]
    ) as stream:
        assert stream.get_final_response().output_text == "The tools said: rain"


def test_raw_events_of_a_call(client):
    events = [fits(event) for event in client.responses.create(
        model="scripted", input="weather?", tools=[WEATHER], stream=True
    )]  # fmt: skip
    assert list(dict.fromkeys(types(events))) == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]
    done = next(event for event in events if event.type == "response.function_call_arguments.done")
    assert (done.name, json.loads(done.arguments)) == ("get_weather", {"city": "Paris"})


def test_replay_without_storing(client):
    """As agents do that keep their history themselves."""
    history = [{"role": "user", "content": "weather?"}]
    paused = client.responses.create(model="scripted", input=history, tools=[WEATHER], store=False)
    history += paused.output
    history += [output_for(call, "fog") for call in calls_of(paused)]
    resumed = client.responses.create(model="scripted", input=history, tools=[WEATHER], store=False)
    assert resumed.output_text == "The tools said: fog"


def test_parallel_calls(client):
    with client.responses.stream(model="scripted", input="weather in both?", tools=[WEATHER]) as stream:
        paused = stream.get_final_response()
    calls = calls_of(paused)
    assert [json.loads(call.arguments)["city"] for call in calls] == ["Paris", "Oslo"]
    assert len({call.call_id for call in calls}) == len({call.id for call in calls}) == 2

    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="scripted", previous_response_id=paused.id, input=[output_for(calls[0])])
    assert calls[1].call_id in refused.value.message and refused.value.param == "input"

    # Outputs may come in any order.
    outputs = [output_for(call, json.loads(call.arguments)["city"]) for call in reversed(calls)]
    resumed = client.responses.create(model="scripted", previous_response_id=paused.id, input=outputs)
    assert set(resumed.output_text.removeprefix("The tools said: ").split("; ")) == {"Paris", "Oslo"}


def test_no_parallel_calls_where_unwanted(client):
    paused = client.responses.create(
        model="scripted", input="weather in both?", tools=[WEATHER], parallel_tool_calls=False
    )
    assert len(calls_of(paused)) == 1


def test_an_output_without_a_call(client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(
            model="scripted", input=[{"type": "function_call_output", "call_id": "call_none", "output": "?"}]
        )
    assert "call_none" in refused.value.message and refused.value.param == "input[0].call_id"


@pytest.mark.parametrize(
    ("choice", "called"),
    [
        ("none", []),
        ("auto", ["get_weather"]),
        ("required", ["get_weather"]),
        ({"type": "function", "name": "get_time"}, ["get_time"]),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_weather"}]},
         ["get_weather"]),
    ],
)  # fmt: skip
def test_tool_choice(client, choice, called):
    response = client.responses.create(
        model="scripted", input="go", tools=[WEATHER, TIME], tool_choice=choice
    )
    assert [call.name for call in calls_of(response)] == called
    echoed = response.tool_choice
    assert (echoed if isinstance(echoed, str) else echoed.to_dict()) == choice


def test_a_tool_beyond_the_allowed_ones_is_never_seen(client):
    """The model insists on get_weather, and hears each time that it may not."""
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_time"}]}
    response = client.responses.create(
        model="scripted", input="get_weather please", tools=[WEATHER, TIME], tool_choice=allowed
    )
    assert calls_of(response) == []
    assert response.output_text.startswith("The tools said: Error")


def test_output_of_several_parts(client):
    paused = client.responses.create(model="scripted", input="weather?", tools=[WEATHER])
    [call] = calls_of(paused)
    parts = [{"type": "input_text", "text": "sunny"}, {"type": "input_text", "text": "warm"}]
    resumed = client.responses.create(
        model="scripted", previous_response_id=paused.id,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": parts}],
    )  # fmt: skip
    assert "sunny" in resumed.output_text and "warm" in resumed.output_text


def test_typed_arguments(client):
    class Route(pydantic.BaseModel):
        """Finds a route."""

        start: str
        stops: int
        fast: bool

    tool = openai.pydantic_responses_function_tool(Route)
    response = client.responses.parse(model="scripted", input="go", tools=[tool])
    [call] = calls_of(response)
    assert call.parsed_arguments == Route(start="Paris", stops=3, fast=True)
    with client.responses.stream(model="scripted", input="go", tools=[tool]) as stream:
        [call] = calls_of(stream.get_final_response())
    assert call.parsed_arguments == Route(start="Paris", stops=3, fast=True)


def test_custom_tool(client):
    tool = {"type": "custom", "name": "run_code", "description": "Runs what it is given."}
    with client.responses.stream(model="scripted", input="go", tools=[tool]) as stream:
        events = list(stream)
        paused = stream.get_final_response()
    assert paused.status == "requires_action"
    [call] = paused.output
    assert (call.type, call.name, call.input) == ("custom_tool_call", "run_code", "Paris")
    deltas = [event.delta for event in events if event.type == "response.custom_tool_call_input.delta"]
    assert "".join(deltas) == "Paris"
    resumed = client.responses.create(
        model="scripted", previous_response_id=paused.id, tools=[tool],
        input=[{"type": "custom_tool_call_output", "call_id": call.call_id, "output": "done"}],
    )  # fmt: skip
    assert resumed.output_text == "The tools said: done"


def test_tools_as_the_model_sees_them(client):
    [tool] = reached(client.responses.create(model="mirror", input="hi", tools=[WEATHER]))["tools"]
    assert tool["type"] == "function"
    function = tool["function"]
    assert (function["name"], function["description"]) == (WEATHER["name"], WEATHER["description"])
    assert function["parameters"] == WEATHER["parameters"]
