// Cline's CLI over the Responses API, unmodified. Its requests offer `web_search`, `image_generation` and functions of its own.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';

const binary = new URL(`node_modules/@cline/cli-${process.platform}-${process.arch}/bin/cline`, import.meta.url).pathname;
const run = promisify(execFile);
// The gateway with a search engine, and the one without, which asks for keys.
const searching = { url: process.env.SDK_OPEN_URL, key: 'unused' };
const plain = { url: process.env.SDK_KEYED_URL, key: process.env.SDK_KEY_FULL };
if (!searching.url || !plain.url) throw new Error('run this by scripts/test-clients, which starts the gateways');

let home;
before(async () => { home = await mkdtemp(join(tmpdir(), 'antwort-cline-')); });
after(() => rm(home, { recursive: true, force: true }));

async function cline(...words) {
  // A proxy that is not there: whatever is not for this machine fails.
  const nowhere = 'http://127.0.0.1:9';
  const env = {
    PATH: process.env.PATH, HOME: home, NO_PROXY: '127.0.0.1', HTTP_PROXY: nowhere, HTTPS_PROXY: nowhere, NO_COLOR: '1',
  };
  const { stdout } = await run(binary, words, { cwd: home, env, timeout: 100_000 });
  return stdout;
}

/** One prompt in a session of its own: what Cline said at the end. */
async function ask(gateway, model, prompt) {
  await cline('auth', 'openai-native', '-k', gateway.key, '-m', model, '-b', gateway.url);
  const lines = (await cline('-P', 'openai-native', '-m', model, '-t', '90', '--json', prompt)).trim().split('\n');
  const result = lines.map((line) => JSON.parse(line)).find((line) => line.type === 'run_result');
  assert.equal(result.finishReason, 'completed');
  return result.text;
}

/** The newest stored response. */
async function newest(gateway) {
  const answer = await fetch(`${gateway.url}/responses?limit=1`, { headers: { authorization: `Bearer ${gateway.key}` } });
  assert.equal(answer.status, 200);
  return (await answer.json()).data[0];
}

test('its default request is served without the hosted tools that nobody serves', async () => {
  assert.equal(await ask(plain, 'scripted', 'no tools, please'), 'You said: no tools, please');
  const response = await newest(plain);
  assert.deepEqual(response.antwort.omitted_tools, ['web_search', 'image_generation']);
});

test('a web search that is served stays', async () => {
  assert.equal(await ask(searching, 'scripted', 'no tools, please'), 'You said: no tools, please');
  const response = await newest(searching);
  assert.deepEqual(response.antwort.omitted_tools, ['image_generation']);
});

test('a file is written and read by its tools', async () => {
  await writeFile(join(home, 'calc.py'), 'def add(a, b):\n    return a - b\n');
  const steps = [
    'run_commands {"commands": ["sed -i.old \'s/a - b/a + b/\' calc.py"]}',
    `read_files {"files": [{"path": ${JSON.stringify(join(home, 'calc.py'))}}]}`,
  ];
  assert.match(await ask(plain, 'stepper', steps.join('\n')), /return a \+ b/);
  assert.match(await readFile(join(home, 'calc.py'), 'utf8'), /return a \+ b/);
});
