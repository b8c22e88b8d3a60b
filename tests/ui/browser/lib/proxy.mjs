// A reverse proxy that serves a gateway below a path, which it strips.

import { createServer, request } from 'node:http';

/** @returns {Promise<{address: string, close: () => void}>} */
export function below(prefix, gateway) {
  const { hostname, port } = new URL(gateway);
  const server = createServer((incoming, outgoing) => {
    if (!incoming.url.startsWith(`${prefix}/`)) return outgoing.writeHead(404).end('not below the prefix');
    const path = incoming.url.slice(prefix.length);
    // With the host that the browser has asked for: it is the page's origin.
    const passed = request({ hostname, port, path, method: incoming.method, headers: incoming.headers }, (answer) => {
      outgoing.writeHead(answer.statusCode, answer.headers);
      answer.pipe(outgoing);
    });
    passed.on('error', () => outgoing.destroy());
    outgoing.on('close', () => passed.destroy());
    incoming.pipe(passed);
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      const close = () => {
        server.closeAllConnections();
        server.close();
      };
      resolve({ address: `http://127.0.0.1:${server.address().port}${prefix}`, close });
    });
  });
}
