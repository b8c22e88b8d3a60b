"""A server with TLS in front of one without:

    python3 tls_server.py PORT CERT KEY [CLIENTS_CA]

With CLIENTS_CA clients must show a certificate of that authority. Prints its port, then the subject of each client.
"""

import asyncio
import ssl
import sys

from pump import pump


async def main():
    backend, cert, key, *clients = sys.argv[1:]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    if clients:
        context.load_verify_locations(clients[0])
        context.verify_mode = ssl.CERT_REQUIRED

    async def client(reader, writer):
        shown = writer.get_extra_info("peercert") or {}
        names = [value for part in shown.get("subject", ()) for name, value in part if name == "commonName"]
        print("client", *names, flush=True)
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", int(backend))
        await asyncio.gather(pump(reader, server_writer), pump(server_reader, writer))

    server = await asyncio.start_server(client, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
