// What the page makes of streams and of their absence: times by its own clock, and a stream for a response whose events nobody kept.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import test from 'node:test';

import { foldAll, reconstruct } from '../../ui/protocol.js';
import { account, slowness } from '../../ui/run/account.js';
import { layout, timeOf } from '../../ui/run/picture.js';
import { liveTrace, recall, remember, sseDecoder } from '../../ui/lib/api.js';
import { approval, broken, huge, message, reasoning, response, stopped, twoTurns } from './runs.mjs';

const SNAPSHOTS = new URL('../contract/snapshots/', import.meta.url);

test('a reconstructed stream folds into the response', () => {
  for (const run of [twoTurns(), stopped(), broken(), huge(), approval().asked, approval().done]) {
    const events = reconstruct(run.response);
    assert.deepEqual(foldAll(events), run.response);
    assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, index) => index));
    // Without the last event, which brings it whole, the items are there, too.
    assert.deepEqual(foldAll(events, events.length - 1).output, run.response.output);
  }
});

test('so does that of the items of every golden stream', () => {
  const files = readdirSync(SNAPSHOTS).filter((name) => name.startsWith('contract__machine__'));
  assert.ok(files.length >= 20, `${files.length} golden streams`);
  for (const file of files) {
    const lines = readFileSync(new URL(file, SNAPSHOTS), 'utf8').split('\n').filter((line) => line.startsWith('response.output_item.done'));
    const output = lines.map((line) => JSON.parse(line.slice(line.indexOf('{'))).item);
    const events = reconstruct(response('resp_1', output));
    assert.deepEqual(foldAll(events, events.length - 1).output, output, file);
  }
});

/** The stream of a run with one turn, two calls, and an answer; a tenth of a second between two events. */
function watchedRun() {
  const { response: whole } = twoTurns();
  const output = [reasoning(), whole.output[1], whole.output[2], message()];
  const events = reconstruct(response('resp_live', output));
  const live = liveTrace(1000);
  let now = 1000;
  for (const event of events) live.push(event, (now += 100));
  return { live, events };
}

test('times of a watched run: a turn with spans, a call behind it, a second turn', () => {
  const { live } = watchedRun();
  const { trace } = live;
  assert.equal(trace.watched, true);
  assert.equal(trace.id, 'resp_live');
  assert.ok(trace.turns.length >= 2);
  assert.deepEqual(trace.turns[0].spans.map((span) => span.kind), ['reasoning', 'arguments']);
  assert.equal(trace.turns[0].calls[0].name, 'get_weather');
  assert.equal(trace.turns.at(-1).spans[0].kind, 'text');
  for (const turn of trace.turns) {
    assert.ok(turn.ended_at !== null && turn.sent_at <= turn.first_token_at && turn.first_token_at <= turn.ended_at);
    for (const call of turn.calls) assert.ok(call.started_at >= turn.sent_at && call.ended_at >= call.started_at);
  }
  const drawn = layout(trace, response('resp_live', []), 800);
  assert.equal(drawn.groups.at(-1).id, 'end');
});

test('at any moment of a watched run there is a picture', () => {
  const { events } = watchedRun();
  for (let count = 0; count <= events.length; count += 1) {
    const live = liveTrace(1000);
    events.slice(0, count).forEach((event, index) => live.push(event, 1100 + index * 100));
    const drawn = layout(live.trace, foldAll(events, count), 500, { now: 1200 + count * 100 });
    for (const lane of drawn.groups.flatMap((group) => [group.lane, ...group.calls])) {
      for (const bar of lane.bars) assert.ok(bar.x >= 0 && bar.x + bar.w <= 500.01, `${count} ${lane.id}`);
    }
  }
});

test('calls whose results come at once belong to one turn', () => {
  const live = liveTrace(0);
  const item = (id) => ({ id, type: 'mcp_call', name: id, arguments: '', status: 'in_progress' });
  live.push({ type: 'response.created', response: { id: 'r', model: 'm' } }, 10);
  live.push({ type: 'response.output_item.added', output_index: 0, item: item('a') }, 100);
  live.push({ type: 'response.mcp_call_arguments.done', output_index: 0, arguments: '{}' }, 200);
  live.push({ type: 'response.output_item.done', output_index: 0, item: { ...item('a'), status: 'completed' } }, 900);
  live.push({ type: 'response.output_item.added', output_index: 1, item: item('b') }, 901);
  live.push({ type: 'response.mcp_call_arguments.delta', output_index: 1, delta: '{}' }, 901);
  live.push({ type: 'response.mcp_call_arguments.done', output_index: 1, arguments: '{}' }, 902);
  live.push({ type: 'response.output_item.done', output_index: 1, item: { ...item('b'), status: 'failed' } }, 1500);
  assert.equal(live.trace.turns.length, 1);
  const [a, b] = live.trace.turns[0].calls;
  assert.deepEqual([a.started_at, a.ended_at, a.outcome], [200, 900, 'completed']);
  live.tick(1520);
  assert.equal(live.trace.turns.length, 1, 'another call may be told at once');
  live.tick(1700);
  assert.deepEqual([live.trace.turns[1].sent_at, live.trace.turns[1].first_token_at], [1500, null]);
  assert.deepEqual([b.started_at, b.ended_at, b.outcome], [200, 1500, 'failed']);
});

test('a watched stream is kept, if it was watched whole', () => {
  const events = reconstruct(twoTurns().response);
  events.forEach((event) => remember('whole', event));
  events.slice(1).forEach((event) => remember('part', event));
  assert.equal(recall('whole').length, events.length);
  assert.equal(recall('part'), null);
  assert.equal(recall('unknown'), null);
});

test('what is kept of watched streams is bounded: the oldest goes first', () => {
  const big = 'x'.repeat(3_000_000);
  for (const id of ['one', 'two', 'three']) {
    remember(id, { type: 'response.created', sequence_number: 0, response: { id } });
    remember(id, { type: 'response.output_text.delta', sequence_number: 1, delta: big });
    remember(id, { type: 'response.completed', sequence_number: 2, response: { id } });
  }
  assert.equal(recall('one'), null);
  assert.equal(recall('three').length, 3);
});

test('server-sent events, cut anywhere', () => {
  const text = '\uFEFF: hello\r\nevent: a\r\ndata: {"x":\r\ndata: 1}\r\n\r\ndata:two\n\nid: 7\rdata: three\r\rdata: lost';
  for (let size = 1; size < text.length; size += 1) {
    const frames = [];
    const decoder = sseDecoder((data) => frames.push(data));
    for (let at = 0; at < text.length; at += size) decoder.push(text.slice(at, at + size));
    assert.deepEqual(frames, ['{"x":\n1}', 'two', 'three'], `pieces of ${size}`);
  }
});

/** A stream that is watched: each event at its time. */
function watched(events, sentAt = 0) {
  const live = liveTrace(sentAt);
  for (const [now, event] of events) live.push(event, now);
  return live;
}

const created = { type: 'response.created', response: { id: 'r', model: 'm', created_at: 0 } };
const added = (output_index, item) => ({ type: 'response.output_item.added', output_index, item: { status: 'in_progress', arguments: '', ...item } });
const done = (output_index, item) => ({ type: 'response.output_item.done', output_index, item: { status: 'completed', ...item } });

test('a function of the client that is waited for is a wait, not the model’s writing', () => {
  const item = { id: 'fc_1', call_id: 'call_1', type: 'function_call', name: 'thermometer' };
  const begin = [[10, created], [100, added(0, item)], [200, { type: 'response.function_call_arguments.done', output_index: 0 }], [210, done(0, item)], [220, { type: 'antwort:input_required', output_index: 0, call_id: 'call_1', name: 'thermometer' }]];
  const live = watched(begin);
  live.tick(5000);
  assert.deepEqual(live.trace.waits, [{ kind: 'client', from: 220, to: null }]);
  assert.equal(live.trace.turns.length, 1);
  assert.equal(live.trace.turns[0].ended_at, 220);
  live.push(added(1, { type: 'function_call_output', call_id: 'call_1' }), 6000);
  assert.equal(live.trace.waits[0].to, 6000);
  live.tick(6100);
  assert.deepEqual([live.trace.turns[1].sent_at, live.trace.turns[1].first_token_at], [6000, null]);
  const { parts } = account(live.trace, 6100);
  assert.equal(parts.find(({ part }) => part === 'waits').ms, 5780);
});

test('a question of a tool is a wait within its call, which goes on behind it', () => {
  const item = { id: 'a', type: 'mcp_call', name: 'order' };
  const live = watched([[10, created], [100, added(0, item)], [200, { type: 'response.mcp_call_arguments.done', output_index: 0 }], [300, { type: 'antwort:input_required', output_index: 0, elicitation: {} }], [900, done(0, item)]]);
  assert.deepEqual(live.trace.waits, [{ kind: 'elicitation', from: 300, to: 900 }]);
  assert.deepEqual([live.trace.turns[0].ended_at, live.trace.turns[0].calls[0].ended_at], [200, 900]);
});

test('of a call that a stream tells behind another only the longest time is known', () => {
  const item = (id) => ({ id, type: 'mcp_call', name: id });
  const live = watched([[10, created], [100, added(0, item('a'))], [200, { type: 'response.mcp_call_arguments.done', output_index: 0 }], [900, done(0, item('a'))], [901, added(1, item('b'))], [902, done(1, item('b'))], [903, added(2, item('c'))], [1500, done(2, item('c'))]]);
  const [a, b, c] = live.trace.turns[0].calls;
  assert.deepEqual([a.at_most, b.at_most, c.at_most], [false, true, true]);
  const lanes = layout(live.trace, response('r', []), 800, { now: 1600 }).groups[0].calls;
  assert.deepEqual(lanes.map((lane) => [timeOf(lane), lane.caption]), [['700 ms', '700 ms'], ['≤ 702 ms', 'at most 702 ms'], ['≤ 1.3 s', 'at most 1.3 s']]);
});

test('a run that is opened late, or goes on, says nothing of shares of its time', () => {
  const late = watched([[60_000, { ...created, response: { ...created.response, created_at: 1 } }], [61_000, added(0, { type: 'message', content: [] })], [61_500, { type: 'response.output_text.delta', output_index: 0, delta: 'x' }]], null);
  assert.equal(late.trace.late, true);
  const [turn] = layout(late.trace, response('r', []), 800, { now: 62_000 }).groups;
  assert.deepEqual([turn.lane.caption, turn.lane.marks, turn.lane.bars.map((bar) => bar.kind)], ['', [], ['text']]);
  assert.deepEqual(slowness(late.trace, 62_000), []);
  late.push({ type: 'response.completed', response: { id: 'r', created_at: 1 } }, 63_000);
  assert.deepEqual(slowness(late.trace), []);
  const { live } = watchedRun();
  // It is over, and the page saw all of it; but no stream shows a first byte.
  assert.ok(slowness(live.trace).length > 0);
  assert.equal(account(live.trace).parts.find(({ part }) => part === 'first_byte').ms, 0);
});
