"""A process that reads one stream again and again, as fast as it can: PORT PATH SECONDS."""

import json
import socket
import sys
import time


def reader(port: int, path: str, seconds: float) -> dict:
    """One connection, which counts bytes and does not look at them but for their end."""
    connection = socket.create_connection(("127.0.0.1", port))
    request = f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
    buffer, streams, total = bytearray(1 << 20), 0, 0
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        connection.sendall(request)
        end = b""
        while end != b"0\r\n\r\n":
            if not (count := connection.recv_into(buffer)):
                raise SystemExit("the connection was closed")
            total += count
            end = (end + buffer[max(0, count - 5) : count])[-5:]
        streams += 1
    return {"streams": streams, "bytes": total, "seconds": time.monotonic() - begun}


if __name__ == "__main__":
    print(json.dumps(reader(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))))
