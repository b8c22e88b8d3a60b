"""The helper of `clients/python`: functions that run inside a response."""

import os
import sys
import time
from pathlib import Path

import openai
import pytest
from cutting_proxy import CuttingProxy

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "clients" / "python"))
from antwort_client_tools import ClientTools  # noqa: E402


@pytest.fixture
def tools():
    tools = ClientTools()

    @tools.register
    def add(a: int, b: int) -> int:
        """Adds two numbers."""
        return a + b

    @tools.register
    def broken():
        raise ValueError("out of order")

    return tools


def outputs(response) -> list:
    return [item.output for item in response.output if item.type == "function_call_output"]


def test_functions_are_described_by_their_annotations(tools):
    [add, _] = tools.definitions
    assert (add["name"], add["description"]) == ("add", "Adds two numbers.")
    properties = {"a": {"type": "integer"}, "b": {"type": "integer"}}
    assert add["parameters"] == {"type": "object", "properties": properties, "required": ["a", "b"]}


def test_a_response_goes_on_with_the_outputs_of_its_functions(client, tools):
    asked = 'add {"a": 1, "b": 2}\nbroken {}\nelsewhere {}'
    elsewhere = {"type": "function", "name": "elsewhere", "parameters": {"type": "object"}}
    events = list(tools.stream(client, model="caller", input=asked, tools=[elsewhere]))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert sum(event.type == "antwort:input_required" for event in events) == 3
    response = events[-1].response
    assert outputs(response) == ["3", "out of order", "Tool not found: elsewhere"]
    assert response.output_text == "The tools said: 3; out of order; Tool not found: elsewhere"
    assert client.responses.retrieve(response.id).output_text == response.output_text


def test_a_function_that_outlasts_its_deadline_is_left_out(client, caplog):
    def slow() -> str:
        time.sleep(1.5)
        return "too late"

    response = ClientTools(slow).run(client, model="caller", input="slow {}", extra_body={"agent": "hurried"})
    assert outputs(response) == ["Client tool call timed out"]
    assert response.status == "completed"
    assert "Error code: 410" in caplog.text


def test_a_connection_that_is_cut_twice_is_resumed(tools):
    # Both streams break, one before and one behind the question; answers pass.
    with CuttingProxy(os.environ["SDK_OPEN_URL"], answer_bytes=5000, cuts=2, having=b"stream") as proxy:
        with openai.OpenAI(base_url=proxy.url, api_key="unused", max_retries=0, timeout=30) as client:
            asked = "\n".join(f'add {{"a": {n}, "b": 2}}' for n in range(20))
            events = list(tools.stream(client, model="caller", input=asked))
        assert proxy.cuts == 0
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert outputs(events[-1].response) == [str(n + 2) for n in range(20)]


def test_a_request_that_is_refused_is_an_error_at_once(client, tools):
    with pytest.raises(openai.BadRequestError) as caught:
        tools.run(client, model="caller", input="add {}", store=False)
    assert caught.value.param == "antwort.client_tools"


def asking() -> dict:
    address = os.environ["SDK_MCP_URL"] + "/asking"
    return {"type": "mcp", "server_label": "shop", "server_url": address, "require_approval": "never"}


def test_the_user_is_asked_what_a_tool_of_a_server_wants_to_know(client):
    seen = []

    def answers(question: dict) -> dict:
        seen.append(question)
        return {"action": "accept", "content": {"size": "XL"}}

    response = ClientTools(on_question=answers).run(client, model="caller", input="order {}", tools=[asking()])
    assert response.output_text == "The tools said: ordered in XL"
    assert [(question["mode"], question["message"]) for question in seen] == [("form", "Which size?")]

    def fails(question: dict) -> dict:
        raise RuntimeError("no window")

    response = ClientTools(on_question=fails).run(client, model="caller", input="order {}", tools=[asking()])
    assert response.output_text == "The tools said: not ordered: cancel"
