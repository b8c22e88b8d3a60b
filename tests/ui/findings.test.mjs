// The answers in words: what a person asks first of a run.

import assert from 'node:assert/strict';
import test from 'node:test';

import { explain } from '../../ui/next-step.js';
import * as format from '../../ui/lib/dom.js';
import { account, ending, limitWords, slowness, statusWords, totals, troubles, waitBetween, waitWords } from '../../ui/run/account.js';
import { approval, broken, longWait, START, stopped, trace, turn, twoTurns } from './runs.mjs';

const texts = (found) => found.map((one) => one.text);

test('the parts of the time add up to the whole, though calls overlap', () => {
  for (const { trace } of [twoTurns(), longWait(), stopped(), broken()]) {
    const { total, parts } = account(trace);
    assert.equal(parts.reduce((sum, part) => sum + part.ms, 0), total);
  }
  const { parts } = account(twoTurns().trace);
  assert.equal(parts.find((part) => part.part === 'tools').ms, 6450 - 1450);
});

test('why a run was slow', () => {
  const { trace } = twoTurns();
  assert.deepEqual(texts(slowness(trace)), [
    'Most of the time went to tools: 5 s of 8.7 s (57 %).',
    'The longest single step: the call of search_documents in turn 1, 5 s (57 %).',
  ]);
  assert.match(slowness(longWait().trace)[1].text, /the wait for a callback, 3 h/);
  assert.match(slowness(broken().trace)[1].text, /first byte of the model \(gpt-oss-120b\) in turn 1, which took 3 attempts, 32 s/);
});

test('what nobody notices, or is less than half, is not what the time went to', () => {
  const queued = (wait, byte, end) => trace('r', end, [turn(0, [wait, byte, byte, end])], { waits: [{ kind: 'queue', from: START, to: START + wait }] });
  assert.deepEqual(texts(slowness(queued(6, 8, 10))), []);
  assert.deepEqual(texts(slowness(queued(400, 650, 900))), ['The longest single step: the wait in the queue, 400 ms (44 %).']);
  assert.match(texts(slowness(queued(600, 650, 900)))[0], /^Most of the time went to waiting for others: 600 ms of 900 ms/);
});

test('a wait counts as a wait, not as the work of the call that waits', () => {
  const { parts } = account(longWait().trace);
  assert.equal(parts.find((part) => part.part === 'waits').ms, 10_799_700);
});

test('why a run stopped', () => {
  const { response, trace } = stopped();
  const why = ending(response, trace);
  assert.equal(why.text, 'Stopped early after 6 s, because the limit of turns (calls of the model) was reached (max_turns: 3).');
  assert.match(why.advice, /a request may change it, up to engine.ceilings/);
  assert.match(ending(broken().response, broken().trace).text, /^Failed after 32 s: The provider sent no first byte/);
  assert.match(ending(approval().asked.response, approval().asked.trace).text, /to ask for approval/);
  assert.match(ending(twoTurns().response, twoTurns().trace).text, /^Completed in 8.7 s/);
});

test('which calls failed, and what was retried', () => {
  const [failed, ...others] = texts(troubles(twoTurns().trace));
  assert.equal(failed, `search_documents in turn 1 failed (tool_timeout). ${explain({ code: 'tool_timeout' }).next}`);
  assert.deepEqual(others, [
    'get_stock_price in turn 1 needed 3 attempts.',
    'Turn 2: the model server was asked 2 times before it answered.',
  ]);
});

test('totals', () => {
  const { response, trace } = twoTurns();
  assert.equal(totals(response, trace), '2 turns, 4 tool calls, 2,400 tokens in (1,600 cached), 172 out, $0.0021');
});

test('numbers as words', () => {
  assert.equal(format.duration(840), '840 ms');
  assert.equal(format.duration(3210), '3.2 s');
  assert.equal(format.duration(59_600), '1 min');
  assert.equal(format.duration(125_000), '2 min 5 s');
  assert.equal(format.duration(10_800_000), '3 h');
  assert.equal(format.duration(null), '–');
  assert.equal(format.tokens(12_345), '12.3k');
  assert.equal(format.cost(0.00123), '$0.00123');
  assert.equal(format.cost(1.5), '$1.50');
  assert.equal(format.counted(1, 'call'), '1 call');
  assert.equal(format.rate(86, 750), '115 tokens/s');
});

test('the wait between two responses is as exact as it is known', () => {
  const { asked, done } = approval();
  const ms = done.trace.started_at - asked.trace.ended_at;
  assert.equal(waitBetween(asked, done), `${format.duration(ms)} for approval`);
  const later = (trace) => ({ response: { created_at: 101 }, trace });
  const before = { response: { status: 'completed', completed_at: 100 }, trace: { ended_at: 100_973 } };
  assert.equal(waitBetween(before, later({ started_at: 101_000 })), '27 ms until the next request');
  // Whole seconds, and the clock of the page, say no more than that.
  for (const trace of [null, { started_at: 101_000, watched: true }]) assert.equal(waitBetween(before, later(trace)), 'less than 2 s until the next request');
  assert.equal(waitBetween({ ...before, trace: null }, { response: { created_at: 160 }, trace: null }), 'about 1 min until the next request');
  assert.equal(waitBetween({ response: { status: 'failed', completed_at: null }, trace: null }, later(null)), null);
});

test('names that JavaScript has a meaning for are words like others', () => {
  for (const name of ['constructor', '__proto__', 'toString']) {
    assert.deepEqual(statusWords(name), { icon: 'unknown', word: name, tone: 'off' });
    assert.equal(limitWords(name), `a limit was reached: ${name}`);
    assert.equal(waitWords(name, null), `waits for ${name}`);
  }
});
