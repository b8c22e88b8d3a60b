"""PyPI `openai`: a server that the request brings, its list, its calls, and calls that a person has to allow."""

import os

import pytest
from helpers import fits, types

SUM = 'add {"a": 2, "b": 3}'
BURN = "burn {}"


def server(path="/mcp", **more):
    return {"type": "mcp", "server_label": "sums", "server_url": os.environ["SDK_MCP_URL"] + path} | more


FREE = server(require_approval="never")


def whole(client, **request):
    return fits(client.responses.create(model="caller", **request))


def raw(client, **request):
    events = [fits(event) for event in client.responses.create(model="caller", stream=True, **request)]
    return events[-1].response


def accumulated(client, **request):
    with client.responses.stream(model="caller", **request) as stream:
        return stream.get_final_response()


ways = pytest.mark.parametrize("ask", [whole, raw, accumulated])


@ways
def test_a_list_and_a_call(client, ask):
    listed, call, message = ask(client, input=SUM, tools=[FREE]).output
    assert (listed.type, listed.server_label, listed.error) == ("mcp_list_tools", "sums", None)
    assert [tool.name for tool in listed.tools] == ["add", "burn"]
    assert listed.tools[0].annotations == {"readOnlyHint": True}
    assert (call.type, call.name, call.server_label, call.output) == ("mcp_call", "add", "sums", "5")
    assert (call.status, call.error, call.approval_request_id) == ("completed", None, None)
    assert message.content[0].text == "The tools said: 5"


@ways
def test_a_tool_that_fails(client, ask):
    call = ask(client, input=BURN, tools=[FREE]).output[1]
    assert (call.type, call.status, call.output) == ("mcp_call", "failed", None)
    assert "it burned" in str(call.error)


@ways
def test_a_server_that_fails(client, ask):
    listed, message = ask(client, input="no tools please", tools=[server("/broken", require_approval="never")]).output
    assert (listed.type, listed.tools) == ("mcp_list_tools", [])
    assert listed.error
    assert message.type == "message"


@ways
def test_a_token_is_sent_and_not_shown(client, ask):
    response = ask(client, input=SUM, tools=[server("/secret", require_approval="never", authorization="token-of-the-server")])
    assert [item.type for item in response.output] == ["mcp_list_tools", "mcp_call", "message"]
    assert "token-of-the-server" not in response.to_json(warnings=False)


@ways
@pytest.mark.parametrize("approve", [True, False])
def test_an_approval(client, ask, approve):
    tools = [server(require_approval={"never": {"tool_names": ["burn"]}})]
    first = ask(client, input=SUM, tools=tools)
    listed, request = first.output
    assert (listed.type, request.type, request.name) == ("mcp_list_tools", "mcp_approval_request", "add")
    assert request.arguments == '{"a": 2, "b": 3}'
    answer = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": approve}
    second = ask(client, input=[answer], tools=tools, previous_response_id=first.id)
    if approve:
        call, message = second.output
        assert (call.type, call.output, call.approval_request_id) == ("mcp_call", "5", request.id)
        assert message.content[0].text == "The tools said: 5"
    else:
        assert [item.type for item in second.output] == ["message"]


def test_an_approval_of_what_was_never_stored(client):
    """Items of one response are input of the next, as the SDK gives them."""
    tools = [server()]
    first = client.responses.create(model="caller", input=SUM, tools=tools, store=False)
    answer = {"type": "mcp_approval_response", "approval_request_id": first.output[1].id, "approve": True}
    history = [{"role": "user", "content": SUM}, *first.output, answer]
    second = client.responses.create(model="caller", input=history, tools=tools, store=False)
    assert [item.type for item in second.output] == ["mcp_call", "message"]


def test_the_events_of_a_list_and_a_call(client):
    events = list(client.responses.create(model="caller", input=SUM, tools=[FREE], stream=True))
    seen = types(events)
    start = seen.index("response.output_item.added")
    assert seen[start : start + 4] == [
        "response.output_item.added",
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.output_item.done",
    ]
    about_call = [kind for kind in seen if "mcp_call" in kind]
    assert about_call[0] == "response.mcp_call.in_progress"
    assert about_call[-2:] == ["response.mcp_call_arguments.done", "response.mcp_call.completed"]
