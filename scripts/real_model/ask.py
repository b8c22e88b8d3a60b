"""What the model is asked: the same through the gateway and, as a check of the set-up, directly."""

LIMIT = 60  # tokens for an answer: a few seconds, even of a model that rambles on
CALL_LIMIT = 160  # a call comes wrapped in JSON, and one that is cut off proves nothing

FACT = "What is the capital of France? Answer in one short sentence."
STORY = "Tell me one sentence about the sea."
NAME = "My name is Ada. Please say hello to me."
WHICH_NAME = "What is my name?"
REPORT = "Describe the weather in Paris as a JSON object."
WEATHER = "What is the weather in Paris?"
TIME = "What time is it in UTC?"
WEATHER_RESULT = '{"temperature_celsius": 21, "sky": "clear"}'

# Every value is bounded: an open string could ramble past the token limit.
REPORT_SCHEMA = {
    "type": "object",
    "properties": {
        "sky": {"type": "string", "enum": ["clear", "cloudy", "rainy"]},
        "windy": {"type": "boolean"},
        "temperature_band": {"type": "string", "enum": ["cold", "mild", "hot"]},
    },
    "required": ["sky", "windy", "temperature_band"],
    "additionalProperties": False,
}

WEATHER_TOOL = {
    "name": "get_weather",
    "description": "Returns the current weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Paris", "Rome", "Oslo"]}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
