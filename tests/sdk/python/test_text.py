"""Plain responses: what goes to the model, and what comes back."""

import openai
import pytest
from helpers import WEATHER, fits, reached


def test_text(client):
    response = fits(client.responses.create(model="scripted", input="hello there"))
    assert response.output_text == "You said: hello there"
    assert (response.status, response.object, response.error) == ("completed", "response", None)
    assert response.id.startswith("resp_") and response.output[0].id.startswith("msg_")
    assert response.model == "scripted"
    assert response.completed_at >= response.created_at


def test_every_answer_names_its_request(client):
    assert client.responses.create(model="scripted", input="hi")._request_id.startswith("req_")
    raw = client.responses.with_raw_response.create(
        model="scripted", input="hi", extra_headers={"X-Request-ID": "mine-1"}
    )
    assert raw.headers["x-request-id"] == "mine-1", "a client's own id is kept"
    assert raw.headers["content-type"] == "application/json"
    assert raw.parse().output_text == "You said: hi"


def test_usage(client):
    usage = client.responses.create(model="thinker", input="one two three").usage
    assert (usage.input_tokens, usage.input_tokens_details.cached_tokens) == (3, 1)
    assert usage.output_tokens_details.reasoning_tokens > 0
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens


def test_what_was_asked_is_repeated(client):
    response = client.responses.create(
        model="scripted",
        input="hi",
        instructions="Be brief.",
        temperature=0.5,
        top_p=0.9,
        max_output_tokens=100,
        metadata={"ticket": "17"},
        parallel_tool_calls=False,
        truncation="auto",
        user="u-1",
        safety_identifier="s-1",
        prompt_cache_key="k-1",
    )
    fits(response)
    assert (response.instructions, response.temperature, response.top_p) == ("Be brief.", 0.5, 0.9)
    assert (response.max_output_tokens, response.metadata) == (100, {"ticket": "17"})
    assert (response.parallel_tool_calls, response.truncation) == (False, "auto")
    assert (response.user, response.safety_identifier, response.prompt_cache_key) == ("u-1", "s-1", "k-1")


def test_what_was_not_said_has_its_default(client):
    response = client.responses.create(model="scripted", input="hi")
    assert (response.temperature, response.top_p, response.tool_choice) == (1.0, 1.0, "auto")
    assert (response.tools, response.metadata, response.parallel_tool_calls) == ([], {}, True)
    assert (response.truncation, response.text.format.type) == ("disabled", "text")
    assert response.store is True and response.previous_response_id is None


def test_what_reaches_the_model(client):
    response = client.responses.create(
        model="mirror",
        input="hi",
        instructions="Be brief.",
        temperature=0.5,
        top_p=0.9,
        max_output_tokens=1000,
        extra_body={"seed": 7, "top_k": 3},
    )
    request = reached(response)
    assert request["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ]
    sampling = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 1000, "seed": 7, "top_k": 3}
    assert sampling.items() <= request.items()


@pytest.mark.parametrize("role", ["developer", "system"])
def test_messages_without_type(client, role):
    response = client.responses.create(
        model="mirror",
        input=[
            {"role": role, "content": "Speak Latin."},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "Salve."},
            {"role": "user", "content": [{"type": "input_text", "text": "and"}, {"type": "input_text", "text": "bye"}]},
        ],
    )
    messages = reached(response)["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
    assert messages[0]["content"] == "Speak Latin." and messages[2]["content"] == "Salve."


def test_output_goes_back_as_input(client):
    first = client.responses.create(model="thinker", input="hello", store=False)
    history = [{"role": "user", "content": "hello"}, *first.output, {"role": "user", "content": "again"}]
    second = client.responses.create(model="mirror", input=history, store=False)
    roles = [message["role"] for message in reached(second)["messages"]]
    assert roles == ["user", "assistant", "user"]


def test_nulls_and_empty_lists_are_as_good_as_nothing(client):
    response = client.responses.create(
        model="scripted", input="hi", instructions=None, metadata=None, reasoning=None, include=[], tools=[],
        previous_response_id=None, max_output_tokens=None, temperature=None,
    )  # fmt: skip
    assert response.output_text == "You said: hi"


def test_input_tokens_are_counted(client):
    short = client.responses.input_tokens.count(model="scripted", input="hello there")
    assert short.object == "response.input_tokens" and short.input_tokens > 0
    long = client.responses.input_tokens.with_raw_response.count(
        model="scripted",
        input=[{"role": "user", "content": "hello there"}],
        instructions="Answer briefly.",
        tools=[WEATHER],
        tool_choice="auto",
        parallel_tool_calls=False,
        reasoning={"effort": "low"},
        text={"format": {"type": "text"}},
        truncation="auto",
    )
    assert long.headers["antwort-token-count"] == "estimate"
    assert long.parse().input_tokens > short.input_tokens + 20
    first = client.responses.create(model="scripted", input="hello there")
    on = client.responses.input_tokens.count(model="scripted", input="go on", previous_response_id=first.id)
    assert on.input_tokens > short.input_tokens
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.input_tokens.count(model="scripted", input="go on", previous_response_id="resp_none")
    assert refused.value.code == "previous_response_not_found"
