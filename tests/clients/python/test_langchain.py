"""PyPI langchain-openai over the Responses API."""

import asyncio

import openai
import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"rain in {city}"


class Plan(BaseModel):
    """A plan."""

    title: str


@pytest.fixture
def model(url):
    def make(name="scripted", **more):
        return ChatOpenAI(model=name, base_url=url, api_key="unused", max_retries=0, use_responses_api=True, **more)

    return make


def test_text(model):
    answer = model().invoke("hello there")
    assert answer.text == "You said: hello there"
    assert answer.usage_metadata["total_tokens"] > 0


def test_stream(model):
    chunks = list(model().stream("one two"))
    assert "".join(chunk.text for chunk in chunks) == "You said: one two"


def test_async(model):
    answer = asyncio.run(model().ainvoke("hello"))
    assert answer.text == "You said: hello"


@pytest.mark.parametrize("streamed", [False, True])
def test_tool_loop(model, streamed):
    llm = model().bind_tools([get_weather])
    messages = [HumanMessage("weather?")]
    asked = llm.invoke(messages)
    if streamed:
        asked = None
        for chunk in llm.stream(messages):
            asked = chunk if asked is None else asked + chunk
    [call] = asked.tool_calls
    assert (call["name"], call["args"]) == ("get_weather", {"city": "Paris"})
    messages += [asked, ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])]
    assert llm.invoke(messages).text == "The tools said: rain in Paris"


def test_chain_by_id(model):
    llm = model("mirror", use_previous_response_id=True)
    first = llm.invoke("one")
    second = llm.invoke([HumanMessage("one"), first, HumanMessage("two")])
    assert '"two"' in second.text and '"one"' in second.text


def test_chain_by_id_with_a_tool(model):
    llm = model(use_previous_response_id=True).bind_tools([get_weather])
    messages = [HumanMessage("weather?")]
    asked = llm.invoke(messages)
    [call] = asked.tool_calls
    messages += [asked, ToolMessage("fog", tool_call_id=call["id"])]
    assert llm.invoke(messages).text == "The tools said: fog"


def test_structured(model):
    assert model().with_structured_output(Plan, method="json_schema").invoke("plan") == Plan(title="Paris")


def test_structured_by_a_function(model):
    assert model().with_structured_output(Plan, method="function_calling").invoke("plan") == Plan(title="Paris")


def test_structured_with_raw(model):
    found = model().with_structured_output(Plan, method="json_schema", include_raw=True).invoke("plan")
    assert found["parsed"] == Plan(title="Paris") and found["parsing_error"] is None


def test_reasoning(model):
    answer = model("thinker", reasoning={"summary": "auto"}).invoke("hi")
    kinds = [block["type"] for block in answer.content]
    assert kinds == ["reasoning", "text"]


def test_forced_choice(model):
    answer = model().bind_tools([get_weather], tool_choice="get_weather").invoke("go")
    assert answer.tool_calls[0]["name"] == "get_weather"


@pytest.mark.parametrize(
    ("name", "error"),
    [("err-400", openai.BadRequestError), ("err-404", openai.NotFoundError), ("err-429", openai.RateLimitError)],
)
def test_errors(model, name, error):
    with pytest.raises(error):
        model(name).invoke("hi")


def test_gateway_tool(model):
    llm = model("caller").bind_tools([{"type": "mcp", "server_label": "antwort", "server_url": "", "require_approval": "never"}])
    answer = llm.invoke('calculate {"expression": "2 + 3"}')
    assert answer.text.startswith("The tools said: ")
