"""What the scripted model answers, and what a real server would not have taken.

Owns the words; `mock_provider.py` owns the wire. Nothing here is random: what is asked decides.

Models by name:
  mirror         answers with the request that it received, as JSON: tests look at what reached a model
  thinker        reasons before it answers            refuser    refuses
  filtered       is stopped by a content filter       unruly     heeds no response format
  cut            breaks the connection off            failing    reports an error in its stream
  slow           answers after three seconds          err-NNN    fails with that status
  caller         calls what the user writes, one call a line: a name and its arguments
  stepper        the same, one call a turn
  anything else  calls a tool if it is offered one and has no result yet; fits its answer to the response
                 format; else repeats what the user said
"""

import json
from dataclasses import dataclass, field

MODELS = ["scripted", "mirror", "thinker", "refuser", "vendor/model:7b"]

# What chat-completions servers know. Whatever else reaches us has leaked out of the Responses API.
FIELDS = {
    "model", "messages", "stream", "stream_options", "tools", "tool_choice", "parallel_tool_calls",
    "response_format", "temperature", "top_p", "presence_penalty", "frequency_penalty", "max_tokens",
    "max_completion_tokens", "logprobs", "top_logprobs", "reasoning_effort", "verbosity", "n", "top_k",
    "min_p", "seed", "stop", "repetition_penalty", "logit_bias", "chat_template_kwargs", "user",
}  # fmt: skip

# In the text of an upstream 401; no client may ever see it.
SECRET = "sk-of-the-gateway-itself"

# What the search engine finds, whatever it is asked; as SearXNG says it.
FOUND = [{"title": "The Book", "url": "https://doc.rust-lang.org/book/", "content": "Learn Rust."}]


@dataclass
class Answer:
    """One answer of the model."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: list = field(default_factory=list)  # (name, arguments as JSON)
    finish: str = "stop"
    logprobs: bool = False


def answer(request: dict) -> Answer:
    """What the model says to this request."""
    model, messages = request["model"], request["messages"]
    asked = text_of(last(messages, "user"))
    said = Answer(logprobs=bool(request.get("logprobs")))
    if model == "mirror":
        said.text = json.dumps(request, ensure_ascii=False)
        return said
    if model == "refuser":
        said.refusal = "I cannot help with that."
        return said
    if model == "thinker":
        said.reasoning = "The user wants something. I should repeat it."
    if model == "filtered":
        said.text, said.finish = "Something that ", "content_filter"
        return said
    results = tool_results(messages)
    if model == "stepper":
        # Some clients repeat the user's words behind the results.
        results = [text_of(message) for message in messages if message["role"] == "tool"]
        said.calls = dictated(asked)[len(results) : len(results) + 1]
    elif not results:
        said.calls = dictated(asked) if model == "caller" else calls(request, asked)
    if said.calls:
        said.finish = "tool_calls"
    elif model != "unruly" and (request.get("response_format") or {}).get("type") in ("json_schema", "json_object"):
        said.text = json.dumps(fitting(request["response_format"]))
    else:
        said.text = "The tools said: " + "; ".join(results) if results else f"You said: {asked}"
    return shortened(said, request.get("max_completion_tokens") or request.get("max_tokens"))


def shortened(said: Answer, limit: int | None) -> Answer:
    """The answer within a limit of tokens, a word being one."""
    words = said.text.split(" ")
    if limit and len(words) > limit:
        said.text, said.finish = " ".join(words[:limit]), "length"
    return said


def calls(request: dict, asked: str) -> list:
    """The functions that the model wants called: one, or two if asked for `both`."""
    tools, choice = request.get("tools") or [], request.get("tool_choice", "auto")
    if not tools or choice == "none" or asked.startswith("no tools"):
        return []
    functions = [tool["function"] for tool in tools]
    named = choice["function"]["name"] if isinstance(choice, dict) else None
    wanted = [f for f in functions if f["name"] == named or (named is None and f["name"] in asked)]
    function = (wanted or functions)[0]
    schema = function.get("parameters") or {"type": "object"}
    both = "both" in asked and request.get("parallel_tool_calls") is not False
    return [(function["name"], json.dumps(example(schema, schema, word))) for word in ["Paris", "Oslo"][: 1 + both]]


def dictated(asked: str) -> list:
    """Whatever is named, whether it is offered or not: `calculate {"expression": "1/0"}`."""
    lines = [line.partition(" ") for line in asked.splitlines()]
    return [(name, arguments) for name, _, arguments in lines if arguments.startswith("{")]


def fitting(response_format: dict):
    """A value that keeps to the format."""
    if response_format["type"] == "json_object":
        return {"answer": 42}
    schema = response_format["json_schema"]["schema"]
    return example(schema, schema, "Paris")


def example(schema: dict, root: dict, word: str):
    """A value that fits a schema, as far as SDKs' schemas go."""
    if "$ref" in schema:
        return example(root["$defs"][schema["$ref"].rpartition("/")[2]], root, word)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for union in ("anyOf", "oneOf", "allOf"):
        if union in schema:
            return example(schema[union][0], root, word)
    kind = schema.get("type", "object")
    if isinstance(kind, list):
        kind = kind[0]
    if kind == "object":
        return {name: example(inner, root, word) for name, inner in schema.get("properties", {}).items()}
    if kind == "array":
        return [example(schema.get("items", {"type": "string"}), root, word)] * max(2, schema.get("minItems", 0))
    return {"string": word, "integer": 3, "number": 1.5, "boolean": True, "null": None}[kind]


def tool_results(messages: list) -> list:
    """What tools have answered since the user spoke last."""
    since = max((i for i, message in enumerate(messages) if message["role"] == "user"), default=0)
    return [text_of(message) for message in messages[since:] if message["role"] == "tool"]


def last(messages: list, role: str) -> dict:
    return next((message for message in reversed(messages) if message["role"] == role), {})


def text_of(message: dict) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(part["text"] for part in content if part.get("type") == "text")


def objection(request: dict) -> str | None:
    """Why a strict server would refuse this request, if it would: the gateway must never send such a one."""
    if unknown := sorted(set(request) - FIELDS):
        return f"unknown fields {unknown}"
    if request.get("stream_options") and not request.get("stream"):
        return "stream_options without stream"
    if not request.get("tools") and (request.get("tool_choice") or "parallel_tool_calls" in request):
        return "tool_choice or parallel_tool_calls without tools"
    if "max_tokens" in request and "max_completion_tokens" in request:
        return "max_tokens and max_completion_tokens"
    if not request.get("messages"):
        return "no messages"
    return bad_tool(request) or bad_messages(request["messages"])


def bad_tool(request: dict) -> str | None:
    for tool in request.get("tools") or []:
        function = tool.get("function") or {}
        if tool.get("type") != "function" or not function.get("name") or not isinstance(function.get("parameters"), dict):
            return f"not a function tool: {json.dumps(tool)}"
    return None


def bad_messages(messages: list) -> str | None:
    waiting: set = set()
    for i, message in enumerate(messages):
        role = message.get("role")
        if role not in ("system", "user", "assistant", "tool") or (role == "system" and i > 0):
            return f"messages[{i}] has the role {role}"
        if waiting and role != "tool":
            return f"messages[{i}] comes before the results of {sorted(waiting)}"
        if not message.get("content") and not message.get("tool_calls") and not message.get("refusal") and role != "tool":
            return f"messages[{i}] is empty"
        for call in message.get("tool_calls") or []:
            json.loads(call["function"]["arguments"])
            waiting.add(call["id"])
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                return f"messages[{i}] answers no call"
            waiting.discard(message["tool_call_id"])
    return f"no results of {sorted(waiting)}" if waiting else None
