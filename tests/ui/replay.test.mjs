// What the page makes of streams and of their absence: times by its own clock, and a stream for a response whose events nobody kept.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import test from 'node:test';

import { foldAll, reconstruct } from '../../ui/fold.js';
import { layout } from '../../ui/run/picture.js';
import { liveTrace, recall, remember, sseDecoder } from '../../ui/lib/api.js';
import { approval, broken, huge, message, reasoning, response, stopped, twoTurns } from './runs.mjs';

const SNAPSHOTS = new URL('../it/snapshots/', import.meta.url);

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
  for (const file of readdirSync(SNAPSHOTS).filter((name) => name.startsWith('it__machine__'))) {
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
    const decoder = sseDecoder((frame) => frames.push(frame));
    for (let at = 0; at < text.length; at += size) decoder.push(text.slice(at, at + size));
    assert.deepEqual(frames, [
      { event: 'a', data: '{"x":\n1}', id: null },
      { event: 'message', data: 'two', id: null },
      { event: 'message', data: 'three', id: '7' },
    ], `pieces of ${size}`);
  }
});
