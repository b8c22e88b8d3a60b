// Texts that mean ill, wherever a model, a tool, a provider or a client can put them: they stay texts.

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { HOSTILE, LONG_LINE } from '../hostile.mjs';
import { open, shot, withBrowser } from './lib/browser.mjs';
import { run, script, servers, tools, until } from './lib/gateway.mjs';
import { main, openAll } from './lib/page.mjs';

withBrowser();

const TEXTS = HOSTILE.map(({ text }) => text);
const ALL = TEXTS.join('\n\n');

before(async () => {
  const calls = TEXTS.map((text) => ({ name: 'repeat', arguments: { text, ['<b class="canary">']: text } }));
  const odd = { name: 'repeat', arguments: '{"text": "x", "__proto__": {"canary": 1}, "constructor": {"prototype": {"canary": 1}}}' };
  await tools('hostile', [
    { name: 'repeat', description: ALL, inputSchema: schema(), annotations: { readOnlyHint: true, title: TEXTS[0] }, result: ALL },
    { name: 'refuse', description: TEXTS[1], inputSchema: schema(), annotations: { readOnlyHint: true }, error: ALL },
    { name: 'ask', description: ALL, inputSchema: schema(), annotations: { destructiveHint: true, title: TEXTS[0] } },
  ]);
  await script('says-ill', [{ reasoning: ALL, text: ALL }]);
  await script('calls-ill', [
    { text: ALL, calls: [...calls, odd] },
    { calls: [{ name: 'refuse', arguments: { text: ALL } }] },
    { text: ALL },
  ]);
  await script('asks-ill', [{ text: ALL, calls: [{ name: 'ask', arguments: { text: ALL, __proto: TEXTS[0] } }] }, { text: ALL }]);
  await script('fails-ill', [{ fail: [{ status: 400, message: ALL }], always: true }]);
  await script('says-long', [{ text: LONG_LINE }]);
  await script('calls-long', [{ calls: [{ name: 'repeat', arguments: { text: LONG_LINE } }] }, { text: 'Done.' }]);
});

function schema() {
  return {
    type: 'object',
    properties: {
      text: { type: 'string', description: ALL, title: TEXTS[1], default: TEXTS[0] },
      '<b class="canary">': { type: 'string', enum: TEXTS },
    },
    required: ['text'],
  };
}

const metadata = Object.fromEntries(TEXTS.slice(0, 15).map((text, index) => [`${index} ${text}`.slice(0, 64), text.slice(0, 512)]));

/** What was made of the texts: nothing. */
async function assertHarmless(page) {
  const found = await page.evaluate(() => {
    const own = new Set([...document.head.querySelectorAll('*')]);
    const all = [...document.querySelectorAll('*')].filter((element) => !own.has(element));
    const wrong = all.filter((element) => {
      const name = element.localName;
      if (element.classList.contains('canary') || element.id === 'canary') return true;
      if (['script', 'iframe', 'object', 'embed', 'base', 'meta', 'img', 'video', 'audio', 'source', 'form', 'link'].includes(name))
        return true;
      const links = ['href', 'xlink:href', 'src', 'action', 'formaction', 'srcdoc', 'poster', 'data'];
      if (links.some((link) => element.hasAttribute(link) && !/^(#|\.{1,2}\/)/.test(element.getAttribute(link)))) return true;
      return [...element.attributes].some(({ name }) => name.startsWith('on'));
    });
    return {
      wrong: wrong.map((element) => element.outerHTML.slice(0, 300)),
      ran: 'canary' in globalThis || 'canary' in {},
      title: document.title,
    };
  });
  assert.deepEqual(found.wrong, []);
  assert.equal(found.ran, false);
  assert.doesNotMatch(found.title, /canary/);
}

/** The screen still answers to a key. */
async function assertAlive(page) {
  await page.keyboard.press('Escape');
  await page.getByRole('main').focus();
  await page.keyboard.press('?');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
}

test('what a model says', async () => {
  const { id } = await run({ model: 'says-ill', input: ALL, instructions: ALL, metadata });
  const page = await open(`#/runs/${id}`);
  await main(page).getByText('window.canary = 1').first().waitFor();
  await openAll(page);
  await assertHarmless(page);
  for (const text of TEXTS.slice(0, 6)) assert.ok((await main(page).textContent()).includes(text), text);
  await assertAlive(page);
  await shot(page, 'hostile-output');
});

test('arguments, results and errors of tools', async () => {
  const { id, output } = await run({ model: 'calls-ill', tools: servers('hostile'), metadata, input: ALL });
  assert.ok(output.filter(({ type }) => type === 'mcp_call').length > TEXTS.length);
  const page = await open(`#/runs/${id}`);
  await main(page).getByText('repeat').first().waitFor();
  await openAll(page);
  await assertHarmless(page);
  await assertAlive(page);
  await shot(page, 'hostile-calls');
});

test('a call that is to be approved', async () => {
  const { id } = await run({ model: 'asks-ill', tools: servers('hostile'), metadata, input: ALL });
  const page = await open(`#/runs/${id}`);
  await main(page)
    .getByRole('button', { name: /approve/i })
    .first()
    .waitFor();
  await openAll(page);
  await assertHarmless(page);
  assert.ok((await main(page).textContent()).includes('"__proto"'));
  await assertAlive(page);
  await shot(page, 'hostile-approval');
});

test('an error of the model server', async () => {
  const { id } = await run({ model: 'fails-ill', background: true, metadata, input: ALL });
  await until(id, ({ status }) => status === 'failed');
  const page = await open(`#/runs/${id}`);
  await openAll(page);
  await assertHarmless(page);
  await assertAlive(page);
});

test('lists of runs and of tools', async () => {
  const page = await open('#/runs');
  await main(page).getByText('says-ill').first().waitFor();
  await assertHarmless(page);
  await assertAlive(page);
  await page.goto(page.url().replace('#/runs', '#/tools'));
  await main(page)
    .getByRole('button', { name: /^hostile / })
    .click();
  await main(page)
    .getByRole('button', { name: /^repeat / })
    .click();
  await main(page).getByRole('article', { name: 'repeat' }).waitFor();
  await openAll(page);
  await assertHarmless(page);
  await assertAlive(page);
  await shot(page, 'hostile-tools');
});

test('lines of a mebibyte', async () => {
  for (const model of ['says-long', 'calls-long']) {
    const { id } = await run({ model, tools: servers('hostile'), input: LONG_LINE });
    const page = await open(`#/runs/${id}`);
    await main(page).getByText(model).first().waitFor();
    await openAll(page);
    await assertHarmless(page);
    await assertAlive(page);
  }
});
