#!/usr/bin/env python3
"""Runs what the pages show: programs of the client pages, commands of the first steps, configurations, what presets are short for.

    snippets.py --binary GATEWAY --work FOLDER --python COMMAND --langchain COMMAND [PAGE...]

Each block of code is a program of its own, run against one `antwort demo`, whose address takes the place of
127.0.0.1:8080. A block fails if it exits with an error, prints a warning or an error of the API, or prints nothing. Blocks
that install packages, and those that name what only the reader has (`my-model`, `…`, another host), are not run.
"""

import argparse
import os
import re
import socket
import subprocess
import sys
import textwrap
import time
import urllib.request
from pathlib import Path

from pages import DOCS

PAGES = ["start.md", "life-of-a-run.md", "approvals.md", "streaming.md", "migrating/hosted-api.md", *(f"clients/{name}.md" for name in
         ("openai-python", "openai-node", "agents-sdk", "ai-sdk", "langchain", "codex", "curl"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The block of what a preset is short for.
PRESET = re.compile(r"short for th(?:ese|is) keys?:\n\n```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:8080"
# What makes a block one for the reader's own surroundings.
ELSEWHERE = re.compile(r"^(pip|npm|cargo|ANTWORT_\w+=|antwort (serve|demo))|my-model|…|example\.com|/v1/models/", re.MULTILINE)
TIMEOUT = 60


def main() -> int:
    options = arguments()
    names = options.pages or PAGES
    link_binary(options)
    failed = presets(options) + configurations(options) + imported(options) if not options.pages else []
    with Demo(options.binary, options.work / "demo") as address:
        for name in names:
            ran, problems = run_page(name, address, options)
            print(f"snippets: {name}: {ran - len(problems)} of {ran} ran")
            failed += problems
    for problem in failed:
        print(f"snippets: {problem}", file=sys.stderr)
    return 1 if failed else 0


def link_binary(options: argparse.Namespace) -> None:
    """Commands of the pages call `antwort`."""
    folder = options.work / "bin"
    folder.mkdir()
    (folder / "antwort").symlink_to(options.binary)
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--python", type=str.split, required=True)
    parser.add_argument("--langchain", type=str.split, required=True)
    parser.add_argument("pages", nargs="*")
    return parser.parse_args()


class Demo:
    """`antwort demo` on a free port, in a folder of its own."""

    def __init__(self, binary: str, folder: Path) -> None:
        folder.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.address = f"127.0.0.1:{server.getsockname()[1]}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ANTWORT_")}
        self.log = folder / "demo.log"
        self.process = subprocess.Popen([binary, "demo", "--listen", self.address], cwd=folder, env=kept,
                                        stdout=self.log.open("wb"), stderr=subprocess.STDOUT)

    def __enter__(self) -> str:
        until = time.monotonic() + 60
        while time.monotonic() < until and self.process.poll() is None:
            try:
                urllib.request.urlopen(f"http://{self.address}/readyz", timeout=5).close()
                return self.address
            except OSError:
                time.sleep(0.2)
        sys.exit(f"snippets: the demo did not start: {self.log.read_text()}")

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(30)


def run_page(name: str, address: str, options: argparse.Namespace) -> tuple[int, list[str]]:
    ran, problems = 0, []
    for number, (language, code) in enumerate(BLOCK.findall((DOCS / name).read_text()), 1):
        command = interpreter(language, name, options)
        if command is None or ELSEWHERE.search(code):
            continue
        ran += 1
        suffix = {"js": ".mjs", "python": ".py"}.get(language, ".sh")
        folder = options.work / "node"
        program = folder / f"{Path(name).stem}-{number}{suffix}"
        program.write_text(code.replace(ADDRESS, address))
        problem = run([*command, str(program)], folder)
        if problem:
            problems.append(f"{name}, block {number} ({language}): {problem}")
    return ran, problems


def interpreter(language: str, page: str, options: argparse.Namespace) -> list[str] | None:
    match language:
        case "python":
            return options.langchain if "langchain" in page else options.python
        case "js":
            return ["node"]
        case "sh":
            return ["bash", "-euo", "pipefail"]
    return None


def run(command: list[str], folder: Path) -> str:
    """What went wrong, or nothing."""
    environment = os.environ | {"NO_PROXY": "127.0.0.1", "LANGSMITH_TRACING": "false", "PYTHONWARNINGS": "ignore"}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, timeout=TIMEOUT, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return f"it took more than {TIMEOUT} s"
    if done.returncode:
        return f"exit code {done.returncode}\n{textwrap.indent((done.stdout + done.stderr)[-2000:], '    ')}"
    if not done.stdout.strip():
        return "it printed nothing"
    if re.search(r'^\{"error":|"error": *\{', done.stdout):
        return f"an error: {done.stdout[:500]}"
    return ""


# --- configurations -------------------------------------------------------------------------------------


def antwort(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANTWORT_")}
    return subprocess.run(["antwort", *arguments], env=kept | environment, capture_output=True, text=True)


def presets(options: argparse.Namespace) -> list[str]:
    """A provider with a preset, and one with the keys that its page says the preset is short for, have the same settings."""
    problems = []
    pages = sorted(page for page in (DOCS / "upstreams").glob("*.md") if page.stem != "index")
    for page in pages:
        [keys] = PRESET.findall(page.read_text())
        name = page.stem.replace("-", "_")
        by_name, by_keys = options.work / f"{name}-preset.yaml", options.work / f"{name}-keys.yaml"
        head = "providers:\n  one:\n    url: http://127.0.0.1:9/v1\n"
        by_name.write_text(head + f"    preset: {name}\n")
        by_keys.write_text(head + "    preset: generic\n" + textwrap.indent(keys, "    "))
        done = antwort("config", "diff", str(by_name), str(by_keys))
        differences = [line for line in done.stdout.splitlines() if "providers.one.preset:" not in line]
        if done.returncode > 1 or differences:
            problems.append(f"{page.name}: the keys are not those of the preset: {done.stderr} {differences}")
    print(f"snippets: presets: {len(pages) - len(problems)} of {len(pages)} pages name the keys of their preset")
    return problems


def configurations(options: argparse.Namespace) -> list[str]:
    """Blocks that are configurations are accepted, with any value in their variables."""
    ran, problems = 0, []
    for page in sorted([*(DOCS / "upstreams").glob("*.md"), *(DOCS / "migrating").glob("*.md"), DOCS / "approvals.md"]):
        for language, code in BLOCK.findall(page.read_text()):
            if language != "yaml" or not re.search(r"^(providers|auth|mcp):", code, re.MULTILINE):
                continue
            ran += 1
            file = options.work / "checked.yaml"
            file.write_text(code)
            values = {name: f"value-of-{name}" for name in re.findall(r"\$\{(\w+)\}", code)}
            if "providers:" not in code:
                values["ANTWORT_UPSTREAM_URL"] = "http://127.0.0.1:9/v1"
            done = antwort("config", "check", "--config", str(file), **values)
            if done.returncode:
                problems.append(f"{page.name}: {done.stdout}{done.stderr}")
    print(f"snippets: configurations: {ran - len(problems)} of {ran} are accepted")
    return problems


def imported(options: argparse.Namespace) -> list[str]:
    """The agent file of the page on the Go program becomes a configuration, with a note of what it says."""
    [agent] = [code for language, code in BLOCK.findall((DOCS / "migrating" / "go.md").read_text()) if language == "json"]
    source, target = options.work / "agent.json", options.work / "imported.yaml"
    source.write_text(agent)
    done = antwort("config", "import", str(source))
    target.write_text(done.stdout)
    checked = antwort("config", "check", "--config", str(target))
    told = "top_k" in done.stderr and "Not imported: the model option top_k" in done.stdout
    if done.returncode or checked.returncode or not told:
        return [f"go.md: {done.stderr} {checked.stdout} {checked.stderr} {done.stdout}"]
    print("snippets: the agent file is imported")
    return []


if __name__ == "__main__":
    sys.exit(main())
