// States, limits and codes in plain words: the first sentence a person reads of a run.

import { counted, duration } from '../lib/format.js';

/** @typedef {{icon: string, word: string, tone: 'ok' | 'bad' | 'warn' | 'busy' | 'off'}} State */

/** @type {Record<string, State>} */
const STATES = {
  queued: { icon: 'queued', word: 'Queued', tone: 'off' },
  in_progress: { icon: 'runs', word: 'Running', tone: 'busy' },
  completed: { icon: 'done', word: 'Completed', tone: 'ok' },
  requires_action: { icon: 'waits', word: 'Waits for the client', tone: 'warn' },
  incomplete: { icon: 'limit', word: 'Stopped early', tone: 'warn' },
  failed: { icon: 'failed', word: 'Failed', tone: 'bad' },
  cancelled: { icon: 'cancelled', word: 'Cancelled', tone: 'off' },
  // Not a status of the API: a completed response whose calls nobody has decided on yet.
  approval: { icon: 'waits', word: 'Waits for approval', tone: 'warn' },
};

export const STATUSES = ['queued', 'in_progress', 'completed', 'requires_action', 'incomplete', 'failed', 'cancelled'];

/** @param {string} status @returns {State} */
export const statusWords = (status) => STATES[status] ?? { icon: 'unknown', word: status, tone: 'off' };

/**
 * The state of a call.
 * @param {import('./trace.js').Call} call
 * @param {boolean} over the run has ended
 * @returns {State}
 */
export function outcomeWords(call, over) {
  if (call.outcome === 'async') return { icon: 'waits', word: 'Answers later', tone: 'off' };
  if (call.outcome === null || call.outcome === undefined) {
    return over ? { icon: 'cancelled', word: 'Dropped', tone: 'off' } : { icon: 'runs', word: 'Running', tone: 'busy' };
  }
  if (call.outcome === 'unknown') return { icon: 'unknown', word: 'Outcome unknown', tone: 'warn' };
  return { ...statusWords(call.outcome), word: { completed: 'Completed', failed: 'Failed', cancelled: 'Cancelled' }[call.outcome] };
}

/** @type {Record<string, [string, string]>} what was reached, and where it is raised */
const LIMITS = {
  max_turns: ['the limit of turns (calls of the model) was reached', 'Raise antwort.limits.max_turns in the request, or engine.limits.max_turns.'],
  max_tool_calls: ['the limit of tool calls was reached', 'Raise max_tool_calls in the request, or engine.limits.max_tool_calls.'],
  max_output_tokens: ['the limit of output tokens was reached', 'Raise max_output_tokens in the request.'],
  max_total_tokens: ['the limit of tokens in all was reached', 'Raise antwort.limits.max_total_tokens.'],
  max_cost_usd: ['the limit of cost was reached', 'Raise antwort.limits.max_cost_usd.'],
  max_seconds: ['the time that the request allows was used up', 'Raise antwort.limits.max_seconds.'],
  run_timeout: ['the time that the gateway allows a run was used up', 'Raise engine.run_timeout.'],
  deadline: ['its time was used up', 'Raise antwort.limits.max_seconds or engine.run_timeout.'],
  max_identical_calls: ['the model made the same call with the same arguments again and again', 'Look at the result that it does not accept, or raise antwort.limits.max_identical_calls.'],
  max_consecutive_failures: ['every call of several turns in a row failed', 'Look at the errors of these calls.'],
  max_response_size: ['the response became too large', 'Raise engine.max_response_bytes, max_item_bytes or max_output_items.'],
  content_filter: ['the provider filtered the content', 'The provider decides on this, not the gateway.'],
};

/** @param {string} name */
export const limitWords = (name) => LIMITS[name]?.[0] ?? `a limit was reached: ${name}`;

/** @param {string} name */
export const limitAdvice = (name) => LIMITS[name]?.[1] ?? null;

/** @type {Record<string, string>} */
const TOOL_ERRORS = {
  tool_not_found: 'there is no such tool',
  invalid_arguments: 'the arguments do not fit the tool’s schema',
  access_denied: 'a policy forbids it',
  domain_not_allowed: 'the address is not allowed',
  tool_timeout: 'it took too long',
  tool_execution_failed: 'the tool reported an error',
  tool_unavailable: 'the tool could not be reached',
  tool_call_limit: 'the limit of calls of this tool was reached',
  invalid_result: 'the result does not fit the tool’s schema',
  result_too_large: 'the result was too large',
  tool_panicked: 'the tool crashed: a bug in it',
  outcome_unknown: 'the gateway stopped before the result was known',
  cancelled: 'the run was cancelled',
  storage_error: 'its record could not be stored',
};

/** @param {string | null | undefined} code */
export const toolErrorWords = (code) => (code ? (TOOL_ERRORS[code] ?? code) : 'no reason was given');

/** @type {Record<string, string>} */
const WAITS = { client: 'for the client', elicitation: 'for an answer of the user', callback: 'for a callback', queue: 'in the queue', approval: 'for approval', next: 'until the next request' };

/**
 * `3 h for approval`.
 * @param {string} kind
 * @param {number | null} ms
 */
export function waitWords(kind, ms) {
  const words = WAITS[kind] ?? `for ${kind}`;
  return ms === null ? `waits ${words}` : `${duration(ms)} ${words}`;
}

/** @type {Record<import('./account.js').Part, string>} */
export const PART_WORDS = {
  first_byte: 'Model, to first byte',
  first_token: 'Model, to first token',
  writing: 'Model, writing',
  tools: 'Tools',
  waits: 'Waits',
  other: 'Gateway, other',
};

/** @param {{attempts: number}} of */
export const attemptWords = (of) => (of.attempts > 1 ? counted(of.attempts, 'attempt') : null);

/**
 * The state of a response that another one continued.
 * @param {any} response
 * @returns {State}
 */
export function continuedWords(response) {
  const waited = waitsFor(response);
  if (waited === 'approval') return { icon: 'done', word: 'Asked for approval', tone: 'ok' };
  return waited === 'client' ? { icon: 'done', word: 'Asked the client', tone: 'ok' } : statusWords(response.status);
}

/**
 * What a response waits for, as far as it is the last of its chain.
 * @param {any} response
 * @returns {'approval' | 'client' | null}
 */
export function waitsFor(response) {
  const output = response?.output ?? [];
  const open = (/** @type {string} */ type) => output.some((/** @type {any} */ item) => String(item?.type).endsWith(type));
  if (response?.status === 'completed' && open('mcp_approval_request')) return 'approval';
  return response?.status === 'requires_action' ? 'client' : null;
}
