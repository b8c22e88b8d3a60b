// What a form asks for, by a schema, and what it then says.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fieldsOf, valueOf } from '../../ui/forms.js';

/** A filled-in form as its controls would read it. */
const raw = (value) => {
  if (Array.isArray(value)) return value.map(raw);
  return typeof value === 'object' ? new Map(Object.entries(value).map(([key, inner]) => [key, raw(inner)])) : value;
};
const object = (properties, required = []) => ({ type: 'object', properties, required });
const read = (schema, value) => valueOf(fieldsOf(schema), raw(value));
const kinds = (schema) => Object.fromEntries((fieldsOf(schema).fields ?? []).map((field) => [field.key, field.kind]));

test('each type has its field, and what no field says is JSON', () => {
  const schema = object({
    a: { type: 'string' }, b: { type: 'number' }, c: { type: 'integer' }, d: { type: 'boolean' }, e: { enum: ['x', 2, null] },
    f: { type: 'array', items: { type: 'string' } }, g: { type: 'array', items: { enum: ['x', 'y'] } }, h: object({ i: { type: 'string' } }),
    j: { type: 'object' }, k: { anyOf: [{ type: 'string' }, { type: 'number' }] }, l: { type: ['string', 'null'] }, m: { const: 1 },
    n: { type: 'array' }, o: true, p: {}, q: { oneOf: [{ const: 'a', title: 'A' }, { const: 'b', title: 'B' }] }, r: { anyOf: [{ type: 'integer' }, { type: 'null' }] },
    s: { type: ['string', 'number'] }, t: null, u: { type: 'array', items: object({ v: { type: 'integer' } }) }, w: { type: 'object', additionalProperties: { type: 'string' } },
  });
  assert.deepEqual(kinds(schema), {
    a: 'text', b: 'number', c: 'integer', d: 'boolean', e: 'choice', f: 'list', g: 'choices', h: 'group', j: 'json', k: 'json', l: 'text', m: 'choice',
    n: 'json', o: 'json', p: 'json', q: 'choice', r: 'integer', s: 'json', t: 'json', u: 'list', w: 'json',
  });
});

test('a form that is filled in gives its value', () => {
  const schema = object({
    name: { type: 'string' }, count: { type: 'integer' }, price: { type: 'number' }, on: { type: 'boolean' }, size: { enum: ['S', 'XL'] },
    tags: { type: 'array', items: { type: 'string' } }, days: { type: 'array', items: { enum: ['mo', 'tu'] } }, at: object({ city: { type: 'string' } }, ['city']),
    rows: { type: 'array', items: object({ n: { type: 'integer' } }) }, more: {},
  });
  const filled = { name: 'Ada', count: ' 3 ', price: '-1.5e2', on: 'false', size: '1', tags: ['a', 'b'], days: ['1'], at: { city: 'Oslo' }, rows: [{ n: '1' }, { n: '2' }], more: '{"x":[1]}' };
  assert.deepEqual(read(schema, filled), {
    value: { name: 'Ada', count: 3, price: -150, on: false, size: 'XL', tags: ['a', 'b'], days: ['tu'], at: { city: 'Oslo' }, rows: [{ n: 1 }, { n: 2 }], more: { x: [1] } },
    faults: [],
  });
});

test('what is left empty is left out, or is a fault', () => {
  const schema = object({ a: { type: 'string' }, b: { type: 'integer' }, c: object({ d: { type: 'string' } }, ['d']), e: { type: 'array', items: { type: 'string' } } });
  const empty = { a: '', b: '', c: { d: '' }, e: [] };
  assert.deepEqual(read(schema, empty), { value: {}, faults: [] });
  const all = { ...schema, required: ['a', 'b', 'c', 'e'] };
  const { value, faults } = read(all, empty);
  assert.deepEqual(value, { c: {}, e: [] });
  assert.deepEqual(faults.map((fault) => fault.path), ['/a', '/b', '/c/d']);
  assert.deepEqual(read({ ...schema, required: ['c'] }, { c: { d: 'x' } }), { value: { c: { d: 'x' } }, faults: [] });
});

test('values that the schema does not allow are faults with their path', () => {
  const cases = [
    [{ type: 'integer' }, '1.5', /whole/], [{ type: 'integer' }, 'one', /number/], [{ type: 'number' }, '0x10', /number/], [{ type: 'number' }, '1e999', /kept exactly/],
    [{ type: 'integer' }, '9007199254740993', /kept exactly/], [{ type: 'number', minimum: 2 }, '1', /at least 2/], [{ type: 'number', exclusiveMaximum: 2 }, '2', /less than 2/],
    [{ type: 'string', maxLength: 2 }, 'abc', /length at most 2/], [{ type: 'string', minLength: 4 }, 'abc', /length at least 4/],
    [{ enum: ['a'] }, '7', /choices/], [{}, '{"a":', /not JSON/], [{}, '{\n"a": x}', /not JSON/],
    [{ type: 'array', items: { type: 'string' }, minItems: 2 }, ['a'], /at least 2/], [{ type: 'array', items: { type: 'string' }, maxItems: 1 }, ['a', 'b'], /at most 1/],
  ];
  for (const [schema, typed, message] of cases) {
    const { faults } = read(object({ 'a/b': schema }), { 'a/b': typed });
    assert.equal(faults.length, 1, JSON.stringify(schema));
    assert.equal(faults[0].path, '/a~1b');
    assert.match(faults[0].message, message);
  }
  const inner = read(object({ l: { type: 'array', items: object({ n: { type: 'integer' } }) } }), { l: [{ n: '1' }, { n: 'x' }] });
  assert.deepEqual(inner.faults.map((fault) => fault.path), ['/l/1/n']);
});

test('references, unions with null and single allOf are followed', () => {
  const schema = {
    ...object({ size: { $ref: '#/$defs/Size', description: 'How large' }, other: { allOf: [{ $ref: '#/definitions/O~1o' }] }, maybe: { anyOf: [{ $ref: '#/$defs/Size' }, { type: 'null' }] } }, ['size', 'maybe']),
    $defs: { Size: { enum: ['S', 'L'], description: 'no' } }, definitions: { 'O/o': { type: 'integer' } },
  };
  const fields = fieldsOf(schema).fields;
  assert.deepEqual(fields.map(({ kind, required, about }) => [kind, required, about]), [['choice', true, 'How large'], ['integer', false, ''], ['choice', false, 'no']]);
});

test('hostile schemas end, and stay forms', () => {
  let deep = { type: 'string' };
  for (let i = 0; i < 5000; i += 1) deep = object({ next: deep });
  const wide = object(Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`f${i}`, { type: 'string' }])));
  const tree = { $ref: '#/$defs/T', $defs: { T: object(Object.fromEntries([...'abcdefgh'].map((key) => [key, { $ref: '#/$defs/T' }]))) } };
  const self = object({ a: { $ref: '#/properties/a' }, b: { $ref: '#' }, c: { $ref: '#/$defs/none' }, d: { $ref: 'http://elsewhere/x' }, e: { $ref: 7 } });
  const odd = [null, 7, 'text', [], true, { type: 7 }, { type: 'object', properties: [] }, { type: 'object', properties: { a: { enum: 'x' } }, required: 'a' }, { enum: [] }, { type: [] }, { oneOf: 3 }, { allOf: [3] }];
  for (const schema of [deep, wide, tree, self, ...odd]) {
    const field = fieldsOf(schema);
    let count = 0;
    (function walk(inner, depth) {
      count += 1;
      assert.ok(depth < 12);
      inner.fields?.forEach((part) => walk(part, depth + 1));
      if (inner.item) walk(inner.item, depth + 1);
    })(field, 0);
    assert.ok(count < 1000, String(count));
    assert.ok(field.about.length < 4000);
    valueOf(field, new Map());
  }
  assert.equal(fieldsOf(wide).kind, 'json');
  assert.equal(fieldsOf(object({ a: { enum: Array.from({ length: 9999 }, String) } })).fields[0].kind, 'json');
  assert.equal(fieldsOf(object({ a: { type: 'string', description: 'x'.repeat(1e6) } })).fields[0].about.length, 2000);
});

test('names that objects have by nature are names like others', () => {
  const schema = JSON.parse('{"type":"object","properties":{"__proto__":{"type":"string"},"constructor":{"type":"integer"}},"required":["__proto__"]}');
  const { value } = valueOf(fieldsOf(schema), new Map([['__proto__', 'x'], ['constructor', '3']]));
  assert.equal(JSON.stringify(value), '{"__proto__":"x","constructor":3}');
  assert.equal(Object.getPrototypeOf(value), Object.prototype);
});

test('a pattern is shown and never run', () => {
  const field = fieldsOf(object({ a: { type: 'string', pattern: '(a+)+$' } })).fields[0];
  assert.match(field.about, /pattern: \(a\+\)\+\$/);
  assert.deepEqual(valueOf(field, `${'a'.repeat(60)}!`).faults, []);
});
