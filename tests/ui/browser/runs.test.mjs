// The list of runs, the chain of a run, and the same run as a picture and as a table.

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { assertAccessible, assertNoSidewaysScroll } from './lib/axe.mjs';
import { open, shot, withBrowser } from './lib/browser.mjs';
import { response, run, servers } from './lib/gateway.mjs';
import { main, rows } from './lib/page.mjs';
import * as runs from './lib/runs.mjs';

withBrowser();

before(async () => {
  // More than a page.
  for (let made = 0; made < 27; made += 1) await run({ model: 'plain', input: 'Hello.' });
});

test('a page of the list is one request', async () => {
  const page = await open('#/try');
  const asked = [];
  page.on('request', (request) => asked.push(new URL(request.url())));
  await main(page).getByRole('button', { name: 'Send', exact: true }).waitFor();
  await page.waitForLoadState('networkidle');
  asked.length = 0;
  await page.getByRole('link', { name: 'Runs' }).click();
  await main(page).getByRole('row').nth(25).waitFor();
  await page.waitForLoadState('networkidle');
  assert.deepEqual(
    asked.map(({ pathname }) => pathname),
    ['/v1/responses'],
  );
  asked.length = 0;
  const first = await main(page).getByRole('row').nth(1).innerText();
  await main(page).getByRole('link', { name: 'Older' }).click();
  await page.waitForFunction((text) => !document.querySelector('main').innerText.includes(text), first.split('\n')[2] ?? first);
  await page.waitForLoadState('networkidle');
  assert.deepEqual(
    asked.map(({ pathname }) => pathname),
    ['/v1/responses'],
  );
});

test('the list is filtered by status and by model', async () => {
  await runs.limited();
  const page = await open('#/runs');
  await page.getByRole('combobox', { name: 'Status' }).selectOption({ label: 'Stopped early' });
  await main(page).getByText('max_turns').first().waitFor();
  const states = () =>
    page.evaluate(() => [...document.querySelectorAll('main tbody .run-state')].map((cell) => cell.innerText.split('\n')[0].trim()));
  await page.waitForFunction(() => !document.querySelector('main table').innerText.includes('Completed'));
  for (const state of await states()) assert.equal(state, 'Stopped early');
  await page.getByRole('combobox', { name: 'Status' }).selectOption({ label: 'Any' });
  await page.getByRole('textbox', { name: 'Model' }).fill('plain');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => !document.querySelector('main table').innerText.includes('max_turns'));
  await main(page).getByText('Hello, I am a script.').first().waitFor();
  // The address says what is shown.
  await page.reload();
  await main(page).getByText('Hello, I am a script.').first().waitFor();
  assert.equal(await page.getByRole('textbox', { name: 'Model' }).inputValue(), 'plain');
});

test('the earlier responses of a chain are rows that open, with the waits between them', async () => {
  const { id } = await runs.chain();
  const page = await open(`#/runs/${id}`);
  await main(page)
    .getByText(/until the next request/)
    .first()
    .waitFor();
  const { previous_response_id: second } = await response(id);
  const { previous_response_id: first } = await response(second);
  const row = (of) => main(page).getByRole('button', { name: new RegExp(of.slice(-8)) });
  // Each is loaded when the one behind it is opened.
  await row(second).click();
  await main(page)
    .getByRole('tree', { name: new RegExp(second) })
    .getByText('deploy')
    .waitFor();
  await row(first).click();
  await main(page)
    .getByRole('tree', { name: new RegExp(first) })
    .waitFor();
  await main(page)
    .getByText(/for approval/)
    .first()
    .waitFor();
  await shot(page, 'run-chain-open');
  await assertAccessible(page);
});

test('a request that was answered asks no more, and the denial is read where it was sent', async () => {
  const asked = await runs.approval();
  const { id: request } = asked.output.find(({ type }) => type === 'mcp_approval_request');
  const input = [{ type: 'mcp_approval_response', approval_request_id: request, approve: false, reason: 'Not on a Friday' }];
  const { id } = await run({ model: 'approval', tools: servers('ops'), previous_response_id: asked.id, input });
  const page = await open(`#/runs/${asked.id}`);
  await main(page).getByText('Answered', { exact: true }).first().waitFor();
  assert.equal(await main(page).getByRole('radio').count(), 0);
  assert.equal(await main(page).getByText('Waits for approval').count(), 0);
  await main(page).getByRole('region', { name: 'Input' }).getByText('Deploy the shop.').waitFor();
  await main(page).getByRole('link', { name: 'the run after it' }).click();
  await page.getByRole('heading', { level: 1, name: new RegExp(id) }).waitFor();
  const given = main(page).getByRole('region', { name: 'Input' });
  await given.getByText('Denied deploy. Reason: Not on a Friday').waitFor();
  await given.getByText('The call was not made.').waitFor();
  await assertAccessible(page);
  await shot(page, 'run-denied');
});

test('the table says what the picture says', async () => {
  const { id } = await runs.failedCall();
  const page = await open(`#/runs/${id}`, { width: 360, height: 740 });
  await rows(page).first().waitFor();
  const pictured = await rows(page).evaluateAll((all) => all.map((row) => row.querySelector('.lane-time')?.textContent.trim()));
  await main(page).getByRole('button', { name: 'Table' }).click();
  const table = main(page).getByRole('table');
  await table.waitFor();
  const text = await table.innerText();
  for (const word of ['Turn 1', 'Turn 2', 'lookup', 'burn', 'Failed', ...pictured])
    assert.ok(text.includes(word), `${word} is not in the table`);
  await shot(page, 'run-table-phone');
  await assertAccessible(page);
  await assertNoSidewaysScroll(page);
});

test('what is selected is shown with its times, arguments and result', async () => {
  const { id } = await runs.failedCall();
  const page = await open(`#/runs/${id}`);
  await rows(page).filter({ hasText: 'burn' }).click();
  const details = main(page).getByRole('region', { name: 'Details' });
  await details.getByText('it burned: the fuse is gone').first().waitFor();
  await details.getByText('to see it fail').first().waitFor();
  await assertAccessible(page);
  await shot(page, 'run-details');
});
