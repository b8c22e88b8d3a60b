// Where the picture puts what, in numbers.

import assert from 'node:assert/strict';
import test from 'node:test';

import { captionPlace, idleTimes, layout, makeAxis } from '../../ui/run/picture.js';
import { belonging } from '../../ui/run/account.js';
import { approval, broken, compacted, going, huge, longWait, stopped, twoTurns } from './runs.mjs';

const WIDTH = 1000;

test('x is true to time, from the first moment to the last', () => {
  const { trace, response } = twoTurns();
  const drawn = layout(trace, response, WIDTH);
  const lane = drawn.groups[0].calls[0];
  const perMs = WIDTH / (trace.ended_at - trace.started_at);
  assert.ok(Math.abs(lane.start - 1450 * perMs) < 0.01);
  assert.ok(Math.abs(lane.end - 2310 * perMs) < 0.01);
  assert.equal(drawn.axis.x(trace.started_at), 0);
  assert.equal(drawn.axis.x(trace.ended_at), WIDTH);
  assert.deepEqual(drawn.gaps, []);
});

test('nothing lies outside of the plot, at any width', () => {
  for (const { trace, response } of [twoTurns(), longWait(), stopped(), huge(), broken(), going(), approval().done]) {
    for (const width of [120, 320, 700, 1400]) {
      for (const compress of [false, true]) {
        const drawn = layout(trace, response, width, { compress, now: trace.started_at + 5000 });
        for (const lane of drawn.groups.flatMap((group) => [group.lane, ...group.calls])) {
          for (const bar of lane.bars) assert.ok(bar.x >= 0 && bar.w >= 2 && bar.x + bar.w <= width + 0.01, `${lane.id} ${bar.kind} at ${bar.x} + ${bar.w} of ${width}`);
          for (const mark of lane.marks) assert.ok(mark.x >= 0 && mark.x <= width + 0.01);
        }
      }
    }
  }
});

test('a turn is a group: the model’s lane by phases, then a lane for each call', () => {
  const { trace, response } = twoTurns();
  const [first, second, end] = layout(trace, response, WIDTH).groups;
  assert.deepEqual(first.lane.bars.map((bar) => bar.kind), ['first_byte', 'first_token', 'reasoning', 'arguments']);
  assert.deepEqual(first.calls.map((lane) => lane.label), ['get_weather', 'get_stock_price', 'search_documents', 'datetime']);
  assert.equal(first.failed, 1);
  assert.deepEqual(second.lane.bars.map((bar) => bar.kind), ['attempt', 'first_byte', 'first_token', 'text']);
  assert.equal(second.lane.badges[0].text, '2 attempts');
  assert.equal(end.lane.kind, 'end');
  assert.ok(first.lane.bars.every((bar, index, bars) => index === 0 || bar.x >= bars[index - 1].x));
  assert.match(first.lane.caption, /first token 678 ms · 1,200 in \(800 cached\) → 86 out · 115 tokens\/s · \$0.0012/);
});

test('attempts are pieces of the bar, with a notch between', () => {
  const { trace, response } = twoTurns();
  const stock = layout(trace, response, WIDTH).groups[0].calls[1];
  assert.deepEqual(stock.bars.map((bar) => bar.kind), ['attempt', 'attempt', 'call']);
  assert.deepEqual(stock.marks.map((mark) => mark.kind), ['retry', 'retry']);
  assert.deepEqual(stock.badges.map((badge) => badge.text), ['3 attempts']);
});

test('calls in parallel begin at the same x', () => {
  const { trace, response } = twoTurns();
  const [weather, stock, docs] = layout(trace, response, WIDTH).groups[0].calls;
  assert.equal(weather.start, stock.start);
  assert.equal(stock.start, docs.start);
  assert.equal(docs.state.word, 'Failed');
  assert.equal(docs.caption, 'failed: tool_timeout');
});

test('a long wait is a band with its length, and is shortened only when asked', () => {
  const { trace, response } = longWait();
  const plain = layout(trace, response, WIDTH);
  assert.equal(plain.bands[0].words, '3 h for a callback');
  assert.deepEqual(plain.gaps, []);
  assert.equal(plain.shortenable, '3 h');
  assert.ok(plain.bands[0].w > WIDTH * 0.99);
  const short = layout(trace, response, WIDTH, { compress: true });
  assert.equal(short.gaps.length, 1);
  assert.equal(short.gaps[0].words, '3 h');
  const second = short.groups.find((group) => group.id === 'turn-1');
  assert.ok(second && second.lane.end - second.lane.start > 300, 'the second turn can be seen');
});

test('a run without idle times has nothing to shorten', () => {
  const { trace, response } = twoTurns();
  assert.equal(layout(trace, response, WIDTH).shortenable, null);
});

test('a limit is a line where it stopped the run, and its reason is in the last row', () => {
  const { trace, response } = stopped();
  const drawn = layout(trace, response, WIDTH);
  assert.ok(drawn.stops[0] > WIDTH * 0.99);
  const end = drawn.groups.at(-1);
  assert.match(end.lane.caption, /limit of turns .*\(max_turns\)/);
  assert.equal(end.lane.state.word, 'Stopped early');
});

test('what goes on reaches until now, and has no end', () => {
  const { trace, response } = going();
  const drawn = layout(trace, response, WIDTH, { now: trace.started_at + 10_000 });
  const slow = drawn.groups[0].calls[1];
  assert.equal(slow.end, WIDTH);
  assert.equal(slow.ms, null);
  assert.equal(slow.state.word, 'Running');
  assert.equal(drawn.groups.length, 1);
});

test('an inference without an answer has its attempts, no token, and failed', () => {
  const { trace, response } = broken();
  const [lane] = layout(trace, response, WIDTH).groups.map((group) => group.lane);
  assert.deepEqual(lane.bars.map((bar) => bar.kind), ['attempt', 'attempt', 'first_byte']);
  assert.equal(lane.state.word, 'Failed');
});

test('the turn that a run was cancelled or failed in did not complete', () => {
  const { trace, response } = approval().asked;
  for (const [status, word] of [['cancelled', 'Cancelled'], ['failed', 'Failed'], ['completed', 'Completed']]) {
    assert.equal(layout(trace, { ...response, status }, WIDTH).groups[0].lane.state.word, word);
  }
  // It was over: what was cancelled is its calls.
  const { trace: called } = stopped();
  assert.equal(layout(called, { ...response, output: [], status: 'cancelled' }, WIDTH).groups[2].lane.state.word, 'Completed');
});

test('approved calls come before the first turn, which is turn 1', () => {
  const { trace, response } = approval().done;
  const groups = layout(trace, response, WIDTH).groups;
  assert.deepEqual(groups.map((group) => group.lane.label), ['send_mail', 'Turn 1', 'End']);
  assert.equal(groups[1].lane.bars.at(-1).kind, 'text');
});

test('a summary is a group of its own, between the turns that are counted', () => {
  const { trace, response } = compacted();
  const groups = layout(trace, response, WIDTH).groups;
  assert.deepEqual(groups.map((group) => group.lane.label), ['Listing tools', 'Turn 1', 'Compaction', 'Turn 2', 'End']);
  assert.equal(groups[0].lane.caption, '900 ms for MCP servers to list their tools');
  assert.deepEqual(belonging(response.output, trace).turns.map((items) => items.map((item) => item.type)), [['mcp_call'], ['compaction'], ['message']]);
  // The model wrote none: what it said after it is still of turn 2.
  const without = response.output.filter((item) => item.type !== 'compaction');
  assert.deepEqual(belonging(without, trace).turns.map((items) => items.map((item) => item.type)), [['mcp_call'], [], ['message']]);
});

test('two hundred calls are laid out in well under a frame’s patience', () => {
  const { trace, response } = huge();
  let drawn;
  // The fastest of some, as other programs run, too.
  const times = [1, 2, 3, 4, 5].map(() => {
    const begin = performance.now();
    drawn = layout(trace, response, WIDTH);
    return performance.now() - begin;
  });
  assert.ok(Math.min(...times) < 200, `${times}`);
  assert.equal(drawn.groups.reduce((sum, group) => sum + group.calls.length, 0), 200);
});

test('items belong to the turn whose calls they precede', () => {
  const { trace, response } = twoTurns();
  const owned = belonging(response.output, trace);
  assert.deepEqual(owned.turns.map((items) => items.map((item) => item.type)), [['reasoning', 'mcp_call', 'mcp_call', 'mcp_call', 'mcp_call'], ['message']]);
  assert.equal(owned.items.get(trace.turns[0].calls[1].call_id).name, 'get_stock_price');
});

test('a call is found by its name where the ids differ', () => {
  const { trace, response } = twoTurns();
  trace.turns[0].calls.forEach((call, index) => (call.call_id = `other_${index}`));
  assert.equal(belonging(response.output, trace).items.get('other_2').name, 'search_documents');
});

test('ticks are apart, and behind a shortened gap exact', () => {
  const axis = makeAxis(0, 10_803_000, WIDTH, [{ from: 1000, to: 10_800_000 }]);
  axis.ticks.forEach((tick, index) => index === 0 || assert.ok(tick.x - axis.ticks[index - 1].x >= 60));
  assert.equal(new Set(axis.ticks.map((tick) => tick.label)).size, axis.ticks.length);
  assert.match(axis.ticks.findLast((tick) => tick.label).label, /^3:00:0\d/);
});

test('idle times are those that are long against the work', () => {
  assert.deepEqual(idleTimes([{ from: 0, to: 100 }, { from: 50, to: 200 }], 0, 60_000), [{ from: 200, to: 60_000 }]);
  assert.deepEqual(idleTimes([{ from: 0, to: 900 }], 0, 1000), []);
});

test('words of a bar never leave the plot', () => {
  const { trace, response } = twoTurns();
  for (const width of [200, 400, 1000]) {
    for (const lane of layout(trace, response, width).groups.flatMap((group) => [group.lane, ...group.calls])) {
      const place = captionPlace(lane, width);
      assert.ok(place.x >= 0 && place.x <= width, `${lane.id} ${place.side} ${place.x}`);
    }
  }
});
