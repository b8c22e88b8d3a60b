// MCP servers over streamable HTTP. A tool: {name, description, inputSchema, annotations, result | error | asks, fail, waits}.

import { setTimeout as sleep } from 'node:timers/promises';

const tries = new Map();

export async function mcp(scripts, server, message, response) {
  const tools = scripts.tools.get(server);
  // A GET asks for a stream, which there is none of.
  if (!message) return response.writeHead(405).end();
  if (!tools) return response.writeHead(500).end();
  if (message.id === undefined) return response.writeHead(202).end();
  if (message.method === 'tools/call') {
    const tool = tools.find(({ name }) => name === message.params.name);
    if (failing(server, tool)) return response.writeHead(503).end();
    await sleep(tool?.waits ?? 0);
    if (tool?.gate) await scripts.gates.wait(tool.gate, response);
    return reply(response, message, called(tool, message.params));
  }
  reply(response, message, result(server, tools, message));
}

/** Whether this call is one that fails before another is answered. */
function failing(server, tool) {
  if (!tool?.fail) return false;
  const key = `${server}/${tool.name}`;
  const before = tries.get(key) ?? 0;
  tries.set(key, before + 1);
  return before % (tool.fail + 1) < tool.fail;
}

function result(server, tools, { method, params }) {
  if (method === 'initialize') {
    const serverInfo = { name: server, version: '1' };
    return { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo };
  }
  if (method === 'tools/list') {
    return { tools: tools.map(({ name, description, inputSchema, annotations }) => ({ name, description, inputSchema, annotations })) };
  }
  return {};
}

function called(tool, params) {
  if (!tool) return told('no such tool', true);
  if (tool.error) return told(tool.error, true);
  if (tool.asks) {
    const answer = params.inputResponses?.answer;
    if (!answer) {
      const question = { method: 'elicitation/create', params: tool.asks };
      return { resultType: 'input_required', inputRequests: { answer: question }, requestState: 'asked' };
    }
    return told(`answer: ${answer.action} ${JSON.stringify(answer.content ?? {})}`);
  }
  return told(tool.result ?? `${tool.name}: ${JSON.stringify(params.arguments)}`);
}

function told(text, isError = false) {
  return { content: [{ type: 'text', text }], isError };
}

function reply(response, { id }, result) {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
}
