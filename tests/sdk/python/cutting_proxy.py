"""A TCP proxy before a gateway that breaks its first connections, as a network does."""

import contextlib
import socket
import threading
import time
from urllib.parse import urlsplit


class CuttingProxy:
    """Breaks the first connection once the request was passed on: after so many bytes of the answer, and not before
    something has happened. `cuts` of those are broken whose requests have the bytes `having`."""

    def __init__(self, url: str, answer_bytes: int = 0, happened=lambda: True, cuts: int = 1, having: bytes = b""):
        self.target = (urlsplit(url).hostname, urlsplit(url).port)
        self.answer_bytes = answer_bytes
        self.happened = happened
        self.connections = 0
        self.cuts = cuts
        self.having = having
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}{urlsplit(url).path}"
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client, socket.create_connection(self.target) as server:
            try:
                is_cut = self.cuts > 0 and self.having in self.first_request(client)
                self.cuts -= is_cut
                self.answers(client, server, is_cut)
            finally:
                # Another thread still reads from them, so that closing alone would tell nobody.
                for side in (client, server):
                    with contextlib.suppress(OSError):
                        side.shutdown(socket.SHUT_RDWR)

    @classmethod
    def first_request(cls, client):
        """The request that the client sends first, which stays to be read. Its head and its body may come one after the other."""
        until = time.monotonic() + 10
        while True:
            data = client.recv(65536, socket.MSG_PEEK)
            needed = cls.needed(data)
            if not data or len(data) >= min(needed or 65536, 65536) or time.monotonic() > until:
                return data
            time.sleep(0.005)

    @staticmethod
    def needed(received):
        """How many bytes a request has, once its head is there."""
        head, found, _ = received.partition(b"\r\n\r\n")
        if not found:
            return None
        lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
        return len(head) + 4 + sum(map(int, lengths[:1]))

    def answers(self, client, server, is_cut):
        """Passes on what the gateway answers, until the connection is to break."""
        passed = threading.Event()
        threading.Thread(target=self.requests, args=(client, server, passed), daemon=True).start()
        if is_cut and self.answer_bytes == 0:
            passed.wait(10)
            until = time.monotonic() + 10
            while not self.happened() and time.monotonic() < until:
                time.sleep(0.02)
            return
        left = self.answer_bytes if is_cut else None
        while left is None or left > 0:
            data = server.recv(65536 if left is None else min(left, 65536))
            if not data:
                return
            client.sendall(data)
            left = None if left is None else left - len(data)

    @classmethod
    def requests(cls, client, server, passed):
        """Passes on what the client sends; a request is whole with its body, whose length is known."""
        received, needed = b"", None
        try:
            while data := client.recv(65536):
                server.sendall(data)
                received += data
                needed = needed or cls.needed(received)
                if needed is not None and len(received) >= needed:
                    passed.set()
            server.shutdown(socket.SHUT_WR)
        except OSError:
            pass
