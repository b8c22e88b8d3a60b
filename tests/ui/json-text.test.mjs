// JSON as text: nothing changes but the spaces, and nothing hides.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { indented, parseJson, reveal, shown } from '../../ui/lib/dom.js';

test('JSON is indented without being read', () => {
  assert.equal(indented('{"a":1.00,"b":[1e400,12345678901234567890],"c":{},"d":[ ],"a":"two"}'), '{\n  "a": 1.00,\n  "b": [\n    1e400,\n    12345678901234567890\n  ],\n  "c": {},\n  "d": [],\n  "a": "two"\n}');
  assert.equal(indented('"a, {b}: \\"c\\""'), '"a, {b}: \\"c\\""');
  assert.equal(indented('not json {'), 'not json {');
  assert.equal(indented(''), '');
  for (const text of ['{"a":"\u202eevil\u202c"}', '[true,false,null,-0.5e-3]', '{"é":"😀"}']) {
    assert.deepEqual(JSON.parse(indented(text)), JSON.parse(text));
  }
});

test('characters that are not seen are escaped', () => {
  assert.equal(indented('{"a":"x\u202ey\u200bz"}'), '{\n  "a": "x\\u202ey\\u200bz"\n}');
  assert.equal(reveal('a\nb\tc\rd\u0000'), 'a\nb\tc\\u000dd\\u0000');
  assert.equal(reveal('\u{e0041}'), '\\udb40\\udc41');
  assert.equal(reveal('a\nb', false), 'a\\u000ab');
  assert.equal(reveal('a\u200db'), 'a\\u200db');
  for (const text of ['👨‍👩‍👧 ⚠️', 'می‌خواهم', 'क्‍ष']) assert.equal(reveal(text), text);
  assert.equal(reveal('äöü 😀 日本語 שלום'), 'äöü 😀 日本語 שלום');
});

test('long and deep texts are shown in time', () => {
  const begun = Date.now();
  indented('['.repeat(100_000));
  indented(`{"a":"${'\\"'.repeat(400_000)}"}`);
  indented(`[${'1,'.repeat(400_000)}1]`);
  reveal('\u202e'.repeat(100_000));
  assert.ok(Date.now() - begun < 3000, String(Date.now() - begun));
});

test('values are shown as JSON, texts as they are', () => {
  assert.equal(shown('plain'), 'plain');
  assert.equal(shown('{"a":1}'), '{\n  "a": 1\n}');
  assert.equal(shown({ a: [1] }), '{\n  "a": [\n    1\n  ]\n}');
  assert.equal(shown(undefined), '');
});

test('it is said where JSON is wrong, as far as the browser tells', () => {
  assert.equal(parseJson('{"a": 1}').error, null);
  assert.match(String(parseJson(' ').error), /no JSON/);
  assert.match(String(parseJson('{\n  "a": 1\n  "b": 2\n}').error), /line 3/);
  assert.match(String(parseJson('{\n"a": x}').error), /x/);
  assert.ok(String(parseJson('<html>\u202e'.repeat(1000)).error).length < 220);
  assert.doesNotMatch(String(parseJson('\u202e').error), /\u202e/);
});
