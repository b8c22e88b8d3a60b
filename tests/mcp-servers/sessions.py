"""A server of the Python SDK over streamable HTTP, with sessions.

python sessions.py PORT      0: any; the port is printed
"""

import socket
import sys

import uvicorn

try:  # 2.x
    from mcp.server import MCPServer as Server
except ImportError:  # 1.x
    from mcp.server.fastmcp import FastMCP as Server

server = Server("sessions")


@server.tool()
def echo(text: str) -> str:
    """Says it again."""
    return text


listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen()
print(listener.getsockname()[1], flush=True)
app = server.streamable_http_app()
uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on")).run(sockets=[listener])
