"""PyPI semantic-kernel, its agent for the Responses API: at a key that says `completed`, and at one that does not."""

import asyncio
import os
from datetime import timedelta

import pytest
from openai import AsyncOpenAI
from semantic_kernel.agents import OpenAIResponsesAgent, ResponsesAgentThread
from semantic_kernel.agents.open_ai.run_polling_options import RunPollingOptions
from semantic_kernel.exceptions.agent_exceptions import AgentExecutionException, AgentInvokeException
from semantic_kernel.functions import kernel_function

# One call a turn.
ONE = 'weather-get_weather {"city":"Paris"}'
STEPS = 'weather-get_weather {"city":"Paris"}\nweather-get_weather {"city":"Oslo"}\nweather-get_weather {"city":"Rome"}'
SEEN = "The tools said: rain in Paris; rain in Oslo; rain in Rome"


class Weather:
    """A plugin."""

    @kernel_function(description="The weather in a city.")
    def get_weather(self, city: str) -> str:
        return f"rain in {city}"


@pytest.fixture
def make():
    def make(model="scripted", key="kernel", **more):
        client = AsyncOpenAI(base_url=os.environ["KERNEL_URL"], api_key=os.environ[f"KERNEL_KEY_{key.upper()}"], max_retries=0)
        return OpenAIResponsesAgent(ai_model_id=model, client=client, name="checker", **more)

    return make


def with_weather(make, model="scripted", key="kernel", **more):
    agent = make(model, key, **more)
    agent.kernel.add_plugin(Weather(), "weather")
    return agent


async def ask(agent, *questions):
    """The answers, and the thread."""
    thread, answers = None, []
    for question in questions:
        answer = await agent.get_response(messages=question, thread=thread)
        thread = answer.thread
        answers.append(str(answer.message))
    return answers, thread


async def streamed(agent, question, thread=None):
    pieces = [str(piece.message) async for piece in agent.invoke_stream(messages=question, thread=thread)]
    return "".join(pieces)


def test_text(make):
    assert asyncio.run(ask(make(), "hello there"))[0] == ["You said: hello there"]


def test_stream(make):
    assert asyncio.run(streamed(make(), "one two")) == "You said: one two"


def test_instructions(make):
    [answer], _ = asyncio.run(ask(make("mirror", instructions="Be brief."), "hi"))
    assert "Be brief." in answer


def test_the_gateway_keeps_the_thread(make):
    async def run():
        answers, thread = await ask(make("mirror"), "one", "two")
        assert thread.response_id.startswith("resp_")
        return answers

    assert '"one"' in asyncio.run(run())[1]


def test_a_thread_of_the_clients(make):
    async def run():
        agent = make("mirror", store_enabled=False)
        thread = ResponsesAgentThread(client=agent.client, enable_store=False)
        await agent.get_response(messages="one", thread=thread)
        return str((await agent.get_response(messages="two", thread=thread)).message)

    assert '"one"' in asyncio.run(run())


@pytest.mark.parametrize("stored", [True, False])
def test_one_tool(make, stored):
    assert asyncio.run(ask(with_weather(make, "stepper", store_enabled=stored), ONE))[0] == ["The tools said: rain in Paris"]


@pytest.mark.parametrize("stored", [True, False])
def test_several_rounds_of_tools(make, stored):
    """Of a thread at the gateway it sends the question and the results of the rounds before once more."""
    assert asyncio.run(ask(with_weather(make, "stepper", store_enabled=stored), STEPS))[0] == [SEEN]


def test_several_rounds_of_tools_streamed(make):
    assert asyncio.run(streamed(with_weather(make, "stepper"), STEPS)) == SEEN


def test_a_stream_of_tools_needs_no_setting(make):
    assert asyncio.run(streamed(with_weather(make, "stepper", "plain"), ONE)) == "The tools said: rain in Paris"


def test_without_the_setting_it_waits_for_a_completion_that_does_not_come(make):
    """When this fails, the page on Semantic Kernel and the list of frameworks can be shorter."""
    agent = with_weather(make, key="plain")
    agent.polling_options = RunPollingOptions(run_polling_timeout=timedelta(seconds=2))
    with pytest.raises(AgentInvokeException, match="Polling timed out"):
        asyncio.run(ask(agent, "weather?"))


@pytest.mark.parametrize("model", ["err-400", "err-429"])
def test_errors(make, model):
    with pytest.raises(AgentExecutionException):
        asyncio.run(ask(make(model), "hi"))
