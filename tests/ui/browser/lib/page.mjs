// What people do on the page, in the words that they see.

/** The screen, without header and dialogs. */
export const main = (page) => page.getByRole('main');

/** Another screen of the same page, without loading it anew. */
export async function go(page, hash) {
  await page.evaluate((to) => {
    location.hash = to;
  }, hash);
  const [, screen, id] = hash.match(/^#\/(\w+)\/?(\w*)/);
  await page.getByRole('heading', { level: 1, name: new RegExp(id || `^${screen}`, 'i') }).waitFor();
}

export async function enterKey(page, key) {
  await page.getByRole('button', { name: /^Key: / }).click();
  const dialog = page.getByRole('dialog', { name: 'API key' });
  await dialog.getByLabel('Key').fill(key);
  await dialog.getByRole('button', { name: 'Use' }).click();
  await dialog.waitFor({ state: 'detached' });
}

/** All that there is to open on a screen. */
export async function openAll(page) {
  for (const summary of await page.locator('main details:not([open]) > summary').all()) {
    if (await summary.isVisible()) await summary.click();
  }
}

/** Moves the focus as a keyboard does, until it is there. */
export async function tabTo(page, locator, key = 'Tab') {
  for (let pressed = 0; pressed < 150; pressed += 1) {
    await page.keyboard.press(key);
    if (await locator.evaluate((element) => element === document.activeElement)) return;
  }
  throw new Error(`${key} does not lead to ${locator}`);
}

/** The rows of the picture. */
export const rows = (page) => main(page).getByRole('tree').getByRole('treeitem');

/** The sign of the run's state. */
export const state = (page, word) => main(page).getByText(word, { exact: true }).filter({ visible: true }).first();

/** Radios of what has just come take no click for a second. */
export async function untilChecked(page, radio) {
  await page.waitForFunction(
    (each) => {
      if (!each.checked) each.click();
      return each.checked;
    },
    await radio.elementHandle(),
  );
}

/** The same with the keyboard, where the focus is. */
export async function pressUntilChecked(page, radio) {
  while (!(await radio.isChecked())) await page.keyboard.press('Space');
}
