// Follows a run to its end, whoever looks: by the stream of the request that starts it, by its event log, or else by asking again and again.

import { ApiError } from '../lib/api.js';
import { fold, nothing } from '../fold.js';
import { liveTrace } from './live-trace.js';
import { isLast, remember } from './streams.js';

/**
 * @typedef {{response: any, trace: import('./trace.js').Trace | null, now: number, over: boolean, error: unknown, inputs: any[]}} Progress
 *   `error`: why nothing more is heard; `inputs`: the questions that came (`antwort:input_required`)
 * @typedef {object} Follower
 * @property {(listener: (progress: Progress) => void) => () => void} subscribe tells at once, and then of each change
 * @property {Promise<string>} known the id of the response, once there is one
 * @property {Promise<Progress>} ended
 * @property {() => void} stop hears no more; a run that hangs on this connection is cancelled by it
 */

const POLL = 1200;
const TICK = 250;

/** The runs that this page follows now, by id: a screen that is opened later finds them. @type {Map<string, Follower>} */
const ongoing = new Map();

/** @param {string} id */
export const followerOf = (id) => ongoing.get(id) ?? null;

/**
 * @param {{api: import('../lib/api.js').Api, path: string, body?: any, headers?: Record<string, string>}} request a POST with a body, or
 *   the path of a response that runs
 * @returns {Follower}
 */
export function startFollowing({ api, path, body, headers }) {
  const stopper = new AbortController();
  const { signal } = stopper;
  const live = liveTrace(body === undefined ? null : Date.now());
  /** @type {Set<(progress: Progress) => void>} */
  const listeners = new Set();
  /** @type {Progress} */
  const progress = { response: nothing(), trace: null, now: Date.now(), over: false, error: null, inputs: [] };
  const known = defer();
  const ended = defer();
  let id = '';
  let scheduled = false;

  function tell() {
    progress.now = Date.now();
    for (const listener of [...listeners]) listener(progress);
  }
  function tellSoon() {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      tell();
    });
  }

  /** @param {any} response */
  function take(response) {
    progress.response = response;
    if (id || !response.id) return;
    id = response.id;
    ongoing.set(id, follower);
    known.resolve(id);
  }

  /** @param {any} event */
  function onEvent(event) {
    const now = Date.now();
    live.push(event, now);
    if (event.type === 'antwort:input_required') progress.inputs.push(event);
    take(fold(progress.response, event));
    if (id) remember(id, structuredClone(event), now);
    progress.trace = live.trace;
    tellSoon();
  }

  async function pollResponse() {
    for (;;) {
      const response = await api.get(`v1/responses/${encodeURIComponent(id)}`, {}, { signal });
      take(response);
      tell();
      if (!/^(queued|in_progress)$/.test(response.status)) return;
      await pause(POLL, signal);
    }
  }

  async function run() {
    if (body !== undefined && body.stream !== true) {
      take(await api.post(path, body, { signal, headers }));
      if (/^(queued|in_progress)$/.test(progress.response.status)) await log(`v1/responses/${encodeURIComponent(id)}`);
      return;
    }
    if (body === undefined) return log(path);
    await api.stream(path, { body, headers, signal, onEvent });
    if (!progress.over && id && !isEnd(progress.response)) await pollResponse();
  }

  /** @param {string} of */
  async function log(of) {
    try {
      await api.stream(of, { query: { stream: true }, signal, onEvent });
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 400) throw error;
      // No event log is kept of it.
      id ||= decodeURIComponent(of.split('/').at(-1) ?? '');
      await pollResponse();
    }
  }

  async function finish() {
    progress.over = true;
    live.trace.ended_at ??= Date.now();
    if (!id || progress.response.store === false) return;
    for (const wait of [0, 400, 1200]) {
      try {
        await pause(wait, signal);
        progress.trace = await api.get(`v1/responses/${encodeURIComponent(id)}/trace`, {}, { signal });
        return;
      } catch {
        // It is stored a moment after the last event.
      }
    }
  }

  const follower = {
    subscribe(/** @type {(progress: Progress) => void} */ listener) {
      listeners.add(listener);
      listener(progress);
      return () => void listeners.delete(listener);
    },
    known: known.promise,
    ended: ended.promise,
    stop: () => stopper.abort(),
  };
  const ticking = setInterval(tell, TICK);
  run()
    .catch((error) => (progress.error = error))
    .then(finish)
    .finally(() => {
      clearInterval(ticking);
      if (id) ongoing.delete(id);
      known.reject(progress.error ?? new ApiError('The stream ended without a response.', { status: 0, code: 'no_response' }));
      tell();
      ended.resolve(progress);
    });
  return follower;
}

/** @param {any} response */
const isEnd = (response) => isLast({ type: `response.${response.status}` }) || /^(requires_action|cancelled)$/.test(response.status);

/** @returns {{promise: Promise<any>, resolve: (value: any) => void, reject: (reason: unknown) => void}} */
function defer() {
  /** @type {(value: any) => void} */
  let resolve = () => {};
  /** @type {(reason: unknown) => void} */
  let reject = () => {};
  const promise = new Promise((yes, no) => ([resolve, reject] = [yes, no]));
  // Who does not ask must not hear of it as an unhandled rejection.
  promise.catch(() => {});
  return { promise, resolve, reject };
}

/**
 * @param {number} ms
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => reject(new ApiError('Stopped.', { status: 0, code: 'aborted' }));
    if (signal.aborted) return stop();
    signal.addEventListener('abort', stop, { once: true });
    setTimeout(resolve, ms);
  });
}
