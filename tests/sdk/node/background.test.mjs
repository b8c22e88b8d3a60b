// Responses that are made in the background.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { all, client } from './helpers.mjs';

test('a background response is polled', async () => {
  let response = await client.responses.create({ model: 'scripted', input: 'one two three', background: true });
  assert.deepEqual([response.status, response.background], ['queued', true]);
  for (let tries = 0; ['queued', 'in_progress'].includes(response.status) && tries < 400; tries += 1) {
    await sleep(50);
    response = await client.responses.retrieve(response.id);
  }
  assert.deepEqual([response.status, response.output_text], ['completed', 'You said: one two three']);
});

test('a background response is streamed', async () => {
  const body = { model: 'scripted', input: 'one two three', background: true, stream: true };
  const events = await all(await client.responses.create(body));
  assert.deepEqual(
    events.slice(0, 3).map((event) => event.type),
    ['response.created', 'response.queued', 'response.in_progress'],
  );
  const last = events.at(-1);
  assert.equal(last.type, 'response.completed');
  assert.deepEqual(await all(await client.responses.retrieve(last.response.id, { stream: true })), events);
});
