// The request that the form and the JSON editor share.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asSent, attachments, curl, describeTool, getAt, isSameTool, readInput, setAt, withTools, writeInput } from '../../ui/protocol.js';

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

test('a copied request with an MCP server can wait for its user: it is streamed, as the one that is sent', () => {
  const body = withTools({ model: 'm' }, [{ type: 'mcp', server_label: 'shop' }]);
  assert.deepEqual(body, { model: 'm', tools: [{ type: 'mcp', server_label: 'shop' }], antwort: { elicitation: ['form', 'url'] } });
  assert.deepEqual(asSent(body), { stream: true, ...body });
  assert.match(curl('http://h/v1', asSent(body)), /^curl -N [^]*"stream": true/);
  assert.equal(asSent({ stream: false }).stream, false);
});

test('what was set for MCP servers goes with the last of them, and not before', () => {
  const shop = { type: 'mcp', server_label: 'shop' };
  const own = { type: 'mcp', server_label: 'antwort' };
  const both = withTools(withTools({}, [shop]), [shop, own]);
  assert.deepEqual(both.antwort, { elicitation: ['form', 'url'] });
  assert.deepEqual(withTools(both, [own]), { tools: [own] });
  assert.deepEqual(withTools(both, []), {});
  // What somebody has taken out is not put in again with the next server.
  assert.equal(withTools({ tools: [shop] }, [shop, { ...shop, server_label: 'ops' }]).antwort, undefined);
  assert.equal(withTools({ store: false }, [shop]).antwort, undefined);
});

test('a server, a function or a tool of the gateway is the same by its name, whatever else is set', () => {
  const shop = { type: 'mcp', server_label: 'shop' };
  assert.ok(isSameTool({ ...shop, require_approval: 'always', server_url: 'https://x.example' }, shop));
  assert.ok(isSameTool({ type: 'antwort:calculate' }, { type: 'antwort:calculate' }));
  assert.ok(!isSameTool({ type: 'function', name: 'f' }, { type: 'function', name: 'g' }));
  assert.ok(!isSameTool(null, shop));
});
