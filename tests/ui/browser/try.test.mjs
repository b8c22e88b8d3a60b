// A request is put together and sent; errors say what to do next; functions of the client and questions of tools are answered.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertAccessible } from './lib/axe.mjs';
import { open, shot, withBrowser } from './lib/browser.mjs';
import { release, response } from './lib/gateway.mjs';
import { main, untilChecked } from './lib/page.mjs';
import { THERMOMETER } from './lib/runs.mjs';

withBrowser();

/** Opens Try with this request. */
async function tryIt(request, options) {
  const page = await open('#/try', options);
  await main(page).getByRole('tab', { name: 'JSON' }).click();
  await main(page).getByLabel('Request body').fill(JSON.stringify(request));
  return page;
}

const send = (page) => main(page).getByRole('button', { name: 'Send', exact: true }).click();
const shownRun = (page) => main(page).getByRole('region', { name: 'Run' });

test('the form makes the request, and JSON and form are one', async () => {
  const page = await open('#/try');
  await page.getByRole('textbox', { name: 'Input' }).fill('Say hello.');
  await page.getByRole('combobox', { name: 'Model' }).selectOption('plain');
  await page.getByRole('textbox', { name: 'Instructions' }).fill('Be kind.');
  await main(page).getByRole('tab', { name: 'JSON' }).click();
  const text = main(page).getByLabel('Request body');
  const body = JSON.parse(await text.inputValue());
  assert.deepEqual([body.model, body.instructions, body.input], ['plain', 'Be kind.', 'Say hello.']);
  await text.fill(JSON.stringify({ ...body, input: 'Say it again.', temperature: 0.5 }));
  await main(page).getByRole('tab', { name: 'Form' }).click();
  assert.equal(await page.getByRole('textbox', { name: 'Input' }).inputValue(), 'Say it again.');
  const sent = page.waitForRequest((request) => request.method() === 'POST');
  await send(page);
  const { model, temperature, input, stream } = JSON.parse((await sent).postData());
  assert.deepEqual({ model, temperature, input, stream }, { model: 'plain', temperature: 0.5, input: 'Say it again.', stream: true });
  await shownRun(page).getByText('Hello, I am a script.').first().waitFor();
  await shot(page, 'try-run');
  await assertAccessible(page);
});

test('a run is watched while it waits for its first token and while it is written', async () => {
  const page = await tryIt({ model: 'slow', input: 'Take your time.' });
  await send(page);
  await shownRun(page).getByText('Running', { exact: true }).first().waitFor();
  await main(page).getByRole('button', { name: 'Stop' }).waitFor();
  await shot(page, 'try-live');
  await assertAccessible(page);
  await release('slow');
  await shownRun(page).getByText('It took a while.').first().waitFor();
  await shownRun(page).getByText('Completed', { exact: true }).first().waitFor();
  await main(page).getByRole('button', { name: 'Stop' }).waitFor({ state: 'hidden' });
});

test('an error that asks to wait says whose it is, what to do next, and counts down', async () => {
  const page = await tryIt({ model: 'limited', input: 'Go on.' });
  page.watch.allowErrorAnswers(429);
  await send(page);
  const error = main(page).getByRole('group', { name: 'Error' });
  await error.getByText(/asks to wait: \d+ s/).waitFor();
  for (const term of ['Cause', 'Next', 'Code', 'Request id']) await error.getByText(term, { exact: true }).waitFor();
  await error.getByText(/HTTP 429/).waitFor();
  await shot(page, 'try-error');
  await assertAccessible(page);
});

test('a request that is refused names its field', async () => {
  const page = await tryIt({ model: 'plain', input: 'Go on.', temperature: 99 });
  page.watch.allowErrorAnswers(400);
  await send(page);
  const error = main(page).getByRole('group', { name: 'Error' });
  await error.getByText('temperature', { exact: true }).waitFor();
  // There is no run to be shown.
  for (const words of ['No output yet.', 'Queued', 'Follows', 'Timeline'])
    assert.equal(await main(page).getByText(words).filter({ visible: true }).count(), 0, words);
  await assertAccessible(page);
});

test('what was written stays beside the error that ended it', async () => {
  const page = await tryIt({ model: 'cut', input: 'Go on.' });
  await send(page);
  await main(page).getByRole('group', { name: 'Error' }).waitFor();
  await shownRun(page).getByText('This answer ends in the middle of').first().waitFor();
  await shot(page, 'try-cut');
});

test('a function of the client is answered by a person', async () => {
  const page = await tryIt({ model: 'client', input: 'How warm is it?', tools: [THERMOMETER] });
  await send(page);
  const asks = main(page).getByRole('region', { name: 'What the response waits for' });
  await asks.getByText('"room": "kitchen"').waitFor();
  await asks.getByRole('textbox').fill('22 degrees');
  await assertAccessible(page);
  await shot(page, 'client-function');
  const sent = page.waitForRequest((request) => request.method() === 'POST');
  await pressWhenReady(page, asks.getByRole('button', { name: /^Send/ }));
  const { input } = JSON.parse((await sent).postData());
  assert.equal(input[0].type, 'function_call_output');
  assert.equal(input[0].output, '22 degrees');
  await shownRun(page).getByText('It is as warm as you say.').first().waitFor();
});

test('a question of a tool is answered while the run waits', async () => {
  const page = await tryIt({ agent: 'clerk', input: 'A shirt, please.', antwort: { elicitation: ['form'] } });
  await send(page);
  const question = main(page).getByRole('region', { name: /^Question of order/ });
  await question.getByText('Which size?').waitFor();
  await assertAccessible(page);
  await shot(page, 'question');
  await question.getByRole('combobox').selectOption('M');
  await pressWhenReady(page, question.getByRole('button', { name: 'Send' }));
  await shownRun(page).getByText('Ordered.').first().waitFor();
});

test('a denial is sent with its reason, and all decisions together', async () => {
  const page = await tryIt({ model: 'two-approvals', input: 'Tidy up.', tools: [{ type: 'mcp', server_label: 'ops' }] });
  await send(page);
  const asks = main(page).getByRole('region', { name: 'What the response waits for' });
  const cards = asks.getByRole('region', { name: /^Approval: / });
  await cards.nth(1).waitFor();
  assert.equal(await cards.count(), 2);
  const button = asks.getByRole('button', { name: /^(Send|Approve|Deny)/ });
  await cards.nth(0).getByText('"version": 7').waitFor();
  await untilChecked(page, cards.nth(0).getByRole('radio', { name: 'Approve this call' }));
  // One is missing: nothing can be sent.
  assert.equal(await button.getAttribute('aria-disabled'), 'true');
  await untilChecked(page, cards.nth(1).getByRole('radio', { name: 'Deny' }));
  await cards
    .nth(1)
    .getByLabel(/^Reason/)
    .fill('Not on a Friday');
  await assertAccessible(page);
  const sent = page.waitForRequest((request) => request.method() === 'POST');
  await pressWhenReady(page, button);
  const { input } = JSON.parse((await sent).postData());
  assert.deepEqual(
    input.map(({ type, approve, reason }) => ({ type, approve, reason })),
    [
      { type: 'mcp_approval_response', approve: true, reason: undefined },
      { type: 'mcp_approval_response', approve: false, reason: 'Not on a Friday' },
    ],
  );
  await shownRun(page).getByText('Both are settled.').first().waitFor();
});

test('clicks within a second approve nothing', async () => {
  const page = await tryIt({ agent: 'operator', input: 'Deploy.' });
  // What approves is clicked as soon as it is there, and at each frame from then on.
  await page.evaluate(() => {
    let first = 0;
    const { fetch } = globalThis;
    globalThis.fetch = (...request) => {
      if (first && String(request[1]?.body).includes('mcp_approval_response'))
        document.documentElement.dataset.took ??= String(performance.now() - first);
      return fetch(...request);
    };
    const click = () => {
      const asks = document.querySelector('[aria-label="What the response waits for"]');
      const all = asks ? [asks.querySelector('input[type=radio]'), ...asks.querySelectorAll('button')] : [];
      if (all.length > 0 && !first) first = performance.now();
      for (const each of all) each.click();
      if (!document.documentElement.dataset.took) requestAnimationFrame(click);
    };
    click();
  });
  await send(page);
  const took = await page.waitForFunction(() => document.documentElement.dataset.took);
  // A busy machine draws late what was there before.
  assert.ok(Number(await took.jsonValue()) > 500, `it was sent after ${await took.jsonValue()} ms`);
  await shownRun(page).getByText('Deployed, if you said so.').first().waitFor();
});

test('programs of the request can be run as they are copied', async () => {
  const page = await tryIt({ model: 'plain', input: 'It\'s "quoted" $HOME `pwd` \\ é' });
  for (const name of ['curl', 'Python', 'JavaScript']) {
    await main(page).getByRole('tab', { name }).click();
    await main(page).getByRole('tabpanel', { name }).getByRole('button', { name: 'Copy' }).click();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.ok(copied.includes('/v1'), copied);
    if (name === 'curl') await assertRuns(copied);
  }
});

/** The shell sends what was typed. */
async function assertRuns(command) {
  const { execFile } = await import('node:child_process');
  const { promisify } = await import('node:util');
  const { stdout } = await promisify(execFile)('bash', ['-c', command], { env: { ...process.env, ANTWORT_API_KEY: 'unused' } });
  const id = stdout.match(/resp_[0-9a-f]+/)?.[0];
  assert.ok(id, stdout.slice(0, 500));
  const { model } = await response(id);
  assert.equal(model, 'plain');
}

/** Buttons of what has just come are inert for a second. */
async function pressWhenReady(page, button) {
  await page.waitForFunction((each) => each.getAttribute('aria-disabled') !== 'true' && !each.disabled, await button.elementHandle());
  await button.click();
}

test('a request with an MCP server, added twice, is copied as it is sent, and the copy runs', async () => {
  const page = await tryIt({ model: 'plain', input: 'Hello.' });
  await main(page).getByRole('tab', { name: 'Form' }).click();
  const tools = main(page).getByRole('group', { name: 'Tools', exact: true });
  for (let added = 0; added < 2; added += 1) {
    await tools.getByLabel('Add a tool').selectOption('desk');
    await tools.getByRole('button', { name: 'Add', exact: true }).click();
  }
  await main(page).getByRole('tab', { name: 'curl' }).click();
  const copied = await main(page).getByRole('group', { name: 'The request in curl' }).innerText();
  const sent = page.waitForRequest((request) => request.method() === 'POST');
  await send(page);
  const body = JSON.parse((await sent).postData());
  assert.deepEqual(body.tools, [{ type: 'mcp', server_label: 'desk' }]);
  assert.deepEqual(body.antwort, { elicitation: ['form', 'url'] });
  assert.deepEqual(JSON.parse(copied.match(/-d '([^]*)'$/)[1]), body);
  await assertRuns(copied);
  // What was set for it goes with it.
  await main(page).getByRole('tab', { name: 'Form' }).click();
  await tools.getByRole('button', { name: 'Remove' }).click();
  await main(page).getByRole('tab', { name: 'JSON' }).click();
  assert.deepEqual(JSON.parse(await main(page).getByLabel('Request body').inputValue()), { input: 'Hello.', model: 'plain' });
});

test('an error within a stream has the id of its request', async () => {
  const page = await tryIt({ model: 'cut', input: 'Go on.' });
  const answered = page.waitForResponse((answer) => answer.request().method() === 'POST');
  await send(page);
  const id = await (await answered).headerValue('x-request-id');
  await main(page).getByRole('group', { name: 'Error' }).getByText(id, { exact: true }).waitFor();
});

test('a function that is waited for within the run is a wait, and its output has its name', async () => {
  const page = await tryIt({ model: 'client', input: 'How warm is it?', tools: [THERMOMETER], antwort: { client_tools: 'inline' } });
  await send(page);
  const asks = main(page).getByRole('region', { name: 'Call of thermometer' }).first();
  await asks.waitFor();
  await main(page).getByRole('treeitem').filter({ hasText: 'waits for the client' }).waitFor();
  await shot(page, 'inline-function');
  // No shares of the time, and nothing of lengths of text, while it is this page's clock that tells them.
  for (const words of [/of the time went to/, 'Where the time went', 'The kinds share a turn'])
    assert.equal(await main(page).getByText(words).filter({ visible: true }).count(), 0, String(words));
  await asks.getByRole('textbox').fill('22 degrees');
  await pressWhenReady(page, asks.getByRole('button', { name: 'Send' }));
  await shownRun(page).getByText('It is as warm as you say.').first().waitFor();
  await shownRun(page).getByText('Result of thermometer').first().waitFor();
  await page.waitForFunction(() => document.activeElement.matches('.run-view'));
});

for (const [width, height] of [[360, 640], [1280, 640]]) {
  test(`what has the focus is not below the bar with the button, at ${width} × ${height}`, async () => {
    const page = await open('#/try', { width, height });
    await page.getByRole('combobox', { name: 'Add a tool' }).waitFor();
    for (const summary of await main(page).locator('.request-form details > summary').all()) await summary.click();
    await page.evaluate(() => scrollTo(0, 0));
    await page.getByRole('textbox', { name: 'Input' }).focus();
    const hidden = [];
    for (let pressed = 0; pressed < 60; pressed += 1) {
      await page.keyboard.press('Tab');
      const found = await page.evaluate(() => {
        const [at, bar] = [document.activeElement, document.querySelector('.send-bar')];
        if (bar.contains(at)) return null;
        const [one, other] = [at.getBoundingClientRect(), bar.getBoundingClientRect()];
        return one.bottom > other.top + 1 ? `${at.tagName} ${at.id} ${at.textContent.slice(0, 30)} ${one.bottom} ${other.top}` : '';
      });
      if (found === null) break;
      if (found) hidden.push(found);
    }
    assert.deepEqual(hidden, []);
  });
}
