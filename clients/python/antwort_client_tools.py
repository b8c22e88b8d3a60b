"""Runs the functions of a client inside a response of antwort: the response asks for their outputs while it streams, and this
answers by itself.

    from openai import OpenAI
    from antwort_client_tools import ClientTools

    tools = ClientTools()

    @tools.register
    def thermometer(room: str) -> str:
        "Measures the temperature of a room, in degrees Celsius."
        return "22"

    client = OpenAI(base_url="http://localhost:8080/v1", api_key="unused")
    response = tools.run(client, model="my-model", input="How warm is the kitchen?")
    print(response.output_text)

`stream` yields the events instead. A connection that breaks is resumed where it was. Needs `openai`, and Python 3.10 or later.
"""

from __future__ import annotations

import inspect
import json
import logging
import time
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import openai

__all__ = ["ClientTools"]
__version__ = "0.1.0"

_log = logging.getLogger(__name__)

_END = ("response.completed", "response.incomplete", "response.failed")
# Breaks of the connection in a row, without any event in between.
_MAX_BREAKS = 6
_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


@dataclass(frozen=True)
class _Function:
    call: Callable[..., Any]
    definition: dict[str, Any]


class ClientTools:
    """The functions of a client, and the loop that answers their calls.

    Functions run in threads, up to `max_workers` at a time. What they return is the output: text as it is, anything else as
    JSON. An exception becomes the error that the model reads, as does the name of a function that is not registered.

    `on_question` shows questions of the gateway's own tools to the user: it is given `mode` (`form` with `message` and
    `requested_schema`, or `url` with `message` and `url`), and returns `action` (`accept`, `decline` or `cancel`) and the
    `content` of a form. `question_modes` are the modes that it can show.
    """

    def __init__(
        self,
        *functions: Callable[..., Any],
        max_workers: int = 8,
        on_question: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
        question_modes: Sequence[str] = ("form",),
    ):
        self._functions: dict[str, _Function] = {}
        self._max_workers = max_workers
        self._on_question = on_question
        self._question_modes = list(question_modes)
        for function in functions:
            self.register(function)

    def register(
        self,
        function: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> Any:
        """Registers a function, also as a decorator. It is called with its arguments by name.

        `parameters` is the JSON schema of the arguments. Without it the schema is made of the annotations.
        """
        if function is None:
            return lambda function: self.register(
                function, name=name, description=description, parameters=parameters
            )
        name = name or function.__name__
        definition: dict[str, Any] = {"type": "function", "name": name, "strict": False}
        if text := description or inspect.getdoc(function):
            definition["description"] = text
        definition["parameters"] = dict(parameters) if parameters is not None else _schema(function)
        self._functions[name] = _Function(function, definition)
        return function

    @property
    def definitions(self) -> list[dict[str, Any]]:
        """The `tools` of a request."""
        return [function.definition for function in self._functions.values()]

    def run(self, client: openai.OpenAI, **request: Any) -> Any:
        """Makes a response, and returns it when it has ended."""
        response = None
        for event in self.stream(client, **request):
            if event.type in _END:
                response = event.response
        return response

    def stream(self, client: openai.OpenAI, **request: Any) -> Iterator[Any]:
        """Makes a response, and yields its events while it answers the calls of functions.

        `request` has the arguments of `client.responses.create`; `tools` in it are added to the registered functions.
        """
        request["tools"] = [*self.definitions, *request.get("tools", [])]
        extra = dict(request.pop("extra_body", None) or {})
        extra["antwort"] = {**extra.get("antwort", {}), "client_tools": "inline"}
        if self._on_question:
            extra["antwort"]["elicitation"] = self._question_modes
        with ThreadPoolExecutor(self._max_workers, thread_name_prefix="client-tool") as workers:
            asked: set[str] = set()
            for response_id, event in _events(client, {**request, "extra_body": extra}):
                if event.type == "antwort:input_required" and event.call_id not in asked:
                    asked.add(event.call_id)
                    question = getattr(event, "elicitation", None)
                    if not question:
                        workers.submit(self._answer, client, response_id, event, self._result)
                    elif self._on_question:
                        workers.submit(self._answer, client, response_id, event, self._ask)
                yield event

    def _answer(
        self, client: openai.OpenAI, response_id: str, event: Any, result: Callable[[Any], dict[str, Any]]
    ) -> None:
        body = {"call_id": event.call_id, **result(event)}
        try:
            client.post(f"/responses/{response_id}/inputs", body=body, cast_to=object)
        except openai.APIStatusError as error:
            # The response goes on without it: it came too late, or somebody else has answered.
            _log.warning("the answer to %s was refused: %s", event.name, error)
        except openai.APIError as error:
            _log.warning("the answer to %s could not be sent: %s", event.name, error)

    def _ask(self, event: Any) -> dict[str, Any]:
        try:
            return {"output": dict(self._on_question(dict(event.elicitation)))}
        except Exception as error:  # the tool is told that the user has cancelled
            _log.warning("asking the user for %s failed", event.name, exc_info=True)
            return {"error": str(error) or type(error).__name__}

    def _result(self, event: Any) -> dict[str, Any]:
        function = self._functions.get(event.name)
        if function is None:
            return {"error": f"Tool not found: {event.name}"}
        try:
            output = function.call(**json.loads(event.arguments or "{}"))
            return {"output": output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)}
        except Exception as error:  # whatever a function raises is the model's to read
            _log.info("the function %s failed", event.name, exc_info=True)
            return {"error": str(error) or type(error).__name__}


def _events(client: openai.OpenAI, request: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The events of a response with its id; a connection that breaks is resumed behind the last event."""
    response_id, last, breaks = "", -1, 0
    while True:
        try:
            if response_id:
                stream = client.responses.retrieve(response_id, stream=True, starting_after=last)
            else:
                stream = client.responses.create(**request, stream=True)
            with stream:
                for event in stream:
                    breaks = 0
                    last = getattr(event, "sequence_number", last)
                    if event.type == "response.created":
                        response_id = event.response.id
                    yield response_id, event
                    if event.type in _END:
                        return
            error: Exception = openai.APIError("the stream has ended early", stream._response.request, body=None)
        except openai.APIStatusError:
            raise
        except Exception as broken:
            error = broken
        breaks += 1
        # Without an id nobody knows whether there is a response.
        if not response_id or breaks > _MAX_BREAKS:
            raise error
        time.sleep(min(0.1 * 2**breaks, 5))


def _schema(function: Callable[..., Any]) -> dict[str, Any]:
    """The JSON schema of a function's arguments, as far as its annotations say."""
    hints = typing.get_type_hints(function)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        kind = _JSON_TYPES.get(typing.get_origin(hints.get(name)) or hints.get(name))
        properties[name] = {"type": kind} if kind else {}
        if parameter.default is parameter.empty:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}
