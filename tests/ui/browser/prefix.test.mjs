// Behind a reverse proxy that serves the gateway below a path: the page asks for nothing outside of it.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { open, withBrowser } from './lib/browser.mjs';
import { env } from './lib/environment.mjs';
import { go, main } from './lib/page.mjs';
import { below } from './lib/proxy.mjs';
import * as runs from './lib/runs.mjs';

withBrowser();

let proxy;
before(async () => {
  proxy = await below('/gate/x', env.open);
});
after(() => proxy.close());

test('each screen works', async () => {
  const { id } = await runs.parallel();
  const page = await open('#/try', { gateway: proxy.address });
  const outside = [];
  page.on('request', (request) => {
    if (!new URL(request.url()).pathname.startsWith('/gate/x/')) outside.push(request.url());
  });
  await main(page).getByRole('button', { name: 'Send' }).waitFor();
  await go(page, '#/runs');
  await main(page).getByText('parallel').first().waitFor();
  await go(page, `#/runs/${id}`);
  await main(page).getByText('The first is 1 and the second is 2.').first().waitFor();
  await go(page, '#/tools');
  await main(page).getByText('calculate').first().waitFor();
  await go(page, '#/connect');
  // What is pasted elsewhere has the address under which the page was found.
  await main(page).getByText(`${proxy.address}/v1`).first().waitFor();
  assert.doesNotMatch(await main(page).innerText(), new RegExp(`${new URL(proxy.address).origin}/v1`));
  assert.deepEqual(outside, []);
});
