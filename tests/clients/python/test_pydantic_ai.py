"""PyPI pydantic-ai over the Responses API."""

import asyncio

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ModelHTTPError, NativeOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.providers.openai import OpenAIProvider


class Plan(BaseModel):
    """A plan."""

    title: str


@pytest.fixture
def agent(url):
    def make(name="scripted", **more):
        model = OpenAIResponsesModel(name, provider=OpenAIProvider(base_url=url, api_key="unused"))
        return Agent(model, **more)

    return make


def with_weather(agent):
    @agent.tool_plain
    def get_weather(city: str) -> str:
        """The weather in a city."""
        return f"rain in {city}"

    return agent


def test_text(agent):
    result = agent().run_sync("hello there")
    assert result.output == "You said: hello there"


def test_instructions(agent):
    assert "Be brief." in agent("mirror", instructions="Be brief.").run_sync("hi").output


def test_stream(agent):
    async def run():
        async with agent().run_stream("one two") as result:
            return [text async for text in result.stream_text(debounce_by=None)]

    assert asyncio.run(run())[-1] == "You said: one two"


def test_tool_loop(agent):
    assert with_weather(agent()).run_sync("weather?").output == "The tools said: rain in Paris"


def test_tool_loop_streamed(agent):
    async def run():
        async with with_weather(agent()).run_stream("weather?") as result:
            return await result.get_output()

    assert asyncio.run(run()) == "The tools said: rain in Paris"


def test_parallel_tools(agent):
    assert with_weather(agent()).run_sync("weather in both?").output == "The tools said: rain in Paris; rain in Oslo"


@pytest.mark.parametrize("form", [NativeOutput, ToolOutput])
def test_structured(agent, form):
    agent = agent(output_type=form(Plan))
    assert agent.run_sync("plan").output == Plan(title="Paris")


def test_conversation(agent):
    agent = agent("mirror")
    first = agent.run_sync("one")
    second = agent.run_sync("two", message_history=first.all_messages())
    assert '"one"' in second.output and '"two"' in second.output


def test_chain_by_id(agent):
    agent = agent("mirror")
    first = agent.run_sync("one")
    settings = OpenAIResponsesModelSettings(openai_previous_response_id="auto")
    second = agent.run_sync("two", message_history=first.all_messages(), model_settings=settings)
    assert '"one"' in second.output and '"two"' in second.output


def test_reasoning(agent):
    settings = OpenAIResponsesModelSettings(openai_reasoning_summary="auto")
    result = agent("thinker").run_sync("hi", model_settings=settings)
    kinds = [part.part_kind for message in result.all_messages() for part in message.parts]
    assert kinds == ["user-prompt", "thinking", "text"]


@pytest.mark.parametrize(("name", "status"), [("err-400", 400), ("err-404", 404), ("err-422", 422), ("err-429", 429)])
def test_errors(agent, name, status):
    with pytest.raises(ModelHTTPError) as error:
        agent(name).run_sync("hi")
    assert error.value.status_code == status
