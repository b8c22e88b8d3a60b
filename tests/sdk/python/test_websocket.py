"""Responses over WebSocket: `responses.connect()`, one connection for several turns."""

import asyncio
import os

import openai
import pytest
from helpers import WEATHER, calls_of, fits, output_for, types
from websockets.exceptions import InvalidStatus

END = ("response.completed", "response.incomplete", "response.failed", "error")


def turn(connection, **request):
    """Makes a response; returns its events."""
    connection.response.create(model=request.pop("model", "scripted"), **request)
    events = []
    for event in connection:
        events.append(event if event.type == "error" else fits(event))
        if event.type in END:
            return events


def test_turns_have_the_events_of_a_stream(client):
    streamed = list(client.responses.create(model="scripted", input="hi", stream=True))
    with client.responses.connect() as connection:
        for words in ("hi", "ho"):
            events = turn(connection, input=words)
            assert types(events) == types(streamed)
            assert events[-1].response.output_text == f"You said: {words}"


def test_what_is_not_stored_is_continued_on_its_connection_only(client):
    with client.responses.connect() as connection, client.responses.connect() as other:
        first = turn(connection, input="hi", store=False)[-1].response
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(first.id)
        [refused] = turn(other, input="ho", store=False, previous_response_id=first.id)
        assert refused.error.code == "previous_response_not_found"
        second = turn(connection, input="ho", store=False, previous_response_id=first.id, model="mirror")[-1].response
        assert second.previous_response_id == first.id
        assert [word in second.output_text for word in ("hi", "You said: hi", "ho")] == [True] * 3


def test_what_is_stored_is_continued_everywhere(client):
    with client.responses.connect() as connection:
        first = turn(connection, input="hi")[-1].response
    assert client.responses.retrieve(first.id).output_text == first.output_text
    with client.responses.connect() as connection:
        second = turn(connection, input="ho", previous_response_id=first.id, model="mirror")[-1].response
        assert "You said: hi" in second.output_text


def test_a_function_is_called_and_answered(client):
    with client.responses.connect() as connection:
        asked = turn(connection, input="The weather in Paris?", tools=[WEATHER], store=False)[-1].response
        [call] = calls_of(asked)
        answered = turn(
            connection, input=[output_for(call)], tools=[WEATHER], store=False, previous_response_id=asked.id
        )[-1].response
        assert answered.output_text == "The tools said: sunny"


def test_an_error_ends_its_turn_and_not_the_connection(client):
    with client.responses.connect() as connection:
        [event] = turn(connection, input="hi", background=True)
        assert (event.status, event.error.code, event.error.param) == (400, "unsupported_parameter", "background")
        [event] = turn(connection, input="hi", model="err-429")
        assert event.status == 429
        assert turn(connection, input="hi")[-1].response.output_text == "You said: hi"


def test_a_connection_needs_a_key(with_key):
    with pytest.raises(InvalidStatus) as refused:
        with_key("wrong").responses.connect().enter()
    assert refused.value.response.status_code == 401


def test_asynchronously():
    async def one(api, number):
        async with api.responses.connect() as connection:
            previous = None
            for words in (f"{number} a", f"{number} b"):
                await connection.response.create(
                    model="scripted", input=words, store=False, previous_response_id=previous
                )
                async for event in connection:
                    if event.type in END:
                        break
                assert event.response.output_text == f"You said: {words}"
                previous = event.response.id

    async def run():
        async with openai.AsyncOpenAI(
            base_url=os.environ["SDK_OPEN_URL"], api_key="unused", max_retries=0, timeout=30
        ) as api:
            await asyncio.gather(*(one(api, number) for number in range(16)))

    asyncio.run(run())
