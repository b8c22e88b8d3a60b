// Every error that the documents and the gateway's sources name has words of its own.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { effects, explain, FAULTS } from '../../ui/next-step.js';

const place = (name) => new URL(`../../${name}`, import.meta.url);
const file = (name) => readFileSync(place(name), 'utf8');

test('every kind of error of the gateway is explained by its code and its type', () => {
  const kinds = [...file('crates/protocol/src/error.rs').matchAll(/=> \((\d{3}), "([a-z_]+)", "([a-z_]+)"\)/g)];
  assert.ok(kinds.length > 15);
  for (const [, status, type, code] of kinds) {
    if (code !== 'conflict' && code !== 'gone') assert.notEqual(explain({ code }).fault, 'unknown', code);
    assert.notEqual(explain({ type, status: Number(status) }).fault, 'unknown', type);
  }
});

test('every code of the documents is explained', () => {
  const errors = file('docs/compatibility.md').split('## Errors')[1];
  const tools = file('docs/tools.md').split('\n## Errors')[1].split('`tools.on_error`')[0];
  const approvals = file('docs/mcp.md').split('**Errors,**')[1].split('**Whether')[0];
  const codes = [...errors.matchAll(/`([a-z]+_[a-z_]+)`/g), ...tools.matchAll(/^\| `([a-z_]+)`/gm), ...approvals.matchAll(/^\| `([a-z_]+)`/gm)].map(([, code]) => code);
  assert.ok(codes.length > 45, String(codes.length));
  for (const code of codes) assert.notEqual(explain({ code }).fault, 'unknown', code);
});

test('a tool that needs approval is tried where it can be approved', () => {
  assert.match(explain({ code: 'approval_required', type: 'permission_error', status: 403 }).next, /in Try/);
  assert.match(explain({ code: 'approval_not_open' }).next, /Reload the run/);
});

test('what is not declared of a tool is not called declared', () => {
  const words = (annotations) => effects(annotations)[0];
  assert.match(words({ destructiveHint: true }), /^Declared as destructive/);
  // As the gateway fills in what a server does not say.
  const filled = { read_only: false, idempotent: false, destructive: true, open_world: true };
  for (const annotations of [filled, {}, null, undefined, { readOnlyHint: false }]) assert.match(words(annotations), /not declared as read-only/);
  assert.match(words({ ...filled, destructive: false }), /but not as destructive/);
  assert.match(words({ readOnlyHint: true }), /^Declared as read-only/);
});

test('every reason of an early end is explained', () => {
  const row = file('docs/compatibility.md').split('`incomplete_details.reason` is')[1].split('\n')[0];
  const reasons = [...row.matchAll(/`([a-z_]+)`/g)].map(([, reason]) => reason);
  assert.ok(reasons.includes('max_turns') && reasons.length > 6);
  for (const code of reasons) assert.notEqual(explain({ code }).fault, 'unknown', code);
});

test('codes that a provider or a proxy made up are judged by type and status', () => {
  assert.equal(explain({ code: 'strange', type: 'rate_limit_error' }).fault, 'model');
  assert.equal(explain({ code: 'server_error', type: 'rate_limit_error', status: 429 }).fault, 'model');
  assert.equal(explain({ status: 502 }).fault, 'connection');
  assert.equal(explain({ status: 418 }).fault, 'request');
  assert.equal(explain({ status: 403 }).fault, 'key');
  assert.equal(explain({ code: '__proto__', type: 'constructor' }).fault, 'unknown');
  for (const fault of Object.keys(FAULTS)) assert.ok(FAULTS[fault]);
});
