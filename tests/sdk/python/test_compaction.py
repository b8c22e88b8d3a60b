"""Compaction: a history gives way to a sealed summary, which is the next input as it comes."""

import json

import openai
import pytest
from helpers import fits

HISTORY = [
    {"role": "user", "content": "Build a boat."},
    {"role": "assistant", "content": "I bought planks."},
]


def sent_to_the_model(response):
    return [message["content"] for message in json.loads(response.output_text)["messages"]]


def test_compact_gives_the_next_input(client):
    made = client.responses.compact(model="scripted", input=HISTORY)
    assert made.object == "response.compaction" and made.usage.total_tokens > 0
    assert [item.type for item in made.output] == ["message", "compaction"]
    # The SDK knows only messages of the assistant here; those of the user come as they are all the same.
    output = [item.to_dict(warnings=False) for item in made.output]
    words = sent_to_the_model(client.responses.create(model="mirror", input=[*output, {"role": "user", "content": "Go on."}]))
    assert (words[0], words[2]) == ("Build a boat.", "Go on.")
    assert "<summary>" in words[1] and len(words) == 3


def test_a_stored_response_is_compacted(client):
    first = client.responses.create(model="scripted", input="Build a boat.")
    made = client.responses.compact(model="scripted", previous_response_id=first.id)
    assert [item.type for item in made.output] == ["message", "compaction"]


def test_a_trigger_is_answered_by_a_compaction(client):
    input = [*HISTORY, {"type": "compaction_trigger"}]
    compacted = fits(client.responses.create(model="scripted", input=input))
    assert [item.type for item in compacted.output] == ["compaction"]
    words = sent_to_the_model(
        client.responses.create(model="mirror", input="Go on.", previous_response_id=compacted.id)
    )
    assert (words[0], words[2], len(words)) == ("Build a boat.", "Go on.", 3)
    with client.responses.stream(model="scripted", input=input) as stream:
        kinds = [event.type for event in stream]
        assert stream.get_final_response().output[0].type == "compaction"
    assert kinds[2:4] == ["response.output_item.added", "response.output_item.done"]


def test_what_this_gateway_did_not_seal_is_refused(client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="scripted", input=[{"type": "compaction", "encrypted_content": "gAAAA"}])
    assert (refused.value.code, refused.value.param) == ("invalid_encrypted_content", "input[0].encrypted_content")
