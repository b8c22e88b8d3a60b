// A gateway that asks for keys: what the page says without one and with one that may do nothing, and where a key never is.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertAccessible } from './lib/axe.mjs';
import { open, shot, withBrowser } from './lib/browser.mjs';
import { env } from './lib/environment.mjs';
import { enterKey, go, main, openAll, untilChecked } from './lib/page.mjs';
import * as runs from './lib/runs.mjs';

withBrowser();

const { full, none, reader, tools } = env.keys;
const gateway = env.keyed;
const SCREENS = {
  '#/try': /responses:create|models:read/,
  '#/runs': /responses:read/,
  '#/tools': /tools:read/,
  '#/connect': /models:read|scope|key/i,
};

test('without a key each screen says that one is needed', async () => {
  const page = await open('#/try', { gateway });
  page.watch.allowErrorAnswers(401);
  for (const hash of Object.keys(SCREENS)) {
    await go(page, hash);
    await main(page).getByText(/key/i).filter({ visible: true }).first().waitFor();
    await assertAccessible(page);
    await shot(page, `no-key${hash.replace('#/', '-')}`);
  }
});

test('a key without scopes is told, for each screen, which one it lacks', async () => {
  const page = await open('#/runs', { gateway });
  page.watch.allowErrorAnswers(401, 403);
  await enterKey(page, none);
  for (const [hash, scope] of Object.entries(SCREENS)) {
    await go(page, hash);
    await main(page).getByText(scope).first().waitFor();
    await assertAccessible(page);
    await shot(page, `no-scopes${hash.replace('#/', '-')}`);
  }
});

test('Enter in the dialog uses the key, and the dialog stays closed', async () => {
  const page = await open('#/runs', { gateway });
  page.watch.allowErrorAnswers(401);
  await page.getByRole('button', { name: 'Key: none' }).click();
  const dialog = page.getByRole('dialog', { name: 'API key' });
  await dialog.getByLabel('Key').fill(full);
  // Held down, too: what has the focus next is not pressed.
  for (let pressed = 0; pressed < 3; pressed += 1) await page.keyboard.down('Enter');
  await page.keyboard.up('Enter');
  await page.getByRole('button', { name: 'Key: set' }).waitFor();
  await page.getByRole('combobox', { name: 'Status' }).waitFor();
  assert.equal(await page.getByRole('dialog').count(), 0);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
});

test('who follows a link without a key is asked for one in the page, and then sees the run', async () => {
  const { id } = await runs.approval({ gateway, key: full });
  const page = await open(`#/runs/${id}`, { gateway });
  page.watch.allowErrorAnswers(401);
  const wanted = main(page).getByRole('region', { name: 'Key wanted' });
  await wanted.getByText('The gateway asks for an API key.').waitFor();
  // In words for people, not for programs.
  assert.doesNotMatch(await main(page).innerText(), /Authorization|Bearer|invalid_api_key/);
  await assertAccessible(page);
  await shot(page, 'link-without-key');
  await wanted.getByLabel('API key').fill(`${full}-mistyped`);
  await wanted.getByRole('button', { name: 'Use this key' }).click();
  await wanted.getByText('The gateway does not accept this key.').waitFor();
  await wanted.getByLabel('API key').fill(full);
  await page.keyboard.press('Enter');
  await main(page).getByRole('region', { name: 'What the response waits for' }).waitFor();
  await page.getByRole('heading', { level: 1, name: new RegExp(id) }).waitFor();
  assert.equal(await wanted.count(), 0);
});

test('a key that may not see MCP servers is told what it lacks, and lists the tools of one', async () => {
  const page = await open('#/tools', { gateway });
  page.watch.allowErrorAnswers(401, 403);
  await enterKey(page, tools);
  await main(page).getByText(/may not see: it lacks the scope mcp:admin, which the operator can add/).waitFor();
  assert.equal(await main(page).getByRole('group', { name: 'Error' }).count(), 0);
  await main(page).getByRole('button', { name: /^calculate / }).waitFor();
  await main(page).getByLabel('Label of an MCP server').fill('ops');
  await page.keyboard.press('Enter');
  await main(page).getByRole('button', { name: /^deploy / }).click();
  await main(page).getByRole('article', { name: 'deploy' }).getByText(/Deploys a version/).first().waitFor();
  await assertAccessible(page);
  await shot(page, 'tools-small-key');
});

test('a key that reads sees runs, and hears that it cannot make one', async () => {
  const { id } = await runs.approval({ gateway, key: full });
  const page = await open(`#/runs/${id}`, { gateway });
  page.watch.allowErrorAnswers(401, 403);
  await enterKey(page, reader);
  await main(page).getByText('deploy').first().waitFor();
  await untilChecked(page, page.getByRole('radio', { name: /approve/i }).first());
  await main(page).getByRole('region', { name: 'What the response waits for' }).getByRole('button').last().click();
  await main(page).getByText('responses:create').first().waitFor();
});

test('a key is kept in memory alone', async () => {
  const page = await open('#/try', { gateway });
  page.watch.allowErrorAnswers(401);
  await enterKey(page, full);
  for (const hash of Object.keys(SCREENS)) {
    await go(page, hash);
    await openAll(page);
    for (const copy of await main(page).getByRole('button', { name: /^Copy/ }).all()) {
      if (!(await copy.isVisible())) continue;
      await copy.click();
      const copied = await page.evaluate(() => navigator.clipboard.readText());
      assert.ok(copied.length > 0);
      assert.ok(!copied.includes(full), `copied: ${copied}`);
    }
    await assertNowhere(page);
  }
  // Nor does a reload bring it back.
  await page.reload();
  await main(page).getByText(/key/i).first().waitFor();
});

async function assertNowhere(page) {
  const places = await page.evaluate(async () => ({
    document: document.documentElement.outerHTML,
    fields: [...document.querySelectorAll('input, textarea, select')].map((field) => field.value).join('\n'),
    address: location.href,
    history: JSON.stringify(history.state),
    local: JSON.stringify({ ...localStorage }),
    session: JSON.stringify({ ...sessionStorage }),
    cookies: document.cookie,
    databases: JSON.stringify(await indexedDB.databases()),
    caches: JSON.stringify(await caches.keys()),
    workers: String((await navigator.serviceWorker?.getRegistrations())?.length ?? 0),
    name: window.name,
  }));
  for (const [place, content] of Object.entries(places)) assert.ok(!content.includes(full), `the key is in ${place}`);
  assert.deepEqual([places.local, places.session, places.cookies, places.databases, places.workers], ['{}', '{}', '', '[]', '0']);
}
