// A run is tried, watched, approved and replayed with the keyboard alone.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, withBrowser } from './lib/browser.mjs';
import { main, pressUntilChecked, rows, state, tabTo } from './lib/page.mjs';
import { approval, limited } from './lib/runs.mjs';

withBrowser();

/** Approves the call that a response waits for, once the button for it works. */
async function approveByKeyboard(page, asks) {
  const approve = asks.getByRole('radio', { name: 'Approve this call' });
  await tabTo(page, approve);
  await pressUntilChecked(page, approve);
  const send = asks.getByRole('button', { name: /^(Send|Approve)/ });
  await page.waitForFunction((button) => button.getAttribute('aria-disabled') !== 'true', await send.elementHandle());
  await tabTo(page, send);
  await page.keyboard.press('Enter');
}

test('a run is tried, watched, approved and replayed', async () => {
  const page = await open('#/connect');
  await page.mouse.move(0, 0);
  const keys = page.keyboard;
  await keys.press('1');
  await tabTo(page, page.getByRole('textbox', { name: 'Input' }));
  await keys.type('Deploy the shop.');
  await tabTo(page, page.getByRole('combobox', { name: 'Agent' }));
  await keys.type('operator');
  await keys.press('Control+Enter');

  // It is watched, and asks.
  const asks = main(page).getByRole('region', { name: 'What the response waits for' });
  await asks.waitFor();
  await main(page).getByText('I ask first.').first().waitFor();
  await approveByKeyboard(page, asks);
  await main(page).getByText('Deployed, if you said so.').first().waitFor();
  // What was sent is gone: the focus is at the run that follows.
  assert.ok(await page.evaluate(() => document.activeElement.matches('.live-state')), 'the focus is at the state of the run');

  // Its own page.
  await tabTo(page, main(page).getByRole('link', { name: 'Open the run' }));
  await keys.press('Enter');
  await page.getByRole('heading', { level: 1, name: /^Run resp_/ }).waitFor();
  await state(page, 'Completed').waitFor();

  // The picture.
  await rows(page).first().waitFor();
  await keys.press('t');
  await focused(page, 'treeitem');
  await keys.press('End');
  await keys.press('Enter');
  await main(page).getByRole('region', { name: 'Details' }).waitFor();

  // The replay: event by event, and to its end.
  await keys.press('.');
  const slider = main(page).getByRole('slider', { name: 'Event' });
  await slider.waitFor();
  await at(page, 0);
  await keys.press('.');
  await keys.press('.');
  await at(page, 2);
  await keys.press(',');
  await at(page, 1);
  await tabTo(page, slider);
  await keys.press('ArrowRight');
  await at(page, 2);
  await keys.press('.');
  await at(page, 3);
  await keys.press('End');
  const replay = main(page).getByRole('region', { name: 'Replay' });
  await replay.getByText('Deployed, if you said so.').first().waitFor();
  await replay.getByText('Completed', { exact: true }).first().waitFor();

  await keys.press('u');
  await page.getByRole('heading', { level: 1, name: 'Runs' }).waitFor();
});

test('the list of runs is walked, and one of them opened', async () => {
  const page = await open('#/runs');
  await main(page).getByRole('table').waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('k');
  await focused(page, 'link');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: /^Run resp_/ }).waitFor();
});

test('the shortcuts are listed, and closed', async () => {
  const page = await open('#/runs');
  await main(page).getByRole('table').waitFor();
  await page.keyboard.press('?');
  const dialog = page.getByRole('dialog', { name: 'Keyboard' });
  await dialog.waitFor();
  for (const key of ['j', 'k', '?']) await dialog.getByText(key, { exact: true }).first().waitFor();
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
});

test('a letter that is typed into a field is a letter', async () => {
  const page = await open('#/try');
  const input = page.getByRole('textbox', { name: 'Input' });
  await input.focus();
  await page.keyboard.type('1234 jk?,.tu');
  assert.equal(await input.inputValue(), '1234 jk?,.tu');
  await page.getByRole('heading', { level: 1, name: 'Try' }).waitFor();
});

async function focused(page, role) {
  const matches = (wanted) => {
    const element = document.activeElement;
    return element?.getAttribute('role') === wanted || (wanted === 'link' && element?.localName === 'a');
  };
  await page.waitForFunction(matches, role);
}

/** The replay is at this event, and the address says so. */
async function at(page, seq) {
  await page.waitForFunction((wanted) => location.hash.endsWith(`/seq/${wanted}`), seq);
  await main(page).getByRole('group', { name: 'The event' }).getByText(`"sequence_number": ${seq}`).waitFor();
}

test('the tree is reached when what is selected in it was collapsed', async () => {
  const { id } = await limited();
  const page = await open(`#/runs/${id}`);
  await rows(page).filter({ hasText: 'lookup' }).first().click();
  await main(page).getByRole('button', { name: 'Collapse all' }).click();
  await rows(page).filter({ hasText: 'lookup' }).first().waitFor({ state: 'detached' });
  assert.equal(await main(page).locator('[role=treeitem][tabindex="0"]').count(), 1);
  await page.keyboard.press('t');
  await focused(page, 'treeitem');
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keyboard' }).getByText('In the timeline: collapse or expand the turn').waitFor();
});

test('after an approval on the page of the run the focus is not lost', async () => {
  const { id } = await approval();
  const page = await open(`#/runs/${id}`);
  const asks = main(page).getByRole('region', { name: 'What the response waits for' });
  await approveByKeyboard(page, asks);
  await main(page).getByText('Deployed, if you said so.').first().waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
});
