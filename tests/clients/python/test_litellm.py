"""PyPI litellm: its Responses API, and chat completions that it makes of it."""

import asyncio
import json

import litellm
import pytest

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
# It asks models that it does not know for whole answers, and makes up the stream.
KNOWN = "gpt-4o"
PLAN = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"], "additionalProperties": False}


@pytest.fixture
def ask(url):
    def ask(model="scripted", **more):
        return litellm.responses(model=f"openai/{model}", api_base=url, api_key="unused", num_retries=0, max_retries=0, **more)

    return ask


@pytest.fixture
def chat(url):
    def chat(model="scripted", **more):
        name = f"openai/responses/{model}"
        return litellm.completion(model=name, api_base=url, api_key="unused", num_retries=0, max_retries=0, **more)

    return chat


def text_of(response):
    return "".join(part.text for item in response.output if item.type == "message" for part in item.content)


def call_of(response):
    [call] = [item for item in response.output if item.type == "function_call"]
    return call


def output_for(call, text):
    return {"type": "function_call_output", "call_id": call.call_id, "output": text}


def test_text(ask):
    response = ask(input="hello there")
    assert text_of(response) == "You said: hello there" and response.status == "completed"


def test_stream(ask):
    events = list(ask(KNOWN, input="one two", stream=True))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "You said: one two"
    assert events[-1].type == "response.completed"


def test_async(url):
    response = asyncio.run(litellm.aresponses(model="openai/scripted", api_base=url, api_key="unused", input="hi"))
    assert text_of(response) == "You said: hi"


def test_function(ask):
    paused = ask(input="weather?", tools=[WEATHER])
    call = call_of(paused)
    assert json.loads(call.arguments) == {"city": "Paris"}
    resumed = ask(previous_response_id=paused.id, input=[output_for(call, "sunny")], tools=[WEATHER])
    assert text_of(resumed) == "The tools said: sunny"


def test_function_streamed(ask):
    paused = list(ask(KNOWN, input="weather?", tools=[WEATHER], stream=True))[-1].response
    resumed = ask(previous_response_id=paused.id, input=[output_for(call_of(paused), "fog")], tools=[WEATHER])
    assert text_of(resumed) == "The tools said: fog"


def test_structured(ask):
    text = {"format": {"type": "json_schema", "name": "plan", "schema": PLAN, "strict": True}}
    assert json.loads(text_of(ask(input="plan", text=text))) == {"title": "Paris"}


def test_chain(ask):
    first = ask(input="one")
    seen = json.loads(text_of(ask("mirror", input="two", previous_response_id=first.id)))
    assert [message["content"] for message in seen["messages"]] == ["one", "You said: one", "two"]


def test_stored(url, ask):
    where = {"custom_llm_provider": "openai", "api_base": url, "api_key": "unused"}
    made = ask(input="keep this")
    assert text_of(litellm.get_responses(response_id=made.id, **where)) == "You said: keep this"
    assert litellm.delete_responses(response_id=made.id, **where).deleted


def test_reasoning(ask):
    response = ask("thinker", input="hi", reasoning={"summary": "auto"})
    assert [item.type for item in response.output] == ["reasoning", "message"]


@pytest.mark.parametrize(
    ("model", "error"),
    [("err-400", litellm.BadRequestError), ("err-404", litellm.NotFoundError), ("err-429", litellm.RateLimitError)],
)
def test_errors(ask, model, error):
    with pytest.raises(error):
        ask(model, input="hi")


def test_chat_text(chat):
    answer = chat(messages=[{"role": "user", "content": "hello"}])
    assert answer.choices[0].message.content == "You said: hello"


def test_chat_stream(chat):
    chunks = list(chat(KNOWN, messages=[{"role": "user", "content": "one two"}], stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "You said: one two"


@pytest.mark.parametrize("streamed", [False, True])
def test_chat_tool_loop(chat, streamed):
    messages = [{"role": "user", "content": "weather?"}]
    function = {name: value for name, value in WEATHER.items() if name != "type"}
    tools = [{"type": "function", "function": function}]
    answer = chat(KNOWN, messages=messages, tools=tools, stream=streamed)
    if streamed:
        answer = litellm.stream_chunk_builder(list(answer), messages=messages)
    assert answer.choices[0].finish_reason == "tool_calls"
    [call] = answer.choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    messages += [answer.choices[0].message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
    assert chat(messages=messages, tools=tools).choices[0].message.content == "The tools said: rain"


def test_chat_structured(chat):
    form = {"type": "json_schema", "json_schema": {"name": "plan", "schema": PLAN, "strict": True}}
    answer = chat(messages=[{"role": "user", "content": "plan"}], response_format=form)
    assert json.loads(answer.choices[0].message.content) == {"title": "Paris"}
