"""One call with the client that openapi-python-client makes of openapi.yaml; what `type` says picks the class of items and tools."""

import os

from pyclient import Client
from pyclient.api.responses import create_response, get_response, list_input_items
from pyclient.models import (
    CallOutputParam, CreateResponse, EasyMessageParam, EasyReferenceParam, ErrorBody, FunctionCall, FunctionCallOutput,
    FunctionTool, FunctionToolParam, InputMessage, ItemList, ItemReferenceParam, McpCall, MessageParam, OutputMessage,
    ResponseObject, ServerTool,
)

client = Client(base_url=os.environ["SDK_OPEN_URL"].removesuffix("/v1"))


def create(**body) -> ResponseObject:
    answer = create_response.sync(client=client, body=CreateResponse.from_dict({"model": "scripted", **body}))
    assert isinstance(answer, ResponseObject), answer
    return answer


tool = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
assert FunctionToolParam.from_dict(tool).to_dict() == tool
response = create(input="What is the weather in Paris?", tools=[tool])
call = next(item for item in response.output if isinstance(item, FunctionCall))
output = {"type": "function_call_output", "call_id": call.call_id, "output": '{"celsius": 21}'}
rest = create(previous_response_id=response.id, input=[output], tools=[tool])
message = next(item for item in rest.output if isinstance(item, OutputMessage))
assert message.content[0].text, message
stored = list_input_items.sync(client=client, response_id=rest.id)
assert [type(item) for item in stored.data] == [FunctionCallOutput], stored
stored = list_input_items.sync(client=client, response_id=response.id)
assert [type(item) for item in stored.data] == [InputMessage], stored
assert [type(item) for item in response.tools] == [FunctionTool], response.tools

# What is not asked for here is read as it would come.
said = {"id": "m", "type": "message", "status": "completed", "role": "assistant", "content": []}
mcp = {"id": "c", "type": "mcp_call", "status": "completed", "server_label": "s", "name": "n", "arguments": "{}"}
items = ItemList.from_dict({"object": "list", "data": [said, mcp], "first_id": "m", "last_id": "c", "has_more": False})
assert [type(item) for item in items.data] == [OutputMessage, McpCall], items
own = ResponseObject.from_dict({**response.to_dict(), "tools": [{"type": "antwort:calculate"}]})
assert [type(each) for each in own.tools] == [ServerTool], own.tools
untyped = {"role": "user", "content": "Hello"}
sent = CreateResponse.from_dict({"input": [
    {**untyped, "type": "message"}, untyped, output, {"id": "msg_1", "type": "item_reference"}, {"id": "msg_1"}]})
expected = [MessageParam, EasyMessageParam, CallOutputParam, ItemReferenceParam, EasyReferenceParam]
assert [type(item) for item in sent.input_] == expected, sent.input_

unknown = get_response.sync(client=client, response_id="resp_none")
assert isinstance(unknown, ErrorBody), unknown
print(f"{response.status}: {call.name}({call.arguments}); {rest.status}: {message.content[0].text}")
