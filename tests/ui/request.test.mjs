// The request that the form and the JSON editor share.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { attachments, describeTool, getAt, readInput, setAt, writeInput } from '../../ui/request.js';

test('fields are set and taken away by their path, and what is unknown stays', () => {
  const body = { model: 'm', antwort: { custom: 1 } };
  const more = setAt(body, 'antwort.limits.max_turns', 3);
  assert.deepEqual(more, { model: 'm', antwort: { custom: 1, limits: { max_turns: 3 } } });
  assert.equal(getAt(more, 'antwort.limits.max_turns'), 3);
  assert.deepEqual(setAt(more, 'antwort.limits.max_turns', undefined), body);
  assert.deepEqual(setAt({ a: { b: { c: 1 } } }, 'a.b.c', undefined), {});
  assert.deepEqual(setAt({ a: 'text' }, 'a.b', 1), { a: { b: 1 } });
  assert.equal(getAt({ a: null }, 'a'), undefined);
  assert.equal(getAt({}, 'a.b.c'), undefined);
  assert.deepEqual(body, { model: 'm', antwort: { custom: 1 } });
});

test('the input is a text and an image, or JSON alone', () => {
  for (const [text, image] of [['', null], ['hi', null], ['hi', 'data:x'], ['', 'data:x']]) assert.deepEqual(readInput(writeInput(text, image)), { text, image });
  assert.deepEqual(readInput([{ type: 'message', role: 'user', content: 'hi' }]), { text: 'hi', image: null });
  const part = { type: 'input_text', text: 'a' };
  for (const input of [7, {}, [], [{ role: 'system', content: 'x' }], [{ role: 'user' }], [{ role: 'user', content: [part, part] }], [{ role: 'user', content: [{ type: 'input_file' }] }], [null], [{ role: 'user', content: 'a' }, { role: 'user', content: 'b' }]]) {
    assert.equal(readInput(input), null);
  }
});

test('attached files have short names until they are sent', () => {
  const files = attachments();
  const short = files.add('../my photo".png', 'data:image/png;base64,AAAA');
  assert.equal(short, 'data:image/png;base64,ATTACHED_1_.._my_photo_.png');
  const body = { input: writeInput('What is it?', short), other: [short, `${short}x`, null, 3] };
  const sent = files.expand(body);
  assert.equal(sent.input[0].content[1].image_url, 'data:image/png;base64,AAAA');
  assert.deepEqual(sent.other, ['data:image/png;base64,AAAA', `${short}x`, null, 3]);
  assert.equal(body.input[0].content[1].image_url, short);
  assert.notEqual(files.add('b.png', 'data:image/png;base64,BBBB'), short);
});

test('each tool has words', () => {
  const tools = [{ type: 'antwort:calculate' }, { type: 'mcp', server_label: 'antwort' }, { type: 'mcp', server_label: 'docs' }, { type: 'mcp', server_label: 'x', server_url: 'https://x.example/mcp' }, { type: 'function', name: 'f' }, { type: 'web_search' }, {}, null, 'x'];
  assert.deepEqual(tools.map((tool) => describeTool(tool)[0]), ['calculate', 'All tools of the gateway', 'docs', 'x', 'f', 'web_search', 'tool without a type', 'tool without a type', 'tool without a type']);
});
