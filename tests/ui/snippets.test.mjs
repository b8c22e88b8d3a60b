// The snippets are run: whatever is in a request arrives as it was, in each language, and nothing of it is executed.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { curl, javascript, python, recipes } from '../../ui/protocol.js';

const BASE = 'http://127.0.0.1:8080/v1';
const HOSTILE = [
  "it's", `"double"`, "'; touch /tmp/pwned; '", '$(touch /tmp/pwned)', '`id`', '${HOME} $HOME', '\\', '\\\\', "\\'", '\n\r\t\b\f\v', '\u0000\u001b[31m', '\u2028\u2029', '\u202eevil\u202c', '\ud83d\ude00', '\u{e0041}',
  '\ud800', '\udc00x', '"""', "'''", '{x}', '%s', '#', '//', '*/', '</script>', '!', '!!', '~', 'a\\u202eb', '\\ud83d', "' + process.exit() + '", '${process.exit()}', '\u00a0\ufeff', '@file', '-x', 'é日本語',
];
const BODY = {
  model: 'demo',
  input: HOSTILE,
  instructions: HOSTILE.join(' '),
  store: false,
  temperature: 0.1,
  max_output_tokens: 1e21,
  metadata: Object.fromEntries(HOSTILE.map((text, i) => [text || 'empty', `${i}`])),
  tools: [],
  text: {},
  previous_response_id: null,
  antwort: JSON.parse('{"__proto__": "x", "constructor": 1, "limits": {"max_turns": 3}}'),
  agent: "a'b",
};
const run = (program, args, input) => execFileSync(program, args, { input, encoding: 'utf8', env: { PATH: process.env.PATH, ANTWORT_API_KEY: 'of the environment' } });

test('curl, by a shell', () => {
  const shell = `curl() { for each in "$@"; do printf '%s\\0' "$each"; done; }\n${curl(BASE, BODY)}`;
  for (const program of ['bash', 'sh']) {
    const words = run(program, [], shell).split('\0');
    assert.deepEqual(words.slice(0, 6), [`${BASE}/responses`, '-H', 'Authorization: Bearer of the environment', '-H', 'content-type: application/json', '-d']);
    assert.deepEqual(JSON.parse(words[6]), JSON.parse(JSON.stringify(BODY)));
  }
  assert.match(curl(BASE, { stream: true }), /^curl -N /);
  assert.match(curl("http://h/it's/v1", {}), /'http:\/\/h\/it'\\''s\/v1\/responses'/);
});

test('Python, by Python', () => {
  const fake = 'import json, sys, types\nmade = {}\nclass Responses:\n    def create(self, **more):\n        made.update(more)\n        return types.SimpleNamespace(output_text="text", id="id")\nclass OpenAI:\n    def __init__(self, **more):\n        made["client"] = more\n        self.responses = Responses()\nsys.modules["openai"] = types.SimpleNamespace(OpenAI=OpenAI)\n';
  const told = run('python3', ['-'], `${fake}${python(BASE, BODY)}\nprint(json.dumps(made))`).split('\n');
  const { client, extra_body, ...body } = JSON.parse(told[1]);
  assert.deepEqual(client, { base_url: BASE, api_key: 'of the environment' });
  assert.deepEqual({ ...body, ...extra_body }, JSON.parse(JSON.stringify(BODY)));
  assert.deepEqual(Object.keys(extra_body), ['antwort', 'agent']);
  assert.match(python(BASE, { stream: true }), /^for event in /m);
  assert.match(python(BASE, { background: true }), /print\(response\.id\)/);
});

test('JavaScript, by node', () => {
  const fake = 'class OpenAI { constructor(more) { this.more = more; this.responses = { create: (body) => { console.log(JSON.stringify([this.more, body])); return {}; } }; } }\n';
  const program = `${fake}${javascript(BASE, BODY).replace("import OpenAI from 'openai';", '')}`;
  const [client, body] = JSON.parse(run('node', ['--input-type=module', '-'], program).split('\n')[0]);
  assert.deepEqual(client, { baseURL: BASE, apiKey: 'of the environment' });
  assert.deepEqual(body, JSON.parse(JSON.stringify(BODY)));
  assert.match(javascript(BASE, { stream: true }), /^for await \(const event of /m);
});

test('no character of a snippet hides', () => {
  for (const make of [curl, python, javascript]) assert.doesNotMatch(make(BASE, BODY), /[\u0000-\u0008\u000b-\u001f\u200b-\u200f\u2028-\u202e\ufeff]/u);
});

test('the recipe of an environment has a key that is not empty, also without one', () => {
  const { text } = recipes(BASE, 'm').find(({ name }) => name === 'Environment');
  const key = (env) => execFileSync('sh', ['-c', `${text}\nprintf %s "$OPENAI_API_KEY"`], { encoding: 'utf8', env: { PATH: process.env.PATH, ...env } });
  assert.equal(key({}), 'none-needed');
  assert.equal(key({ ANTWORT_API_KEY: 'sk-1' }), 'sk-1');
});

test('recipes have the address and the model, quoted, and no key', () => {
  const model = `vendor/it's "7b"`;
  const all = recipes(BASE, model);
  for (const { name, text } of all) {
    assert.ok(text.includes(BASE), name);
    assert.match(text, /ANTWORT_API_KEY/, name);
  }
  const parsed = all.filter(({ text }) => /^import os/m.test(text));
  assert.ok(parsed.length >= 4);
  for (const { text } of parsed) run('python3', ['-c', 'import ast, sys; ast.parse(sys.stdin.read())'], text);
  for (const { text } of all.filter(({ text }) => /^(curl|export)/.test(text))) run('bash', ['-n'], text);
  for (const { text } of all.filter(({ text }) => /from '/.test(text))) run('node', ['--check', '--input-type=module', '-'], text);
});
