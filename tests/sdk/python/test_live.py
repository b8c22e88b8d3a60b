"""Streams that are resumed where they broke, and responses that are cancelled."""

import time
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

GOES_ON = {"antwort": {"on_disconnect": "continue"}}


def broken(client, count: int) -> list:
    """The first events of a stream that goes on without its client."""
    body = {"model": "scripted", "input": "one two three four five six", "stream": True, "extra_body": GOES_ON}
    with client.responses.create(**body) as stream:
        return [next(stream) for _ in range(count)]


def test_a_stream_is_resumed_behind_the_last_event(client):
    seen = broken(client, 5)
    rest = client.responses.retrieve(seen[0].response.id, stream=True, starting_after=seen[-1].sequence_number)
    events = seen + list(rest)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].type == "response.completed"
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == events[-1].response.output_text == "You said: one two three four five six"


def test_the_stream_helper_resumes(client):
    seen = broken(client, 5)
    with client.responses.stream(response_id=seen[0].response.id, starting_after=seen[-1].sequence_number) as stream:
        events = list(stream)
        assert events[0].sequence_number == seen[-1].sequence_number + 1
        assert stream.get_final_response().output_text == "You said: one two three four five six"


def test_a_response_without_a_log_cannot_be_streamed_again(client):
    made = client.responses.create(model="scripted", input="hi")
    with pytest.raises(openai.BadRequestError) as caught:
        list(client.responses.retrieve(made.id, stream=True))
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "stream")


def test_a_running_response_is_cancelled_and_an_ended_one_is_not(client):
    def running() -> list:
        page = client.get("/responses?limit=20", cast_to=object)
        return [made["id"] for made in page["data"] if (made["model"], made["status"]) == ("slow", "in_progress")]

    with ThreadPoolExecutor() as pool:
        made = pool.submit(client.responses.create, model="slow", input="hi", extra_body=GOES_ON)
        until = time.monotonic() + 10
        while not running() and time.monotonic() < until:
            time.sleep(0.02)
        [response] = running()
        assert client.responses.cancel(response).status == "cancelled"
        assert (made.result().id, made.result().status) == (response, "cancelled")
    assert client.responses.retrieve(response).status == "cancelled"
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.cancel(response)
    assert caught.value.code == "response_not_cancellable"
