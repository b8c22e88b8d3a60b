// The responses before one, as rows on top of its picture: loaded when they are opened, with the wait between two of them in words.

import { renderError } from '../errors.js';
import { el, replace } from '../lib/dom.js';
import { duration, moment } from '../lib/format.js';
import { icon, stateMark } from '../lib/icons.js';
import { totals } from './findings.js';
import { createPicture } from './picture.js';
import { continuedWords, waitsFor, waitWords } from './words.js';

/** @typedef {{response: any, trace: Trace | null}} Loaded */

/** @param {HTMLElement} root @param {{api: Page.Api, run: Loaded}} options @returns {() => void} ends it */
export function renderChain(root, { api, run }) {
  /** @type {(() => void)[]} */
  const ends = [];
  const stopper = new AbortController();
  replace(root);
  const id = run.response.previous_response_id;
  // The one before is asked for at once: without it nobody knows how long the wait was.
  if (id) void addEarlier(id, run, true);

  /** @param {string} earlier @param {Loaded} later @param {boolean} load */
  async function addEarlier(earlier, later, load) {
    const body = el('div', { class: 'chain-body', hidden: true });
    const head = el('span', { class: 'chain-head row' }, 'Earlier response ', el('code', { text: short(earlier) }));
    const button = el('button', { type: 'button', class: 'chain-row', 'aria-expanded': 'false', on: { click: () => void toggle() } }, el('span', { class: 'twisty' }, icon('open')), icon('chain'), head);
    const wait = el('div', { class: 'chain-wait', hidden: true });
    root.prepend(el('div', { class: 'chain-link' }, button, body, wait));
    /** @type {Loaded | null} */
    let loaded = null;
    let drawn = false;

    async function read() {
      const response = await api.get(`v1/responses/${encodeURIComponent(earlier)}`, {}, { signal: stopper.signal });
      loaded = { response, trace: null };
      const state = continuedWords(response);
      replace(head, stateMark(state), el('code', { text: short(earlier) }), el('span', { class: 'muted small', text: `${moment(response.created_at * 1000)} · ${totals(response, null)}` }));
      showWait(wait, loaded, later);
    }
    async function toggle() {
      const open = body.hidden;
      body.hidden = !open;
      button.setAttribute('aria-expanded', String(open));
      if (open && !drawn) await draw();
    }
    async function draw() {
      drawn = true;
      replace(body, el('p', { class: 'muted', text: 'Loading …' }));
      try {
        if (!loaded) await read();
        const trace = await api.get(`v1/responses/${encodeURIComponent(earlier)}/trace`, {}, { signal: stopper.signal }).catch(() => null);
        if (!loaded) return;
        loaded.trace = trace;
        showWait(wait, loaded, later);
        ends.push(drawEarlier(body, loaded));
        const before = loaded.response.previous_response_id;
        if (before) void addEarlier(before, loaded, false);
      } catch (error) {
        drawn = false;
        replace(body, renderError(error));
      }
    }
    if (load) await read().catch(() => {
      // Deleted, or not for this key: the row says so when it is opened.
    });
  }

  return () => {
    stopper.abort();
    for (const end of ends) end();
  };
}

/** @param {HTMLElement} body @param {Loaded} loaded @returns {() => void} */
function drawEarlier(body, { response, trace }) {
  const link = el('a', { href: `#/runs/${encodeURIComponent(response.id)}`, text: 'Open this run' });
  if (!trace) {
    replace(body, el('p', { class: 'muted', text: 'No times are known of this run. ' }, link));
    return () => {};
  }
  const said = el('p', { class: 'muted small', role: 'status' });
  const picture = createPicture({ label: `Timeline of ${response.id}`, onSelect: (lane) => (said.textContent = [lane.label, lane.state.word, lane.ms === null ? '' : duration(lane.ms), lane.caption].filter(Boolean).join(' · ')) });
  replace(body, picture.root, el('div', { class: 'row spread' }, said, link));
  picture.show({ trace, response, continued: true });
  return () => picture.stop();
}

/** @param {HTMLElement} root @param {Loaded} earlier @param {Loaded} later */
function showWait(root, earlier, later) {
  const ended = earlier.trace?.ended_at ?? (earlier.response.completed_at ? earlier.response.completed_at * 1000 : null);
  const begun = later.trace?.started_at ?? later.response.created_at * 1000;
  if (ended === null) return;
  const words = waitWords(waitsFor(earlier.response) ?? 'next', Math.max(0, begun - ended));
  root.hidden = false;
  replace(root, icon('waits'), words);
}

/** @param {string} id */
const short = (id) => (id.length > 22 ? `${id.slice(0, 9)}…${id.slice(-8)}` : id);
