// Compaction: a history gives way to a sealed summary, which is the next input as it comes.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { client, reached } from './helpers.mjs';

const HISTORY = [
  { role: 'user', content: 'Build a boat.' },
  { role: 'assistant', content: 'I bought planks.' },
];

test('compact gives the next input', async () => {
  const made = await client.responses.compact({ model: 'scripted', input: HISTORY });
  assert.equal(made.object, 'response.compaction');
  assert.ok(made.usage.total_tokens > 0);
  assert.deepEqual(made.output.map((item) => item.type), ['message', 'compaction']);
  const input = [...made.output, { role: 'user', content: 'Go on.' }];
  const { messages } = reached(await client.responses.create({ model: 'mirror', input }));
  assert.deepEqual([messages.length, messages[0].content, messages[2].content], [3, 'Build a boat.', 'Go on.']);
  assert.match(messages[1].content, /<summary>/);
});

test('a stored response is compacted', async () => {
  const first = await client.responses.create({ model: 'scripted', input: 'Build a boat.' });
  const made = await client.responses.compact({ model: 'scripted', previous_response_id: first.id });
  assert.deepEqual(made.output.map((item) => item.type), ['message', 'compaction']);
});
