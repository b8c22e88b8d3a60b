// The catalogue of tools, and a tool that is run by the form of its schema.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertAccessible, assertNoSidewaysScroll } from './lib/axe.mjs';
import { open, shot, withBrowser } from './lib/browser.mjs';
import { main } from './lib/page.mjs';

withBrowser();

async function choose(page, server, tool) {
  await main(page)
    .getByRole('button', { name: new RegExp(`^${server} `) })
    .click();
  await main(page)
    .getByRole('button', { name: new RegExp(`^${tool} `) })
    .click();
  return main(page).getByRole('article', { name: tool });
}

for (const [variant, options] of Object.entries({ light: {}, dark: { dark: true }, phone: { width: 360, height: 740 } })) {
  test(`the form of a schema, in ${variant}`, async () => {
    const page = await open('#/tools', options);
    const form = await choose(page, 'forms', 'everything');
    await form.getByRole('button', { name: 'Add to tags' }).click();
    await shot(page, `tool-form-${variant}`);
    await assertAccessible(page);
    await assertNoSidewaysScroll(page);
  });
}

test('looking again asks each server how it is', async () => {
  const page = await open('#/tools');
  // The one that is gone.
  page.watch.allowErrorAnswers(424);
  await main(page).getByRole('button', { name: 'Look again' }).click();
  await main(page).getByRole('button', { name: /^gone .*failing/ }).waitFor();
  await main(page).getByRole('button', { name: /^desk .*connected/ }).waitFor();
  assert.equal(await main(page).getByText('not checked yet').count(), 0);
});

test('a form becomes the arguments that it says', async () => {
  const page = await open('#/tools');
  const form = await choose(page, 'forms', 'everything');
  await form.getByLabel('text').first().fill('a <b>text</b>');
  await form.getByLabel(/^size/).selectOption('M');
  await form.getByLabel('count').fill('7');
  await form.getByLabel(/^sure/).selectOption('false');
  await form.getByRole('button', { name: 'Add to tags' }).click();
  await form.getByRole('group', { name: /^tags/ }).getByRole('textbox').fill('one');
  await form.getByLabel('city').fill('Oslo');
  await form.getByLabel(/^either/).fill('{"any": 1}');
  const sent = page.waitForRequest((request) => /\/execute\b/.test(request.url()));
  await form.getByRole('button', { name: 'Run' }).click();
  const { arguments: given } = JSON.parse((await sent).postData());
  assert.deepEqual(JSON.parse(given), {
    text: 'a <b>text</b>',
    size: 'M',
    count: 7,
    sure: false,
    tags: ['one'],
    place: { city: 'Oslo' },
    either: { any: 1 },
  });
  // The tool answers with its arguments.
  await form.getByText('a <b>text</b>').last().waitFor();
  await shot(page, 'tool-result');
});

test('a form that is wrong is not sent, and says where', async () => {
  const page = await open('#/tools');
  const form = await choose(page, 'forms', 'everything');
  const requests = [];
  page.on('request', (request) => requests.push(request.url()));
  await form.getByLabel('count').fill('99');
  await form.getByRole('button', { name: 'Run' }).click();
  await page.waitForFunction(() => document.querySelectorAll('[aria-invalid="true"]').length > 0);
  assert.ok(await page.evaluate(() => document.activeElement.getAttribute('aria-invalid') === 'true'), 'the field at fault has the focus');
  assert.deepEqual(
    requests.filter((url) => /\/execute\b/.test(url)),
    [],
  );
  await assertAccessible(page);
});

test('a tool that fails says so', async () => {
  const page = await open('#/tools');
  const form = await choose(page, 'desk', 'burn');
  await form.getByLabel('why').fill('to see');
  await form.getByRole('button', { name: 'Run' }).click();
  await form.getByText('it burned: the fuse is gone').first().waitFor();
  await form
    .getByText(/failed/i)
    .first()
    .waitFor();
});

test('a tool that needs approval leads to Try, and is not tried again', async () => {
  const page = await open('#/tools');
  page.watch.allowErrorAnswers(403);
  const form = await choose(page, 'ops', 'deploy');
  await form.getByLabel('service').fill('shop');
  await form.getByLabel('version').fill('7');
  await form.getByRole('button', { name: 'Run' }).click();
  const error = form.getByRole('group', { name: 'Not run' });
  await error.getByText(/in Try/).waitFor();
  assert.equal(await form.getByRole('button', { name: 'Try again' }).count(), 0);
  await form.getByRole('link', { name: 'Use it in Try' }).click();
  await main(page).getByRole('heading', { level: 1, name: 'Try' }).waitFor();
  await main(page).getByRole('group', { name: 'Tools', exact: true }).getByRole('code').getByText('ops', { exact: true }).waitFor();
});
