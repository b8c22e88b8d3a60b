// The SDK's own retries under one `Idempotency-Key`: one response, for which the model is asked once.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { connect, createServer } from 'node:net';
import { test } from 'node:test';
import { all, client, rejected, sdk } from './helpers.mjs';

const gateway = new URL(process.env.SDK_OPEN_URL);

/**
 * A TCP proxy that breaks its first connection once the request was passed on: after so many bytes of the answer, and not
 * before something has happened.
 */
async function cuttingProxy(answerBytes, happened = async () => {}) {
  let connections = 0;
  const server = createServer((socket) => {
    const isCut = ++connections === 1;
    const upstream = connect(Number(gateway.port), gateway.hostname);
    let received = Buffer.alloc(0);
    let left = answerBytes;
    // The request arrives: a connection that is reset could lose what was passed on.
    const end = () => (socket.destroy(), upstream.end());
    socket.on('data', (data) => {
      upstream.write(data, () => {
        received = Buffer.concat([received, data]);
        const head = received.indexOf('\r\n\r\n');
        const length = /content-length: *(\d+)/i.exec(received.toString('latin1'));
        const isWhole = head >= 0 && length && received.length >= head + 4 + Number(length[1]);
        if (isCut && answerBytes === 0 && isWhole) happened().then(end, end);
      });
    });
    upstream.on('data', (data) => {
      if (!isCut) return socket.write(data);
      if (answerBytes === 0) return;
      socket.write(data.subarray(0, left), () => left <= 0 && end());
      left -= data.length;
    });
    for (const side of [socket, upstream]) side.on('error', end).on('close', end);
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  const url = `http://127.0.0.1:${server.address().port}${gateway.pathname}`;
  return { url, connections: () => connections, close: () => server.close() };
}

/** The sum of a metric, of the series with this label. */
async function metric(name, label) {
  const text = await (await fetch(new URL('/metrics', gateway))).text();
  const lines = text.split('\n').filter((line) => line.startsWith(`${name}{`) && line.includes(label));
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

/** How often the gateway has asked this model. */
const asked = (model) => metric('gen_ai_client_operation_duration_seconds_count', `gen_ai_request_model="${model}"`);

/** Runs that were begun with a key. */
const begun = () => metric('antwort_idempotency_keys_total', 'outcome="new"');

/** The ids of the stored responses of this model. */
async function stored(model) {
  const page = await client.get('/responses?limit=100');
  return page.data.filter((response) => response.model === model).map((response) => response.id);
}

const retrying = (proxy) => client.withOptions({ baseURL: proxy.url, maxRetries: 3 });

for (const stream of [false, true]) {
  for (const answerBytes of [0, 10]) {
    test(`a retry after a connection that broke ${answerBytes} bytes into the answer, stream: ${stream}`, async () => {
      const [model, headers] = [`once-${randomUUID()}`, { 'Idempotency-Key': randomUUID() }];
      const proxy = await cuttingProxy(answerBytes);
      const made = await retrying(proxy).responses.create({ model, input: 'hi', stream }, { headers });
      const response = stream ? (await all(made)).at(-1).response : made;
      proxy.close();
      assert.ok(proxy.connections() >= 2, 'the first was cut');
      assert.equal(response.output[0].content[0].text, 'You said: hi');
      assert.deepEqual(await stored(model), [response.id]);
      assert.equal(await asked(model), 1);
    });
  }
}

test('a retry while the first runs waits for it', async () => {
  const [before, headers] = [await asked('slow'), { 'Idempotency-Key': randomUUID() }];
  const runs = await begun();
  const proxy = await cuttingProxy(0, async () => {
    while ((await begun()) === runs);
  });
  const made = retrying(proxy).responses.create({ model: 'slow', input: 'hi' }, { headers });
  const { data, response } = await made.withResponse();
  proxy.close();
  assert.equal(response.headers.get('idempotent-replayed'), 'true');
  assert.equal(data.output_text, 'You said: hi');
  assert.equal(await asked('slow'), before + 1);
});

test('the key of another request is not retried', async () => {
  const [model, headers] = [`once-${randomUUID()}`, { 'Idempotency-Key': randomUUID() }];
  await client.responses.create({ model, input: 'hi' }, { headers });
  const again = client.responses.create({ model, input: 'other' }, { headers, maxRetries: 3 });
  const error = await rejected(again);
  assert.equal(error.constructor, sdk.ConflictError);
  assert.deepEqual([error.status, error.code], [409, 'idempotency_key_reused']);
  assert.equal(await asked(model), 1);
});
