// Notices of the end of background responses, as the gateway delivers them, checked and read by `webhooks.unwrap`.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { rejected, sdk, withKey } from './helpers.mjs';

const client = withKey(process.env.SDK_KEY_HOOKED);
const secret = process.env.SDK_HOOK_SECRET;
const url = new URL(process.env.SDK_HOOK_URL);

const receiver = createServer(async (request, response) => {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  response.writeHead(request.url === url.pathname + url.search ? 204 : 404).end();
  receiver.emit('notice', { headers: request.headers, body: Buffer.concat(pieces).toString() });
});

before(async () => {
  receiver.listen(Number(url.port), url.hostname);
  await once(receiver, 'listening');
});

after(() => {
  receiver.closeAllConnections();
  receiver.close();
});

/** A background response, and the notice of its end. */
async function told(model, meanwhile = async () => {}) {
  const notice = once(receiver, 'notice', { signal: AbortSignal.timeout(20_000) });
  const response = await client.responses.create({ model, input: 'hi', background: true });
  await meanwhile(response);
  return { response, ...(await notice)[0] };
}

const ends = {
  'response.completed': 'scripted',
  'response.incomplete': 'filtered',
  'response.failed': 'err-400',
  'response.cancelled': 'slow',
};

for (const [kind, model] of Object.entries(ends)) {
  test(`${kind} is told`, async () => {
    const cancel = (response) => client.responses.cancel(response.id);
    const { response, headers, body } = await told(model, kind === 'response.cancelled' ? cancel : undefined);
    const event = await client.webhooks.unwrap(body, headers, secret);
    assert.deepEqual([event.object, event.type, event.data.id], ['event', kind, response.id]);
    assert.equal(event.id, headers['webhook-id']);
    assert.ok(event.id.startsWith('evt_') && event.created_at >= response.created_at);
    // It is stored before it is told.
    assert.equal(`response.${(await client.responses.retrieve(event.data.id)).status}`, kind);
  });
}

test('a notice that was changed is refused', async () => {
  const { response, headers, body } = await told('scripted');
  // Headers as `fetch` has them.
  assert.equal((await client.webhooks.unwrap(body, new Headers(headers), secret)).data.id, response.id);
  const sent = Number(headers['webhook-timestamp']);
  const changed = [
    [body.replace(response.id, 'resp_0'), headers, secret],
    [`${body} `, headers, secret],
    [body, { ...headers, 'webhook-id': 'evt_0' }, secret],
    [body, { ...headers, 'webhook-timestamp': String(sent + 1) }, secret],
    [body, { ...headers, 'webhook-timestamp': String(sent - 600) }, secret],
    [body, headers, `whsec_${'A'.repeat(44)}`],
  ];
  for (const notice of changed) {
    assert.ok((await rejected(client.webhooks.unwrap(...notice))) instanceof sdk.InvalidWebhookSignatureError);
  }
});
