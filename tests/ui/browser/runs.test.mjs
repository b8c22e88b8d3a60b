// The list of runs, the chain of a run, and the same run as a picture and as a table.

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { assertAccessible, assertNoSidewaysScroll } from './lib/axe.mjs';
import { open, shot, withBrowser } from './lib/browser.mjs';
import { response, run, servers, trace } from './lib/gateway.mjs';
import { main, rows } from './lib/page.mjs';
import { duration } from '../../../ui/lib/dom.js';
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
  // Nobody looks at it, so it is not kept up to date.
  await page.evaluate(() => Object.defineProperty(document, 'hidden', { value: true }));
  asked.length = 0;
  await page.getByRole('link', { name: 'Runs' }).click();
  await main(page).getByRole('row').nth(25).waitFor();
  await page.waitForLoadState('networkidle');
  assert.deepEqual(
    asked.map(({ pathname }) => pathname),
    ['/v1/responses'],
  );
  asked.length = 0;
  const first = await main(page).locator('a.run').first().getAttribute('href');
  await main(page).getByRole('link', { name: 'Older' }).click();
  await main(page).locator(`a.run[href="${first}"]`).waitFor({ state: 'detached' });
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
  // As long as the accounts of both say, before the row is opened and behind it.
  const [before, after] = [await trace(second), await trace(id)];
  const wait = main(page).locator('.chain-wait').getByText(`${duration(after.started_at - before.ended_at)} until the next request`, { exact: true });
  await wait.waitFor();
  // Each is loaded when the one behind it is opened.
  await row(second).click();
  await main(page)
    .getByRole('tree', { name: new RegExp(second) })
    .getByText('deploy')
    .waitFor();
  await wait.waitFor();
  // What is known of the next one is shown before it is opened.
  await row(first).getByText('Asked for approval').waitFor();
  await main(page).getByText(`${duration(before.started_at - (await trace(first)).ended_at)} for approval`, { exact: true }).waitFor();
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
  // A call that failed leads to the form of its tool, with its arguments.
  await details.getByRole('link', { name: 'Try it alone with these arguments' }).click();
  const form = main(page).getByRole('article', { name: 'burn' });
  await form.waitFor();
  assert.equal(await form.getByLabel('why').inputValue(), 'to see it fail');
});

test('a run leads back to the list as it was', async () => {
  const page = await open('#/runs?model=plain');
  await main(page).getByText('Hello, I am a script.').first().click();
  await page.getByRole('heading', { level: 1, name: /^Run resp_/ }).waitFor();
  assert.equal(await main(page).getByRole('link', { name: 'Runs' }).getAttribute('href'), '#/runs?model=plain');
  await page.keyboard.press('u');
  await page.getByRole('heading', { level: 1, name: 'Runs' }).waitFor();
  assert.equal(await page.getByRole('textbox', { name: 'Model' }).inputValue(), 'plain');
});

test('a report of doctor can be read on a phone, and names of fields in it are code', async () => {
  const page = await open('#/connect', { width: 360, height: 740 });
  const evidence = 'It sent the reasoning as content, between tags, and no field of its own. '.repeat(2);
  const findings = [{ id: 'reasoning', question: 'Is reasoning in `reasoning_content`?', answer: 'no', evidence }];
  const report = { object: 'doctor.report', verdict: 'works_with_gaps', findings, tokens: { input: 1, output: 2 } };
  await page.getByLabel('Report of doctor').setInputFiles({ name: 'doctor.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(report)) });
  const row = main(page).getByRole('region', { name: 'What doctor found' }).getByRole('row').nth(1);
  await row.getByRole('code').getByText('reasoning_content', { exact: true }).waitFor();
  assert.doesNotMatch(await row.innerText(), /`/);
  assert.ok((await row.boundingBox()).height < 180, JSON.stringify(await row.boundingBox()));
  await shot(page, 'doctor-phone');
  await assertAccessible(page);
  await assertNoSidewaysScroll(page);
});

test('an address that is none shows no run, and breaks nothing', async () => {
  const page = await open('#/runs');
  page.watch.allowErrorAnswers(404);
  await page.evaluate(() => (location.hash = '#/runs/%E0%A4%A'));
  await main(page).getByRole('group', { name: 'Error' }).getByText(/not found|no response/i).first().waitFor();
});

test('of a table only what is seen in it is offered, and its last column can be read on a phone', async () => {
  const { id } = await runs.limited();
  const page = await open(`#/runs/${id}`, { width: 360, height: 740 });
  await main(page).getByRole('button', { name: 'Collapse all' }).waitFor();
  await main(page).getByRole('button', { name: 'Table' }).click();
  await main(page).getByRole('table').waitFor();
  assert.equal(await main(page).getByRole('button', { name: /^(Collapse|Expand) all$/ }).count(), 0);
  const heights = await main(page).getByRole('table').getByRole('row').evaluateAll((all) => all.map((row) => row.clientHeight));
  assert.ok(Math.max(...heights) < 120, String(heights));
});
