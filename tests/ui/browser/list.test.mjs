// The list of runs follows what runs, while somebody looks at it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertAccessible } from './lib/axe.mjs';
import { open, shot, withBrowser } from './lib/browser.mjs';
import { release, run, script } from './lib/gateway.mjs';
import { main } from './lib/page.mjs';
import * as runs from './lib/runs.mjs';

withBrowser();

const row = (page, id) => main(page).getByRole('row').filter({ has: page.locator(`a.run[href$="${id}"]`) });

/** What the page asks for, from now on. */
function requests(page) {
  const asked = [];
  page.on('request', (request) => asked.push(new URL(request.url()).pathname));
  return asked;
}

/** Whether somebody looks at the page, as browsers tell it. */
function look(page, visible) {
  return page.evaluate((hidden) => {
    Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  }, !visible);
}

/** The same page with a clock that can be put forward: far beyond the longest time between two looks. */
async function withClock(page) {
  await page.clock.install();
  await page.reload();
  return () => page.clock.fastForward(120_000);
}

test('a run that is made elsewhere appears, and its row says when it has ended', async () => {
  const page = await open('#/runs?model=listed');
  await main(page).getByText(/^No run fits|listed/).first().waitFor();
  const { id } = await runs.running('listed');
  await row(page, id).getByText('Running').waitFor();
  await shot(page, 'runs-live');
  await assertAccessible(page);
  // Who is at a row stays there, though it is drawn anew, and those that did not change are the same.
  const { id: other } = await runs.running('listed');
  // The list may tell of it while it is queued, and that changes.
  await row(page, other).getByText('Running').waitFor();
  await row(page, id).getByRole('link').first().focus();
  const same = await row(page, other).elementHandle();
  await release('listed');
  await row(page, id).getByText('Completed').waitFor();
  assert.ok(await page.evaluate((end) => document.activeElement.getAttribute('href')?.endsWith(end), id), 'the focus is where it was');
  assert.ok(await same.evaluate((element) => element.isConnected), 'what did not change is not drawn anew');
  await release('listed');
  await row(page, other).getByText('Completed').waitFor();
});

test('a list that nobody sees asks for nothing, and is brought up to date when it is seen', async () => {
  await script('unseen', [{ text: 'Nobody saw it.' }]);
  const page = await open('#/runs?model=unseen');
  const wait = await withClock(page);
  await main(page).getByText('No run fits').waitFor();
  await look(page, false);
  await page.waitForLoadState('networkidle');
  const asked = requests(page);
  const { id } = await run({ model: 'unseen' });
  for (let waited = 0; waited < 3; waited += 1) await wait();
  await page.waitForLoadState('networkidle');
  assert.deepEqual(asked, []);
  await look(page, true);
  await row(page, id).waitFor();
});

test('a list that cannot be loaded any more stays, and says that it is old', async () => {
  const { id } = await run({ model: 'plain' });
  const page = await open('#/runs?model=plain');
  await row(page, id).waitFor();
  page.watch.allowErrorAnswers(503);
  await page.route('**/v1/responses?*', (route) => route.fulfill({ status: 503, json: { error: { message: 'The store is busy.', type: 'server_error', code: 'storage_error' } } }));
  await main(page).getByText('Not up to date: The store is busy.').waitFor();
  await row(page, id).waitFor();
  await assertAccessible(page);
  await page.unroute('**/v1/responses?*');
  await main(page).getByText('Not up to date').waitFor({ state: 'detached' });
});

test('another screen asks for no list', async () => {
  await run({ model: 'plain' });
  const page = await open('#/runs');
  const wait = await withClock(page);
  await main(page).getByRole('row').first().waitFor();
  // Where it is seen, it asks.
  const seen = page.waitForRequest(/\/v1\/responses\?/);
  await wait();
  await seen;
  await page.getByRole('link', { name: 'Connect' }).click();
  await main(page).getByRole('heading', { level: 1, name: 'Connect' }).waitFor();
  const asked = requests(page);
  for (let waited = 0; waited < 3; waited += 1) await wait();
  await page.waitForLoadState('networkidle');
  assert.ok(!asked.includes('/v1/responses'), asked.join(' '));
});
