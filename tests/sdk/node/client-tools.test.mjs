// The helper of `clients/typescript`: functions that run inside a response.

import assert from 'node:assert/strict';
import net from 'node:net';
import { test } from 'node:test';
import { all, client, rejected, sdk } from './helpers.mjs';
import { ClientTools } from './client-tools/client-tools.mjs';

const object = (...names) => ({
  type: 'object',
  properties: Object.fromEntries(names.map((name) => [name, { type: 'integer' }])),
  required: names,
});

const tools = new ClientTools()
  .register({ name: 'add', parameters: object('a', 'b'), execute: ({ a, b }) => a + b })
  .register({
    name: 'broken',
    execute: async () => {
      throw new Error('out of order');
    },
  });

const outputs = (response) =>
  response.output.filter((item) => item.type === 'function_call_output').map((item) => item.output);

const inOrder = (events) =>
  assert.deepEqual(
    events.map((event) => event.sequence_number),
    events.map((_, number) => number),
  );

test('a response goes on with the outputs of its functions', async () => {
  const elsewhere = { type: 'function', name: 'elsewhere', parameters: object(), strict: false };
  const input = 'add {"a": 1, "b": 2}\nbroken {}\nelsewhere {}';
  const events = await all(tools.stream(client, { model: 'caller', input, tools: [elsewhere] }));
  inOrder(events);
  assert.equal(events.filter((event) => event.type === 'antwort:input_required').length, 3);
  const { response } = events.at(-1);
  assert.deepEqual(outputs(response), ['3', 'out of order', 'Tool not found: elsewhere']);
  assert.equal((await client.responses.retrieve(response.id)).status, 'completed');
});

test('a function that outlasts its deadline is left out', async () => {
  const refused = [];
  const slow = new ClientTools({ onRefused: (call, error) => refused.push([call.name, error.code]) });
  let done;
  const ended = new Promise((resolve) => {
    done = resolve;
  });
  slow.register({
    name: 'slow',
    execute: async () => {
      await new Promise((resolve) => setTimeout(resolve, 1500));
      done();
      return 'too late';
    },
  });
  const response = await slow.run(client, { model: 'caller', input: 'slow {}', agent: 'hurried' });
  assert.deepEqual(outputs(response), ['Client tool call timed out']);
  assert.equal(response.status, 'completed');
  assert.equal(response.output_text, response.output.at(-1).content[0].text);
  await ended;
  while (refused.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual(refused, [['slow', 'input_expired']]);
});

/** A proxy before the gateway that breaks the first two streams after some bytes. */
async function cuttingProxy(bytes) {
  const target = new URL(process.env.SDK_OPEN_URL);
  const proxy = { cuts: 2 };
  const server = net.createServer((socket) => {
    const upstream = net.connect(Number(target.port), target.hostname);
    let left = Infinity;
    socket.on('data', (data) => {
      if (left === Infinity && proxy.cuts > 0 && data.includes('stream')) {
        proxy.cuts -= 1;
        left = bytes;
      }
      upstream.write(data);
    });
    upstream.on('data', (data) => {
      socket.write(data.subarray(0, Math.min(left, data.length)));
      left -= data.length;
      if (left <= 0) {
        socket.end();
        upstream.destroy();
      }
    });
    for (const [one, other] of [
      [socket, upstream],
      [upstream, socket],
    ]) {
      one.on('close', () => other.destroy());
      one.on('error', () => other.destroy());
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  proxy.url = `http://127.0.0.1:${server.address().port}${target.pathname}`;
  proxy.close = () => server.close();
  return proxy;
}

test('a connection that is cut twice is resumed', async () => {
  const proxy = await cuttingProxy(5000);
  try {
    const through = new sdk.OpenAI({ baseURL: proxy.url, apiKey: 'unused', maxRetries: 0, timeout: 30_000 });
    const input = Array.from({ length: 20 }, (_, n) => `add {"a": ${n}, "b": 2}`).join('\n');
    const events = await all(tools.stream(through, { model: 'caller', input }));
    assert.equal(proxy.cuts, 0);
    inOrder(events);
    assert.deepEqual(outputs(events.at(-1).response), Array.from({ length: 20 }, (_, n) => `${n + 2}`));
  } finally {
    proxy.close();
  }
});

test('a request that is refused is an error at once', async () => {
  const error = await rejected(tools.run(client, { model: 'caller', input: 'add {}', store: false }));
  assert.deepEqual([error.status, error.param], [400, 'antwort.client_tools']);
});

const asking = {
  type: 'mcp',
  server_label: 'shop',
  server_url: `${process.env.SDK_MCP_URL}/asking`,
  require_approval: 'never',
};

const said = (response) => response.output.at(-1).content[0].text;

test('the user is asked what a tool of a server wants to know', async () => {
  const seen = [];
  const answering = new ClientTools({
    onQuestion: (question) => {
      seen.push([question.mode, question.message]);
      return { action: 'accept', content: { size: 'XL' } };
    },
  });
  const response = await answering.run(client, { model: 'caller', input: 'order {}', tools: [asking] });
  assert.equal(said(response), 'The tools said: ordered in XL');
  assert.deepEqual(seen, [['form', 'Which size?']]);
  const failing = new ClientTools({ onQuestion: () => Promise.reject(new Error('no window')) });
  const other = await failing.run(client, { model: 'caller', input: 'order {}', tools: [asking] });
  assert.equal(said(other), 'The tools said: not ordered: cancel');
});
