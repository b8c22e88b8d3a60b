// Tools that the gateway runs: the SDK shows their calls as those of an MCP server, and runs none.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import {
  accumulateResponse, all, callsOf, client, distinct, outputFor, reached, rejected, sdk, weather, zodTextFormat,
} from './helpers.mjs';

// No `server_url`, which the SDK's types leave out as well: the gateway's own tools are one server, always there.
const server = { type: 'mcp', server_label: 'antwort' };
const calculate = { type: 'antwort:calculate' };

const sum = 'calculate {"expression": "2 + 3"}';
const noSum = 'calculate {"expression": "1/0"}';
const inParis = 'get_weather {"city": "Paris"}';

const CALL_EVENTS = [
  'response.output_item.added',
  'response.mcp_call.in_progress',
  'response.mcp_call_arguments.delta',
  'response.mcp_call_arguments.done',
  'response.mcp_call.completed',
  'response.output_item.done',
];

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

const kinds = (items) => items.map((item) => item.type);
const callsRun = (response) => response.output.filter((item) => item.type === 'mcp_call');

/** What came over the wire: the SDK adds the text, and what it has parsed. */
function sent(response) {
  const added = ['output_text', 'output_parsed', 'parsed', 'parsed_arguments'];
  return JSON.parse(JSON.stringify(response, (name, value) => (added.includes(name) ? undefined : value)));
}

/** All but what is made anew for each response: ids and times. */
function shape(response) {
  const body = sent(response);
  for (const made of [body, ...body.output]) {
    for (const name of ['id', 'call_id', 'created_at', 'completed_at']) delete made[name];
  }
  return body;
}

for (const tool of [server, { ...server, allowed_tools: ['calculate'] }, calculate]) {
  each(`a call and its answer, ${JSON.stringify(tool)}`, async (ask) => {
    const response = await ask({ input: sum, tools: [tool] });
    assert.equal(response.status, 'completed');
    assert.deepEqual(kinds(response.output), ['mcp_call', 'message']);
    const [call, message] = response.output;
    assert.deepEqual([call.server_label, call.name, call.status], ['antwort', 'calculate', 'completed']);
    assert.deepEqual(JSON.parse(call.arguments), { expression: '2 + 3' });
    assert.equal(JSON.parse(call.output).result, 5);
    assert.equal(call.error ?? null, null);
    assert.equal(message.content[0].text, `The tools said: ${call.output}`);
    // An event's response is as it was sent; those that the SDK hands out have the text.
    assert.ok([message.content[0].text, undefined].includes(response.output_text));
    assert.equal(response.output_text === undefined, ask === ways.raw);
    assert.deepEqual(sent(await client.responses.retrieve(response.id)), sent(response));
  });
}

const search = 'web_search {"query": "learn rust"}';

for (const said of [sum, noSum, search, `${sum}\n${noSum}`, `${sum}\n${inParis}`]) {
  test(`body, stream and accumulator are alike: ${said}`, async () => {
    const request = { input: said, tools: [said === search ? { type: 'web_search' } : server, weather] };
    const body = shape(await ways.whole(request));
    assert.deepEqual(shape(await ways.raw(request)), body);
    assert.deepEqual(shape(await ways.accumulated(request)), body);
    // The last event replaces all that the accumulator has; before it the items are there already.
    const events = await all(await stream(request));
    const { response } = events.pop();
    const before = events.reduce((snapshot, event) => accumulateResponse(event, snapshot), undefined);
    assert.deepEqual(sent(before).output, response.output);
  });
}

test('raw events of a call', async () => {
  const events = await all(await stream({ input: sum, tools: [server] }));
  assert.deepEqual(events.map((event) => event.sequence_number), [...events.keys()]);
  const ofCall = events.filter((event) => event.output_index === 0);
  assert.deepEqual(distinct(kinds(ofCall)), CALL_EVENTS);
  const [added, done] = [ofCall[0].item, ofCall.at(-1).item];
  assert.deepEqual([added.status, added.arguments, added.output ?? null], ['in_progress', '', null]);
  assert.deepEqual(distinct([added.id, done.id, ...ofCall.slice(1, -1).map((event) => event.item_id)]), [added.id]);
  const deltas = ofCall.filter((event) => event.type === 'response.mcp_call_arguments.delta');
  assert.equal(deltas.map((event) => event.delta).join(''), done.arguments);
});

each('a mixed turn', async (ask) => {
  const tools = [server, weather];
  const paused = await ask({ input: `${sum}\n${inParis}`, tools });
  assert.equal(paused.status, 'completed');
  assert.deepEqual(kinds(paused.output), ['mcp_call', 'function_call']);
  const [[run], [call]] = [callsRun(paused), callsOf(paused)];
  assert.equal(JSON.parse(run.output).result, 5);
  assert.deepEqual([call.name, JSON.parse(call.arguments)], ['get_weather', { city: 'Paris' }]);

  const resumed = await ask({ previous_response_id: paused.id, input: [outputFor(call)], tools });
  assert.equal(resumed.status, 'completed');
  assert.deepEqual(kinds(resumed.output), ['message'], 'nothing is run again');
  assert.equal(resumed.output[0].content[0].text, `The tools said: ${run.output}; sunny`);
});

each('a call that fails', async (ask) => {
  const response = await ask({ input: noSum, tools: [calculate] });
  assert.deepEqual([response.status, response.error], ['completed', null]);
  const [call] = callsRun(response);
  assert.deepEqual([call.status, call.output ?? null, call.error.type], ['failed', null, 'mcp_tool_execution_error']);
  const [{ text }] = call.error.content;
  assert.match(text, /calculation error/);
  assert.equal(response.output[1].content[0].text, `The tools said: Error: ${text}`);
});

test('events of a call that fails', async () => {
  const seen = kinds(await all(await stream({ input: noSum, tools: [server] })));
  assert.ok(seen.includes('response.mcp_call.failed') && !seen.includes('response.mcp_call.completed'));
  assert.ok(!seen.includes('error'));
  assert.equal(seen.at(-1), 'response.completed');
});

for (const said of [sum, noSum]) {
  each(`replayed without storing: ${said}`, async (ask) => {
    const input = [{ role: 'user', content: said }];
    const first = await ask({ input, tools: [server], store: false });
    const [call] = callsRun(first);
    input.push(...first.output, { role: 'user', content: 'again?' });
    const { messages } = reached(await client.responses.create({ model: 'mirror', input, tools: [server], store: false }));
    assert.deepEqual(messages.map((message) => message.role), ['user', 'assistant', 'tool', 'assistant', 'user']);
    const [{ function: called }] = messages[1].tool_calls;
    assert.deepEqual([called.name, JSON.parse(called.arguments)], ['calculate', JSON.parse(call.arguments)]);
    assert.equal(messages[2].content, call.output ?? `Error: ${call.error.content[0].text}`);
  });
}

each('a mixed turn replayed without storing', async (ask) => {
  const input = [{ role: 'user', content: `${sum}\n${inParis}` }];
  const paused = await ask({ input, tools: [server, weather], store: false });
  input.push(...paused.output, ...callsOf(paused).map((call) => outputFor(call)));
  const resumed = await ways.whole({ input, tools: [server, weather], store: false });
  assert.equal(resumed.output_text, `The tools said: ${callsRun(paused)[0].output}; sunny`);
});

each('items without their steps', async (ask) => {
  const antwort = { stream_visibility: 'items' };
  const response = await ask({ input: sum, tools: [server], antwort });
  assert.deepEqual(kinds(response.output), ['mcp_call', 'message']);
  assert.ok(response.output[0].output);
  const ofCall = (await all(await stream({ input: sum, tools: [server], antwort }))).filter((event) => event.output_index === 0);
  assert.deepEqual(kinds(ofCall), ['response.output_item.added', 'response.output_item.done']);
});

// The call looks like a function's, and is over: the client has none of that name, and nothing to answer.
each('hidden', async (ask) => {
  const response = await ask({ input: sum, tools: [server], antwort: { stream_visibility: 'hidden' } });
  assert.equal(response.status, 'completed');
  assert.deepEqual(kinds(response.output), ['function_call', 'message']);
  const [call] = callsOf(response);
  assert.deepEqual([call.name, call.status, JSON.parse(call.arguments)], ['calculate', 'completed', { expression: '2 + 3' }]);
  assert.equal(JSON.parse(response.output[1].content[0].text.replace('The tools said: ', '')).result, 5);
  // The result is kept for the model.
  const next = await client.responses.create({ model: 'mirror', previous_response_id: response.id, input: 'again?' });
  assert.deepEqual(reached(next).messages.map((message) => message.role), ['user', 'assistant', 'tool', 'assistant', 'user']);
});

each('web search', async (ask) => {
  const response = await ask({ input: search, tools: [{ type: 'web_search' }] });
  assert.deepEqual(kinds(response.output), ['web_search_call', 'message']);
  const [call, { content: [{ text, annotations: [citation] }] }] = response.output;
  assert.deepEqual([call.status, call.action.type, call.action.query], ['completed', 'search', 'learn rust']);
  assert.deepEqual([citation.type, citation.title], ['url_citation', 'The Book']);
  assert.equal(text.slice(citation.start_index, citation.end_index), citation.url);
});

each('a web search that fails', async (ask) => {
  const response = await ask({ input: 'web_search {"query": 7}', tools: [{ type: 'web_search' }] });
  assert.deepEqual([response.status, response.output[0].status], ['completed', 'failed']);
});

test('parse', async () => {
  const format = zodTextFormat(z.object({ title: z.string() }), 'sum');
  const ask = { model: 'caller', input: sum, tools: [server], text: { format } };
  for (const response of [await client.responses.parse(ask), await client.responses.stream(ask).finalResponse()]) {
    assert.deepEqual(kinds(response.output), ['mcp_call', 'message']);
    assert.deepEqual(response.output_parsed, { title: 'Paris' });
  }
});

test('a tool that is not there', async () => {
  const error = await rejected(client.responses.create({ model: 'caller', input: 'hi', tools: [{ type: 'antwort:none' }] }));
  assert.ok(error instanceof sdk.BadRequestError);
  assert.equal(error.code, 'tool_not_found');
});
