"""What several tests need: looking at what reached the model, and at the exact shape of what came back."""

import json

from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

EVENT = TypeAdapter(ResponseStreamEvent)

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}


def reached(response) -> dict:
    """The chat completion request that the model `mirror` has seen."""
    return json.loads(response.output_text)


def fits(value):
    """Holds a response or an event to the types of the SDK, which itself checks nothing when it reads."""
    sent = value.to_dict(warnings=False)
    inner = sent.get("response", sent)
    if inner.get("status") == "requires_action":
        inner["status"] = "completed"  # ours, and in no SDK's list
    if "tools" in inner:  # so are tools by our names
        inner["tools"] = [tool for tool in inner["tools"] if not tool["type"].startswith("antwort:")]
    if inner.get("item", {}).get("type") == "web_search_call":
        inner["item"].setdefault("action", {"type": "search", "query": ""})  # OpenAI leaves it out of the first event too
    if isinstance(value, Response):
        Response.model_validate(sent)
    else:
        EVENT.validate_python(sent)
    return value


def types(events) -> list:
    return [event.type for event in events]


def calls_of(response) -> list:
    return [item for item in response.output if item.type == "function_call"]


def output_for(call, text="sunny") -> dict:
    return {"type": "function_call_output", "call_id": call.call_id, "output": text}
