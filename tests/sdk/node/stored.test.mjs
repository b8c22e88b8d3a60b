// What is kept, and what is served beside responses.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { all, client, reached, rejected, sdk } from './helpers.mjs';

test('retrieve', async () => {
  const made = await client.responses.create({ model: 'scripted', input: 'keep', metadata: { a: 'b' } });
  assert.deepEqual(await client.responses.retrieve(made.id), made);
});

test('delete', async () => {
  const made = await client.responses.create({ model: 'scripted', input: 'forget' });
  await client.responses.delete(made.id);
  assert.ok((await rejected(client.responses.retrieve(made.id))) instanceof sdk.NotFoundError);
  assert.ok((await rejected(client.responses.delete(made.id))) instanceof sdk.NotFoundError);
});

test('not stored', async () => {
  const made = await client.responses.create({ model: 'scripted', input: 'secret', store: false });
  assert.ok((await rejected(client.responses.retrieve(made.id))) instanceof sdk.NotFoundError);
});

test('input items, page by page', async () => {
  const words = ['one', 'two', 'three', 'four', 'five'];
  const input = words.map((content) => ({ role: 'user', content }));
  const made = await client.responses.create({ model: 'scripted', input });
  const text = (items) => items.map((item) => item.content[0].text);
  const page = await client.responses.inputItems.list(made.id, { order: 'asc', limit: 2 });
  assert.deepEqual(text(page.data), ['one', 'two']);
  assert.equal(page.has_more, true);
  assert.deepEqual(text(await all(page)), words);
  assert.deepEqual(text(await all(client.responses.inputItems.list(made.id, { limit: 3 }))), words.toReversed());
});

test('a chain', async () => {
  const first = await client.responses.create({ model: 'scripted', input: 'one', instructions: 'Only now.' });
  const second = await client.responses.stream({ model: 'scripted', input: 'two', previous_response_id: first.id }).finalResponse();
  const third = await client.responses.create({ model: 'mirror', input: 'three', previous_response_id: second.id });
  assert.equal(third.previous_response_id, second.id);
  assert.deepEqual(reached(third).messages.map((message) => message.content), [
    'one', 'You said: one', 'two', 'You said: two', 'three',
  ]);
});

test('models', async () => {
  const ids = (await all(client.models.list())).map((model) => model.id);
  assert.ok(ids.includes('scripted'));
  assert.equal((await client.models.retrieve('vendor/model:7b')).id, 'vendor/model:7b');
});

test('chat completions', async () => {
  const messages = [{ role: 'user', content: 'hello' }];
  const completion = await client.chat.completions.create({ model: 'scripted', messages });
  assert.equal(completion.choices[0].message.content, 'You said: hello');
  const stream = client.chat.completions.stream({ model: 'scripted', messages });
  assert.equal(await stream.finalContent(), 'You said: hello');
});

test('embeddings', async () => {
  const result = await client.embeddings.create({ model: 'scripted', input: ['a', 'four'] });
  assert.deepEqual(result.data.map((row) => Array.from(row.embedding)), [[1, 0.5], [4, 0.5]]);
});
