"""PyPI `openai-agents`: its loop runs our pauses to the end."""

import asyncio
import os

import agents
import openai
import pytest

agents.set_tracing_disabled(True)


@agents.function_tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"rain in {city}"


def agent(api, **settings):
    model = agents.OpenAIResponsesModel(model="scripted", openai_client=api)
    return agents.Agent(name="a", instructions="Be brief.", model=model, tools=[get_weather], **settings)


async def plain(agent):
    return (await agents.Runner.run(agent, "weather?")).final_output


async def streamed(agent):
    result = agents.Runner.run_streamed(agent, "weather?")
    async for _ in result.stream_events():
        pass
    return result.final_output


async def chained(agent):
    """Outputs only, continuing what the gateway has kept."""
    return (await agents.Runner.run(agent, "weather?", auto_previous_response_id=True)).final_output


@pytest.mark.parametrize("run", [plain, streamed, chained])
def test_function_tool(run):
    async def main():
        async with openai.AsyncOpenAI(base_url=os.environ["SDK_OPEN_URL"], api_key="unused", max_retries=0) as api:
            return await run(agent(api))

    assert asyncio.run(main()) == "The tools said: rain in Paris"
