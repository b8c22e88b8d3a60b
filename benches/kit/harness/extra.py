"""What is measured only if it is asked for: builds from nothing, and the longest commit, which a command says."""

import os
import subprocess
import tempfile
import time

from processes import KIT, Failed, first_line

PROJECT = KIT.parent.parent


def measured(commits, demo, build):
    figures = {}
    if commits:
        figures["commit"] = longest_commit(commits)
    if demo:
        figures["demo"] = cold_demo() / 60
    if build:
        figures["build"] = cold_build() / 60
    return figures


def longest_commit(command):
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=PROJECT)
    words = done.stdout.split()
    if done.returncode or not words:
        raise Failed(f"{command}: {first_line(done.stderr)}")
    try:
        return float(words[-1])
    except ValueError:
        raise Failed(f"{command}: its last word is {words[-1]!r}, not milliseconds") from None


def cold_build():
    with tempfile.TemporaryDirectory(prefix="antwort-build-") as target:
        begun = time.monotonic()
        subprocess.run(["cargo", "build", "--release", "--locked", "--quiet", "--bin", "antwort"], cwd=PROJECT, check=True,
                       env={**os.environ, "CARGO_TARGET_DIR": target})
        return time.monotonic() - begun


def cold_demo():
    """Until the demo has shown its conversation and the commands to go on with."""
    with tempfile.TemporaryDirectory(prefix="antwort-build-") as target:
        begun = time.monotonic()
        process = subprocess.Popen(["cargo", "run", "--locked", "--quiet", "--", "demo"], cwd=PROJECT, text=True,
                                   stdout=subprocess.PIPE, env={**os.environ, "CARGO_TARGET_DIR": target})
        try:
            if not any("curl" in line for line in process.stdout):
                raise Failed("the demo ended early")
            return time.monotonic() - begun
        finally:
            process.terminate()
            process.wait(20)
