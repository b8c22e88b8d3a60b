"""A small MCP server over streamable HTTP, for tests of SDKs against the gateway: what is added, said or refused is up to it.

    python3 mcp_server.py PORT

`/mcp` is open; at `/secret` a token is asked for; at `/broken` nothing works; at `/asking` there is a tool that asks the user.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "token-of-the-server"

NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    "required": ["a", "b"],
}
TOOLS = [
    {"name": "add", "description": "Adds two numbers.", "inputSchema": NUMBERS, "annotations": {"readOnlyHint": True}},
    {"name": "burn", "description": "Always fails.", "inputSchema": {"type": "object", "properties": {}}},
]

ORDER = {"name": "order", "description": "Orders a shirt.", "inputSchema": {"type": "object", "properties": {}}}
SIZE = {
    "message": "Which size?",
    "requestedSchema": {"type": "object", "properties": {"size": {"type": "string"}}, "required": ["size"]},
}


def asking(method: str, params: dict):
    if method == "tools/list":
        return {"tools": [ORDER]}
    if method != "tools/call":
        return result(method, params)
    if "inputResponses" not in params:
        question = {"method": "elicitation/create", "params": SIZE}
        return {"resultType": "input_required", "inputRequests": {"size": question}, "requestState": "order 1"}
    answer = params["inputResponses"]["size"]
    if params["requestState"] != "order 1" or answer["action"] != "accept":
        return told(f"not ordered: {answer['action']}")
    return told(f"ordered in {answer['content']['size']}")


def result(method: str, params: dict):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "sums", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call" and params["name"] == "add":
        return told(str(params["arguments"]["a"] + params["arguments"]["b"]))
    if method == "tools/call":
        return told("it burned", is_error=True)
    return {}


def told(text: str, is_error: bool = False) -> dict:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        self.answer(405)  # no stream of its own

    do_DELETE = do_GET

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/broken":
            return self.answer(500)
        if self.path == "/secret" and self.headers["Authorization"] != f"Bearer {TOKEN}":
            return self.answer(401)
        if "id" not in message:
            return self.answer(202)
        answer = asking if self.path == "/asking" else result
        found = answer(message["method"], message.get("params") or {})
        self.answer(200, {"jsonrpc": "2.0", "id": message["id"], "result": found})

    def answer(self, status, body=None):
        body = json.dumps(body).encode() if body else b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass  # the suites say what went wrong


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Server).serve_forever()
