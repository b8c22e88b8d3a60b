// What the gateway serves below `/ui/`: the files of the folder, with the headers that keep them harmless, and nothing else.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { request } from 'node:http';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { env } from './lib/environment.mjs';

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; " +
  "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
const TYPES = { html: 'text/html', css: 'text/css', js: 'text/javascript', svg: 'image/svg+xml', json: 'application/json' };

const files = readdirSync(env.files, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => relative(env.files, join(entry.parentPath, entry.name)));

/** Without the tidying that `fetch` does to paths. */
function get(path, headers = {}) {
  const { hostname, port } = new URL(env.open);
  return new Promise((resolve, reject) => {
    const sent = request({ hostname, port, path, headers }, async (answer) => {
      const chunks = [];
      for await (const chunk of answer) chunks.push(chunk);
      resolve({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(chunks) });
    });
    sent.on('error', reject).end();
  });
}

test('every file of the folder is served as it is, with the headers that keep it harmless', async () => {
  assert.ok(files.length > 10, `${files.length} files`);
  for (const file of files) {
    const { status, headers, body } = await get(`/ui/${file}`);
    assert.equal(status, 200, file);
    assert.ok(body.equals(readFileSync(join(env.files, file))), `${file} differs from that on disk`);
    assert.equal(headers['content-security-policy'], POLICY, file);
    assert.equal(headers['x-content-type-options'], 'nosniff', file);
    assert.equal(headers['referrer-policy'], 'no-referrer', file);
    assert.ok(headers['content-type'].startsWith(TYPES[file.split('.').pop()]), `${file}: ${headers['content-type']}`);
  }
});

test('the folder is its index, without a slash it leads there, and a key is not asked for', async () => {
  const index = readFileSync(join(env.files, 'index.html'));
  const { status, body, headers } = await get('/ui/');
  assert.equal(status, 200);
  assert.ok(body.equals(index));
  assert.equal(headers['content-security-policy'], POLICY);
  const bare = await get('/ui');
  assert.ok([301, 302, 307, 308].includes(bare.status), `${bare.status}`);
  assert.match(bare.headers.location, /^(\.\/|\/)?ui\/$/);
  const keyed = await fetch(`${env.keyed}/ui/`);
  assert.equal(keyed.status, 200);
});

test('nothing else is served', async () => {
  const paths = [
    '/ui/unknown',
    '/ui/../Cargo.toml',
    '/ui/%2e%2e/Cargo.toml',
    '/ui/..%2fCargo.toml',
    '/ui/../ui3/Cargo.toml',
    '/ui//etc/passwd',
    '/ui/index.html/',
    '/ui/lib',
    '/ui/lib/',
    '/ui/./index.html',
    '/ui/INDEX.HTML',
    '/ui/index.html%00.js',
    '/ui/lib/../app.js',
    '/ui/lib\\..\\app.js',
    '/ui/.git/config',
    '/ui/%',
    '/ui/app.js.map',
  ];
  for (const path of paths) {
    const { status, body } = await get(path);
    assert.ok(status === 404 || status === 400, `${path}: ${status} ${body.toString().slice(0, 200)}`);
  }
});
