// Follows a run to its end, whoever looks: by the stream of the request that starts it, by its event log, or else by asking again and again.

import { ApiError } from '../lib/api.js';
import { fold, nothing } from '../fold.js';
import { liveTrace } from './live-trace.js';
import { isRunning } from './words.js';

const POLL = 1200;
const TICK = 250;

/** The runs that this page follows now, by id: a screen that is opened later finds them. @type {Map<string, Follower>} */
const ongoing = new Map();

/** @param {string} id */
export const followerOf = (id) => ongoing.get(id) ?? null;

/**
 * @param {{api: Page.Api, path: string, body?: any, headers?: Record<string, string>}} request a POST with a body, or the path of a response that runs
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
    if (id) remember(id, structuredClone(event));
    progress.trace = live.trace;
    tellSoon();
  }

  async function pollResponse() {
    for (;;) {
      const response = await api.get(`v1/responses/${encodeURIComponent(id)}`, {}, { signal });
      take(response);
      tell();
      if (!isRunning(response)) return;
      await pause(POLL, signal);
    }
  }

  async function run() {
    if (body !== undefined && body.stream !== true) {
      take(await api.post(path, body, { signal, headers }));
      if (isRunning(progress.response)) await log(`v1/responses/${encodeURIComponent(id)}`);
      return;
    }
    if (body === undefined) return log(path);
    await api.stream(path, { body, headers, signal, onEvent });
    if (id && isRunning(progress.response)) await pollResponse();
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

/** @param {number} ms @param {AbortSignal} signal @returns {Promise<void>} */
function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => reject(new ApiError('Stopped.', { status: 0, code: 'aborted' }));
    if (signal.aborted) return stop();
    signal.addEventListener('abort', stop, { once: true });
    setTimeout(resolve, ms);
  });
}

const MAX_CHARACTERS = 8_000_000;
/** The streams that were watched in this page, so that they can be replayed; the oldest first. @type {Map<string, {events: any[], size: number}>} */
const watched = new Map();

/** Keeps an event of a stream that is being watched. @param {string} id of the response @param {any} event */
export function remember(id, event) {
  const stream = watched.get(id) ?? { events: [], size: 0 };
  stream.events.push(event);
  stream.size += JSON.stringify(event).length;
  watched.delete(id);
  watched.set(id, stream);
  let all = [...watched.values()].reduce((sum, one) => sum + one.size, 0);
  for (const [oldest, one] of watched) {
    if (all <= MAX_CHARACTERS) break;
    watched.delete(oldest);
    all -= one.size;
  }
}

/** A stream, if it was watched from its first event to its last. @param {string} id */
export function recall(id) {
  const events = watched.get(id)?.events ?? [];
  const whole = /^response\.(completed|incomplete|failed)$/.test(events.at(-1)?.type) && events.every((event, index) => event.sequence_number === index);
  return whole ? events : null;
}
