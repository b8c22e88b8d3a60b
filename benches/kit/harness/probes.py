"""Small functional checks of a gateway: what of the protocol works at all. Each ends in `ok ...` or in what went wrong."""

import json

from processes import first_line, post

TOOLS = [
    {"type": "function", "name": "weather", "description": "Weather", "strict": False, "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
    {"type": "function", "name": "add", "description": "Adds", "strict": False, "parameters": {
        "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}},
]
TERMINAL = ("response.completed", "response.failed", "response.incomplete")


def run(gateway, provider):
    asked, out = Probe(gateway, provider), {}
    skipped = getattr(gateway, "info", {}).get("skip_probes", "").split(",")
    for name in ("plain", "stream", "function", "function_stream", "previous", "get", "mcp", "mcp_stream", "err_429",
                 "err_500", "cut_stream"):
        if name in skipped:
            continue
        try:
            out[name] = getattr(asked, name)()
        except Exception as error:  # whatever a gateway answers
            kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            out[name] = f"FAIL {kind}{first_line(str(error))}"
    return out


class Probe:
    def __init__(self, gateway, provider):
        self.url, self.prefix, self.headers = gateway.url + gateway.path, gateway.prefix, gateway.headers
        self.provider = provider.url
        self.mcp_url = getattr(gateway, "info", {}).get("mcp_url") or provider.url + "/mcp"

    def ask(self, model, input_, **more):
        body = {"model": self.prefix + model, "input": input_, **more}
        status, raw = post(self.url, body, headers=self.headers)
        assert status == 200, f"status {status}: {first_line(raw)}"
        if not more.get("stream"):
            return json.loads(raw)
        data = [line[5:] for line in raw.decode(errors="replace").splitlines() if line.startswith("data:")]
        return [json.loads(line) for line in data if line.strip() not in ("", "[DONE]")]

    def plain(self):
        answer = self.ask("text-20", "hi")
        assert answer.get("status") == "completed" and "ENDMARK" in text(answer), first_line(json.dumps(answer))
        usage = answer.get("usage") or {}
        return "ok" if usage.get("output_tokens") == 20 else f"ok, but usage {usage}"

    def stream(self):
        events = self.ask("text-20", "hi", stream=True)
        end = final(events)
        deltas = [event.get("delta", "") for event in events if event.get("type") == "response.output_text.delta"]
        assert end["type"] == "response.completed" and "ENDMARK" in "".join(deltas), end["type"]
        numbers = [event.get("sequence_number") for event in events]
        notes = [] if events[0].get("type") == "response.created" else [f"first event {events[0].get('type')}"]
        if numbers != list(range(numbers[0] or 0, (numbers[0] or 0) + len(numbers))):
            notes.append("sequence_number not consecutive")
        if "ENDMARK" not in json.dumps(end):
            notes.append("terminal event lacks the output")
        return "; ".join([f"ok, {len(deltas)} deltas", *notes])

    def function(self, stream=False):
        first = self.whole("tool-2", "go", TOOLS, stream)
        calls = [item for item in first.get("output", []) if item.get("type") == "function_call"]
        assert len(calls) == 2, f"{len(calls)} function calls"
        history = [{"role": "user", "content": "go"}]
        history += [{key: call[key] for key in ("type", "call_id", "name", "arguments")} for call in calls]
        history += [{"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"} for call in calls]
        second = self.whole("tool-2", history, TOOLS, stream)
        assert "ENDMARK" in text(second), first_line(json.dumps(second))
        return "ok"

    def whole(self, model, input_, tools, stream):
        """The response, also where it comes as the last event."""
        answer = self.ask(model, input_, tools=tools, stream=stream)
        return final(answer).get("response") or {} if stream else answer

    def function_stream(self):
        return self.function(stream=True)

    def previous(self):
        first = self.ask("echo", "one", store=True)
        second = self.ask("echo", "two", previous_response_id=first["id"], store=True)
        assert "roles=user,assistant,user" in text(second), f"history lost: {text(second)[:120]}"
        return "ok"

    def get(self):
        first = self.ask("echo", "one", store=True)
        status, raw = post(f"{self.url}/{first['id']}", None, headers=self.headers)
        assert status == 200, f"status {status}: {first_line(raw)}"
        return "ok"

    def mcp(self, stream=False):
        before = self.mcp_calls()
        tools = [{"type": "mcp", "server_label": "mock", "server_url": self.mcp_url, "require_approval": "never"}]
        answer = self.whole("loop-3", "go", tools, stream)
        made = self.mcp_calls() - before
        kinds = ",".join(item.get("type", "?") for item in answer.get("output", []))
        assert made == 3 and "ENDMARK" in text(answer), f"{made} of 3 MCP calls made; output {kinds or answer}"
        return f"ok, output {kinds}"

    def mcp_calls(self):
        return json.loads(post(self.provider + "/stats", None)[1])["mcp_calls"]

    def mcp_stream(self):
        return self.mcp(stream=True)

    def error(self, model, **more):
        """What a client is told; there is no right or wrong here."""
        status, raw = post(self.url, {"model": self.prefix + model, "input": "x", **more}, 60, self.headers)
        if not more.get("stream"):
            return f"status {status}: {first_line(raw)}"
        data = [line[5:] for line in raw.decode(errors="replace").splitlines() if line.startswith("data:")]
        return f"status {status}; ends with {first_line(data[-1] if data else raw)}"

    def err_429(self):
        return self.error("err-429")

    def err_500(self):
        return self.error("err-500")

    def cut_stream(self):
        return self.error("cut-5", stream=True)


def text(response):
    return "".join(part.get("text", "") for item in response.get("output", []) if item.get("type") == "message"
                   for part in item.get("content") or [])


def final(events):
    ends = [event for event in events if event.get("type") in TERMINAL]
    assert ends, f"no terminal event; last: {first_line(json.dumps(events[-1:]))}"
    return ends[-1]
