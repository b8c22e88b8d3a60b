// Opens pages in Chromium, and watches that they say nothing, break nothing and ask nobody but their own origin.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, afterEach, before } from 'node:test';
import { env } from './environment.mjs';

const packages = createRequire(`${env.packages}/`);
const { chromium } = packages('playwright-core');
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
/** Conditions are waited for that long; what takes longer is broken. */
export const PATIENCE = 30_000;

let browser;
/** @type {{context: any, watch: Watch}[]} */
let opened = [];

/** To be called once in a file of tests: each test's pages are checked and closed behind it. */
export function withBrowser() {
  before(start);
  afterEach(async () => {
    const all = opened;
    opened = [];
    await Promise.all(all.map(({ context }) => context.close()));
    for (const { watch } of all) watch.check();
  });
  after(close);
}

export async function start() {
  browser = await chromium.launch({ executablePath: env.chromium, args: FLAGS });
}

export async function close() {
  await browser?.close();
}

/** What a page has done that it should not; `allow` takes back what a test brought about. */
class Watch {
  problems = [];
  #allowed = [];

  constructor(origin) {
    this.origin = origin;
  }

  /** Chromium writes a line for each answer that is an error; these are expected. */
  allowErrorAnswers(...statuses) {
    for (const status of statuses) this.#allowed.push(new RegExp(`^console error: Failed to load resource: .* status of ${status} `));
  }

  add(problem) {
    this.problems.push(problem);
  }

  request(url) {
    if (!url.startsWith(`${this.origin}/`) && !url.startsWith('data:')) this.add(`request to ${url.slice(0, 200)}`);
  }

  check() {
    const wrong = this.problems.filter((problem) => !this.#allowed.some((allowed) => allowed.test(problem)));
    this.problems = [];
    this.#allowed = [];
    assert.deepEqual(wrong, []);
  }
}

/**
 * A page at `hash` of the page behind `gateway`.
 * @param {string} hash such as `#/runs`
 * @param {{gateway?: string, dark?: boolean, width?: number, height?: number, kept?: boolean}} [options] `kept`: beyond the test, which
 *   then checks `page.watch` itself
 */
export async function open(hash = '', options = {}) {
  const { gateway = env.open, dark = false, width = 1280, height = 900, kept = false } = options;
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: dark ? 'dark' : 'light',
    reducedMotion: 'reduce',
    // What is copied is read back.
    permissions: ['clipboard-read', 'clipboard-write'],
    locale: 'en-GB',
    timezoneId: 'UTC',
  });
  context.setDefaultTimeout(PATIENCE);
  const watch = new Watch(new URL(gateway).origin);
  if (!kept) opened.push({ context, watch });
  context.on('request', (request) => watch.request(request.url()));
  const page = await context.newPage();
  page.on('console', (message) => {
    // Advice of the browser, which consoles do not show by default.
    if (message.type() !== 'verbose') watch.add(`console ${message.type()}: ${message.text()} (${message.location().url})`);
  });
  page.on('pageerror', (error) => watch.add(`page error: ${error.message} ${error.stack}`));
  page.on('popup', (popup) => watch.add(`popup ${popup.url()}`));
  page.on('dialog', (dialog) => watch.add(`dialog ${dialog.message()}`));
  await page.addInitScript(() => {
    addEventListener('securitypolicyviolation', (event) => console.error(`violates ${event.effectiveDirective}: ${event.blockedURI}`));
  });
  await page.goto(`${gateway}/ui/${hash}`);
  try {
    await page.getByRole('heading', { level: 1 }).first().waitFor();
  } catch (error) {
    throw new Error(`the page does not come up: ${watch.problems.join('\n')}`, { cause: error });
  }
  return Object.assign(page, { watch });
}

/** Keeps a picture as an artefact. */
export async function shot(page, name, options = {}) {
  mkdirSync(env.shots, { recursive: true });
  await page.screenshot({ path: `${env.shots}/${name}.png`, fullPage: true, animations: 'disabled', ...options });
}
