// The stream of a run, event by event: exact where there is a log of it, else marked as made up.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, shot, withBrowser } from './lib/browser.mjs';
import { events, response, run, servers, until } from './lib/gateway.mjs';
import { main } from './lib/page.mjs';
import * as runs from './lib/runs.mjs';

withBrowser();

const SCENES = {
  parallel: { model: 'parallel', tools: servers('desk') },
  'failing-call': { model: 'failing-call', tools: servers('desk') },
  approval: { model: 'approval', tools: servers('ops') },
  client: { model: 'client', tools: [runs.THERMOMETER] },
  limited: { agent: 'hurried' },
  broken: { model: 'broken' },
};

const replayOf = (page) => main(page).getByRole('region', { name: 'Replay' });

for (const [name, request] of Object.entries(SCENES)) {
  test(`at the last event it is the response: ${name}`, async () => {
    const { id } = await run({ ...request, input: 'Go on.', background: true });
    const whole = await until(id, ({ status }) => !['queued', 'in_progress'].includes(status));
    const all = await events(id);
    const page = await open(`#/runs/${id}/seq/${all.length - 1}`);
    const replay = replayOf(page);
    await replay.getByText('Exact', { exact: true }).waitFor();
    // By what the page folds them with, …
    const folded = await page.evaluate(async (list) => {
      const { foldAll } = await import('./protocol.js');
      return foldAll(list, list.length);
    }, all);
    assert.deepEqual(folded, whole);
    // … and by what it shows.
    const last = JSON.parse(await replay.getByRole('group', { name: 'The event' }).textContent());
    assert.deepEqual(last, all.at(-1));
    const then = await replay.getByRole('group', { name: 'The response as it was' }).innerText();
    const now = await main(page).getByRole('group', { name: 'Output', exact: true }).innerText();
    assert.equal(then, now);
  });
}

test('a link opens the run at its event', async () => {
  const { id } = await run({ ...SCENES.parallel, background: true });
  await until(id, ({ status }) => status === 'completed');
  const all = await events(id);
  // Amid the answer.
  const middle = all.findLastIndex(({ type }) => type === 'response.output_text.delta') - 1;
  const page = await open(`#/runs/${id}/seq/${middle}`);
  const replay = replayOf(page);
  await replay.getByText(`event ${middle} of ${all.length - 1}`).waitFor();
  assert.deepEqual(JSON.parse(await replay.getByRole('group', { name: 'The event' }).textContent()), all[middle]);
  const shown = await replay.getByRole('group', { name: 'The response as it was' }).innerText();
  assert.match(shown, /Both numbers are needed\./);
  assert.match(shown, /The first is 1 and the second is$/m);
  await shot(page, 'replay');
  // Another link to the same run.
  await page.evaluate((hash) => (location.hash = hash), `#/runs/${id}/seq/0`);
  await replay.getByText(`event 0 of ${all.length - 1}`).waitFor();
});

test('without a log of events it is said to be reconstructed', async () => {
  const { id } = await runs.parallel();
  const page = await open(`#/runs/${id}/seq/0`);
  const replay = replayOf(page);
  await replay.getByText('Reconstructed', { exact: true }).waitFor();
  const slider = replay.getByRole('slider', { name: 'Event' });
  await slider.press('End');
  const then = await replay.getByRole('group', { name: 'The response as it was' }).innerText();
  assert.equal(then, await main(page).getByRole('group', { name: 'Output', exact: true }).innerText());
  assert.equal((await response(id)).status, 'completed');
  await shot(page, 'replay-reconstructed');
});
