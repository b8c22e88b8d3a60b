// A run that is still going on: the page follows it, but not while someone inspects what there is.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertAccessible } from './lib/axe.mjs';
import { open, shot, withBrowser } from './lib/browser.mjs';
import { env } from './lib/environment.mjs';
import { release, until } from './lib/gateway.mjs';
import { main, rows, state } from './lib/page.mjs';
import * as runs from './lib/runs.mjs';

withBrowser();

test('it follows to the end', async () => {
  const { id } = await runs.running();
  const page = await open(`#/runs/${id}`);
  await main(page).getByText('One two three').first().waitFor();
  await main(page).getByRole('button', { name: 'Follows', pressed: true }).waitFor();
  await shot(page, 'run-live');
  await assertAccessible(page);
  await release('watched');
  await main(page).getByText('One two three and, when it may, four five six.').first().waitFor();
  await state(page, 'Completed').waitFor();
  await main(page).getByRole('button', { name: 'Follows' }).waitFor({ state: 'hidden' });
});

test('it stops following while one inspects', async () => {
  const { id } = await runs.stepwise();
  const page = await open(`#/runs/${id}`);
  await pressSlowly(page, rows(page).first());
  await main(page).getByRole('region', { name: 'Details' }).waitFor();
  const before = await rows(page).count();
  await release('stepwise');
  const summary = main(page).getByRole('region', { name: 'Summary' });
  await summary.getByText('1 turn, 1 tool call').waitFor();
  assert.equal(await rows(page).count(), before, 'the picture stays as it is inspected');
  await main(page).getByRole('region', { name: 'Details' }).waitFor();
  await main(page).getByRole('button', { name: 'Follow again' }).click();
  await page.waitForFunction((count) => document.querySelectorAll('[role=treeitem]').length > count, before);
  await release('stepwise');
  await main(page).getByText('All steps are done.').first().waitFor();
  await state(page, 'Completed').waitFor();
});

test('it is cancelled from its page', async () => {
  const { id } = await runs.running();
  const page = await open(`#/runs/${id}`);
  await main(page).getByRole('button', { name: 'Cancel the run' }).click();
  await state(page, 'Cancelled').waitFor();
  await until(id, ({ status }) => status === 'cancelled');
  // The turn that was cut off did not complete.
  await rows(page).filter({ hasText: 'Turn 1' }).getByText('Cancelled').waitFor({ state: 'attached' });
});

test('a run that its own client waits for says that it is in progress', async () => {
  const body = JSON.stringify({ model: 'slow', input: 'Take your time.', stream: true });
  const answer = await fetch(`${env.open}/v1/responses`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  while (!/"id":"resp_/.test(text)) text += (await reader.read()).value;
  const [id] = text.match(/resp_[0-9a-f]+/);
  const page = await open(`#/runs/${id}`);
  page.watch.allowErrorAnswers(400);
  await main(page).getByText('It is in progress; its account comes with its end.').waitFor();
  await main(page).getByText('No output is known yet.').waitFor();
  assert.equal(await main(page).getByText('has no trace of it').count(), 0);
  await release('slow');
  while (!(await reader.read()).done);
  await main(page).getByText('It took a while.').first().waitFor();
  await rows(page).first().waitFor();
});

/** So slowly that what is pressed is drawn anew before it is released. */
async function pressSlowly(page, row) {
  const { x, y } = await row.boundingBox();
  const content = await row.evaluateHandle((element) => element.firstElementChild);
  await page.mouse.move(x + 100, y + 12);
  await page.mouse.down();
  await page.waitForFunction((pressed) => !pressed.isConnected, content);
  await page.mouse.up();
}
