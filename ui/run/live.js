// A run in a panel: while it goes on and at its end, with what it asks for. Used by the screens Run and Try.

import { renderError } from '../errors.js';
import { startFollowing } from './follow.js';
import { ApiError } from '../lib/api.js';
import { announce, el, icon, replace, stateMark } from '../lib/dom.js';
import { duration, moment } from '../lib/format.js';
import { renderInput, renderNextStep } from '../next-step.js';
import { createPicture } from './picture.js';
import { createRunView } from './view.js';
import { continuedWords, stateOf, statusWords, totals, waitsFor, waitWords } from './words.js';

/**
 * Sends a request and shows its run while it goes on. What it asks for (approvals, functions of the client) is sent from here, too, and the run that follows is shown in its place.
 * @type {Of.live['watch']}
 */
export function watch(root, { api, path = 'v1/responses', body, headers, onBegin, onEnd }) {
  let follower = startFollowing({ api, path, body, headers });
  /** @type {any} */
  let latest = null;
  let end = show(body);

  /** @type {Of.live['continueWith']} */
  async function continueWith(request) {
    const streamed = { ...request, stream: true };
    const next = startFollowing({ api, path, body: streamed, headers });
    // What is refused is shown where it was sent; only a run takes the place of this one.
    await next.known;
    end();
    follower = next;
    end = show(streamed);
  }

  /** @type {Of.live['show']} */
  function show(request) {
    const state = el('div', { class: 'row live-state' });
    const panel = createRunPanel({ api, request, onContinue: continueWith });
    replace(root, state, panel.root);
    onBegin?.();
    void follower.ended.then((progress) => onEnd?.(progress));
    const leave = follower.subscribe((progress) => {
      latest = progress.response;
      showState(state, progress);
      panel.progress(progress);
    });
    return () => {
      leave();
      panel.stop();
    };
  }

  /** By its id its output stays, and the stream tells its end; what is not stored hangs on this connection. */
  async function stop() {
    try {
      if (!latest?.id || latest.store === false) throw new Error('There is no id to cancel it by.');
      await api.post(`v1/responses/${encodeURIComponent(latest.id)}/cancel`);
    } catch {
      follower.stop();
    }
  }

  return { stop, leave: () => end() };
}

/** @type {Of.live['showState']} */
function showState(root, { response, error }) {
  const state = error ? statusWords('failed') : stateOf(response);
  if (root.dataset.state === state.word + response.id) return;
  root.dataset.state = state.word + response.id;
  announce(`Run: ${state.word}`);
  replace(root, stateMark(state), response.id && response.store !== false ? el('a', { href: `#/runs/${encodeURIComponent(response.id)}`, text: 'Open the run' }) : null);
}

/** The view of a run, with its chain, its errors and what it asks for. @type {Of.live['createRunPanel']} */
export function createRunPanel({ api, request = null, onContinue }) {
  const view = createRunView();
  const [errors, inputs, next] = [el('div', { class: 'stack' }), el('div', { class: 'stack' }), el('div', { class: 'stack' })];
  view.above.append(errors, inputs, next);
  let endChain = () => {};
  let chained = false;
  let finished = false;
  let asked = 0;
  /** @type {unknown} */
  let shownError = null;

  /** @type {Of.live['chain']} */
  function chain(run) {
    if (!run.response.id || chained) return;
    chained = true;
    endChain = renderChain(view.earlier, { api, run });
  }

  /** @type {Of.live['showError']} */
  function showError(error) {
    if (error === shownError) return;
    shownError = error;
    const stopped = error instanceof ApiError && error.code === 'aborted';
    replace(errors, stopped ? el('p', { class: 'notice warn', text: 'Not watched any longer. A run that hung on this connection was cancelled.' }) : error ? renderError(error) : null);
  }

  /** @type {Of.live['finish']} */
  function finish(response) {
    if (finished) return;
    finished = true;
    replace(inputs);
    replace(next, renderNextStep(response, onContinue, { api, request }));
  }

  return {
    root: view.root,
    /** A run that has ended. @param {Run} run */
    show(run) {
      view.show(run);
      chain(run);
      showError(run.response.error);
      finish(run.response);
    },
    /** A run that goes on, or has just ended. @param {Progress} progress */
    progress(progress) {
      const { response, trace, now, over, error } = progress;
      view.show({ response, trace, now });
      chain({ response, trace });
      showError(error ?? response.error ?? null);
      inputs.append(...progress.inputs.slice(asked).map((event) => renderInput(event, response.id, { api })));
      asked = progress.inputs.length;
      if (over && response.id) finish(response);
    },
    stop() {
      endChain();
      view.stop();
    },
  };
}

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
    const button = el('button', { class: 'chain-row', 'aria-expanded': 'false', on: { click: () => void toggle() } }, el('span', { class: 'twisty' }, icon('open')), icon('chain'), head);
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

/** @type {Of.live['short']} */
const short = (id) => (id.length > 22 ? `${id.slice(0, 9)}…${id.slice(-8)}` : id);
