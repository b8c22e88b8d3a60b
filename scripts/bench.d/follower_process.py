"""A process with many followers of one stream: PORT PATH COUNT. Says when all follow, and at the end what each has got.

It looks at nothing before the end, so that it is not what is measured.
"""

import bisect
import hashlib
import json
import re
import selectors
import socket
import sys
import time
from collections import Counter

WORD = re.compile(rb'"delta":"w\d+@(\d+) "')
EVENT = re.compile(rb"\nevent: ([a-z_.]+)|^event: ([a-z_.]+)")


class Follower:
    def __init__(self, port: int, path: str):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        self.socket.setblocking(False)
        self.pieces: list[bytes] = []
        self.times: list[int] = []

    def receive(self) -> bool:
        """Whether there may be more."""
        data = self.socket.recv(1 << 18)
        self.pieces.append(data)
        self.times.append(time.monotonic_ns())
        return bool(data)

    def body(self) -> bytes:
        rest = b"".join(self.pieces).partition(b"\r\n\r\n")[2]
        parts, at = [], 0
        while (end := rest.find(b"\r\n", at)) > 0 and (size := int(rest[at:end], 16)):
            parts.append(rest[end + 2 : end + 2 + size])
            at = end + 4 + size
        return b"".join(parts)


def main(port: int, path: str, count: int) -> None:
    selector = selectors.DefaultSelector()
    followers = [Follower(port, path) for _ in range(count)]
    for each in followers:
        selector.register(each.socket, selectors.EVENT_READ, each)
    is_told, open_ones = False, count
    while open_ones:
        for key, _ in selector.select():
            if not key.data.receive():
                selector.unregister(key.fileobj)
                open_ones -= 1
        if not is_told and all(b"\r\n\r\n" in each.pieces[0] for each in followers if each.pieces) and all(
            each.pieces for each in followers
        ):
            is_told = True
            print("all follow", flush=True)
    print(json.dumps(result(followers)), flush=True)


def result(followers: list[Follower]) -> dict:
    delays, gaps, words, ends, hashes = Counter(), Counter(), Counter(), Counter(), set()
    for each in followers:
        at = list(ends_of(each.pieces))
        raw = b"".join(each.pieces)
        got = [(int(match[1]), each.times[bisect.bisect_left(at, match.end())]) for match in WORD.finditer(raw)]
        words[len(got)] += 1
        delays.update((received - said) // 1_000_000 for said, received in got)
        times = sorted({received for _, received in got})
        gaps.update((later - earlier) // 1_000_000 for earlier, later in zip(times, times[1:]))
        body = each.body()
        hashes.add(hashlib.sha256(body).hexdigest())
        names = EVENT.findall(body)
        ends[b"".join(names[-1]).decode() if names and body.endswith(b"data: [DONE]\n\n") else "cut"] += 1
    return {"followers": len(followers), "delays": delays, "gaps": gaps, "words": words, "ends": ends, "hashes": list(hashes)}


def ends_of(pieces: list[bytes]):
    """How many bytes there are up to the end of each."""
    total = 0
    for piece in pieces:
        total += len(piece)
        yield total


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
