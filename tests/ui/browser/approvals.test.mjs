// Who approves a call sees what its tool says of itself, wherever the response stands.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertAccessible } from './lib/axe.mjs';
import { open, shot, withBrowser } from './lib/browser.mjs';
import { env } from './lib/environment.mjs';
import { run, servers } from './lib/gateway.mjs';
import { main, untilChecked } from './lib/page.mjs';
import * as runs from './lib/runs.mjs';

withBrowser();

const SAYS = 'The server says: Deploys a version of a service to production.';
const WARNS = 'Declared as destructive: it may change or delete things.';
const ask = (more) => run({ model: 'approval', tools: servers('ops'), input: 'Deploy the shop.', ...more });

/** The response behind this one, with its approval. */
function approve({ id, output }) {
  const { id: request } = output.find(({ type }) => type === 'mcp_approval_request');
  return ask({ previous_response_id: id, input: [{ type: 'mcp_approval_response', approval_request_id: request, approve: true }] });
}

const isRepeated = ({ output }) => output.some(({ type }) => type === 'mcp_list_tools');
const card = (page) => main(page).getByRole('region', { name: 'Approval: deploy of ops' });

async function assertWarned(page) {
  await card(page).getByText(SAYS, { exact: true }).waitFor();
  await card(page).getByText(WARNS, { exact: true }).waitFor();
  await card(page).getByText('Definition of the tool').click();
  await card(page).getByText('"version"').last().waitFor();
}

test('late in a chain it is the same as in its first response', async () => {
  let last = await ask();
  for (let more = 0; more < 2; more += 1) last = await ask({ previous_response_id: (await approve(last)).id });
  assert.ok(!isRepeated(last), 'the list of tools is in the first response alone');
  const page = await open(`#/runs/${last.id}`);
  await assertWarned(page);
  await assertAccessible(page);
  await shot(page, 'approval-in-chain');
});

test('the answer to a reply warns as the first did', async () => {
  const page = await open('#/try');
  await main(page).getByRole('tab', { name: 'JSON' }).click();
  await main(page).getByLabel('Request body').fill(JSON.stringify({ model: 'approval', input: 'Deploy.', tools: servers('ops') }));
  const send = main(page).getByRole('button', { name: 'Send', exact: true });
  await send.click();
  await assertWarned(page);
  await untilChecked(page, card(page).getByRole('radio', { name: 'Approve this call' }));
  await main(page).getByRole('button', { name: 'Send: 1 approved' }).click();
  await main(page).getByText('Deployed, if you said so.').first().waitFor();
  await main(page).getByRole('button', { name: 'Reply to this' }).click();
  await main(page).getByRole('tab', { name: 'Form' }).click();
  await page.getByRole('textbox', { name: 'Input' }).fill('Once more.');
  await send.click();
  await assertWarned(page);
});

test('cards beside one another read the chain once', async () => {
  const first = await run({ model: 'approval', tools: servers('ops'), input: 'Deploy the shop.' });
  const second = await approve(first);
  const last = await run({ model: 'two-approvals', tools: servers('ops'), previous_response_id: second.id, input: 'Tidy up.' });
  const page = await open('#/runs');
  const asked = [];
  page.on('request', (request) => asked.push(new URL(request.url()).pathname));
  await page.evaluate((id) => (location.hash = `#/runs/${id}`), last.id);
  await card(page).getByText(WARNS).waitFor();
  await main(page).getByRole('region', { name: 'Approval: erase of ops' }).getByText('The server says: Erases a table.').waitFor();
  assert.equal(asked.filter((path) => path === `/v1/responses/${first.id}`).length, 1);
});

test('in a conversation, too', async () => {
  const answer = await fetch(`${env.open}/v1/conversations`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' });
  const { id: conversation } = await answer.json();
  const first = await ask({ conversation });
  const { id: request } = first.output.find(({ type }) => type === 'mcp_approval_request');
  await ask({ conversation, input: [{ type: 'mcp_approval_response', approval_request_id: request, approve: true }] });
  const last = await ask({ conversation });
  assert.ok(!isRepeated(last), 'the list of tools is in the first response alone');
  await assertWarned(await open(`#/runs/${last.id}`));
});

test('a chain of which nothing can be read any more still warns', async () => {
  const first = await ask();
  const last = await ask({ previous_response_id: (await approve(first)).id });
  await fetch(`${env.open}/v1/responses/${first.id}`, { method: 'DELETE' });
  const page = await open(`#/runs/${last.id}`);
  page.watch.allowErrorAnswers(404);
  // The server's own list of now.
  await card(page).getByText(SAYS, { exact: true }).waitFor();
  await card(page).getByText('It may change or delete things: it is not declared as read-only.').waitFor();
});
