// The answers to a person's first questions of a run, in words: how it ended and why, where the time went, what failed. Pure.

import { openCalls } from '../request.js';
import { explain } from '../errors.js';
import { cost, counted, duration, tokens } from '../lib/format.js';
import { account, callId, turnName, turnNumber } from './trace.js';
import { attemptWords, limitWords, PARTS, statusWords, waitKind, waitsFor } from './words.js';

/** `2 turns, 4 calls, 1,504 tokens in (800 cached), 230 out, $0.0021`. @param {any} response @param {Trace | null} trace */
export function totals(response, trace) {
  const words = [];
  const turns = trace ? turnNumber(trace, trace.turns.at(-1)) : response.antwort?.turns;
  if (turns) words.push(counted(turns, 'turn'));
  const calls = trace?.turns.reduce((sum, turn) => sum + turn.calls.length, 0);
  if (calls) words.push(counted(calls, 'tool call'));
  const usage = response.usage;
  if (usage) {
    const cached = usage.input_tokens_details?.cached_tokens;
    words.push(`${tokens(usage.input_tokens)} tokens in${cached ? ` (${tokens(cached)} cached)` : ''}`, `${tokens(usage.output_tokens)} out`);
  }
  const prices = (trace?.turns ?? []).flatMap((turn) => turn.cost_usd ?? []);
  if (prices.length > 0) words.push(cost(prices.reduce((sum, price) => sum + price)));
  return words.join(', ');
}

/** How it ended, and why. @param {any} response @param {Trace | null} trace @param {number} [now] @returns {Finding} */
export function ending(response, trace, now) {
  const time = trace ? duration(account(trace, now).total) : response.completed_at ? duration((response.completed_at - response.created_at) * 1000) : '';
  const took = time ? ` after ${time}` : '';
  const found = (/** @type {string} */ text, /** @type {Finding['tone']} */ tone, advice = '') => ({ text, tone, row: null, advice });
  const reason = response.incomplete_details?.reason;
  switch (response.status) {
    case 'completed':
      if (waitsFor(response)) return found(`It stopped${took} to ask for approval: calls of tools are not made until someone decides.`, 'warn');
      return found(`Completed${time ? ` in ${time}` : ''}: the model gave its answer and made no further calls.`, 'ok');
    case 'requires_action':
      return found(`It stopped${took} and waits for the client to run ${counted(openCalls(response).length, 'function')} and send the output.`, 'warn');
    case 'incomplete':
      return found(`Stopped early${took}, because ${limitWords(reason)} (${reason}${limitOf(response, reason)}).`, 'warn', explain({ code: reason }).next);
    case 'failed':
      return found(`Failed${took}: ${response.error?.message ?? 'no reason was given'}`, 'bad');
    case 'cancelled':
      return found(`Cancelled${took}, on request.`, 'warn');
    default:
      return found(`${statusWords(response.status).word}${time ? ` for ${time}` : ''}.`, '');
  }
}

/** `: 3`, where the response tells the limit that held. @param {any} response @param {string} name */
function limitOf(response, name) {
  const value = response.antwort?.limits?.[name] ?? response[name];
  return typeof value === 'number' ? `: ${value}` : '';
}

/** What made it slow. @param {Trace} trace @param {number} [now] @returns {Finding[]} */
export function slowness(trace, now) {
  const { total, parts, longest } = account(trace, now);
  if (total < 1 || !longest) return [];
  const [most] = [...parts].sort((a, b) => b.ms - a.ms);
  return [
    { text: `Most of the time went to ${PARTS[most.part][1]}: ${duration(most.ms)} of ${duration(total)} (${percent(most.ms, total)}).`, tone: '', row: null },
    { text: `The longest single step: ${stepWords(trace, longest)}, ${duration(longest.ms)} (${percent(longest.ms, total)}).`, tone: '', row: longest.id },
  ];
}

/** @param {Trace} trace @param {Stretch} step */
function stepWords(trace, step) {
  const turn = trace.turns.find((one) => one.index === step.turn);
  if (step.part === 'tools') return `the call of ${step.name} in ${turnName(trace, turn)}`;
  if (step.part === 'waits') return `the wait ${waitKind(step.name)}`;
  const retried = turn && turn.attempts > 1 && step.part !== 'writing' ? `, which took ${attemptWords(turn)}` : '';
  return `the ${step.part.replace('_', ' ')} of the model${turn?.model ? ` (${turn.model})` : ''} in ${turnName(trace, turn)}${retried}`;
}

/** @param {number} part @param {number} whole */
export const percent = (part, whole) => `${Math.round((part * 100) / Math.max(1, whole))} %`;

/** The calls that failed or whose end is not known, and what was tried again; failures first. @param {Trace} trace @returns {Finding[]} */
export function troubles(trace) {
  /** @type {Finding[]} */
  const found = [];
  const add = (/** @type {string} */ text, /** @type {string} */ row, /** @type {'warn' | 'bad'} */ tone = 'warn') => found.push({ text, tone, row });
  /** @type {Set<string>} */
  const advised = new Set();
  for (const turn of trace.turns) {
    const answered = turn.first_byte_at ? ' before it answered' : ', and did not answer';
    if (turn.attempts > 1) add(`Turn ${turnNumber(trace, turn)}: the model server was asked ${turn.attempts} times${answered}.`, `turn-${turn.index}`);
    turn.calls.forEach((call, index) => {
      const row = callId(turn, index);
      const what = `${call.name} in ${turnName(trace, turn)}`;
      const tries = attemptWords(call);
      const code = call.error ?? 'without a code';
      // The same advice is given once.
      if (call.outcome === 'failed') add(`${what} failed${tries ? ` after ${tries}` : ''} (${code}).${advised.has(code) ? '' : ` ${explain({ code }).next}`}`, row, 'bad');
      else if (call.outcome === 'unknown') add(`${what}: the outcome is unknown; it may have had an effect.`, row);
      else if (call.fallback) add(`${what} was answered by a fallback, as ${call.fallback} failed.`, row);
      else if (tries) add(`${what} needed ${tries}.`, row);
      if (call.outcome === 'failed') advised.add(code);
    });
  }
  return [...found.filter((one) => one.tone === 'bad'), ...found.filter((one) => one.tone !== 'bad')];
}
