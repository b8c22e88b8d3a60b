// The stream again, event by event: the response as it was, beside the raw event.

import { renderError } from '../errors.js';
import { foldAll, reconstruct } from '../fold.js';
import { shown } from '../json-text.js';
import { ApiError } from '../lib/api.js';
import { el, replace } from '../lib/dom.js';
import { number } from '../lib/format.js';
import { stateMark } from '../lib/icons.js';
import { createOutput } from './items.js';
import { recall } from './follow.js';
import { statusWords } from './words.js';

/** @type {Record<EventStream['source'], [string, string, string]>} tone, word, explanation */
const SOURCES = {
  log: ['ok', 'Exact', 'These are the events as they were sent, from the gateway’s event log.'],
  watched: ['ok', 'Exact', 'These are the events as this page received them.'],
  reconstructed: ['warn', 'Reconstructed', 'No events were kept of this run. These are made from its items: their order is true, the pieces of text and their numbers are not.'],
};

/**
 * @param {{api: Page.Api, response: any, onMove: (seq: number) => void}} options
 * @returns {{root: HTMLElement, moveTo: (seq: number) => Promise<void>, step: (by: number) => Promise<void>, stop: () => void}}
 */
export function createReplay({ api, response, onMove }) {
  const root = el('section', { class: 'card replay stack', 'aria-label': 'Replay' });
  const stopper = new AbortController();
  /** @type {Promise<ReturnType<typeof drawStream>> | null} */
  let loading = null;

  const load = () => (loading ??= open());

  async function open() {
    replace(root, el('h2', { text: 'Replay' }), el('p', { class: 'muted', text: 'Loading the events …' }));
    try {
      const stream = await readStream(api, response, stopper.signal);
      return drawStream(root, stream, onMove);
    } catch (error) {
      loading = null;
      replace(root, el('h2', { text: 'Replay' }), renderError(error));
      throw error;
    }
  }

  return {
    root,
    moveTo: async (seq) => (await load()).moveTo(seq),
    step: async (by) => (await load()).step(by),
    stop: () => stopper.abort(),
  };
}

/** @param {Page.Api} api @param {any} response @param {AbortSignal} signal @returns {Promise<EventStream>} */
async function readStream(api, response, signal) {
  const watched = recall(response.id);
  if (watched) return { events: watched, source: 'watched' };
  /** @type {any[]} */
  const events = [];
  try {
    await api.stream(`v1/responses/${encodeURIComponent(response.id)}`, { query: { stream: true }, signal, onEvent: (event) => events.push(event) });
    return { events, source: 'log' };
  } catch (error) {
    // 400: no log was kept; 410: it is kept no more.
    if (!(error instanceof ApiError) || (error.status !== 400 && error.status !== 410)) throw error;
    return { events: reconstruct(response), source: 'reconstructed' };
  }
}

/** @param {HTMLElement} root @param {EventStream} stream @param {(seq: number) => void} onMove */
function drawStream(root, { events, source }, onMove) {
  const last = events.length - 1;
  let at = last;
  const output = createOutput('The response as it was');
  const state = el('span', { class: 'row' });
  const raw = el('pre', { tabindex: 0, 'aria-label': 'The event', role: 'group' });
  const kind = el('h3', { class: 'mono' });
  const place = el('span', { class: 'muted small number' });
  const slider = el('input', { type: 'range', min: 0, max: last, step: 1, value: last, 'aria-label': 'Event', on: { input: () => go(Number(slider.value), true) } });
  const button = (/** @type {string} */ text, /** @type {string} */ label, /** @type {() => void} */ click) => el('button', { type: 'button', class: 'small', text, 'aria-label': label, title: label, on: { click } });
  const [tone, word, words] = SOURCES[source];

  /** @param {number} index @param {boolean} told */
  function go(index, told) {
    at = Math.max(0, Math.min(last, index));
    const event = events[at];
    const folded = foldAll(events, at + 1);
    slider.value = String(at);
    slider.setAttribute('aria-valuetext', `event ${event.sequence_number ?? at} of ${last}: ${event.type}`);
    place.textContent = `event ${number(event.sequence_number ?? at)} of ${number(last)}`;
    kind.textContent = event.type;
    raw.textContent = shown(event);
    replace(state, stateMark(statusWords(folded.status)));
    output.show(folded);
    if (told) onMove(event.sequence_number ?? at);
  }

  replace(
    root,
    el('div', { class: 'row' }, el('h2', { text: 'Replay' }), el('span', { class: `badge ${tone}`, text: word }), el('span', { class: 'muted small', text: words })),
    el('div', { class: 'row replay-bar' }, button('‹', 'Event before (,)', () => go(at - 1, true)), slider, button('›', 'Next event (.)', () => go(at + 1, true)), place),
    el('div', { class: 'replay-columns' },
      el('div', { class: 'stack' }, el('div', { class: 'row' }, el('h3', { text: 'The response at this event' }), state), output.root),
      el('div', { class: 'stack' }, kind, raw)),
  );
  if (events.length === 0) replace(root, el('h2', { text: 'Replay' }), el('p', { class: 'muted', text: 'The event log is empty.' }));
  else go(last, false);
  return {
    step(/** @type {number} */ by) {
      if (events.length > 0) go(at + by, true);
    },
    moveTo(/** @type {number} */ seq) {
      const index = events.findIndex((event, position) => (event.sequence_number ?? position) >= seq);
      if (events.length > 0) go(index < 0 ? last : index, false);
    },
  };
}
