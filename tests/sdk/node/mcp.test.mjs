// A server that the request brings: its list, its calls, and calls that a person has to allow.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accumulateResponse, all, client } from './helpers.mjs';

const server = (path = '/mcp', more = {}) => ({
  type: 'mcp',
  server_label: 'sums',
  server_url: process.env.SDK_MCP_URL + path,
  ...more,
});
const free = server('/mcp', { require_approval: 'never' });
const sum = 'add {"a": 2, "b": 3}';

const stream = (request) => client.responses.create({ model: 'caller', stream: true, ...request });

/** The ways to ask. */
const ways = {
  whole: (request) => client.responses.create({ model: 'caller', ...request }),
  raw: async (request) => (await all(await stream(request))).at(-1).response,
  accumulated: (request) => client.responses.stream({ model: 'caller', ...request }).finalResponse(),
};

/** Runs a test once for each way to ask. */
function each(name, run) {
  for (const [way, ask] of Object.entries(ways)) test(`${name}: ${way}`, () => run(ask));
}

each('a list and a call', async (ask) => {
  const response = await ask({ input: sum, tools: [free] });
  const [listed, call, message] = response.output;
  assert.deepEqual([listed.type, listed.server_label], ['mcp_list_tools', 'sums']);
  assert.deepEqual(listed.tools.map((tool) => tool.name), ['add', 'burn']);
  assert.deepEqual([call.type, call.name, call.output, call.status], ['mcp_call', 'add', '5', 'completed']);
  assert.equal(message.content[0].text, 'The tools said: 5');
  assert.equal(response.output_text, 'The tools said: 5');
});

each('a tool that fails, and a server that fails', async (ask) => {
  const { output: [, call] } = await ask({ input: 'burn {}', tools: [free] });
  assert.deepEqual([call.status, call.error.content[0].text], ['failed', 'it burned']);
  const broken = server('/broken', { require_approval: 'never' });
  const { output: [listed, message] } = await ask({ input: 'hi', tools: [broken] });
  assert.deepEqual([listed.type, listed.tools, message.type], ['mcp_list_tools', [], 'message']);
  assert.ok(listed.error);
});

for (const approve of [true, false]) {
  each(`a call that a person has to allow: ${approve}`, async (ask) => {
    const tools = [server()];
    const first = await ask({ input: sum, tools });
    const request = first.output.at(-1);
    assert.deepEqual([request.type, request.name, request.arguments], ['mcp_approval_request', 'add', '{"a": 2, "b": 3}']);
    const answer = { type: 'mcp_approval_response', approval_request_id: request.id, approve };
    const second = await ask({ input: [answer], tools, previous_response_id: first.id });
    const kinds = second.output.map((item) => item.type);
    assert.deepEqual(kinds, approve ? ['mcp_call', 'message'] : ['message']);
    if (approve) assert.equal(second.output[0].approval_request_id, request.id);
  });
}

test('what the accumulator makes of a stream is what the stream ends with', async () => {
  const events = await all(await stream({ input: sum, tools: [free] }));
  const { response } = events.at(-1);
  const before = events.slice(0, -1).reduce((snapshot, event) => accumulateResponse(event, snapshot), undefined);
  assert.deepEqual(before.output.slice(0, 2), response.output.slice(0, 2));
  const aboutList = events.map((event) => event.type).filter((type) => type.includes('mcp_list_tools'));
  assert.deepEqual(aboutList, ['response.mcp_list_tools.in_progress', 'response.mcp_list_tools.completed']);
});
