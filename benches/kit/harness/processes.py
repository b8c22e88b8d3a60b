"""Processes of a measurement: started in groups of their own, ended with the measurement, on free ports of loopback."""

import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

KIT = pathlib.Path(__file__).resolve().parent.parent


class Failed(Exception):
    """Something could not be measured."""


def programs():
    """The folder with `upstream`, `load` and `floor-proxy`; scripts/lib/kit builds them and prints it."""
    return pathlib.Path(os.environ.get("BENCH_BIN", KIT / "target" / "release")).resolve()


def raise_limits():
    """As many open files as the machine lets everything that is started here have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def spawn(argv, log, cwd=None, env=None):
    return subprocess.Popen([str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=cwd,
                            env=env, start_new_session=True)


def stop(process):
    """Ends the process group that `spawn` made, and nothing else."""
    for sig, wait in ((signal.SIGTERM, 20), (signal.SIGKILL, 5)):
        try:
            os.killpg(process.pid, sig)
            process.wait(wait)
            return
        except ProcessLookupError:
            process.wait(wait)
            return
        except subprocess.TimeoutExpired:
            continue


def post(url, body, timeout=30, headers=None):
    """Status and body of an answer; status 0 if there was none. Without a body it is a GET."""
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, data, {"content-type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except Exception as error:  # refused, reset, timed out, cut short
        return 0, f"{type(error).__name__}: {error}".encode()


def first_line(text):
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    return " ".join(str(text).split())[:220]


class Provider:
    """The kit's mock provider."""

    def __init__(self, folder):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        with open(folder / "upstream.log", "ab") as log:
            self.process = spawn([programs() / "upstream", "--port", self.port], log)
        for _ in range(200):
            if post(self.url + "/health", None, timeout=1)[0] == 200:
                return
            time.sleep(0.05)
        raise Failed("the mock provider does not serve")

    def stop(self):
        stop(self.process)
