#!/usr/bin/env python3
"""Makes the database files of this folder, one of each schema that was released.

    make.py served BINARY FILE    by a gateway of that version: conversations are held with it over HTTP
    make.py derived NUMBER        by the migrations up to that one, with the rows of a served file, less what that
                                  version did not have yet

README.md says which file was made how. A file that is there is not made again: a released schema does not change."""

import http.server
import json
import os
import pathlib
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
MIGRATIONS = HERE.parents[3] / "migrations" / "sqlite"
# Opens the provider state of the files; tests give it to the gateway, too.
SEAL_KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

TOOL = {"name": "remove", "description": "Removes a note.",
        "inputSchema": {"type": "object", "properties": {"note": {"type": "string"}}}}


class Handler(http.server.BaseHTTPRequestHandler):
    def reply(self, body, kind="application/json"):
        self.send_response(200 if body else 202)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path.endswith("/models"):
            self.reply(json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}).encode())
        else:
            self.send_error(405)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/mcp":
            self.mcp(asked)
        else:
            chunks = [json.dumps({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", **chunk})
                      for chunk in answer(asked)]
            self.reply("".join(f"data: {chunk}\n\n" for chunk in [*chunks, "[DONE]"]).encode(), "text/event-stream")

    def mcp(self, asked):
        results = {
            "initialize": {"protocolVersion": asked.get("params", {}).get("protocolVersion"),
                           "capabilities": {"tools": {}}, "serverInfo": {"name": "notes", "version": "1"}},
            "tools/list": {"tools": [TOOL]},
        }
        if asked.get("method") in results:
            self.reply(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]}).encode())
        else:
            self.reply(b"")


def answer(asked):
    """The model: calls the tool that the last question names, and else repeats it."""
    last = asked["messages"][-1]
    text = last["content"] if isinstance(last["content"], str) else last["content"][0]["text"]
    offered = {tool["function"]["name"] for tool in asked.get("tools", [])}
    call = None
    if last["role"] == "user":
        if "Compute" in text:
            call = ("calculate", {"expression": "6 * 7"})
        elif "Look up" in text:
            call = ("look_up", {"word": "Ada"})
        elif "Remove" in text:
            call = (next(name for name in offered if name.endswith("remove")), {"note": "first"})
    if call:
        name, arguments = call
        function = {"name": name, "arguments": json.dumps(arguments)}
        deltas = [{"role": "assistant", "tool_calls": [
            {"index": 0, "id": f"call_{name}", "type": "function", "function": function,
             "extra_content": {"google": {"thought_signature": f"signature-of-{name}"}}}]}]
        reason = "tool_calls"
    else:
        deltas, reason = [{"role": "assistant", "content": f"You said: {text}"}], "stop"
    for delta in deltas:
        yield {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    yield {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def served(binary, file):
    others = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=others.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{others.server_port}"
    with tempfile.TemporaryDirectory() as folder:
        folder, port = pathlib.Path(folder), free_port()
        (folder / "antwort.yaml").write_text(json.dumps({
            "listen": f"127.0.0.1:{port}",
            "providers": {"default": {"url": f"{base}/v1"}},
            # Nothing in the file expires.
            "store": {"url": "sqlite:test.db", "ttl": "off"},
            "mcp": {"servers": {"notes": {"url": f"{base}/mcp"}}, "approvals": {"expires_after": "36500d"}},
            "seal": {"keys": [SEAL_KEY]},
        }))
        gateway = subprocess.Popen([binary, "serve"], cwd=folder, env={"PATH": os.environ["PATH"]})
        try:
            converse(f"http://127.0.0.1:{port}")
        finally:
            gateway.terminate()
            gateway.wait()
        source = sqlite3.connect(folder / "test.db")
        source.execute("VACUUM INTO ?", [str(file)])
        source.close()


def converse(base):
    def create(**body):
        request = urllib.request.Request(f"{base}/v1/responses", json.dumps({"model": "m", **body}).encode(),
                                         {"content-type": "application/json"})
        with urllib.request.urlopen(request) as response:
            return json.load(response)

    deadline = time.monotonic() + 30
    while True:
        try:
            urllib.request.urlopen(f"{base}/readyz").close()
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    first = create(input="My name is Ada.", metadata={"made": "by make.py"})
    create(input="What is my name?", previous_response_id=first["id"])
    computed = create(input="Compute 6 * 7.", tools=[{"type": "antwort:calculate"}])
    print([item["type"] for item in computed["output"]])
    look_up = {"type": "function", "name": "look_up", "parameters": {"type": "object", "properties": {}}}
    paused = create(input="Look up Ada.", tools=[look_up])
    call = next(item for item in paused["output"] if item["type"] == "function_call")
    create(previous_response_id=paused["id"], tools=[look_up],
           input=[{"type": "function_call_output", "call_id": call["call_id"], "output": "A mathematician."}])
    # One more, which is continued only after the migration.
    create(input="Look up Ada.", tools=[look_up])
    asked = create(input="Remove the note.",
                   tools=[{"type": "mcp", "server_label": "notes", "require_approval": "always"}])
    print([item["type"] for item in asked["output"]])


def derived(number):
    """Rows of the file of schema 3 for earlier ones, of schema 5 for 4."""
    source = sqlite3.connect(HERE / ("schema-3.sqlite" if number < 3 else "schema-5.sqlite"))
    file = sqlite3.connect(HERE / f"schema-{number}.sqlite")
    file.execute("PRAGMA page_size = 8192")
    for migration in sorted(MIGRATIONS.glob("*.sql"))[:number]:
        file.executescript(migration.read_text())
    for (table,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        columns = [row[1] for row in file.execute(f"PRAGMA table_info({table})")]
        rows = source.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
        file.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", rows)
    if number < 3:
        # Neither the gateway's own tools nor approvals were there: conversations with items of theirs are not either.
        mark = "mcp_approval_request" if number == 2 else "antwort"
        file.execute("DELETE FROM responses WHERE body LIKE ? OR body LIKE ?",
                     [f"%{mark}%", "%mcp_approval_request%"])
        file.execute("DELETE FROM items WHERE response NOT IN (SELECT key FROM responses)")
    file.executescript(f"PRAGMA application_id = {0x616e7477}; PRAGMA user_version = {number}")
    file.commit()
    file.execute("VACUUM")
    file.close()


match sys.argv[1:]:
    case ["served", binary, file]:
        served(binary, file)
    case ["derived", number]:
        derived(int(number))
    case _:
        sys.exit(__doc__)
