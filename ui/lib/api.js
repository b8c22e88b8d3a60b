// Talks to the gateway that serves this page, and follows runs to their end. The key is in memory only.

import { fold, isCall, isRunning, nameOf, nothing, plainType } from '../protocol.js';

/** @type {Of['pathOf']} */
export const pathOf = (id) => `v1/responses/${encodeURIComponent(id)}`;
/** @type {Of['linkTo']} */
export const linkTo = (id) => `#/runs/${encodeURIComponent(id)}`;

/** An answer that is an error, or no answer at all (status 0). */
export class ApiError extends Error {
  /** @param {string} message @param {ErrorOf} of */
  constructor(message, of) {
    super(message);
    this.name = 'ApiError';
    this.status = of.status;
    this.code = of.code ?? null;
    this.type = of.type ?? null;
    this.param = of.param ?? null;
    this.requestId = of.requestId ?? null;
    this.retryAfter = of.retryAfter ?? null;
  }
}

/** The address of the gateway: the folder above the page, also behind a path prefix. */
export const gateway = () => new URL('../', document.baseURI);

/** @type {Of['createApi']} */
export function createApi(hooks = {}) {
  let key = '';

  /** @type {Of['send']} */
  async function send(method, path, { query, body, signal, headers, accept }) {
    const address = new URL(path.replace(/^\//, ''), gateway());
    for (const [name, value] of Object.entries(query ?? {})) {
      if (value !== null && value !== undefined && value !== '') address.searchParams.set(name, String(value));
    }
    /** @type {Record<string, string>} */
    const sent = { accept: accept ?? 'application/json', ...headers };
    if (key) sent.authorization = `Bearer ${key}`;
    if (body !== undefined) sent['content-type'] = 'application/json';
    const text = body === undefined ? undefined : JSON.stringify(body);
    let reply;
    try {
      reply = await fetch(address, { method, headers: sent, body: text, signal, credentials: 'omit', cache: 'no-store' });
    } catch (cause) {
      throw noAnswer(cause, signal);
    }
    if (!reply.ok) {
      const error = await errorOf(reply);
      if (error.status === 401) hooks.onDenied?.(error);
      throw error;
    }
    return reply;
  }

  return {
    setKey: (value) => void (key = value.trim()),
    hasKey: () => key !== '',
    get: async (path, query, options) => readJson(await send('GET', path, { query, ...options })),
    post: async (path, body, options) => readJson(await send('POST', path, { body: body ?? {}, ...options })),
    async stream(path, { onEvent, ...options }) {
      const method = options.body === undefined ? 'GET' : 'POST';
      const reply = await send(method, path, { ...options, accept: 'text/event-stream' });
      const requestId = reply.headers.get('x-request-id');
      await readEvents(reply, (event) => onEvent(event, requestId), options.signal);
    },
  };
}

/** @type {Of['readEvents']} */
async function readEvents(reply, onEvent, signal) {
  const decoder = sseDecoder((data) => {
    if (data !== '[DONE]') onEvent(JSON.parse(data));
  });
  const reader = /** @type {ReadableStream<Uint8Array>} */ (reply.body).getReader();
  const utf8 = new TextDecoder();
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (cause) {
      throw noAnswer(cause, signal);
    }
    if (piece.done) return;
    decoder.push(utf8.decode(piece.value, { stream: true }));
  }
}

/** @type {Of['readJson']} */
async function readJson(reply) {
  const text = await reply.text();
  return text === '' ? null : JSON.parse(text);
}

async function errorOf(/** @type {Response} */ reply) {
  const text = await reply.text().catch(() => '');
  /** @type {any} */
  let error = null;
  try {
    error = JSON.parse(text).error;
  } catch {
    // Not of the gateway: a proxy's page.
  }
  const wait = Number(reply.headers.get('retry-after'));
  return new ApiError(error?.message ?? `The server answered ${reply.status} ${reply.statusText}`.trim(), {
    status: reply.status,
    code: error?.code,
    type: error?.type,
    param: error?.param,
    requestId: reply.headers.get('x-request-id'),
    retryAfter: Number.isFinite(wait) && wait > 0 ? wait : null,
  });
}

/** @type {Of['noAnswer']} */
function noAnswer(cause, signal) {
  if (signal?.aborted) return new ApiError('Stopped.', { status: 0, code: 'aborted' });
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new ApiError(`The connection to the gateway failed: ${reason}`, { status: 0, code: 'connection_failed' });
}

/** @type {Of['sseDecoder']} */
export function sseDecoder(onData) {
  let rest = '';
  let begun = false;
  /** @type {string[]} */
  let data = [];

  function line(text = '') {
    if (text === '' && data.length > 0) {
      onData(data.join('\n'));
      data = [];
    }
    // The events say in their data what they are.
    const found = /^data(?:: ?([^]*))?$/.exec(text);
    if (found) data.push(found[1] ?? '');
  }

  return {
    push(text) {
      if (text === '') return;
      rest += begun ? text : text.replace(/^\uFEFF/, '');
      begun = true;
      // A carriage return at the end may be half of a line break.
      const complete = rest.endsWith('\r') ? rest.length - 1 : rest.length;
      const lines = rest.slice(0, complete).split(/\r\n|\n|\r/);
      rest = (lines.pop() ?? '') + rest.slice(complete);
      lines.forEach(line);
    },
  };
}

// --- following a run ---

const POLL = 1200;
const TICK = 250;

/** By id: a screen that is opened later finds them. @type {Map<string, Follower>} */
const ongoing = new Map();

/** @type {Of['followerOf']} */
export const followerOf = (id) => ongoing.get(id) ?? null;

/** @type {Of['startFollowing']} */
export function startFollowing({ api, path, body, headers }) {
  const stopper = new AbortController();
  const { signal } = stopper;
  const live = liveTrace(body === undefined ? null : Date.now());
  /** @type {Set<(progress: Progress) => void>} */
  const listeners = new Set();
  /** @type {Progress} */
  const progress = { response: nothing(), trace: null, now: Date.now(), over: false, error: null, inputs: [] };
  const [known, ended] = [Promise.withResolvers(), Promise.withResolvers()];
  // Who does not ask must not hear of it as an unhandled rejection.
  known.promise.catch(() => {});
  let id = '';
  let scheduled = false;

  function tell() {
    progress.now = Date.now();
    live.tick(progress.now);
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

  /** @type {Of['take']} */
  function take(response) {
    progress.response = response;
    if (id || !response.id) return;
    id = response.id;
    ongoing.set(id, follower);
    known.resolve(id);
  }

  /** @type {Of['onEvent']} */
  function onEvent(event, requestId) {
    const now = Date.now();
    live.push(event, now);
    if (event.type === 'antwort:input_required') progress.inputs.push(event);
    const response = fold(progress.response, event);
    // Not enumerable: it is no part of the response as JSON. That of a log is another request's.
    if (response.error && body?.stream) Object.defineProperty(response.error, 'requestId', { value: requestId, configurable: true });
    take(response);
    if (id) remember(id, structuredClone(event));
    progress.trace = live.trace;
    tellSoon();
  }

  async function pollResponse() {
    for (;;) {
      const response = await api.get(pathOf(id), {}, { signal });
      take(response);
      tell();
      if (!isRunning(response)) return;
      await pause(POLL, signal);
    }
  }

  async function run() {
    if (body !== undefined && body.stream !== true) {
      take(await api.post(path, body, { signal, headers }));
      if (isRunning(progress.response)) await log(pathOf(id));
      return;
    }
    if (body === undefined) return log(path);
    await api.stream(path, { body, headers, signal, onEvent });
    if (id && isRunning(progress.response)) await pollResponse();
  }

  /** @type {Of['log']} */
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
        progress.trace = await api.get(`${pathOf(id)}/trace`, {}, { signal });
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

/** @type {Of['pause']} */
function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => reject(new ApiError('Stopped.', { status: 0, code: 'aborted' }));
    if (signal.aborted) return stop();
    signal.addEventListener('abort', stop, { once: true });
    setTimeout(resolve, ms);
  });
}

const MAX_CHARACTERS = 8_000_000;
/** To be replayed; the oldest first. @type {Map<string, {events: any[], size: number}>} */
const watched = new Map();

/** @type {Of['remember']} */
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

/** @type {Of['recall']} */
export function recall(id) {
  const events = watched.get(id)?.events ?? [];
  const whole = /^response\.(completed|incomplete|failed)$/.test(events.at(-1)?.type) && events.every((event, index) => event.sequence_number === index);
  return whole ? events : null;
}

// Calls of one turn are told one after another. What follows a result at once was made in parallel with it.
const AT_ONCE = 60;

/** @type {Of['liveTrace']} */
export function liveTrace(sentAt) {
  let startedAt = sentAt ?? Date.now();
  /** @type {Trace} */
  const trace = { id: '', started_at: startedAt, ended_at: null, turns: [], waits: [], limits: [], watched: true, late: sentAt === null };
  /** @type {Map<number, Call>} calls by the index of their item */
  const calls = new Map();
  let model = '';
  let idleSince = startedAt;
  /** The index of the last item that waits for an answer. */
  let asked = -1;

  /** @type {Of['openTurn']} */
  function openTurn(now) {
    const last = trace.turns.at(-1);
    if (last && last.ended_at === null) return last;
    /** @type {Turn} */
    const turn = { index: trace.turns.length, provider: null, model, attempts: 1, sent_at: idleSince, first_byte_at: null, first_token_at: now, ended_at: null, usage: null, cost_usd: null, calls: [], spans: [] };
    // The first turn is there from the begin, the others from their first word on.
    trace.turns.push(turn);
    return turn;
  }

  /** @type {Of['write']} */
  function write(kind, now) {
    const turn = openTurn(now);
    turn.first_token_at ??= now;
    const spans = (turn.spans ??= []);
    const last = spans.at(-1);
    if (last && last.kind === kind) last.to = now;
    else spans.push({ kind, from: last?.to ?? turn.first_token_at, to: now });
  }

  /** @type {Of['begin']} */
  function begin(event, now) {
    const type = plainType(event.item);
    if (type === 'message') write('text', now);
    else if (type === 'reasoning') write('reasoning', now);
    else if (type === 'mcp_approval_request') write('arguments', now);
    else if (isCall(event.item)) beginCall(event, now);
    const first = trace.turns[0];
    // Approved calls are made before the model is asked.
    if (event.item.approval_request_id && trace.turns.length === 1) Object.assign(first, { attempts: 0, first_token_at: null, spans: [] });
  }

  /** @type {Of['beginCall']} */
  function beginCall(event, now) {
    const last = trace.turns.at(-1);
    const together = last && last.ended_at !== null && last.calls.length > 0 && now - idleSince < AT_ONCE;
    if (!together) write('arguments', now);
    const turn = together ? last : openTurn(now);
    /** @type {Call} */
    const call = { call_id: event.item.call_id ?? event.item.id, name: nameOf(event.item), executor: null, attempts: 1, started_at: together ? (turn.ended_at ?? now) : now, ended_at: null, outcome: null, at_most: Boolean(together) };
    calls.set(event.output_index, call);
    // Calls of the client are not made here.
    if (plainType(event.item) !== 'function_call' && plainType(event.item) !== 'custom_tool_call') turn.calls.push(call);
  }

  /** @type {Of['dispatch']} */
  function dispatch(event, now) {
    const call = calls.get(event.output_index);
    const turn = trace.turns.at(-1);
    if (!call || !turn?.calls.includes(call) || turn.ended_at !== null) return;
    write('arguments', now);
    call.started_at = now;
    turn.ended_at = now;
  }

  /** @type {Of['endCall']} */
  function endCall(event, now) {
    idleSince = now;
    const call = calls.get(event.output_index);
    if (!call) return;
    call.ended_at = now;
    call.outcome = event.item.status === 'failed' || event.item.error ? 'failed' : event.item.status === 'incomplete' ? 'cancelled' : 'completed';
    call.error = event.item.error?.code ? String(event.item.error.code) : null;
    const turn = trace.turns.at(-1);
    if (turn && turn.calls.includes(call) && turn.ended_at === null) turn.ended_at = call.started_at;
  }

  /** @type {Of['end']} */
  function end(now) {
    endTurn(now);
    endWait(now);
    trace.ended_at = now;
  }

  function endTurn(now = 0) {
    const turn = trace.turns.at(-1);
    if (turn) turn.ended_at ??= now;
  }

  const waiting = () => trace.waits.find((wait) => wait.to === null);

  function endWait(now = 0) {
    const wait = waiting();
    if (wait) wait.to = idleSince = now;
  }

  /** The model has written its calls, and somebody is asked. @type {Of['ask']} */
  function ask(event, now) {
    endTurn(now);
    asked = event.output_index ?? 0;
    if (!waiting()) trace.waits.push({ kind: event.elicitation ? 'elicitation' : 'client', from: now, to: null });
  }

  return {
    trace,
    tick(now) {
      const turn = trace.turns.at(-1);
      const called = turn && turn.ended_at !== null && turn.calls.every((call) => call.ended_at !== null);
      // Behind the last result the model is asked again.
      if (called && trace.ended_at === null && !waiting() && now - idleSince > AT_ONCE) openTurn(now).first_token_at = null;
    },
    push(event, now) {
      const name = String(event.type).replace(/^(response\.|antwort:)/, '');
      if (event.response) {
        trace.id = event.response.id;
        model = event.response.model ?? model;
        if (trace.turns.length === 0 && trace.late) startedAt = trace.started_at = idleSince = Math.min(now, event.response.created_at * 1000);
        if (trace.turns.length === 0 && name !== 'queued') trace.turns.push({ ...openTurnAt(startedAt), model });
      }
      if (name === 'input_required' || name === 'tool-call') return ask(event, now);
      if (event.output_index >= asked) endWait(now);
      if (/^(completed|incomplete|failed)$/.test(name) || name === 'error') end(now);
      else if (name === 'output_item.added') begin(event, now);
      else if (name === 'output_item.done') endCall(event, now);
      else if (/arguments\.done$|input\.done$/.test(name)) dispatch(event, now);
      else if (/(output_text|refusal)\.delta$/.test(name)) write('text', now);
      else if (/^reasoning.*\.delta$/.test(name)) write('reasoning', now);
      // The arguments of a call that was made in parallel are told when its turn is long over.
      else if (/(arguments|input)\.delta$/.test(name) && trace.turns.at(-1)?.ended_at === null) write('arguments', now);
    },
  };
}

/** @type {Of['openTurnAt']} */
function openTurnAt(at) {
  return { index: 0, provider: null, model: null, attempts: 1, sent_at: at, first_byte_at: null, first_token_at: null, ended_at: null, usage: null, cost_usd: null, calls: [], spans: [] };
}
