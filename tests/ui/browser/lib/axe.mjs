// What axe-core finds on a page.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { env } from './environment.mjs';

const { source } = createRequire(`${env.packages}/`)('axe-core');
const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

export async function assertAccessible(page) {
  // The page's policy lets no script in; the debugger's protocol is not asked.
  if (await page.evaluate(() => !('axe' in globalThis))) await page.evaluate(source);
  const { violations } = await page.evaluate(
    (tags) => globalThis.axe.run(document, { runOnly: tags, resultTypes: ['violations'], preload: false }),
    TAGS,
  );
  const found = violations.flatMap(({ id, help, nodes }) =>
    nodes.map((node) => `${id} (${help}): ${node.html.slice(0, 160)}\n${node.failureSummary}`),
  );
  assert.deepEqual(found, []);
}

/** Nothing is wider than the window. */
export async function assertNoSidewaysScroll(page) {
  const wide = await page.evaluate(() => {
    const room = document.documentElement.clientWidth;
    if (document.scrollingElement.scrollWidth <= room) return [];
    return [...document.body.querySelectorAll('*')]
      .filter((element) => element.getBoundingClientRect().right > room + 1)
      .map((element) => `${element.tagName}.${element.getAttribute('class')} ${Math.round(element.getBoundingClientRect().right)}`)
      .slice(0, 10);
  });
  assert.deepEqual(wide, []);
}
