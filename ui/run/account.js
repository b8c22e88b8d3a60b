// Where the time of a run went: each moment counts once, so that the parts add up to the whole.

import { lastMoment } from './trace.js';

/**
 * @typedef {import('./trace.js').Trace} Trace
 * @typedef {'first_byte' | 'first_token' | 'writing' | 'tools' | 'waits' | 'other'} Part
 * @typedef {{part: Part, from: number, to: number, name: string, turn: number | null, id: string | null}} Stretch
 * @typedef {{total: number, parts: {part: Part, ms: number}[], longest: (Stretch & {ms: number}) | null}} Account
 */

// What counts where two overlap: a call that waits for its user is a wait, not a tool's work.
/** @type {Part[]} */
const ORDER = ['writing', 'first_token', 'first_byte', 'waits', 'tools'];
/** @type {Part[]} */
export const PARTS = ['first_byte', 'first_token', 'writing', 'tools', 'waits', 'other'];

/**
 * @param {Trace} trace
 * @param {number} [now] the end of what is still going on
 * @returns {Account}
 */
export function account(trace, now = lastMoment(trace)) {
  const end = trace.ended_at ?? Math.max(now, lastMoment(trace));
  const stretches = stretchesOf(trace, end);
  const sums = new Map(PARTS.map((part) => [part, 0]));
  for (const [from, to] of between(stretches, trace.started_at, end)) {
    const part = ORDER.find((one) => stretches.some((s) => s.part === one && s.from <= from && s.to >= to));
    sums.set(part ?? 'other', (sums.get(part ?? 'other') ?? 0) + to - from);
  }
  /** @type {Account['longest']} */
  let longest = null;
  for (const stretch of stretches) {
    // A call that waits for others is not what took long: the wait is.
    const ms = stretch.to - stretch.from - (stretch.part === 'tools' ? waited(stretch, stretches) : 0);
    if (ms > (longest?.ms ?? 0)) longest = { ...stretch, ms };
  }
  return { total: Math.max(0, end - trace.started_at), parts: PARTS.map((part) => ({ part, ms: sums.get(part) ?? 0 })), longest };
}

/**
 * @param {Stretch} call
 * @param {Stretch[]} stretches
 */
function waited(call, stretches) {
  const shared = (/** @type {Stretch} */ wait) => Math.max(0, Math.min(wait.to, call.to) - Math.max(wait.from, call.from));
  return stretches.reduce((sum, one) => sum + (one.part === 'waits' ? shared(one) : 0), 0);
}

/**
 * @param {Trace} trace
 * @param {number} end
 * @returns {Stretch[]}
 */
function stretchesOf(trace, end) {
  /** @type {Stretch[]} */
  const found = [];
  const add = (/** @type {Part} */ part, /** @type {number} */ from, /** @type {number} */ to, name = '', /** @type {number | null} */ turn = null, /** @type {string | null} */ id = null) => {
    if (to > from) found.push({ part, from, to, name, turn, id });
  };
  for (const turn of trace.turns) {
    if (turn.attempts > 0) {
      const ended = turn.ended_at ?? end;
      const token = turn.first_token_at ?? ended;
      const byte = turn.first_byte_at ?? token;
      const id = `turn-${turn.index}`;
      add('first_byte', turn.sent_at, Math.min(byte, ended), '', turn.index, id);
      add('first_token', byte, Math.min(token, ended), '', turn.index, id);
      add('writing', token, ended, '', turn.index, id);
    }
    turn.calls.forEach((call, index) => {
      const late = call.outcome === 'async' ? call.started_at : end;
      add('tools', call.started_at, call.ended_at ?? late, call.name, turn.index, callId(turn, index));
    });
  }
  trace.waits.forEach((wait, index) => add('waits', wait.from, wait.to ?? end, wait.kind, null, `wait-${index}`));
  return found;
}

/**
 * The name of a call's row. @param {import('./trace.js').Turn} turn @param {number} index
 */
export const callId = (turn, index) => `turn-${turn.index}-call-${index}`;

/**
 * The pieces of time between any two ends of stretches.
 * @param {Stretch[]} stretches
 * @param {number} start
 * @param {number} end
 * @returns {[number, number][]}
 */
function between(stretches, start, end) {
  const cuts = new Set([start, end]);
  for (const { from, to } of stretches) for (const at of [from, to]) if (at > start && at < end) cuts.add(at);
  const sorted = [...cuts].sort((a, b) => a - b);
  return sorted.slice(1).map((to, index) => [sorted[index], to]);
}
