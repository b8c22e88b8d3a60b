"""A binary without any feature serves the API, and says what it was built without."""
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

BINARY = str(pathlib.Path(sys.argv[1]).resolve())
DEADLINE = 60


class Model(http.server.BaseHTTPRequestHandler):
    """A model server that says one word."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                 "choices": [{"index": 0, "delta": {"content": "Hello"}, "finish_reason": "stop"}]}
        body = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def run(*words, **variables):
    """What a command prints, and its exit code."""
    done = subprocess.run([BINARY, *words], env=environment(**variables), capture_output=True, text=True, timeout=DEADLINE)
    return done.returncode, done.stdout + done.stderr


def environment(**variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANTWORT")}
    return kept | {"NO_PROXY": "127.0.0.1"} | variables


def ask(url, body=None):
    request = urllib.request.Request(url, json.dumps(body).encode() if body else None, {"content-type": "application/json"})
    try:
        with opener.open(request, timeout=10) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def refuses(words, what, **variables):
    code, said = run(*words, **variables)
    assert code != 0 and what in said, f"{words}: exit code {code}: {said}"


def wait_for(path):
    """The address that the gateway logs when it listens."""
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until:
        for line in path.read_text().splitlines():
            if '"message":"serving"' in line:
                return json.loads(line)["address"]
        time.sleep(0.05)
    sys.exit(f"the gateway does not listen:\n{path.read_text()}")


def served(folder, model):
    log = pathlib.Path(folder, "log")
    variables = environment(ANTWORT_UPSTREAM_URL=model, ANTWORT_STORE_URL=f"sqlite:{folder}/a.db")
    with log.open("w") as to:
        gateway = subprocess.Popen([BINARY, "serve", "--listen", "127.0.0.1:0"], env=variables, stderr=to)
    try:
        base = f"http://{wait_for(log)}"
        status, body = ask(f"{base}/v1/responses", {"model": "m", "input": "Hi"})
        response = json.loads(body)
        assert status == 200 and response["status"] == "completed", body
        assert response["output"][0]["content"][0]["text"] == "Hello", body
        status, body = ask(f"{base}/v1/responses/{response['id']}")
        assert status == 200 and json.loads(body)["id"] == response["id"], body
        status, body = ask(f"{base}/ui/")
        assert status == 404 and b"ui_disabled" in body, (status, body)
    finally:
        gateway.terminate()
        assert gateway.wait(DEADLINE) == 0


opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
MODEL = f"http://127.0.0.1:{server.server_port}/v1"
with tempfile.TemporaryDirectory() as folder:
    served(folder, MODEL)
for command in ("demo", "doctor", "prompt"):
    refuses([command], "unrecognized subcommand")
KNOWN = {"ANTWORT_UPSTREAM_URL": MODEL, "ANTWORT_SEAL_KEYS": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}
for words in (["config", "check"], ["serve", "--listen", "127.0.0.1:0"]):
    refuses(words, "built without PostgreSQL", ANTWORT_STORE_URL="postgres://u@127.0.0.1/d", **KNOWN)
    refuses(words, "built without the web page", ANTWORT__UI__ENABLED="on", ANTWORT_STORE_URL="memory:", **KNOWN)
with tempfile.TemporaryDirectory() as folder:
    refuses(["serve", "--listen", "127.0.0.1:0"], "built without the web page",
            ANTWORT__UI__ENABLED="on", ANTWORT_STORE_URL=f"sqlite:{folder}/a.db", **KNOWN)
    assert not list(pathlib.Path(folder).iterdir()), "a binary that cannot serve has made files"
refuses(["config", "check"], "built without NATS", ANTWORT__BUS__URL="nats://127.0.0.1:1",
        ANTWORT_STORE_URL="postgres://u@127.0.0.1/d", **KNOWN)
refuses(["store", "copy", "sqlite:a.db", "postgres://u@127.0.0.1/d"], "built without PostgreSQL")
refuses(["store", "migrate", "--check"], "built without PostgreSQL",
        ANTWORT_STORE_URL="postgres://u@127.0.0.1/d", **KNOWN)
print("a binary without features serves, and says what it was built without")
