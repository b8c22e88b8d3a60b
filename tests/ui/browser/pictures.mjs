// Makes the pictures of the documents: a journey that is planned in turns, with tools that take their time and one that must be approved.

import { close, open, shot, start } from './lib/browser.mjs';
import { servers, streamed } from './lib/gateway.mjs';
import { go, main, rows } from './lib/page.mjs';

await start();

// A run to its end, as its picture; it is the first, so that no result is cached.
const [{ response }] = await streamed({ model: 'qwen3-14b', input: 'By train from Oslo to Bergen on Saturday?', tools: servers('travel') });
const page = await open(`#/runs/${response.id}`, { height: 920 });
await rows(page).first().waitFor();
await picture('ui-run');

// Try: the request, and the run that stops to ask.
await page.setViewportSize({ width: 1280, height: 860 });
await go(page, '#/try');
await page.getByRole('combobox', { name: 'Model' }).selectOption({ label: 'qwen3-32b' });
await page.getByRole('combobox', { name: 'Agent' }).selectOption({ label: 'planner – Plans journeys' });
await page.getByRole('textbox', { name: 'Input' }).fill('Two seats from Oslo to Bergen on Saturday, please, and a hotel near the station.');
await main(page).getByRole('button', { name: 'Send', exact: true }).click();
const asks = main(page).getByRole('region', { name: 'What the response waits for' });
await asks.waitFor();
await page.evaluate(() => scrollTo(0, 0));
await picture('ui-try');

// The approval, on the run's own page.
await main(page).getByRole('link', { name: 'Open the run' }).click();
await asks.waitFor();
await rows(page).first().waitFor();
await picture('ui-approval');

await close();

async function picture(name) {
  await page.mouse.move(0, 0);
  await shot(page, name, { fullPage: false });
}
