"""Reasoning, and the ways in which an answer ends other than by being complete."""

import openai
import pytest
from helpers import fits, reached, types

THOUGHT = "The user wants something. I should repeat it."


def test_reasoning(client):
    response = fits(client.responses.create(model="thinker", input="hi"))
    reasoning, message = response.output
    assert (reasoning.type, message.type) == ("reasoning", "message")
    assert reasoning.content[0].text == THOUGHT and reasoning.summary == []
    assert response.output_text == "You said: hi"


def test_streamed_reasoning(client):
    events = [fits(event) for event in client.responses.create(model="thinker", input="hi", stream=True)]
    deltas = [event.delta for event in events if event.type == "response.reasoning_text.delta"]
    assert "".join(deltas) == THOUGHT
    with client.responses.stream(model="thinker", input="hi") as stream:
        final = stream.get_final_response()
    assert final.output[0].content[0].text == THOUGHT


def test_reasoning_as_a_summary(client):
    stream = client.responses.create(model="thinker", input="hi", stream=True, reasoning={"summary": "auto"})
    events = [fits(event) for event in stream]
    deltas = [event.delta for event in events if event.type == "response.reasoning_summary_text.delta"]
    assert "".join(deltas) == THOUGHT
    assert "response.reasoning_text.delta" not in types(events)
    assert events[-1].response.output[0].summary[0].text == THOUGHT


def test_sealed_reasoning(client):
    include = ["reasoning.encrypted_content"]
    first = client.responses.create(model="thinker", input="hi", store=False, include=include)
    sealed = first.output[0].encrypted_content
    assert sealed and "user wants" not in sealed
    history = [{"role": "user", "content": "hi"}, *first.output, {"role": "user", "content": "more"}]
    second = client.responses.create(model="thinker", input=history, store=False, include=include)
    assert second.output_text == "You said: more"


def test_refusal(client):
    response = fits(client.responses.create(model="refuser", input="hi"))
    part = response.output[0].content[0]
    assert (part.type, part.refusal) == ("refusal", "I cannot help with that.")
    assert (response.status, response.output_text) == ("completed", "")


def test_streamed_refusal(client):
    events = [fits(event) for event in client.responses.create(model="refuser", input="hi", stream=True)]
    deltas = [event.delta for event in events if event.type == "response.refusal.delta"]
    assert "".join(deltas) == "I cannot help with that."
    with client.responses.stream(model="refuser", input="hi") as stream:
        assert stream.get_final_response().output[0].content[0].refusal == "I cannot help with that."


def test_a_refusal_is_held_to_no_form(client):
    text = {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object"}}}
    assert client.responses.create(model="refuser", input="hi", text=text).status == "completed"


@pytest.mark.parametrize(("model", "reason"), [("scripted", "max_output_tokens"), ("filtered", "content_filter")])
def test_incomplete(client, model, reason):
    ask = {"model": model, "input": "word " * 40, "max_output_tokens": 16}
    response = fits(client.responses.create(**ask))
    assert (response.status, response.incomplete_details.reason) == ("incomplete", reason)
    assert response.output[-1].status == "incomplete" and response.usage is not None

    events = [fits(event) for event in client.responses.create(**ask, stream=True)]
    assert types(events)[-1] == "response.incomplete"
    assert events[-1].response.output_text == response.output_text
    assert client.responses.retrieve(response.id).status == "incomplete"


def test_logprobs(client):
    ask = {"model": "scripted", "input": "hi", "include": ["message.output_text.logprobs"], "top_logprobs": 1}
    response = fits(client.responses.create(**ask))
    logprobs = response.output[0].content[0].logprobs
    assert "".join(entry.token for entry in logprobs) == response.output_text
    assert len(logprobs[0].top_logprobs) == 1
    events = [fits(event) for event in client.responses.create(**ask, stream=True)]
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    assert all(delta.logprobs[0].token for delta in deltas)


@pytest.mark.parametrize("model", ["cut", "failing"])
def test_a_stream_that_breaks_raises_and_is_kept(client, model):
    seen = []
    with pytest.raises(openai.APIError) as failed:
        for event in client.responses.create(model=model, input="one two three four", stream=True):
            seen.append(event)
    assert failed.value.message and failed.value.code
    assert not isinstance(failed.value, openai.APIConnectionError), "the gateway says what happened"
    said = "".join(event.delta for event in seen if event.type == "response.output_text.delta")
    assert said and "You said: one two three four".startswith(said)
    stored = client.responses.retrieve(seen[0].response.id)
    assert (stored.status, stored.output_text) == ("failed", said)


@pytest.mark.parametrize("model", ["cut", "failing"])
def test_the_accumulator_raises_too(client, model):
    with pytest.raises(openai.APIError):
        with client.responses.stream(model=model, input="one two three four") as stream:
            stream.get_final_response()


def test_a_body_that_breaks_is_a_gateway_error(client):
    with pytest.raises(openai.InternalServerError) as failed:
        client.responses.create(model="cut", input="hi")
    assert failed.value.status_code == 502


def test_a_failed_response_can_be_continued(client):
    """What was received is part of the conversation; nothing waits for an answer."""
    stream = client.responses.create(model="cut", input="one two three four", stream=True)
    id = next(iter(stream)).response.id
    with pytest.raises(openai.APIError):
        list(stream)
    messages = reached(client.responses.create(model="mirror", input="go on", previous_response_id=id))["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
