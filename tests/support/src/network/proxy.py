"""An HTTP proxy that alone knows the names of servers:

    python3 proxy.py [--credentials USER:PASSWORD] [--tls CERT KEY] NAME=PORT ...

Each name is a server on the loopback interface. Prints its port, then each request's method, target and answer.
"""

import argparse
import asyncio
import base64
import ssl
import urllib.parse

from pump import pump


def header(lines, name):
    values = (line.split(":", 1)[1].strip() for line in lines if line.lower().startswith(name + ":"))
    return next(values, None)


async def serve(reader, writer, options):
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (asyncio.IncompleteReadError, OSError):
        return writer.close()
    request, *lines = head.split("\r\n")
    method, target, _ = request.split(" ", 2)
    tunnel = method == "CONNECT"
    host = target.rsplit(":", 1)[0] if tunnel else urllib.parse.urlsplit(target).hostname

    async def answer(status):
        print(method, target, status, flush=True)
        if not (tunnel and status == 200):
            writer.write(f"HTTP/1.1 {status} Proxy\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
            await writer.drain()
            writer.close()

    if options.credentials:
        wanted = "Basic " + base64.b64encode(options.credentials.encode()).decode()
        if header(lines, "proxy-authorization") != wanted:
            return await answer(407)
    if host not in options.names:
        return await answer(502)
    server_reader, server_writer = await asyncio.open_connection("127.0.0.1", options.names[host])
    if tunnel:
        await answer(200)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    else:
        print(method, target, "forwarded", flush=True)
        # One request a connection: what follows is handed on unread.
        kept = [line for line in lines if not line.lower().startswith("proxy-")]
        server_writer.write("\r\n".join([request, "connection: close", *kept]).encode("latin-1"))
    await asyncio.gather(pump(reader, server_writer), pump(server_reader, writer))


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--credentials")
    parser.add_argument("--tls", nargs=2)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    options.names = {name: int(port) for name, port in (pair.split("=") for pair in options.names)}
    context = None
    if options.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*options.tls)

    async def client(reader, writer):
        await serve(reader, writer, options)

    server = await asyncio.start_server(client, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
