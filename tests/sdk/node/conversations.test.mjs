// Conversations: their routes, and the responses that are made in them.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { all, client, reached, rejected, sdk } from './helpers.mjs';

const user = (...words) => words.map((content) => ({ role: 'user', content }));
const text = (items) => items.map((item) => (item.type === 'message' ? item.content[0].text : item.type));
const said = async ({ id }) => text(await all(client.conversations.items.list(id, { order: 'asc' })));

test('create, retrieve, update and delete', async () => {
  const made = await client.conversations.create({ metadata: { a: 'b' }, items: user('hello') });
  assert.match(made.id, /^conv_/);
  assert.deepEqual(await client.conversations.retrieve(made.id), made);
  const changed = await client.conversations.update(made.id, { metadata: { c: 'd' } });
  assert.deepEqual(changed, { ...made, metadata: { c: 'd' } });
  assert.deepEqual(await said(made), ['hello']);
  const deleted = await client.conversations.delete(made.id);
  assert.deepEqual({ ...deleted }, { id: made.id, object: 'conversation.deleted', deleted: true });
  assert.ok((await rejected(client.conversations.retrieve(made.id))) instanceof sdk.NotFoundError);
});

test('items', async () => {
  const made = await client.conversations.create({});
  const words = ['one', 'two', 'three', 'four', 'five'];
  const added = await client.conversations.items.create(made.id, { items: user(...words) });
  assert.deepEqual(text(added.data), words);
  const page = await client.conversations.items.list(made.id, { limit: 2 });
  assert.deepEqual(text(page.data), ['five', 'four']);
  assert.deepEqual(text(await all(page)), words.toReversed());
  const third = added.data[2];
  const place = { conversation_id: made.id };
  assert.deepEqual(await client.conversations.items.retrieve(third.id, place), third);
  assert.equal((await client.conversations.items.delete(third.id, place)).id, made.id);
  assert.deepEqual(await said(made), ['one', 'two', 'four', 'five']);
  const many = rejected(client.conversations.items.create(made.id, { items: user(...Array(21).fill('x')) }));
  assert.equal((await many).code, 'array_above_max_length');
});

test('responses in a conversation', async () => {
  const made = await client.conversations.create({ items: user('zero') });
  const first = await client.responses.create({ model: 'scripted', input: 'one', conversation: made.id });
  assert.deepEqual(first.conversation, { id: made.id });
  await client.responses.stream({ model: 'scripted', input: 'two', conversation: { id: made.id } }).finalResponse();
  const last = await client.responses.create({ model: 'mirror', input: 'three', conversation: made.id });
  assert.deepEqual(reached(last).messages.map((message) => message.content), [
    'zero', 'one', 'You said: one', 'two', 'You said: two', 'three',
  ]);
  assert.equal((await said(made)).length, 7);
});

test('one response at a time', async () => {
  const made = await client.conversations.create({});
  const ask = (input) =>
    client.responses.create({ model: 'slow', input, conversation: made.id }, { maxRetries: 0 });
  const ended = await Promise.allSettled([ask('first'), ask('second')]);
  const refused = ended.filter(({ status }) => status === 'rejected').map(({ reason }) => reason);
  assert.equal(refused.length, 1);
  assert.ok(refused[0] instanceof sdk.ConflictError);
  assert.equal(refused[0].code, 'conversation_locked');
  assert.equal((await said(made)).length, 2);
});

test('what cannot be', async () => {
  const made = await client.conversations.create({});
  const ask = (more) =>
    rejected(client.responses.create({ model: 'scripted', input: 'x', conversation: made.id, ...more }));
  assert.ok((await ask({ conversation: 'conv_unknown' })) instanceof sdk.NotFoundError);
  assert.equal((await ask({ store: false })).param, 'conversation');
  assert.equal((await ask({ previous_response_id: 'resp_1' })).code, 'mutually_exclusive_parameters');
});
