"""Responses that are made in the background: polled, streamed, resumed and cancelled."""

import time


def ended(client, response):
    until = time.monotonic() + 20
    while response.status in ("queued", "in_progress") and time.monotonic() < until:
        time.sleep(0.05)
        response = client.responses.retrieve(response.id)
    return response


def test_a_background_response_is_polled(client):
    queued = client.responses.create(model="scripted", input="one two three", background=True)
    assert (queued.status, queued.background, queued.output) == ("queued", True, [])
    response = ended(client, queued)
    assert (response.status, response.output_text) == ("completed", "You said: one two three")


def test_a_background_stream_is_resumed(client):
    seen = []
    body = {"model": "scripted", "input": "one two three four five six", "background": True, "stream": True}
    with client.responses.create(**body) as stream:
        for event in stream:
            seen.append(event)
            if len(seen) == 5:
                break
    assert [event.type for event in seen[:3]] == ["response.created", "response.queued", "response.in_progress"]
    rest = client.responses.retrieve(seen[0].response.id, stream=True, starting_after=seen[-1].sequence_number)
    events = seen + list(rest)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].response.output_text == "You said: one two three four five six"


def test_a_background_response_is_cancelled_as_often_as_one_likes(client):
    queued = client.responses.create(model="slow", input="hi", background=True)
    assert client.responses.cancel(queued.id).status == "cancelled"
    assert client.responses.cancel(queued.id).status == "cancelled"
    assert client.responses.retrieve(queued.id).status == "cancelled"
