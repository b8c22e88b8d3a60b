"""The SDK's own retries under one `Idempotency-Key`: one response, for which the model is asked once."""

import os
import re
import urllib.request
import uuid

import openai
import pytest
from cutting_proxy import CuttingProxy

OPEN = os.environ.get("SDK_OPEN_URL", "")


def metric(name: str, label: str) -> int:
    """The sum of a metric, of the series with this label."""
    with urllib.request.urlopen(OPEN.removesuffix("/v1") + "/metrics") as metrics:
        text = metrics.read().decode()
    return sum(map(int, re.findall(rf"^{name}{{[^}}]*{label}[^}}]*}} (\d+)", text, re.M)))


def asked(model: str) -> int:
    """How often the gateway has asked this model."""
    return metric("gen_ai_client_operation_duration_seconds_count", f'gen_ai_request_model="{model}"')


def begun() -> int:
    """Runs that were begun with a key."""
    return metric("antwort_idempotency_keys_total", 'outcome="new"')


def stored(client, model: str) -> list:
    """The ids of the stored responses of this model."""
    page = client.get("/responses?limit=100", cast_to=object)
    return [response["id"] for response in page["data"] if response["model"] == model]


@pytest.fixture
def model():
    return f"once-{uuid.uuid4().hex[:12]}"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("answer_bytes", [0, 10])
def test_a_retry_after_a_broken_connection_gets_the_response_of_the_first(client, model, stream, answer_bytes):
    key = {"Idempotency-Key": str(uuid.uuid4())}
    with CuttingProxy(OPEN, answer_bytes) as proxy:
        retrying = client.with_options(base_url=proxy.url, max_retries=3)
        made = retrying.responses.create(model=model, input="hi", stream=stream, extra_headers=key)
        response = [event for event in made][-1].response if stream else made
        assert proxy.connections >= 2, "the first was cut"
    assert response.output_text == "You said: hi"
    assert stored(client, model) == [response.id]
    assert asked(model) == 1


def test_a_retry_while_the_first_runs_waits_for_it(client):
    before, key = asked("slow"), {"Idempotency-Key": str(uuid.uuid4())}
    runs = begun()
    with CuttingProxy(OPEN, happened=lambda: begun() > runs) as proxy:
        retrying = client.with_options(base_url=proxy.url, max_retries=3)
        raw = retrying.responses.with_raw_response.create(model="slow", input="hi", extra_headers=key)
        assert raw.headers["idempotent-replayed"] == "true"
        assert raw.parse().output_text == "You said: hi"
    assert asked("slow") == before + 1


def test_a_stream_that_broke_is_asked_for_again_by_its_key(client, model):
    key = {"Idempotency-Key": str(uuid.uuid4())}
    body = {"model": model, "input": "one two three four", "stream": True, "extra_headers": key}
    with CuttingProxy(OPEN, 1500) as proxy, pytest.raises(Exception):
        list(client.with_options(base_url=proxy.url).responses.create(**body))
    events = list(client.responses.create(**body))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].type == "response.completed"
    assert stored(client, model) == [events[-1].response.id]
    assert asked(model) == 1


def test_the_key_of_another_request_is_not_retried(client, model):
    key = {"Idempotency-Key": str(uuid.uuid4())}
    client.responses.create(model=model, input="hi", extra_headers=key)
    with pytest.raises(openai.ConflictError) as caught:
        client.with_options(max_retries=3).responses.create(model=model, input="other", extra_headers=key)
    assert caught.value.code == "idempotency_key_reused"
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert asked(model) == 1
