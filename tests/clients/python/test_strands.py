"""PyPI strands-agents over the Responses API: the history kept by the client, and by the gateway."""

import asyncio

import pytest
from pydantic import BaseModel
from strands import Agent, tool
from strands.models.openai_responses import OpenAIResponsesModel
from strands.types.exceptions import ModelThrottledException

# One call a turn; the arguments are not as Python would write them again.
STEPS = 'get_weather {"city":"Paris"}\nget_weather { "city": "Oslo" }\nget_weather {"city":"Rome"}'
SEEN = "The tools said: rain in Paris; rain in Oslo; rain in Rome"


class Plan(BaseModel):
    """A plan."""

    title: str


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"rain in {city}"


@pytest.fixture
def agent(url):
    def make(model_id="scripted", stateful=False, **more):
        model = OpenAIResponsesModel(client_args={"base_url": url, "api_key": "unused", "max_retries": 0},
                                     model_id=model_id, stateful=stateful)
        return Agent(model=model, callback_handler=None, **more)

    return make


both = pytest.mark.parametrize("stateful", [False, True])


@both
def test_text(agent, stateful):
    assert str(agent(stateful=stateful)("hello there")).strip() == "You said: hello there"


@both
def test_stream(agent, stateful):
    async def run():
        events = agent(stateful=stateful).stream_async("one two")
        return [event["data"] async for event in events if "data" in event]

    pieces = asyncio.run(run())
    assert "".join(pieces) == "You said: one two" and len(pieces) > 1


@both
def test_system_prompt(agent, stateful):
    assert "Be brief." in str(agent("mirror", stateful, system_prompt="Be brief.")("hi"))


@both
def test_one_tool(agent, stateful):
    result = agent("stepper", stateful, tools=[get_weather])('get_weather {"city":"Paris"}')
    assert str(result).strip() == "The tools said: rain in Paris"


def test_tools_in_parallel(agent):
    result = agent(tools=[get_weather])("weather in both?")
    assert str(result).strip() == "The tools said: rain in Paris; rain in Oslo"


@both
def test_several_rounds_of_tools(agent, stateful):
    """With the history at the gateway, it sends the question, the calls and the results of the rounds before once more."""
    result = agent("stepper", stateful, tools=[get_weather])(STEPS)
    assert str(result).strip() == SEEN


@both
def test_a_second_question(agent, stateful):
    asker = agent("mirror", stateful)
    asker("one")
    second = str(asker("two"))
    assert '"one"' in second or "one" in second.split("two")[0]


def test_reasoning(agent):
    assert str(agent("thinker")("hi")).strip() == "You said: hi"


@both
def test_structured(agent, stateful):
    assert agent(stateful=stateful)("plan", structured_output_model=Plan).structured_output == Plan(title="Paris")


def test_a_limit_of_the_provider(agent):
    with pytest.raises(ModelThrottledException):
        agent("err-429", retry_strategy=None)("hi")
