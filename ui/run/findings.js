// The answers to a person's first questions of a run, in words: how it ended and why, where the time went, what failed. Pure.

import { cost, counted, duration, tokens } from '../lib/format.js';
import { account, callId } from './account.js';
import { turnName, turnNumber } from './trace.js';
import { attemptWords, limitAdvice, limitWords, statusWords, toolErrorWords, waitsFor, waitWords } from './words.js';

/**
 * @typedef {import('./trace.js').Trace} Trace
 * @typedef {{text: string, tone: '' | 'bad' | 'warn' | 'ok', row: string | null, advice?: string}} Finding `row`: the row of the picture that it is about
 */

/**
 * `2 turns, 4 calls, 1,504 tokens in (800 cached), 230 out, $0.0021`.
 * @param {any} response
 * @param {Trace | null} trace
 */
export function totals(response, trace) {
  const words = [];
  const turns = trace ? turnNumber(trace, trace.turns.at(-1)) : response.antwort?.turns;
  if (turns) words.push(counted(turns, 'turn'));
  const calls = trace?.turns.reduce((sum, turn) => sum + turn.calls.length, 0);
  if (calls) words.push(counted(calls, 'tool call'));
  const usage = response.usage;
  if (usage) {
    const cached = usage.input_tokens_details?.cached_tokens ?? 0;
    words.push(`${tokens(usage.input_tokens)} tokens in${cached ? ` (${tokens(cached)} cached)` : ''}`, `${tokens(usage.output_tokens)} out`);
  }
  const price = costOf(trace);
  if (price !== null) words.push(cost(price));
  return words.join(', ');
}

/** Of all turns, as far as they are priced. @param {Trace | null} trace */
export function costOf(trace) {
  const priced = (trace?.turns ?? []).filter((turn) => turn.cost_usd !== null && turn.cost_usd !== undefined);
  return priced.length === 0 ? null : priced.reduce((sum, turn) => sum + (turn.cost_usd ?? 0), 0);
}

/**
 * How it ended, and why.
 * @param {any} response
 * @param {Trace | null} trace
 * @returns {Finding}
 */
export function ending(response, trace) {
  const status = statusWords(response.status);
  const time = trace ? duration(account(trace).total) : lasted(response);
  const took = time ? ` after ${time}` : '';
  const reason = response.incomplete_details?.reason;
  const waits = waitsFor(response);
  switch (response.status) {
    case 'completed':
      if (waits === 'approval') return { text: `It stopped${took} to ask for approval: calls of tools are not made until someone decides.`, tone: 'warn', row: 'end' };
      return { text: `Completed${time ? ` in ${time}` : ''}: the model gave its answer and made no further calls.`, tone: 'ok', row: 'end' };
    case 'requires_action':
      return { text: `It stopped${took} and waits for the client to run ${counted(clientCalls(response), 'function')} and send the output.`, tone: 'warn', row: 'end' };
    case 'incomplete':
      return { text: `Stopped early${took}, because ${limitWords(reason)} (${reason}${limitOf(response, reason)}).`, tone: 'warn', row: 'end', advice: limitAdvice(reason) ?? undefined };
    case 'failed':
      return { text: `Failed${took}: ${response.error?.message ?? 'no reason was given'}`, tone: 'bad', row: 'end' };
    case 'cancelled':
      return { text: `Cancelled${took}, on request.`, tone: 'warn', row: 'end' };
    default:
      return { text: `${status.word}.`, tone: '', row: null };
  }
}

/** @param {any} response */
function lasted(response) {
  return response.completed_at ? duration(Math.max(0, response.completed_at - response.created_at) * 1000) : '';
}

/** @param {any} response */
function clientCalls(response) {
  const output = response.output ?? [];
  const answered = new Set(output.filter((/** @type {any} */ item) => /call_output$/.test(item.type)).map((/** @type {any} */ item) => item.call_id));
  return output.filter((/** @type {any} */ item) => /(function|custom_tool)_call$/.test(item.type) && !answered.has(item.call_id)).length;
}

/**
 * `: 3`, where the response tells the limit that held.
 * @param {any} response
 * @param {string} name
 */
function limitOf(response, name) {
  const value = response.antwort?.limits?.[name] ?? response[name];
  return typeof value === 'number' ? `: ${value}` : '';
}

/**
 * What made it slow.
 * @param {Trace} trace
 * @param {number} [now]
 * @returns {Finding[]}
 */
export function slowness(trace, now) {
  const { total, parts, longest } = account(trace, now);
  if (total < 1 || !longest) return [];
  const most = [...parts].sort((a, b) => b.ms - a.ms)[0];
  /** @type {Finding[]} */
  const found = [{ text: `Most of the time went to ${PART_SENTENCE[most.part]}: ${duration(most.ms)} of ${duration(total)} (${percent(most.ms, total)}).`, tone: '', row: null }];
  found.push({ text: `The longest single step: ${stepWords(trace, longest)}, ${duration(longest.ms)} (${percent(longest.ms, total)}).`, tone: '', row: longest.id });
  return found;
}

/** @type {Record<import('./account.js').Part, string>} */
const PART_SENTENCE = {
  first_byte: 'waiting for the model’s first byte',
  first_token: 'waiting for the model’s first token',
  writing: 'the model’s writing',
  tools: 'tools',
  waits: 'waiting for others',
  other: 'the gateway itself',
};

/**
 * @param {Trace} trace
 * @param {import('./account.js').Stretch & {ms: number}} step
 */
function stepWords(trace, step) {
  const turn = trace.turns.find((one) => one.index === step.turn);
  const where = turnName(trace, turn);
  if (step.part === 'tools') return `the call of ${step.name} in ${where}`;
  if (step.part === 'waits') return `the wait ${waitWords(step.name, 0).replace(/^0 ms /, '')}`;
  const model = turn?.model ? ` (${turn.model})` : '';
  const retried = turn && turn.attempts > 1 && step.part !== 'writing' ? `, which took ${attemptWords(turn)}` : '';
  return `${{ first_byte: 'the first byte', first_token: 'the first token', writing: 'the writing' }[/** @type {'first_byte'} */ (step.part)]} of the model${model} in ${where}${retried}`;
}

/**
 * @param {number} part
 * @param {number} whole
 */
export const percent = (part, whole) => `${Math.round((part * 100) / Math.max(1, whole))} %`;

/**
 * The calls that failed or whose end is not known, and inferences that were retried.
 * @param {Trace} trace
 * @returns {Finding[]}
 */
export function troubles(trace) {
  /** @type {Finding[]} */
  const found = [];
  for (const turn of trace.turns) {
    if (turn.attempts > 1) found.push({ text: `Turn ${turnNumber(trace, turn)}: the model server was asked ${turn.attempts} times${turn.first_byte_at ? ' before it answered' : ', and did not answer'}.`, tone: 'warn', row: `turn-${turn.index}` });
    turn.calls.forEach((call, index) => {
      const row = callId(turn, index);
      const place = turnName(trace, turn);
      if (call.outcome === 'failed') {
        const tries = call.attempts > 1 ? `, after ${attemptWords(call)}` : '';
        found.push({ text: `${call.name} failed in ${place}: ${toolErrorWords(call.error)}${call.error ? ` (${call.error})` : ''}${tries}.`, tone: 'bad', row });
      } else if (call.outcome === 'unknown') {
        found.push({ text: `${call.name} in ${place}: the outcome is unknown; it may have had an effect.`, tone: 'warn', row });
      } else if (call.fallback) {
        found.push({ text: `${call.name} in ${place} was answered by a fallback, as ${call.fallback} failed.`, tone: 'warn', row });
      } else if (call.attempts > 1) {
        found.push({ text: `${call.name} in ${place} needed ${attemptWords(call)}.`, tone: 'warn', row });
      }
    });
  }
  return found;
}
