"""Streams, raw and through the SDK's accumulator."""

import pytest
from helpers import fits, types

TEXT_EVENTS = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.completed",
]


def test_raw_events(client):
    with client.responses.create(model="scripted", input="one two", stream=True) as stream:
        events = [fits(event) for event in stream]
    kinds = types(events)
    assert list(dict.fromkeys(kinds)) == TEXT_EVENTS
    assert kinds.count("response.output_text.delta") > 1
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    final = events[-1].response
    assert deltas == final.output_text == "You said: one two"
    assert events[0].response.output == [] and events[0].response.usage is None
    assert final.usage.output_tokens == 4


def test_the_sdk_accumulates_what_the_last_event_holds(client):
    with client.responses.stream(model="scripted", input="one two") as stream:
        events = list(stream)
        final = stream.get_final_response()
    snapshots = [event.snapshot for event in events if event.type == "response.output_text.delta"]
    assert snapshots[-1] == final.output_text == "You said: one two"
    assert final.status == "completed"


def test_a_stream_is_stored_as_its_client_saw_it(client):
    with client.responses.create(model="thinker", input="keep this", stream=True) as stream:
        final = list(stream)[-1].response
    assert client.responses.retrieve(final.id).to_dict() == final.to_dict()


def test_stream_and_body_are_alike(client):
    body = client.responses.create(model="thinker", input="same")
    with client.responses.stream(model="thinker", input="same") as stream:
        streamed = stream.get_final_response()
    shape = lambda response: [(item.type, item.status) for item in response.output]
    assert shape(body) == shape(streamed)
    assert body.output_text == streamed.output_text
    assert body.usage == streamed.usage


def test_headers_of_a_stream(client):
    raw = client.responses.with_raw_response.create(model="scripted", input="hi", stream=True)
    assert raw.headers["content-type"].startswith("text/event-stream")
    assert raw.headers["x-request-id"].startswith("req_")
    assert len(list(raw.parse())) > 5


def test_who_stops_listening_harms_nobody(client):
    for _ in range(5):
        stream = client.responses.create(model="scripted", input="many words " * 100, stream=True)
        next(iter(stream))
        stream.close()
    assert client.responses.create(model="scripted", input="still there").output_text == "You said: still there"


def test_a_long_stream_of_many_scripts(client):
    text = "Grüße, 世界 👩‍👩‍👧 " * 500
    with client.responses.stream(model="scripted", input=text) as stream:
        assert stream.get_final_response().output_text == f"You said: {text}"


@pytest.mark.parametrize("obfuscate", [True, False])
def test_obfuscation_is_the_clients_choice(client, obfuscate):
    stream = client.responses.create(
        model="scripted", input="hi", stream=True, stream_options={"include_obfuscation": obfuscate}
    )
    deltas = [event for event in stream if event.type == "response.output_text.delta"]
    assert all(("obfuscation" in delta.to_dict()) == obfuscate for delta in deltas)
