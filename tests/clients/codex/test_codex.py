"""Codex CLI end to end, unmodified: a bug is mended in a small repository, with the gateway between it and a model
that is scripted. Run by scripts/test-codex."""

import json
import os
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

from provider import Model, Outside, call, text

CODEX = os.environ["CODEX_BIN"]
GATEWAY = os.environ["ANTWORT_BIN"]
KEEPALIVE = 2  # seconds
# Codex gives up after so much time without an event.
PATIENCE = 6
SILENCE = 15
SUMMARY = "Handed over: calc.py was mended, the tests pass, version 2 is next."

# What every configuration here has: nothing is sent anywhere but to the provider.
QUIET = """
check_for_update_on_startup = false
sandbox_mode = "danger-full-access"
approval_policy = "never"
[analytics]
enabled = false
[features]
plugins = false
apps = false
"""

# As docs/clients/codex.md has it.
CUSTOM = """
model = "test-model"
model_provider = "antwort"
{more}
{quiet}
[model_providers.antwort]
name = "{name}"
base_url = "{url}"
env_key = "ANTWORT_API_KEY"
wire_api = "responses"
"""

BUILT_IN = """
model = "{model}"
openai_base_url = "{url}"
{more}
{quiet}
"""

PATCH = """*** Begin Patch
*** Update File: calc.py
@@
 def add(a, b):
-    return a - b
+    return a + b
*** End Patch
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Gateway:
    def __init__(self, folder, model_url):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/v1"
        self.log = folder / "gateway.log"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ANTWORT_")}
        settings = {"ANTWORT_LISTEN": f"127.0.0.1:{port}", "ANTWORT_UPSTREAM_URL": model_url,
                    "ANTWORT_STORE_URL": f"sqlite:{folder}/gateway.db", "ANTWORT_LOG": "info",
                    "ANTWORT__SSE__KEEPALIVE": f"{KEEPALIVE}s"}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([GATEWAY, "serve"], env=kept | settings, cwd=folder, stderr=log, stdout=log)
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).close()
                return
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
                time.sleep(0.1)
        raise AssertionError("the gateway did not get ready: " + self.log.read_text())

    def lines(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def close(self):
        self.process.terminate()
        self.process.wait(30)


def setUpModule():
    global folder, model, outside, gateway
    folder = tempfile.TemporaryDirectory(prefix="antwort-codex-")
    model, outside = Model(), Outside()
    gateway = Gateway(Path(folder.name), model.url)


def tearDownModule():
    gateway.close()
    model.close()
    outside.close()
    folder.cleanup()


def outputs(request):
    """What the calls of a conversation gave, in order."""
    return [message["content"] for message in request["messages"] if message["role"] == "tool"]


def words(request):
    return json.dumps(request["messages"], ensure_ascii=False)


def offered(request):
    return [tool["function"]["name"] for tool in request.get("tools", [])]


class Case(unittest.TestCase):
    config, values = CUSTOM, {"name": "antwort"}

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(dir=folder.name))
        self.repo, self.home = self.folder / "repo", self.folder / "home"
        self.repo.mkdir()
        (self.home / ".codex").mkdir(parents=True)
        (self.repo / "calc.py").write_text("def add(a, b):\n    return a - b\n")
        (self.repo / "test_calc.py").write_text("from calc import add\n\nassert add(2, 3) == 5\nprint('all is well')\n")
        self.run_in_repo("git", "init", "--quiet", ".")
        self.run_in_repo("git", "add", ".")
        self.run_in_repo("git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--quiet", "-m", "bug")
        self.logged = len(gateway.lines())
        model.faults.clear()
        outside.wanted.clear()

    def run_in_repo(self, *command):
        return subprocess.run(command, cwd=self.repo, check=True, capture_output=True, text=True).stdout

    def configure(self, more="", **values):
        values = {"url": gateway.url, "quiet": QUIET, "more": more} | self.values | values
        (self.home / ".codex" / "config.toml").write_text(self.config.format(**values))

    def codex(self, *arguments):
        """Runs Codex and returns its events."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "CODEX_HOME": str(self.home / ".codex"),
                       "ANTWORT_API_KEY": "sk-any", "NO_PROXY": "127.0.0.1"}
        proxies = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"]
        environment |= dict.fromkeys(proxies, outside.url)
        done = subprocess.run([CODEX, *arguments], cwd=self.repo, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=180)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said)
        self.assertFalse(model.faults, said)
        self.assertEqual(outside.wanted, [], "nothing leaves this machine")
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def ask(self, prompt, *replies, resume=False):
        """One prompt: the model is asked as often as there are replies. Returns the last message."""
        model.script(*replies)
        command = ["exec", "--json", *(["resume", "--last"] if resume else []), prompt]
        events = self.codex(*command)
        self.assertEqual(model.replies, [], events)
        failures = [event for event in events if event["type"] in ("turn.failed", "error")]
        self.assertFalse(failures, events)
        messages = [event["item"]["text"] for event in events
                    if event["type"] == "item.completed" and event["item"]["type"] == "agent_message"]
        return messages[-1].strip()

    def answers(self):
        """Method, route and status of what was asked of the gateway in this test."""
        lines = gateway.lines()[self.logged:]
        return [(line["method"], line["route"], line["status"]) for line in lines if "route" in line]

    def tearDown(self):
        lines = gateway.lines()[self.logged:]
        bad = [line for line in lines if line["level"] == "ERROR" or line.get("status", 200) not in (101, 200)]
        self.assertEqual(bad, [])

    def is_mended(self):
        self.assertEqual(self.run_in_repo("python3", "-B", "test_calc.py"), "all is well\n")


def shell(command, **more):
    return call("exec_command", {"cmd": command}, **more)


class CustomProvider(Case):
    """A provider of the user's own: HTTP from the start, and Codex makes its compactions itself."""

    answered = {("POST", "/v1/responses", 200)}

    def test_a_bug_is_mended_by_shell_calls_and_the_session_is_resumed(self):
        self.configure()

        def see(request):
            self.assertIn("AssertionError", outputs(request)[0])
            self.assertNotIn("web_search", offered(request))
            return shell("sed -i 's/a - b/a + b/' calc.py", reasoning="It subtracts.")

        def check(request):
            self.assertEqual(len(outputs(request)), 2)
            return shell("python3 -B test_calc.py")

        def report(request):
            self.assertIn("all is well", outputs(request)[2])
            return text("I mended calc.py.")

        first = shell("cat calc.py; python3 -B test_calc.py", reasoning="Let me look.")
        self.assertEqual(self.ask("Mend the bug.", first, see, check, report), "I mended calc.py.")
        self.is_mended()

        def remember(request):
            self.assertEqual(len(outputs(request)), 3, "all calls are replayed")
            self.assertIn("I mended calc.py.", words(request))
            return text("You asked me to mend a bug.")

        self.assertEqual(self.ask("What did I ask?", remember, resume=True), "You asked me to mend a bug.")
        self.assertEqual(set(self.answers()), self.answered)
        omitted = [line.get("tools") for line in gateway.lines()[self.logged:] if "omitted tools" in line["message"]]
        self.assertEqual(set(omitted), {"web_search"})

    def test_a_provider_that_is_named_openai_leaves_compactions_to_the_gateway(self):
        self.configure("model_auto_compact_token_limit = 20000", name="OpenAI")
        self.ask("Begin.", text("Begun.", usage=(90_000, 10)))

        def go_on(request):
            self.assertIn(SUMMARY, words(request))
            self.assertNotIn("Begun.", words(request))
            return text("On it.")

        def summarise(request):
            self.assertEqual(request["tool_choice"], "none", "a summary calls nothing")
            return text(SUMMARY)

        self.assertEqual(self.ask("Go on.", summarise, go_on, resume=True), "On it.")

    def test_a_long_history_lives_on_by_codexs_own_compaction(self):
        self.configure("model_auto_compact_token_limit = 20000")
        self.ask("Begin.", text("Begun.", usage=(90_000, 10)))

        def summarise(request):
            self.assertIn("Begun.", words(request))
            return text(SUMMARY)

        def go_on(request):
            self.assertIn(SUMMARY, words(request))
            self.assertNotIn("Begun.", words(request))
            return text("On it.")

        self.assertEqual(self.ask("Go on.", summarise, go_on, resume=True), "On it.")


class SilentModel(Case):
    """The model server says nothing for longer than Codex waits, before its first word and behind it."""

    config = CUSTOM + f"stream_idle_timeout_ms = {PATIENCE * 1000}\nstream_max_retries = 0\nrequest_max_retries = 0\n"
    transport = ("POST", "/v1/responses", 200)

    def test_codex_waits_as_long_as_the_gateway_says_that_it_is_there(self):
        self.configure()
        began = time.monotonic()
        said = self.ask("Think hard.", text("I have\nthought.", silences=(SILENCE, SILENCE)))
        self.assertEqual(said, "I have\nthought.")
        self.assertGreater(time.monotonic() - began, 2 * SILENCE)
        self.assertIn(self.transport, self.answers())


class SilentModelOverWebSocket(SilentModel):
    """The same over WebSocket."""

    config = SilentModel.config + "supports_websockets = true\n"
    transport = ("WEBSOCKET", "/v1/responses", 200)


class WebSocketProvider(CustomProvider):
    """A provider of the user's own that is said to serve WebSocket: the same, over one connection a session."""

    config = CUSTOM + "supports_websockets = true\n"
    answered = {("GET", "/v1/responses", 101), ("WEBSOCKET", "/v1/responses", 200)}


class BuiltInProvider(Case):
    """The provider that Codex has, at another address: it uses WebSocket, and leaves compactions to it."""

    config, values = BUILT_IN, {"model": "gpt-5.5"}

    def configure(self, more="", **values):
        super().configure(more, **values)
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "CODEX_HOME": str(self.home / ".codex")}
        subprocess.run([CODEX, "login", "--with-api-key"], input="sk-any\n", text=True, env=environment, check=True,
                       capture_output=True, timeout=60)

    def test_a_bug_is_mended_by_apply_patch_and_the_session_is_resumed(self):
        self.configure()

        def see(request):
            self.assertIn("return a - b", outputs(request)[0])
            self.assertFalse({"web_search", "tool_search"} & set(offered(request)))
            return call("apply_patch", PATCH, reasoning="It subtracts.")

        def check(request):
            self.assertIn("calc.py", outputs(request)[1])
            return shell("python3 -B test_calc.py")

        def report(request):
            self.assertIn("all is well", outputs(request)[2])
            return text("I patched calc.py.")

        answer = self.ask("Mend the bug.", shell("cat calc.py"), see, check, report)
        self.assertEqual(answer, "I patched calc.py.")
        self.is_mended()

        def remember(request):
            self.assertEqual(len(outputs(request)), 3)
            self.assertIn("*** Begin Patch", words(request))
            return text("A bug.")

        self.assertEqual(self.ask("What was it?", remember, resume=True), "A bug.")
        self.assertEqual(set(self.answers()), {("GET", "/v1/responses", 101), ("WEBSOCKET", "/v1/responses", 200)})
        omitted = [line.get("tools") for line in gateway.lines()[self.logged:] if "omitted tools" in line["message"]]
        self.assertEqual(set(omitted), {"tool_search, web_search"})

    def test_a_long_history_lives_on_by_a_compaction_of_the_gateway(self):
        self.configure("model_auto_compact_token_limit = 20000")
        self.ask("Begin.", shell("echo 'step one is done'"), text("Begun.", usage=(90_000, 10)))

        def summarise(request):
            self.assertEqual(request["tool_choice"], "none", "a summary calls nothing")
            self.assertIn("step one is done", words(request))
            return text(SUMMARY, reasoning="What matters?", usage=(90_100, 30))

        def go_on(request):
            self.assertIn(SUMMARY, words(request))
            self.assertIn("Begin.", words(request))
            self.assertNotIn("step one is done", words(request))
            return text("On it.", usage=(90_000, 10))

        self.assertEqual(self.ask("Go on.", summarise, go_on, resume=True), "On it.")

        def summarise_again(request):
            self.assertIn(SUMMARY, words(request), "the first summary is what the second is made of")
            return text("Handed over again.")

        def finish(request):
            self.assertIn("Handed over again.", words(request))
            self.assertNotIn(SUMMARY, words(request))
            return text("Done.")

        self.assertEqual(self.ask("Finish.", summarise_again, finish, resume=True), "Done.")

    def test_a_bug_is_mended_by_programs_that_call_tools(self):
        self.configure(model="gpt-6-sol")
        program = "const seen = await tools.exec_command({cmd: %s}); text(JSON.stringify(seen));"

        def run(command, prefix=""):
            return call("functions__exec", prefix + program % json.dumps(command))

        def see(request):
            self.assertIn("return a - b", outputs(request)[0])
            return run("sed -i 's/a - b/a + b/' calc.py", 'notify("half way"); ')

        def check(request):
            self.assertIn("half way", words(request))
            return run("python3 -B test_calc.py")

        def report(request):
            self.assertIn("all is well", outputs(request)[-1])
            return text("I mended calc.py.")

        self.assertEqual(self.ask("Mend the bug.", run("cat calc.py"), see, check, report), "I mended calc.py.")
        self.is_mended()

        def remember(request):
            self.assertIn("half way", words(request))
            return text("A bug.")

        self.assertEqual(self.ask("What was it?", remember, resume=True), "A bug.")

    def test_models_are_listed_as_codex_asks_for_them(self):
        with urllib.request.urlopen(f"{gateway.url}/models?client_version=0.169.0") as answer:
            self.assertIn("gpt-5.5", answer.read().decode())


if __name__ == "__main__":
    unittest.main(verbosity=2)
