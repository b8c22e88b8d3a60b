// An API error of each class, with what the SDK needs to act on it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { client, rejected, sdk, withKey } from './helpers.mjs';

const { SDK_KEY_FULL, SDK_KEY_READER, SDK_KEY_OTHER } = process.env;

const ask = (client, fields, options) => client.responses.create({ model: 'scripted', input: 'hi', ...fields }, options);

async function errorOf(promise, Class) {
  const error = await rejected(promise);
  assert.equal(error.constructor, Class, `${error}`);
  assert.match(error.requestID, /^req_/);
  assert.deepEqual(Object.keys(error.error).sort(), ['code', 'message', 'param', 'type']);
  return error;
}

for (const [fields, param, code] of [
  [{ temperature: 3 }, 'temperature', 'decimal_above_max_value'],
  [{ nonsense: 1 }, 'nonsense', 'unknown_parameter'],
  [{ tools: [{ type: 'nonsense' }] }, 'tools[0].type', 'invalid_value'],
  [{ previous_response_id: 'resp_unknown' }, 'previous_response_id', 'previous_response_not_found'],
]) {
  test(`bad request: ${param}`, async () => {
    for (const stream of [false, true]) {
      const error = await errorOf(ask(client, { ...fields, stream }), sdk.BadRequestError);
      assert.deepEqual([error.status, error.param, error.code, error.type], [400, param, code, 'invalid_request_error']);
    }
    await errorOf(client.responses.stream({ model: 'scripted', input: 'hi', ...fields }).finalResponse(), sdk.BadRequestError);
  });
}

test('authentication', async () => {
  const error = await errorOf(ask(withKey('wrong')), sdk.AuthenticationError);
  assert.equal(error.code, 'invalid_api_key');
  await errorOf(ask(withKey('wrong'), {}, { headers: { Authorization: null } }), sdk.AuthenticationError);
  assert.ok(await ask(withKey(SDK_KEY_FULL)));
});

test('permission', async () => {
  const error = await errorOf(ask(withKey(SDK_KEY_READER)), sdk.PermissionDeniedError);
  assert.match(error.message, /responses:create/);
});

test('what others own is not found', async () => {
  const made = await ask(withKey(SDK_KEY_FULL));
  await errorOf(withKey(SDK_KEY_OTHER).responses.retrieve(made.id), sdk.NotFoundError);
});

for (const [upstream, Class, status, code] of [
  [400, sdk.BadRequestError, 400, 'invalid_prompt'],
  [401, sdk.InternalServerError, 502, 'upstream_auth_error'],
  [404, sdk.NotFoundError, 404, 'model_not_found'],
  [422, sdk.UnprocessableEntityError, 422, 'invalid_shape'],
  [429, sdk.RateLimitError, 429, 'rate_limit_exceeded'],
  [500, sdk.InternalServerError, 502, 'upstream_error'],
  [503, sdk.InternalServerError, 503, 'upstream_unavailable'],
]) {
  test(`upstream ${upstream}`, async () => {
    const errors = await Promise.all([false, true].map((stream) =>
      errorOf(ask(client, { model: `err-${upstream}`, stream }), Class)));
    for (const error of errors) {
      assert.deepEqual([error.status, error.code], [status, code]);
      if (upstream === 401) assert.doesNotMatch(error.message, /sk-of-the-gateway/);
      if (upstream === 429) assert.equal(error.headers.get('retry-after'), '1');
    }
  });
}

/** How often a client with so many retries asks. */
async function triesOf(client, maxRetries, model) {
  let tries = 0;
  const counting = client.withOptions({
    maxRetries,
    fetch: (...request) => {
      tries++;
      return fetch(...request);
    },
  });
  await errorOf(ask(counting, { model }), sdk.InternalServerError);
  return tries;
}

test('what the gateway has tried again is not tried again by the client', async () => {
  for (const maxRetries of [0, 2]) assert.equal(await triesOf(client, maxRetries, 'err-503'), 1);
});

test("other retries are the client's choice", async () => {
  for (const maxRetries of [0, 2]) {
    assert.equal(await triesOf(client, maxRetries, 'err-500'), maxRetries + 1);
    // This gateway tries nothing again.
    assert.equal(await triesOf(withKey(SDK_KEY_FULL), maxRetries, 'err-503'), maxRetries + 1);
  }
});

test('too large', async () => {
  const error = await errorOf(ask(withKey(SDK_KEY_FULL), { input: 'x'.repeat(100_000) }), sdk.APIError);
  assert.deepEqual([error.status, error.code], [413, 'request_too_large']);
});

test('wrong media type', async () => {
  const error = await errorOf(ask(client, {}, { headers: { 'Content-Type': 'text/plain' } }), sdk.APIError);
  assert.deepEqual([error.status, error.code], [415, 'unsupported_media_type']);
});

test('impatience', async () => {
  const error = await rejected(ask(client, { model: 'slow' }, { timeout: 300 }));
  assert.equal(error.constructor, sdk.APIConnectionTimeoutError);
});
