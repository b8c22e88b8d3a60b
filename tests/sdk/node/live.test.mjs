// Streams that are resumed where they broke, and responses that are cancelled.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { all, client, rejected } from './helpers.mjs';

const goesOn = { antwort: { on_disconnect: 'continue' } };

/** The first events of a stream that goes on without its client. */
async function broken(count) {
  const stream = await client.responses.create({
    model: 'scripted',
    input: 'one two three four five six',
    stream: true,
    ...goesOn,
  });
  const seen = [];
  for await (const event of stream) {
    seen.push(event);
    if (seen.length === count) break;
  }
  return seen;
}

test('a stream is resumed behind the last event', async () => {
  const seen = await broken(5);
  const query = { stream: true, starting_after: seen.at(-1).sequence_number };
  const events = [...seen, ...(await all(await client.responses.retrieve(seen[0].response.id, query)))];
  assert.deepEqual(
    events.map((event) => event.sequence_number),
    events.map((_, number) => number),
  );
  assert.equal(events.at(-1).type, 'response.completed');
  const text = events.map((event) => (event.type === 'response.output_text.delta' ? event.delta : '')).join('');
  assert.equal(text, 'You said: one two three four five six');
});

test('a response without a log cannot be streamed again', async () => {
  const made = await client.responses.create({ model: 'scripted', input: 'hi' });
  const error = await rejected(client.responses.retrieve(made.id, { stream: true }));
  assert.deepEqual([error.status, error.code, error.param], [400, 'unsupported_parameter', 'stream']);
});

test('an ended response cannot be cancelled', async () => {
  const made = await client.responses.create({ model: 'scripted', input: 'hi' });
  const error = await rejected(client.responses.cancel(made.id));
  assert.deepEqual([error.status, error.code], [400, 'response_not_cancellable']);
});
