// Each screen in light, in dark and on a phone: axe-core finds nothing, the console stays empty, nobody else is asked, nothing is cut off.

import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { assertAccessible, assertNoSidewaysScroll } from './lib/axe.mjs';
import { open, shot, withBrowser } from './lib/browser.mjs';
import { go } from './lib/page.mjs';
import * as runs from './lib/runs.mjs';

const VARIANTS = {
  light: {},
  dark: { dark: true },
  phone: { width: 360, height: 740 },
};

/** Runs by name, made once. */
const made = {};

/** @type {Record<string, {hash: () => string, shows: (page: any) => Promise<void>, statuses?: number[]}>} */
const SCREENS = {
  try: { hash: () => '#/try', shows: (page) => page.getByRole('button', { name: 'Send' }).waitFor() },
  runs: { hash: () => '#/runs', shows: (page) => page.getByText(made.failedCall.model).first().waitFor() },
  run: { hash: () => `#/runs/${made.parallel.id}`, shows: says('The first is 1 and the second is 2.') },
  'run-with-failed-call': { hash: () => `#/runs/${made.failedCall.id}`, shows: says('burn') },
  'run-with-retry': { hash: () => `#/runs/${made.retried.id}`, shows: says('It worked at the second attempt.') },
  'run-waiting-for-approval': {
    hash: () => `#/runs/${made.approval.id}`,
    shows: (page) => page.getByRole('region', { name: 'What the response waits for' }).waitFor(),
  },
  'run-waiting-for-two-approvals': { hash: () => `#/runs/${made.twoApprovals.id}`, shows: says('erase') },
  'run-waiting-for-a-function': { hash: () => `#/runs/${made.clientCall.id}`, shows: says('thermometer') },
  'run-stopped-by-a-limit': { hash: () => `#/runs/${made.limited.id}`, shows: says(/max_turns/) },
  'run-failed': { hash: () => `#/runs/${made.failed.id}`, shows: says(/on fire/) },
  'run-of-a-chain': { hash: () => `#/runs/${made.chain.id}`, shows: says('Hello, I am a script.') },
  'run-at-an-event': { hash: () => `#/runs/${made.logged.id}/seq/3`, shows: says('response.') },
  'run-unknown': { hash: () => '#/runs/resp_unknown', shows: says(/not found|no response/i), statuses: [404] },
  tools: { hash: () => '#/tools', shows: says('calculate') },
  help: {
    hash: () => '#/runs',
    shows: async (page) => {
      await page.keyboard.press('?');
      await page.getByRole('dialog', { name: 'Keyboard' }).waitFor();
    },
  },
  key: {
    hash: () => '#/runs',
    shows: async (page) => {
      await page.getByRole('button', { name: /^Key: / }).click();
      await page.getByRole('dialog', { name: 'API key' }).waitFor();
    },
  },
  connect: { hash: () => '#/connect', shows: says(/\/v1/) },
  'not-found': { hash: () => '#/not', shows: says('This page has nothing at this address.') },
};

function says(text) {
  return (page) => page.getByRole('main').getByText(text).filter({ visible: true }).first().waitFor();
}

withBrowser();

before(async () => {
  const names = ['parallel', 'failedCall', 'retried', 'approval', 'twoApprovals', 'clientCall', 'limited', 'failed', 'chain', 'logged'];
  await Promise.all(names.map(async (name) => (made[name] = await runs[name]())));
});

for (const [variant, options] of Object.entries(VARIANTS)) {
  describe(variant, () => {
    let page;
    before(async () => {
      page = await open('#/try', { ...options, kept: true });
    });
    for (const [name, { hash, shows, statuses = [] }] of Object.entries(SCREENS)) {
      test(name, async () => {
        page.watch.allowErrorAnswers(...statuses);
        await go(page, hash());
        await shows(page);
        await shot(page, `${name}-${variant}`);
        await assertAccessible(page);
        await assertNoSidewaysScroll(page);
        await page.keyboard.press('Escape');
        page.watch.check();
      });
    }
  });
}

test('an address that is none is said to be none, also where JavaScript has a word for it', async () => {
  const page = await open('#/constructor');
  const isNotFound = () => page.getByRole('heading', { level: 1, name: 'Not found' }).waitFor();
  await isNotFound();
  for (const name of ['__proto__', 'toString', 'hasOwnProperty', 'run', 'unknown', 'nowhere/at/all']) {
    await go(page, '#/runs');
    await page.evaluate((to) => (location.hash = to), `#/${name}`);
    await isNotFound();
  }
  await page.getByRole('link', { name: 'Go to the runs' }).click();
  await page.getByRole('heading', { level: 1, name: 'Runs' }).waitFor();
});

test('skipping to the content stays on the screen', async () => {
  const page = await open('#/connect');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.activeElement.id === 'main');
  assert.equal(new URL(page.url()).hash, '#/connect');
  await page.getByRole('heading', { level: 1, name: 'Connect' }).waitFor();
});
