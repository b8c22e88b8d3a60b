"""An API error of each class, with what the SDK needs to act on it."""

import os
import time

import openai
import pytest
from openai import DefaultHttpxClient

FULL, READER, OTHER = (os.environ.get(name, "") for name in ("SDK_KEY_FULL", "SDK_KEY_READER", "SDK_KEY_OTHER"))


def error_of(call, cls):
    with pytest.raises(cls) as caught:
        call()
    error = caught.value
    assert type(error) is cls
    assert error.request_id.startswith("req_")
    assert set(error.body) == {"message", "type", "param", "code"}
    assert error.body["message"] and error.body["type"]
    return error


def ask(client, **fields):
    return lambda: client.responses.create(**({"model": "scripted", "input": "hi"} | fields))


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"temperature": 3}, "temperature", "decimal_above_max_value"),
        ({"max_output_tokens": 0}, "max_output_tokens", "integer_below_min_value"),
        ({"input": 7}, "input", "invalid_type"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text",
         "missing_required_parameter"),
        ({"input": [{"role": "king", "content": "hi"}]}, "input[0].role", "invalid_value"),
        ({"tools": [{"type": "nonsense"}]}, "tools[0].type", "invalid_value"),
        ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
        ({"extra_body": {"nonsense": 1}}, "nonsense", "unknown_parameter"),
        ({"metadata": {"k": "v" * 513}}, "metadata.k", "string_above_max_length"),
        ({"model": None}, "model", "missing_required_parameter"),
    ],
)  # fmt: skip
def test_bad_request(client, fields, param, code):
    error = error_of(ask(client, **fields), openai.BadRequestError)
    assert (error.param, error.code, error.type) == (param, code, "invalid_request_error")


def test_bad_request_before_a_stream(client):
    """An error that is known before the first event has a status of its own."""
    error = error_of(ask(client, temperature=3, stream=True), openai.BadRequestError)
    assert error.param == "temperature"


def test_authentication(with_key):
    wrong = with_key("wrong")
    nothing = {"extra_headers": {"Authorization": openai.Omit()}}
    for fields in ({}, nothing, {"stream": True}):
        error = error_of(ask(wrong, **fields), openai.AuthenticationError)
        assert error.code == "invalid_api_key" and "wrong" not in error.message
    assert with_key(FULL).responses.create(model="scripted", input="hi").output_text == "You said: hi"


def test_permission(with_key):
    reader = with_key(READER)
    error = error_of(ask(reader), openai.PermissionDeniedError)
    assert "responses:create" in error.message
    error_of(lambda: reader.chat.completions.create(model="scripted", messages=[]), openai.PermissionDeniedError)
    assert reader.models.list().data


def test_what_others_own_is_not_found(with_key):
    made = with_key(FULL).responses.create(model="scripted", input="mine")
    other = with_key(OTHER)
    error_of(lambda: other.responses.retrieve(made.id), openai.NotFoundError)
    error_of(lambda: other.responses.delete(made.id), openai.NotFoundError)
    error_of(lambda: other.responses.input_items.list(made.id), openai.NotFoundError)
    error_of(ask(other, previous_response_id=made.id), openai.BadRequestError)
    assert with_key(FULL).responses.retrieve(made.id).id == made.id


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("upstream", "cls", "status", "code"),
    [
        (400, openai.BadRequestError, 400, "invalid_prompt"),
        (401, openai.InternalServerError, 502, "upstream_auth_error"),
        (403, openai.InternalServerError, 502, "upstream_auth_error"),
        (404, openai.NotFoundError, 404, "model_not_found"),
        (422, openai.UnprocessableEntityError, 422, "invalid_shape"),
        (429, openai.RateLimitError, 429, "rate_limit_exceeded"),
        (500, openai.InternalServerError, 502, "upstream_error"),
        (503, openai.InternalServerError, 503, "upstream_unavailable"),
    ],
)
def test_upstream(client, upstream, cls, status, code, stream):
    error = error_of(ask(client, model=f"err-{upstream}", stream=stream), cls)
    assert (error.status_code, error.code) == (status, code)
    if upstream in (401, 403):
        assert "sk-of-the-gateway" not in str(error), "the gateway's own key"
    if upstream == 429:
        assert error.response.headers["retry-after"] == "1"


def counted(client, retries):
    """The client with so many retries, and the times at which it asked."""
    times = []
    http = DefaultHttpxClient(event_hooks={"request": [lambda _: times.append(time.monotonic())]})
    return client.with_options(max_retries=retries, http_client=http), times


@pytest.mark.parametrize(("upstream", "cls"), [(429, openai.RateLimitError), (503, openai.InternalServerError)])
def test_what_the_gateway_has_tried_again_the_sdk_does_not(client, upstream, cls):
    counting, times = counted(client, 2)
    error = error_of(ask(counting, model=f"err-{upstream}"), cls)
    assert error.response.headers["x-should-retry"] == "false"
    assert len(times) == 1


def test_other_retries_are_the_clients_choice(client, with_key):
    # The gateway that asks for keys tries nothing again.
    for asked, model in ((client, "err-500"), (with_key(FULL), "err-503")):
        for retries in (0, 2):
            counting, times = counted(asked, retries)
            error_of(ask(counting, model=model), openai.InternalServerError)
            assert len(times) == retries + 1
    counting, times = counted(client, 2)
    error_of(ask(counting, temperature=3), openai.BadRequestError)
    assert len(times) == 1, "what is wrong stays wrong"


def test_the_sdk_waits_as_long_as_the_provider_asked(with_key):
    counting, times = counted(with_key(FULL), 1)
    error_of(ask(counting, model="err-429"), openai.RateLimitError)
    assert len(times) == 2 and times[1] - times[0] >= 1


def test_too_large(with_key):
    error = error_of(ask(with_key(FULL), input="x" * 100_000), openai.APIStatusError)
    assert (error.status_code, error.code) == (413, "request_too_large")


def test_wrong_media_type(client):
    error = error_of(ask(client, extra_headers={"Content-Type": "text/plain"}), openai.APIStatusError)
    assert (error.status_code, error.code) == (415, "unsupported_media_type")
    charset = {"Content-Type": "application/json; charset=utf-8"}
    assert client.responses.create(model="scripted", input="hi", extra_headers=charset).output_text


def test_unknown_path(client):
    error_of(lambda: client.post("/nonsense", cast_to=object), openai.NotFoundError)
    error = error_of(lambda: client.put("/responses", cast_to=object), openai.APIStatusError)
    assert error.status_code == 405


def test_a_refusal_does_not_cost_the_connection(client, with_key):
    """What is refused before its body is read: the SDK sends its next request on the same connection."""
    wrong, reader = with_key("wrong"), with_key(READER)
    refused = [
        (lambda: client.post("/nonsense", cast_to=object, body={"a": 1}), 404),
        (lambda: client.put("/responses", cast_to=object, body={"a": 1}), 405),
        (ask(client, extra_headers={"Content-Type": "text/plain"}), 415),
        (ask(wrong), 401),
        (ask(reader), 403),
    ]
    for call, status in refused:
        for _ in range(100):
            assert error_of_any(call).status_code == status


def error_of_any(call):
    with pytest.raises(openai.APIStatusError) as caught:
        call()
    return caught.value


def test_impatience(client):
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.3).responses.create(model="slow", input="hi")
    assert client.responses.create(model="scripted", input="still there").output_text
