"""PyPI llm: its models of the Responses API, as its command line uses them."""

import json

import llm
import openai
import pytest
from llm.default_plugins.openai_models import Responses

PLAN = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"], "additionalProperties": False}


@pytest.fixture
def model(url):
    def make(name="scripted", **more):
        return Responses(name, key="unused", model_name=name, api_base=url, supports_tools=True, supports_schema=True, **more)

    return make


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"rain in {city}"


def test_text(model):
    response = model().prompt("hello there", stream=False)
    assert response.text() == "You said: hello there"
    assert response.usage().output > 0


def test_stream(model):
    assert "".join(model().prompt("one two", stream=True)) == "You said: one two"


def test_system(model):
    seen = json.loads(model("mirror").prompt("hi", system="Be brief.").text())
    assert [message["content"] for message in seen["messages"]] == ["Be brief.", "hi"]


@pytest.mark.parametrize("streamed", [False, True])
def test_tool_loop(model, streamed):
    chain = model().chain("weather?", tools=[get_weather], stream=streamed)
    assert chain.text() == "The tools said: rain in Paris"


def test_parallel_tools(model):
    chain = model().chain("weather in both?", tools=[get_weather])
    assert chain.text() == "The tools said: rain in Paris; rain in Oslo"


def test_conversation(model):
    conversation = model("mirror").conversation()
    conversation.prompt("one").text()
    seen = json.loads(conversation.prompt("two").text())
    assert [message["role"] for message in seen["messages"]] == ["user", "assistant", "user"]


def test_conversation_with_tools(model):
    conversation = model().conversation(tools=[get_weather])
    assert conversation.chain("weather?").text() == "The tools said: rain in Paris"
    assert "rain in Paris" in conversation.chain("weather again?").text()


def test_structured(model):
    assert json.loads(model().prompt("plan", schema=PLAN).text()) == {"title": "Paris"}


def test_reasoning(model):
    assert model("thinker", reasoning=True).prompt("hi").text() == "You said: hi"


def test_attachment(model):
    image = llm.Attachment(type="image/png", content=b"\x89PNG\r\n\x1a\n")
    seen = json.loads(model("mirror", vision=True).prompt("what is this?", attachments=[image]).text())
    assert [part["type"] for part in seen["messages"][0]["content"]] == ["text", "image_url"]


@pytest.mark.parametrize(("name", "error"), [("err-400", openai.BadRequestError), ("err-404", openai.NotFoundError)])
def test_errors(model, name, error):
    with pytest.raises(error):
        model(name).prompt("hi").text()
