"""An MCP server over standard input and output that does not end by itself, or asks without end.

stdio_server.py FILE [asks]      its process ids, and those of its child, are appended to FILE
"""

import json
import os
import signal
import subprocess
import sys
import time


def say(message: dict) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def flood() -> None:
    pings = "".join(
        json.dumps({"jsonrpc": "2.0", "id": f"p{i}", "method": "ping"}) + "\n" for i in range(1000)
    ).encode()
    while True:
        os.write(1, pings)


def main() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "120"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    with open(sys.argv[1], "a") as file:
        file.write(f"{os.getpid()} {child.pid}\n")
    for line in sys.stdin:
        message = json.loads(line)
        match message.get("method"):
            case "initialize":
                say(
                    {
                        "id": message["id"],
                        "result": {
                            "protocolVersion": message["params"]["protocolVersion"],
                            "capabilities": {"tools": {}},
                            "serverInfo": {"name": "s", "version": "1"},
                        },
                    }
                )
            case "tools/list":
                say({"id": message["id"], "result": {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]}})
            case "tools/call":
                if "asks" in sys.argv:
                    flood()
                say({"id": message["id"], "result": {"content": [{"type": "text", "text": "done"}]}})
    time.sleep(60)  # its input is closed, and it stays


if __name__ == "__main__":
    main()
