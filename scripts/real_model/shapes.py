"""What an answer must look like, whatever the words in it. Every function asserts, and explains itself."""

import json


def expect(condition: object, message: str) -> None:
    """An assertion that stays on under `python3 -O`."""
    if not condition:
        raise AssertionError(message)


def text_of(response: dict) -> str:
    """All output text of a response, in order: what SDKs call `output_text`."""
    return "".join(
        part["text"]
        for item in response["output"]
        if item["type"] == "message"
        for part in item["content"]
        if part["type"] == "output_text"
    )


def check_usage(response: dict, limit: int) -> None:
    usage = response["usage"]
    expect(usage is not None, "no usage")
    expect(usage["input_tokens"] > 0, f"no input tokens counted: {usage}")
    expect(0 < usage["output_tokens"] <= limit, f"output tokens not within 1..{limit}: {usage}")
    total = usage["input_tokens"] + usage["output_tokens"]
    expect(usage["total_tokens"] == total, f"total_tokens is not the sum: {usage}")


def check_ended(response: dict, limit: int) -> None:
    """Completed; or cut off, and then for the one reason there can be, and only with the limit used up."""
    status = response["status"]
    if status == "incomplete":
        details = response["incomplete_details"]
        expect(details == {"reason": "max_output_tokens"}, f"incomplete_details is {details}")
        expect(response["usage"]["output_tokens"] == limit, f"cut off before the limit of {limit} tokens")
    else:
        expect(status == "completed", f"status is {status!r}, error {response.get('error')}")
        expect(response.get("incomplete_details") is None, "completed, yet with incomplete_details")
        expect(response.get("completed_at"), "completed, yet without completed_at")
    expect(response.get("error") is None, f"error is {response.get('error')}")


def check_message(response: dict, limit: int) -> str:
    """A finished response that holds a message with text; returns the text."""
    expect(response["object"] == "response", f"object is {response['object']!r}")
    expect(response["id"].startswith("resp_"), f"id is {response['id']!r}")
    check_usage(response, limit)
    check_ended(response, limit)
    messages = [item for item in response["output"] if item["type"] == "message"]
    expect(messages, f"no message in {[item['type'] for item in response['output']]}")
    for message in messages:
        expect(message["role"] == "assistant", f"role is {message['role']!r}")
        expect(message["id"], "a message without id")
        expect(message["status"] == response["status"], f"message is {message['status']}, response is not")
    text = text_of(response)
    expect(text.strip(), "the message has no text")
    return text


def check_object(text: str, schema: dict) -> dict:
    """Parses `text` and holds it against the part of JSON Schema that the checks use: flat, closed objects."""
    value = json.loads(text)
    expect(isinstance(value, dict), f"not an object: {text}")
    properties = schema["properties"]
    missing = set(schema["required"]) - set(value)
    expect(not missing, f"{sorted(missing)} missing in {text}")
    expect(set(value) <= set(properties), f"unknown properties in {text}")
    for name, one in value.items():
        rule = properties[name]
        expect(type(one) in KINDS[rule["type"]], f"{name} is not a {rule['type']} in {text}")
        expect("enum" not in rule or one in rule["enum"], f"{name} is none of {rule.get('enum')} in {text}")
    return value


# Exact types: in Python a bool is an int, in JSON it is not.
KINDS = {"string": (str,), "integer": (int,), "boolean": (bool,), "number": (int, float)}
