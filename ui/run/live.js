// A run in a panel: while it goes on and at its end, with what it asks for. Used by the screens Run and Try.

import { renderError } from '../errors.js';
import { renderInput } from '../next-step.js';
import { announce } from '../lib/announce.js';
import { ApiError } from '../lib/api.js';
import { el, replace } from '../lib/dom.js';
import { stateMark } from '../lib/icons.js';
import { renderNextStep } from '../next-step.js';
import { renderChain } from './chain.js';
import { startFollowing } from './follow.js';
import { createRunView } from './view.js';
import { stateOf, statusWords } from './words.js';

/**
 * Sends a request and shows its run while it goes on. What it asks for (approvals, functions of the client) is sent from here, too, and
 * the run that follows is shown in its place.
 * @param {HTMLElement} root
 * @param {{api: Page.Api, path?: string, body: any, headers?: Record<string, string>, onBegin?: () => void, onEnd?: (progress: Progress) => void}} options told of the begin and the end of each run
 * @returns {{stop: () => Promise<void>, leave: () => void}} `stop` cancels the run; `leave` only takes it off the page
 */
export function watch(root, { api, path = 'v1/responses', body, headers, onBegin, onEnd }) {
  let follower = startFollowing({ api, path, body, headers });
  /** @type {any} */
  let latest = null;
  let end = show(body);

  /** @param {any} request */
  async function continueWith(request) {
    const streamed = { ...request, stream: true };
    const next = startFollowing({ api, path, body: streamed, headers });
    // What is refused is shown where it was sent; only a run takes the place of this one.
    await next.known;
    end();
    follower = next;
    end = show(streamed);
  }

  /** @param {any} request */
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

/** @param {HTMLElement} root @param {Progress} progress */
function showState(root, { response, error }) {
  const state = error ? statusWords('failed') : stateOf(response);
  if (root.dataset.state === state.word + response.id) return;
  root.dataset.state = state.word + response.id;
  announce(`Run: ${state.word}`);
  replace(root, stateMark(state), response.id && response.store !== false ? el('a', { href: `#/runs/${encodeURIComponent(response.id)}`, text: 'Open the run' }) : null);
}

/**
 * The view of a run, with its chain, its errors and what it asks for.
 * @param {{api: Page.Api, request?: any, onContinue: (body: any) => Promise<void>}} options `request`: the one that the run is of, where the page knows it
 */
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

  /** @param {Run} run */
  function chain(run) {
    if (!run.response.id || chained) return;
    chained = true;
    endChain = renderChain(view.earlier, { api, run });
  }

  /** @param {unknown} error */
  function showError(error) {
    if (error === shownError) return;
    shownError = error;
    const stopped = error instanceof ApiError && error.code === 'aborted';
    replace(errors, stopped ? el('p', { class: 'notice warn', text: 'Not watched any longer. A run that hung on this connection was cancelled.' }) : error ? renderError(error) : null);
  }

  /** @param {any} response */
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
