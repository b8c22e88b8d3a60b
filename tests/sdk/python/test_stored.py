"""What is kept: retrieving, listing, continuing, deleting."""

import openai
import pytest
from helpers import fits, reached


def missing(client, id):
    with pytest.raises(openai.NotFoundError) as error:
        client.responses.retrieve(id)
    return error.value


def test_retrieve(client):
    made = client.responses.create(model="scripted", input="keep", metadata={"a": "b"})
    assert fits(client.responses.retrieve(made.id)).to_dict() == made.to_dict()


def test_include_is_a_query_parameter(client):
    made = client.responses.create(model="scripted", input="keep")
    again = client.responses.retrieve(made.id, include=["reasoning.encrypted_content", "file_search_call.results"])
    assert again.id == made.id


def test_delete(client):
    made = client.responses.create(model="scripted", input="forget")
    client.responses.delete(made.id)
    assert made.id in missing(client, made.id).message
    with pytest.raises(openai.NotFoundError):
        client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.input_items.list(made.id)
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="scripted", input="more", previous_response_id=made.id)
    assert refused.value.param == "previous_response_id"


def test_not_stored(client):
    made = client.responses.create(model="scripted", input="secret", store=False)
    assert made.id.startswith("resp_") and made.store is False
    missing(client, made.id)


def test_unknown(client):
    assert missing(client, "resp_unknown").type == "invalid_request_error"


def test_input_items(client):
    words = ["one", "two", "three", "four", "five"]
    made = client.responses.create(
        model="scripted", input=[{"role": "user", "content": word} for word in words]
    )
    text = lambda items: [item.content[0].text for item in items]

    page = client.responses.input_items.list(made.id)
    assert text(page.data) == words[::-1], "the last comes first"
    assert page.object == "list" and page.has_more is False
    assert len({item.id for item in page.data}) == 5 and all(item.type == "message" for item in page.data)

    page = client.responses.input_items.list(made.id, order="asc", limit=2)
    assert text(page.data) == words[:2] and page.has_more and page.last_id == page.data[-1].id
    # The SDK asks for the next page with `after`.
    assert text(page) == words
    assert text(client.responses.input_items.list(made.id, order="desc", limit=2)) == words[::-1]


def test_input_items_of_a_string(client):
    made = client.responses.create(model="scripted", input="just this")
    [item] = client.responses.input_items.list(made.id).data
    assert (item.role, item.content[0].type, item.content[0].text) == ("user", "input_text", "just this")
    assert item.id


def test_chain(client):
    first = client.responses.create(model="scripted", input="one", instructions="Only now.")
    second = client.responses.create(model="scripted", input="two", previous_response_id=first.id)
    third = client.responses.create(model="mirror", input="three", previous_response_id=second.id)
    assert [(message["role"], message["content"]) for message in reached(third)["messages"]] == [
        ("user", "one"),
        ("assistant", "You said: one"),
        ("user", "two"),
        ("assistant", "You said: two"),
        ("user", "three"),
    ], "instructions are of their own response only"
    # A response can be continued twice.
    other = client.responses.create(model="mirror", input="other", previous_response_id=first.id)
    assert len(reached(other)["messages"]) == 3
    [item] = client.responses.input_items.list(third.id).data
    assert item.content[0].text == "three", "input items are a response's own"


def test_streamed_chain(client):
    with client.responses.stream(model="scripted", input="one") as stream:
        first = stream.get_final_response()
    # Right after the last event: what was promised is there.
    second = client.responses.create(model="mirror", input="two", previous_response_id=first.id)
    assert len(reached(second)["messages"]) == 3


def test_unknown_previous_response(client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="scripted", input="hi", previous_response_id="resp_unknown")
    assert (refused.value.code, refused.value.param) == ("previous_response_not_found", "previous_response_id")


def test_item_reference(client):
    made = client.responses.create(model="scripted", input="one")
    reference = {"type": "item_reference", "id": made.output[0].id}
    response = client.responses.create(model="mirror", input=[reference, {"role": "user", "content": "two"}])
    contents = [message["content"] for message in reached(response)["messages"]]
    assert contents == ["You said: one", "two"]
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="scripted", input=[{"type": "item_reference", "id": "msg_unknown"}])
    assert refused.value.param == "input[0].id"
