"""The asynchronous client, many requests at a time."""

import asyncio
import os

import openai


def client():
    return openai.AsyncOpenAI(base_url=os.environ["SDK_OPEN_URL"], api_key="unused", max_retries=0, timeout=30)


def test_one_of_each():
    async def run():
        async with client() as api:
            response = await api.responses.create(model="scripted", input="hi")
            assert response.output_text == "You said: hi" and response._request_id
            stream = await api.responses.create(model="scripted", input="hi", stream=True)
            assert [event.type async for event in stream][-1] == "response.completed"
            async with api.responses.stream(model="thinker", input="hi") as stream:
                assert (await stream.get_final_response()).output_text == "You said: hi"
            [item] = [item async for item in api.responses.input_items.list(response.id, limit=1)]
            assert item.content[0].text == "hi"
            await api.responses.delete(response.id)

    asyncio.run(run())


def test_many_at_a_time():
    async def one(api, i):
        if i % 2:
            return (await api.responses.create(model="scripted", input=f"number {i}")).output_text
        async with api.responses.stream(model="scripted", input=f"number {i}") as stream:
            return (await stream.get_final_response()).output_text

    async def run():
        async with client() as api:
            texts = await asyncio.gather(*(one(api, i) for i in range(64)))
        assert texts == [f"You said: number {i}" for i in range(64)]

    asyncio.run(run())
