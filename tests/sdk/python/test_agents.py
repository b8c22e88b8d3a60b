"""PyPI `openai-agents`: its loop runs our pauses to the end, and has a place for the gateway's tools: a hosted MCP server.

It takes every function call for its own, so `stream_visibility: hidden` is not for it.
"""

import asyncio
import json
import os

import agents
import openai
import pytest

agents.set_tracing_disabled(True)


@agents.function_tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"rain in {city}"


# Its type wants no address, so a label will do.
calculate = agents.HostedMCPTool(tool_config={"type": "mcp", "server_label": "antwort", "require_approval": "never"})

SUM = 'calculate {"expression": "2 + 3"}'
NO_SUM = 'calculate {"expression": "1/0"}'
IN_PARIS = 'get_weather {"city": "Paris"}'


def agent(api, model="scripted", tools=(get_weather,)):
    model = agents.OpenAIResponsesModel(model=model, openai_client=api)
    return agents.Agent(name="a", instructions="Be brief.", model=model, tools=list(tools))


async def plain(agent, said):
    return await agents.Runner.run(agent, said)


async def streamed(agent, said):
    result = agents.Runner.run_streamed(agent, said)
    async for _ in result.stream_events():
        pass
    return result


async def chained(agent, said):
    """Outputs only, continuing what the gateway has kept."""
    return await agents.Runner.run(agent, said, auto_previous_response_id=True)


async def in_session(agent, said):
    """The history is a conversation, which the agent reads and adds to by itself."""
    session = agents.OpenAIConversationsSession(openai_client=agent.model._client)
    result = await agents.Runner.run(agent, said, session=session)
    kept = await session.get_items()
    assert kept[0]["content"][0]["text"] == said and len(kept) == len(result.to_input_list())
    return result


async def in_conversation(agent, said):
    """Each response is made in a conversation."""
    api = agent.model._client
    conversation = await api.conversations.create()
    result = await agents.Runner.run(agent, said, conversation_id=conversation.id)
    kept = [item async for item in api.conversations.items.list(conversation.id, order="asc")]
    assert kept[0].content[0].text == said and kept[-1].content[0].text == result.final_output
    return result


RUNS = [plain, streamed, chained, in_session, in_conversation]


def ran(run, said, **settings):
    async def main():
        async with openai.AsyncOpenAI(base_url=os.environ["SDK_OPEN_URL"], api_key="unused", max_retries=0) as api:
            return await run(agent(api, **settings), said)

    return asyncio.run(main())


def calls(result) -> list:
    """What was called: the gateway's calls and the agent's."""
    return [item.raw_item for item in result.new_items if isinstance(item, agents.ToolCallItem)]


@pytest.mark.parametrize("run", RUNS)
def test_function_tool(run):
    assert ran(run, "weather?").final_output == "The tools said: rain in Paris"


@pytest.mark.parametrize("run", RUNS)
def test_a_tool_of_the_gateway(run):
    result = ran(run, SUM, model="caller", tools=[calculate])
    [call] = calls(result)
    assert (call.type, call.server_label, call.name) == ("mcp_call", "antwort", "calculate")
    assert json.loads(call.output)["result"] == 5
    assert result.final_output == f"The tools said: {call.output}"
    assert len(result.raw_responses) == 1, "the agent has nothing to do"


@pytest.mark.parametrize("run", RUNS)
def test_a_tool_of_the_gateway_fails(run):
    result = ran(run, NO_SUM, model="caller", tools=[calculate])
    [call] = calls(result)
    assert call.status == "failed" and call.error
    assert result.final_output.startswith("The tools said: Error: ")


@pytest.mark.parametrize("run", RUNS)
def test_tools_of_both_in_one_turn(run):
    """The agent runs its function only; unless it chains or is in a conversation, it sends the gateway's call back with its result."""
    result = ran(run, f"{SUM}\n{IN_PARIS}", model="caller", tools=[calculate, get_weather])
    run_by_gateway, run_here = calls(result)
    assert (run_by_gateway.type, run_here.type) == ("mcp_call", "function_call")
    assert result.final_output == f"The tools said: {run_by_gateway.output}; rain in Paris"
    assert len(result.raw_responses) == 2


@pytest.mark.parametrize("run", RUNS)
def test_web_search(run):
    result = ran(run, 'web_search {"query": "learn rust"}', model="caller", tools=[agents.WebSearchTool()])
    [call] = calls(result)
    assert (call.type, call.action.query, len(result.raw_responses)) == ("web_search_call", "learn rust", 1)
    assert "https://doc.rust-lang.org/book/" in result.final_output


def sums(**more):
    """A server that the agent brings."""
    address = os.environ["SDK_MCP_URL"] + "/mcp"
    config = {"type": "mcp", "server_label": "sums", "server_url": address, "require_approval": "never"}
    on_approval_request = more.pop("on_approval_request", None)
    return agents.HostedMCPTool(tool_config=config | more, on_approval_request=on_approval_request)


@pytest.mark.parametrize("run", RUNS)
def test_a_server_of_the_agent(run):
    result = ran(run, 'add {"a": 2, "b": 3}', model="caller", tools=[sums()])
    [call] = calls(result)
    assert (call.type, call.server_label, call.name, call.output) == ("mcp_call", "sums", "add", "5")
    [listed] = [item for item in result.new_items if isinstance(item, agents.items.MCPListToolsItem)]
    assert [tool.name for tool in listed.raw_item.tools] == ["add", "burn"]
    assert (result.final_output, len(result.raw_responses)) == ("The tools said: 5", 1)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("approve", [True, False])
def test_a_call_that_a_person_has_to_allow(run, approve):
    asked = []

    def decide(request):
        asked.append((request.data.name, json.loads(request.data.arguments)))
        return {"approve": approve} if approve else {"approve": False, "reason": "not today"}

    tool = sums(require_approval="always", on_approval_request=decide)
    result = ran(run, 'add {"a": 2, "b": 3}', model="caller", tools=[tool])
    assert asked == [("add", {"a": 2, "b": 3})]
    assert len(result.raw_responses) == 2
    if approve:
        assert [call.output for call in calls(result)] == ["5"]
        assert result.final_output == "The tools said: 5"
    else:
        assert calls(result) == []
        assert "did not allow" in result.final_output and "not today" in result.final_output


def test_a_conversation_in_a_session():
    """What the session has kept is the input of the next run."""

    async def main():
        async with openai.AsyncOpenAI(base_url=os.environ["SDK_OPEN_URL"], api_key="unused", max_retries=0) as api:
            session = agents.SQLiteSession("s")
            first = await agents.Runner.run(agent(api, "caller", [calculate]), SUM, session=session)
            second = await agents.Runner.run(agent(api, "mirror", [calculate]), "again?", session=session)
            return first, second

    first, second = asyncio.run(main())
    messages = json.loads(second.final_output)["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert messages[3]["content"] == calls(first)[0].output
