"""Conversations: their routes, and the responses that are made in them."""

from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
from helpers import fits, output_for, reached
from openai.types.conversations import Conversation, ConversationDeletedResource, ConversationItem
from pydantic import TypeAdapter

ITEM = TypeAdapter(ConversationItem)
WORDS = ["one", "two", "three", "four", "five"]


def said(client, conversation):
    items = client.conversations.items.list(conversation.id, order="asc")
    return [item.content[0].text if item.type == "message" else item.type for item in items]


def user(*words):
    return [{"role": "user", "content": word} for word in words]


def test_create_retrieve_update_delete(client):
    made = client.conversations.create(metadata={"a": "b"}, items=user("hello"))
    Conversation.model_validate(made.to_dict())
    assert made.id.startswith("conv_") and made.object == "conversation" and made.metadata == {"a": "b"}
    assert client.conversations.retrieve(made.id).to_dict() == made.to_dict()
    changed = client.conversations.update(made.id, metadata={"c": "d"})
    assert (changed.id, changed.created_at, changed.metadata) == (made.id, made.created_at, {"c": "d"})
    assert said(client, made) == ["hello"]
    deleted = client.conversations.delete(made.id)
    ConversationDeletedResource.model_validate(deleted.to_dict())
    assert (deleted.id, deleted.deleted) == (made.id, True)
    for call in (client.conversations.retrieve, client.conversations.delete, client.conversations.items.list):
        with pytest.raises(openai.NotFoundError):
            call(made.id)


def test_nothing_is_needed(client):
    assert client.conversations.create().metadata == {}


def test_items(client):
    made = client.conversations.create()
    added = client.conversations.items.create(made.id, items=user(*WORDS))
    assert added.object == "list" and len(added.data) == 5 and added.has_more is False
    for item in added.data:
        ITEM.validate_python(item.to_dict())
    newest = client.conversations.items.list(made.id, limit=2)
    assert [item.content[0].text for item in newest.data] == ["five", "four"] and newest.has_more
    assert [item.content[0].text for item in newest] == WORDS[::-1], "page by page"
    third = added.data[2]
    found = client.conversations.items.retrieve(third.id, conversation_id=made.id)
    assert found.to_dict() == third.to_dict()
    left = client.conversations.items.delete(third.id, conversation_id=made.id)
    assert left.id == made.id and left.object == "conversation"
    assert said(client, made) == ["one", "two", "four", "five"]
    with pytest.raises(openai.NotFoundError):
        client.conversations.items.retrieve(third.id, conversation_id=made.id)


def test_twenty_items_at_most(client):
    made = client.conversations.create()
    for call in (
        lambda items: client.conversations.create(items=items),
        lambda items: client.conversations.items.create(made.id, items=items),
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            call(user(*["x"] * 21))
        assert (refused.value.code, refused.value.param) == ("array_above_max_length", "items")


def test_responses_in_a_conversation(client):
    made = client.conversations.create(items=[{"role": "developer", "content": "Be brief."}])
    first = client.responses.create(model="scripted", input="one", conversation=made.id)
    assert fits(first).conversation.id == made.id
    with client.responses.stream(model="scripted", input="two", conversation={"id": made.id}) as stream:
        assert stream.get_final_response().conversation.id == made.id
    last = client.responses.create(model="mirror", input="three", conversation=made.id)
    assert [message["content"] for message in reached(last)["messages"]] == [
        "Be brief.", "one", "You said: one", "two", "You said: two", "three",
    ]  # fmt: skip
    assert said(client, made)[:5] == ["Be brief.", "one", "You said: one", "two", "You said: two"]
    for item in client.conversations.items.list(made.id):
        ITEM.validate_python(item.to_dict())


def test_a_function_in_a_conversation(client):
    made = client.conversations.create()
    tools = [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}]
    first = client.responses.create(model="caller", input="f {}", conversation=made.id, tools=tools)
    (call,) = first.output
    second = client.responses.create(
        model="scripted", input=[output_for(call)], conversation=made.id, tools=tools
    )
    assert second.output_text == "The tools said: sunny"
    assert said(client, made) == ["f {}", "function_call", "function_call_output", "The tools said: sunny"]


def test_one_response_at_a_time(client):
    made = client.conversations.create()
    impatient = client.with_options(max_retries=0)

    def ask(text):
        # The model answers after three seconds: one of the two asks meanwhile.
        try:
            return impatient.responses.create(model="slow", input=text, conversation=made.id)
        except openai.ConflictError as refused:
            return refused

    with ThreadPoolExecutor() as pool:
        ended = list(pool.map(ask, ["first", "second"]))
    (refused,) = [end for end in ended if isinstance(end, openai.ConflictError)]
    assert (refused.code, refused.type) == ("conversation_locked", "conflict")
    assert len(said(client, made)) == 2
    client.responses.create(model="scripted", input="third", conversation=made.id)
    assert "third" in said(client, made)


def test_what_cannot_be(client):
    made = client.conversations.create()
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="scripted", input="x", conversation="conv_unknown")
    for more, code in (
        ({"store": False}, "unsupported_parameter"),
        ({"previous_response_id": "resp_1"}, "mutually_exclusive_parameters"),
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            client.responses.create(model="scripted", input="x", conversation=made.id, **more)
        assert refused.value.code == code
