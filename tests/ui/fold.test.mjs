// The fold of the page against the golden streams of the gateway's own tests.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import test from 'node:test';

import { fold, foldAll, nothing } from '../../ui/protocol.js';

const SNAPSHOTS = new URL('../contract/snapshots/', import.meta.url);

/** The streams of the response machine: lines of a name and the JSON of the event. */
function goldenStreams() {
  return readdirSync(SNAPSHOTS)
    .filter((file) => file.startsWith('contract__machine__'))
    .map((file) => {
      const lines = readFileSync(new URL(file, SNAPSHOTS), 'utf8').split('\n');
      const events = lines.flatMap((line) => {
        const found = /^([a-z_:.]+) +(\{.*\})$/.exec(line);
        return found ? [{ type: found[1], ...JSON.parse(found[2]) }] : [];
      });
      return { file, events };
    });
}

/** The transcripts have the number of items in place of the output, so that the fold keeps its own. */
const streams = goldenStreams();

test('there are golden streams', () => {
  assert.ok(streams.length >= 20, `${streams.length} streams`);
  for (const { file, events } of streams) assert.ok(events.length >= 3, file);
});

for (const { file, events } of streams) {
  test(`${file}: the deltas add up to what is announced`, () => {
    let response = nothing();
    for (const event of events) {
      if (event.type.endsWith('output_item.done')) {
        const { status: _, ...folded } = response.output[event.output_index];
        const { status: __, ...done } = event.item;
        // What the provider sealed and what a tool returned come with the end of the item only.
        for (const late of ['encrypted_content', 'output', 'error', 'tools', 'results']) {
          if (!(late in folded) || folded[late] === null) delete folded[late], delete done[late];
        }
        assert.deepEqual(folded, done);
      }
      response = fold(response, event);
    }
  });

  test(`${file}: the whole is the final response`, () => {
    const response = foldAll(events);
    const last = events.at(-1).response;
    const items = events.filter((event) => event.type.endsWith('output_item.done')).map((event) => event.item);
    assert.deepEqual(response.output, items);
    assert.deepEqual({ ...response, output: response.output.length }, last);
  });

  test(`${file}: a fold of a part leaves the events as they were`, () => {
    const before = JSON.stringify(events);
    for (let count = 0; count <= events.length; count += 1) foldAll(events, count);
    assert.equal(JSON.stringify(events), before);
  });
}

test('a terminal response replaces what was folded', () => {
  const final = { id: 'resp_1', status: 'completed', output: [{ type: 'message', content: [] }] };
  const events = [
    { type: 'response.created', response: { id: 'resp_1', status: 'in_progress', output: [] } },
    { type: 'response.output_item.added', output_index: 0, item: { type: 'function_call', arguments: '' } },
    { type: 'response.completed', response: final },
  ];
  assert.deepEqual(foldAll(events), final);
});

test('events of items that are not there change nothing', () => {
  const response = foldAll([{ type: 'response.output_text.delta', output_index: 3, content_index: 0, delta: 'x' }]);
  assert.deepEqual(response, nothing());
});
