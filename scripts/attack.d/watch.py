"""Watches one gateway while it is attacked, as a process of its own that floods do not slow down.

    watch.py PID PORT AUTHORIZATION GROWTH

Another client's two small requests, each on a connection of its own, are timed one after the other, and the
gateway's memory is read. A gateway that has grown by GROWTH bytes is killed. A line on standard input
ends it; it answers with one of JSON.
"""

import json
import os
import signal
import sys
import threading
import time

import wire

PAUSE = 0.02  # between two looks


def memory(pid: int, key: str) -> int:
    """A figure of /proc/PID/status in bytes; 0 where the process is gone."""
    try:
        with open(f"/proc/{pid}/status") as status:
            for line in status:
                if line.startswith(key + ":"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


class Guard(threading.Thread):
    """Kills the gateway before it takes the machine, and remembers the most that it had."""

    def __init__(self, pid: int, growth: int):
        super().__init__(daemon=True)
        self.pid, self.growth = pid, growth
        self.before = self.most = memory(pid, "VmRSS")
        self.killed = False
        try:
            with open(f"/proc/{pid}/clear_refs", "w") as file:
                file.write("5")  # the high-water mark begins anew
            self.key = "VmHWM"
        except OSError:
            self.key = "VmRSS"

    def look(self) -> None:
        self.most = max(self.most, memory(self.pid, self.key))
        if self.most - self.before > self.growth and not self.killed:
            self.killed = True
            os.kill(self.pid, signal.SIGKILL)

    def run(self) -> None:
        while not self.killed:
            self.look()
            time.sleep(PAUSE)


class Waits:
    """How long requests of one kind took at the most, and how many were not answered as they should be."""

    def __init__(self, port: int, path: str, status: int, headers: list[tuple[str, str]]):
        self.port, self.status = port, status
        self.request = wire.head("GET", path, [("host", f"127.0.0.1:{port}"), *headers, ("connection", "close")])
        self.longest, self.failed, self.asked = 0.0, 0, 0

    def ask(self) -> None:
        begun = time.monotonic()
        answer = wire.exchange(self.port, self.request)
        self.longest = max(self.longest, time.monotonic() - begun)
        self.asked += 1
        self.failed += answer.status != self.status


def main() -> None:
    pid, port, authorization, growth = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    guard = Guard(pid, growth)
    headers = [("authorization", authorization)] if authorization else []
    waits = [Waits(port, "/healthz", 200, []), Waits(port, "/v1/responses/resp_other", 404, headers)]
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), over.set()), daemon=True).start()
    guard.start()
    print("watching", flush=True)
    while not over.is_set() and not guard.killed:
        for wait in waits:
            if not over.is_set():
                wait.ask()
        time.sleep(PAUSE)
    guard.look()
    print(
        json.dumps(
            {
                "growth": guard.most - guard.before,
                "killed": guard.killed,
                "waits": [{"longest": wait.longest, "failed": wait.failed, "asked": wait.asked} for wait in waits],
            }
        )
    )


if __name__ == "__main__":
    main()
