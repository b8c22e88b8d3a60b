// States, limits and waits in plain words: the first sentence a person reads of a run.

import { counted, duration } from '../lib/format.js';
import { plainType } from './trace.js';

/** @type {Record<string, State>} */
const STATES = {
  queued: { icon: 'queued', word: 'Queued', tone: 'off' },
  in_progress: { icon: 'runs', word: 'Running', tone: 'busy' },
  completed: { icon: 'done', word: 'Completed', tone: 'ok' },
  requires_action: { icon: 'waits', word: 'Waits for the client', tone: 'warn' },
  incomplete: { icon: 'limit', word: 'Stopped early', tone: 'warn' },
  failed: { icon: 'failed', word: 'Failed', tone: 'bad' },
  cancelled: { icon: 'cancelled', word: 'Cancelled', tone: 'off' },
};
export const STATUSES = Object.keys(STATES);
// No status of the API, but states of calls and of responses that wait for a person.
Object.assign(STATES, {
  approval: { icon: 'waits', word: 'Waits for approval', tone: 'warn' },
  async: { icon: 'waits', word: 'Answers later', tone: 'off' },
  dropped: { icon: 'cancelled', word: 'Dropped', tone: 'off' },
  unknown: { icon: 'unknown', word: 'Outcome unknown', tone: 'warn' },
});

/** @param {string} status @returns {State} */
export const statusWords = (status) => STATES[status] ?? { icon: 'unknown', word: status, tone: 'off' };

/** The state of a response, also of one that waits. @param {any} response @returns {State} */
export const stateOf = (response) => statusWords(waitsFor(response) === 'approval' ? 'approval' : response.status);

/** The state of a response that another one continued. @param {any} response @returns {State} */
export function continuedWords(response) {
  const waited = waitsFor(response);
  return waited ? { icon: 'done', word: waited === 'approval' ? 'Asked for approval' : 'Asked the client', tone: 'ok' } : statusWords(response.status);
}

/** @param {any} response */
export const isRunning = (response) => response.status === 'queued' || response.status === 'in_progress';

/** What a response waits for, as far as it is the last of its chain. @param {any} response @returns {'approval' | 'client' | null} */
export function waitsFor(response) {
  if (response.status === 'completed' && response.output?.some((/** @type {any} */ item) => plainType(item) === 'mcp_approval_request')) return 'approval';
  return response.status === 'requires_action' ? 'client' : null;
}

/** The state of a call, in a run that is over or not. @param {Call} call @param {boolean} over */
export const outcomeWords = (call, over) => statusWords(call.outcome ?? (over ? 'dropped' : 'in_progress'));

/** @type {Record<string, string>} */
const LIMITS = {
  max_turns: 'the limit of turns (calls of the model) was reached',
  max_tool_calls: 'the limit of tool calls was reached',
  max_output_tokens: 'the limit of output tokens was reached',
  max_total_tokens: 'the limit of tokens in all was reached',
  max_cost_usd: 'the limit of cost was reached',
  max_seconds: 'the time that the request allows was used up',
  run_timeout: 'the time that the gateway allows a run was used up',
  deadline: 'its time was used up',
  max_identical_calls: 'the model made the same call with the same arguments again and again',
  max_consecutive_failures: 'every call of several turns in a row failed',
  max_response_size: 'the response became too large',
  content_filter: 'the provider filtered the content',
};

/** @param {string} name */
export const limitWords = (name) => LIMITS[name] ?? `a limit was reached: ${name}`;

/** @type {Record<string, string>} */
const WAITS = { client: 'for the client', elicitation: 'for an answer of the user', callback: 'for a callback', queue: 'in the queue', approval: 'for approval', next: 'until the next request' };

/** @param {string} kind */
export const waitKind = (kind) => WAITS[kind] ?? `for ${kind}`;

/** `3 h for approval`. @param {string} kind @param {number | null} ms */
export const waitWords = (kind, ms) => (ms === null ? `waits ${waitKind(kind)}` : `${duration(ms)} ${waitKind(kind)}`);

/** What a part of the time is called in the legend, and in a sentence. @type {Record<Part, [string, string]>} */
export const PARTS = {
  first_byte: ['Model, to first byte', 'waiting for the model’s first byte'],
  first_token: ['Model, to first token', 'waiting for the model’s first token'],
  writing: ['Model, writing', 'the model’s writing'],
  tools: ['Tools', 'tools'],
  waits: ['Waits', 'waiting for others'],
  other: ['Gateway, other', 'the gateway itself'],
};

/** @param {{attempts: number}} of */
export const attemptWords = (of) => (of.attempts > 1 ? counted(of.attempts, 'attempt') : null);
