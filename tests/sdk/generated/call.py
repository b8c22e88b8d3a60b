"""One call with the client that openapi-python-client makes of openapi.yaml."""

import os

from pyclient import Client
from pyclient.api.responses import create_response, get_response
from pyclient.models import CreateResponse, ErrorBody, FunctionCall, FunctionToolParam, OutputMessage, ResponseObject

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
unknown = get_response.sync(client=client, response_id="resp_none")
assert isinstance(unknown, ErrorBody), unknown
print(f"{response.status}: {call.name}({call.arguments}); {rest.status}: {message.content[0].text}")
