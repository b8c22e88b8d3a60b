"""Answers in a form: pydantic models through `parse` and `stream`."""

import enum
import json

import openai
import pydantic
import pytest
from helpers import fits, reached


class Mood(enum.Enum):
    glad = "glad"
    sad = "sad"


class Step(pydantic.BaseModel):
    number: int
    text: str


class Plan(pydantic.BaseModel):
    title: str
    mood: Mood
    steps: list[Step]
    note: str | None


PLAN = Plan(title="Paris", mood=Mood.glad, steps=[Step(number=3, text="Paris")] * 2, note="Paris")
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def form(schema=SCHEMA):
    return {"format": {"type": "json_schema", "name": "plan", "schema": schema}}


def test_parse(client):
    response = client.responses.parse(model="scripted", input="plan", text_format=Plan)
    assert response.output_parsed == PLAN
    assert response.text.format.type == "json_schema" and response.text.format.name == "Plan"


def test_stream(client):
    with client.responses.stream(model="scripted", input="plan", text_format=Plan) as stream:
        done = [event for event in stream if event.type == "response.output_text.done"]
        final = stream.get_final_response()
    assert done[0].parsed == final.output_parsed == PLAN


def test_after_a_function(client):
    tool = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}, "strict": False}
    paused = client.responses.create(model="scripted", input="plan", tools=[tool], text=form())
    assert paused.status == "requires_action", "a call is no answer, and held to no form"
    outputs = [{"type": "function_call_output", "call_id": paused.output[0].call_id, "output": "seen"}]
    resumed = client.responses.create(
        model="scripted", previous_response_id=paused.id, input=outputs, tools=[tool], text=form()
    )
    assert json.loads(resumed.output_text) == {"n": 3}


def test_json_object(client):
    response = client.responses.create(
        model="scripted", input="as JSON, please", text={"format": {"type": "json_object"}}
    )
    assert json.loads(fits(response).output_text) == {"answer": 42}


def test_the_schema_reaches_the_model(client):
    # The mirror answers with the request, which fits a schema that allows everything.
    response = client.responses.create(model="mirror", input="hi", text=form({"type": "object"}))
    sent = reached(response)["response_format"]
    assert sent["type"] == "json_schema"
    assert (sent["json_schema"]["name"], sent["json_schema"]["schema"]) == ("plan", {"type": "object"})


def strictly(text):
    text["format"]["strict"] = True
    return text


def test_an_answer_in_no_form_fails_if_the_form_is_strict(client):
    response = client.responses.create(model="unruly", input="hi", text=strictly(form()))
    assert (response.status, response.error.code) == ("failed", "invalid_structured_output")
    assert response.output_text == "You said: hi", "what was said is kept"
    kept = client.responses.create(model="unruly", input="hi", text=form())
    assert (kept.status, kept.to_dict()["antwort"]["structured"]["valid"]) == ("completed", False)


def test_a_streamed_answer_in_no_form_fails_if_the_form_is_strict(client):
    seen = []
    with pytest.raises(openai.APIError) as failed:
        with client.responses.stream(model="unruly", input="hi", text=strictly(form())) as stream:
            for event in stream:
                seen.append(event)
    assert failed.value.code == "invalid_structured_output"
    stored = client.responses.retrieve(seen[0].response.id)
    assert (stored.status, stored.error.code) == ("failed", "invalid_structured_output")


def test_a_schema_that_is_none(client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="scripted", input="hi", text=form({"type": "nonsense"}))
    assert refused.value.param == "text.format.schema"
