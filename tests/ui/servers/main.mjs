// A model server and MCP servers that follow scripts, for the tests of the page.
//
//     node main.mjs PORT
//
// `/v1` is the model server, `/mcp/NAME` are MCP servers, `/_…` is for the tests: see `control` below.

import { createServer } from 'node:http';
import { mcp } from './mcp.mjs';
import { answer, models } from './model.mjs';
import { Scripts } from './scripts.mjs';

const scripts = new Scripts();

async function route(request, response) {
  const path = new URL(request.url, 'http://localhost').pathname;
  if (path === '/v1/models') return send(response, 200, models(scripts));
  const body = request.method === 'POST' ? await read(request) : undefined;
  if (path === '/v1/chat/completions') return answer(scripts, body, request, response);
  if (path.startsWith('/mcp/')) return mcp(scripts, path.slice(5), body, response);
  if (path.startsWith('/_')) return control(path.slice(2), body, response);
  send(response, 404, { error: { message: `no such path: ${path}` } });
}

/** What tests ask of this server. */
async function control(path, body, response) {
  if (path === 'script') {
    scripts.set(body.model, body.turns);
    return send(response, 200, {});
  }
  // Lets one answer go on that is held; waits until there is one.
  if (path === 'release') {
    await scripts.gates.release(body.gate);
    return send(response, 200, {});
  }
  if (path === 'tools') {
    scripts.tools.set(body.server, body.tools);
    return send(response, 200, {});
  }
  send(response, 404, {});
}

async function read(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return JSON.parse(Buffer.concat(chunks).toString());
}

function send(response, status, body) {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

createServer((request, response) => {
  route(request, response).catch((error) => {
    console.error(error);
    if (!response.headersSent) response.writeHead(500);
    response.end();
  });
}).listen(Number(process.argv[2]), '127.0.0.1');
