// Where everything of the picture lies. Pure: the account of a run, its response and a width in; groups, lanes, bars, bands and gaps out.

import { reveal } from '../json-text.js';
import { cost, counted, duration, rate, tokens } from '../lib/format.js';
import { callId } from './account.js';
import { idleTimes, makeAxis } from './axis.js';
import { belonging, lastMoment, turnNumber, written } from './trace.js';
import { attemptWords, continuedWords, limitWords, outcomeWords, statusWords, waitsFor, waitWords } from './words.js';

/**
 * @typedef {import('./trace.js').Trace} Trace
 * @typedef {import('./trace.js').Turn} Turn
 * @typedef {import('./trace.js').Call} Call
 * @typedef {import('./words.js').State} State
 * @typedef {{x: number, w: number, kind: string}} Bar kind: first_byte, first_token, reasoning, text, arguments, call, call-failed, call-off, call-async,
 *   attempt (one that was given up), wait
 * @typedef {{x: number, kind: 'first-token' | 'retry'}} Mark
 * @typedef {{text: string, tone: '' | 'warn' | 'bad'}} Badge
 * @typedef {object} Lane one row of the picture
 * @property {string} id
 * @property {'model' | 'call' | 'wait' | 'end'} kind
 * @property {string} label
 * @property {string} note
 * @property {State} state
 * @property {Bar[]} bars
 * @property {Mark[]} marks
 * @property {string} caption
 * @property {Badge[]} badges
 * @property {number} start x of the first bar
 * @property {number} end x of the end of the last one
 * @property {number | null} ms
 * @property {number} turn index of the turn in the trace, -1 for none
 * @property {number} call index of the call in its turn, -1 for none
 * @typedef {{id: string, lane: Lane, calls: Lane[], failed: number}} Group a turn with its calls, or a lane of its own
 * @typedef {{x: number, w: number, kind: string, words: string}} Band
 * @typedef {{x: number, w: number, words: string}} Gap one that is shortened
 * @typedef {{axis: import('./axis.js').Axis, groups: Group[], bands: Band[], gaps: Gap[], shortenable: string | null, stops: {x: number, words: string}[]}} Layout
 */

/**
 * @param {Trace} trace
 * @param {any} response
 * @param {number} width of the plot, in pixels
 * @param {{compress?: boolean, now?: number, continued?: boolean}} [options] `now`: the end of what still goes on; `continued`: what it
 *   waited for has come, in another response
 * @returns {Layout}
 */
export function layout(trace, response, width, options = {}) {
  const over = trace.ended_at !== null;
  const until = over ? lastMoment(trace) : Math.max(lastMoment(trace), options.now ?? 0);
  const idle = idleTimes(busyTimes(trace, until), trace.started_at, until);
  const axis = makeAxis(trace.started_at, until, width, options.compress ? idle : []);
  const items = belonging(response?.output ?? [], trace).turns;
  const groups = trace.turns.flatMap((turn, index) => turnGroups(trace, turn, index, items[index] ?? [], axis, over));
  const waits = trace.waits.map((wait, index) => waitGroup(wait, index, axis, over));
  return {
    axis,
    groups: [...inOrder(groups, waits, trace), ...(over ? [endGroup(trace, response, axis, options.continued === true)] : [])],
    bands: trace.waits.map((wait) => bandOf(wait, axis)),
    gaps: axis.pieces.filter((piece) => piece.cut).map((piece) => ({ x: piece.x, w: piece.end - piece.x, words: `${duration(piece.to - piece.from)} not to scale` })),
    shortenable: idle.length > 0 ? duration(idle.reduce((sum, gap) => sum + gap.to - gap.from, 0)) : null,
    stops: trace.limits.map((limit) => ({ x: axis.x(limit.at), words: limitWords(limit.name) })),
  };
}

/**
 * When something happens besides waiting.
 * @param {Trace} trace
 * @param {number} until
 * @returns {import('./axis.js').Interval[]}
 */
function busyTimes(trace, until) {
  const waiting = (/** @type {number} */ from, /** @type {number} */ to) => trace.waits.filter((wait) => wait.from < to && (wait.to ?? until) > from);
  /** @type {import('./axis.js').Interval[]} */
  const busy = [];
  // What lasts through a wait is idle while it waits, as a call whose user is asked.
  const add = (/** @type {number} */ from, /** @type {number} */ to) => {
    let at = from;
    for (const wait of waiting(from, to).sort((a, b) => a.from - b.from)) {
      if (wait.from > at) busy.push({ from: at, to: wait.from });
      at = Math.max(at, wait.to ?? until);
    }
    if (to > at) busy.push({ from: at, to });
  };
  for (const turn of trace.turns) {
    if (turn.attempts > 0) add(turn.sent_at, turn.ended_at ?? until);
    for (const call of turn.calls) add(call.started_at, endOf(call, until));
  }
  return busy;
}

/** @param {Call} call @param {number} until */
const endOf = (call, until) => call.ended_at ?? (call.outcome === 'async' ? call.started_at : until);

/**
 * Waits among the turns, each behind the turn in which it began.
 * @param {Group[]} turns
 * @param {Group[]} waits
 * @param {Trace} trace
 */
function inOrder(turns, waits, trace) {
  const behind = trace.waits.map((wait) => trace.turns.findLast((turn) => turn.sent_at <= wait.from)?.index ?? -1);
  const at = (/** @type {number} */ turn) => waits.filter((_, index) => behind[index] === turn);
  const isLast = (/** @type {number} */ index) => turns[index + 1]?.lane.turn !== turns[index].lane.turn;
  return [...at(-1), ...turns.flatMap((group, index) => (isLast(index) ? [group, ...at(trace.turns[group.lane.turn].index)] : [group]))];
}

/**
 * @param {Trace} trace
 * @param {Turn} turn
 * @param {number} index
 * @param {any[]} items
 * @param {import('./axis.js').Axis} axis
 * @param {boolean} over
 * @returns {Group[]} approved calls, which are made before the model is asked, are groups of their own
 */
function turnGroups(trace, turn, index, items, axis, over) {
  const calls = turn.calls.map((call, number) => callLane(turn, index, call, number, axis, over));
  const failed = (/** @type {Lane[]} */ of) => of.filter((one) => one.state.tone === 'bad').length;
  if (turn.attempts === 0) return calls.map((one) => ({ id: one.id, lane: one, calls: [], failed: failed([one]) }));
  const lane = modelLane(turn, index, items, axis, over);
  lane.label = `Turn ${turnNumber(trace, turn)}`;
  return [{ id: lane.id, lane, calls, failed: failed(calls) }];
}

/**
 * @param {Turn} turn
 * @param {number} index
 * @param {any[]} items
 * @param {import('./axis.js').Axis} axis
 * @param {boolean} over
 * @returns {Lane}
 */
function modelLane(turn, index, items, axis, over) {
  const end = turn.ended_at ?? axis.to;
  const token = Math.min(turn.first_token_at ?? end, end);
  const byte = Math.min(turn.first_byte_at ?? token, token);
  const bars = [bar(axis, turn.sent_at, byte, 'first_byte'), bar(axis, byte, token, 'first_token'), ...writing(turn, items, token, end, axis)].filter((one) => one !== null);
  const running = turn.ended_at === null && !over;
  /** @type {Mark[]} */
  const marks = (turn.retried_at ?? []).map((at) => ({ x: axis.x(at), kind: 'retry' }));
  if (turn.first_token_at) marks.push({ x: axis.x(token), kind: 'first-token' });
  // A turn in which the model never said anything has failed, if the run is over.
  const mute = over && turn.first_token_at === null && turn.first_byte_at === null;
  return {
    id: `turn-${turn.index}`, kind: 'model', label: '', note: turn.model ?? '',
    state: running ? statusWords('in_progress') : statusWords(mute ? 'failed' : 'completed'),
    bars: bars.length > 0 ? bars : [thin(axis, turn.sent_at, 'first_byte')],
    marks, caption: modelCaption(turn), badges: attemptBadges(turn),
    start: axis.x(turn.sent_at), end: axis.x(end), ms: turn.ended_at === null ? null : turn.ended_at - turn.sent_at, turn: index, call: -1,
  };
}

/** @param {Turn} turn */
function modelCaption(turn) {
  const end = turn.ended_at;
  const words = [];
  if (turn.first_token_at) words.push(`first token ${duration(turn.first_token_at - turn.sent_at)}`);
  if (turn.usage) words.push(usageWords(turn.usage));
  const speed = turn.usage && turn.first_token_at && end ? rate(turn.usage.output_tokens, end - turn.first_token_at) : null;
  if (speed) words.push(speed);
  if (turn.cost_usd !== null && turn.cost_usd !== undefined) words.push(cost(turn.cost_usd));
  return words.join(' · ');
}

/** `1,204 in (800 cached) → 86 out`. @param {import('./trace.js').Usage} usage */
export function usageWords(usage) {
  const cached = usage.input_tokens_details?.cached_tokens ?? 0;
  return `${tokens(usage.input_tokens)} in${cached > 0 ? ` (${tokens(cached)} cached)` : ''} → ${tokens(usage.output_tokens)} out`;
}

/**
 * The solid part of a model's bar, by kind: as it was watched, else in proportion to the text.
 * @param {Turn} turn
 * @param {any[]} items
 * @param {number} from
 * @param {number} to
 * @param {import('./axis.js').Axis} axis
 */
function writing(turn, items, from, to, axis) {
  if (!turn.first_token_at) return [];
  if (turn.spans && turn.spans.length > 0) return turn.spans.map((span, index, all) => bar(axis, span.from, index === all.length - 1 ? to : span.to, span.kind));
  const parts = written(items);
  const whole = parts.reduce((sum, part) => sum + part.length, 0);
  if (whole === 0) return [bar(axis, from, to, 'text')];
  let at = from;
  return parts.map((part) => {
    const until = at + ((to - from) * part.length) / whole;
    const made = bar(axis, at, until, part.kind);
    at = until;
    return made;
  });
}

/**
 * @param {Turn} turn
 * @param {number} index
 * @param {Call} call
 * @param {number} number
 * @param {import('./axis.js').Axis} axis
 * @param {boolean} over
 * @returns {Lane}
 */
function callLane(turn, index, call, number, axis, over) {
  const end = endOf(call, axis.to);
  const state = outcomeWords(call, over);
  const kind = { failed: 'call-failed', cancelled: 'call-off', unknown: 'call-off', async: 'call-async', completed: 'call' }[call.outcome ?? 'completed'];
  const retries = call.retried_at ?? [];
  const begins = [call.started_at, ...retries];
  const bars = begins.map((at, attempt) => bar(axis, at, begins[attempt + 1] ?? end, attempt < retries.length ? 'attempt' : kind)).filter((one) => one !== null);
  return {
    id: callId(turn, number), kind: 'call', label: reveal(call.name), note: call.executor ?? '', state,
    bars: bars.length > 0 ? bars : [thin(axis, call.started_at, kind)],
    marks: retries.map((at) => ({ x: axis.x(at), kind: 'retry' })),
    caption: callCaption(call, state, end - call.started_at), badges: callBadges(call),
    start: axis.x(call.started_at), end: axis.x(end), ms: call.ended_at === null ? null : end - call.started_at, turn: index, call: number,
  };
}

/**
 * @param {Call} call
 * @param {State} state
 * @param {number} ms
 */
function callCaption(call, state, ms) {
  if (call.outcome === 'failed') return `failed${call.error ? `: ${call.error}` : ''}`;
  if (call.outcome === 'completed') return call.ended_at === null ? '' : duration(ms);
  return state.word.toLowerCase();
}

/** @param {Call} call @returns {Badge[]} */
function callBadges(call) {
  const badges = attemptBadges(call);
  if (call.cached) badges.push({ text: 'cached', tone: '' });
  if (call.fallback) badges.push({ text: `fallback for ${call.fallback}`, tone: 'warn' });
  if (call.truncated) badges.push({ text: 'truncated', tone: 'warn' });
  return badges;
}

/** @param {{attempts: number}} of @returns {Badge[]} */
function attemptBadges(of) {
  const words = attemptWords(of);
  return words ? [{ text: words, tone: 'warn' }] : [];
}

/**
 * @param {import('./trace.js').Wait} wait
 * @param {number} index
 * @param {import('./axis.js').Axis} axis
 * @param {boolean} over
 * @returns {Group}
 */
function waitGroup(wait, index, axis, over) {
  const to = wait.to ?? axis.to;
  const ms = wait.to === null && !over ? null : to - wait.from;
  const id = `wait-${index}`;
  return {
    id, calls: [], failed: 0,
    lane: {
      id, kind: 'wait', label: wait.kind === 'queue' ? 'In the queue' : 'Wait', note: '', state: { icon: 'waits', word: 'Wait', tone: 'warn' },
      bars: [bar(axis, wait.from, to, 'wait') ?? thin(axis, wait.from, 'wait')], marks: [], caption: waitWords(wait.kind, ms), badges: [],
      start: axis.x(wait.from), end: axis.x(to), ms, turn: -1, call: -1,
    },
  };
}

/**
 * @param {import('./trace.js').Wait} wait
 * @param {import('./axis.js').Axis} axis
 * @returns {Band}
 */
function bandOf(wait, axis) {
  const x = axis.x(wait.from);
  const to = wait.to ?? axis.to;
  return { x, w: axis.x(to) - x, kind: wait.kind, words: waitWords(wait.kind, to - wait.from) };
}

/**
 * The last row: how it ended.
 * @param {Trace} trace
 * @param {any} response
 * @param {import('./axis.js').Axis} axis
 * @param {boolean} continued
 * @returns {Group}
 */
function endGroup(trace, response, axis, continued) {
  const at = trace.ended_at ?? axis.to;
  const x = axis.x(at);
  const reason = response?.incomplete_details?.reason;
  const error = response?.error?.code;
  const words = reason ? `${limitWords(reason)} (${reason})` : error ? `error ${error}` : '';
  return {
    id: 'end', calls: [], failed: 0,
    lane: { id: 'end', kind: 'end', label: 'End', note: '', state: continued ? continuedWords(response) : endState(response), bars: [], marks: [], caption: words, badges: [], start: x, end: x, ms: at - trace.started_at, turn: -1, call: -1 },
  };
}

/** @param {any} response */
function endState(response) {
  return statusWords(waitsFor(response) === 'approval' ? 'approval' : (response?.status ?? 'completed'));
}

/**
 * A bar, at least two pixels wide; none for no time at all.
 * @param {import('./axis.js').Axis} axis
 * @param {number} from
 * @param {number} to
 * @param {string} kind
 * @returns {Bar | null}
 */
function bar(axis, from, to, kind) {
  if (to <= from) return null;
  const x = Math.min(axis.x(from), axis.width - 2);
  return { x, w: Math.max(2, axis.x(to) - x), kind };
}

/**
 * @param {import('./axis.js').Axis} axis
 * @param {number} at
 * @param {string} kind
 * @returns {Bar}
 */
const thin = (axis, at, kind) => ({ x: Math.min(axis.x(at), axis.width - 3), w: 3, kind });

/**
 * The words on a collapsed turn.
 * @param {Group} group
 */
export function callsWords(group) {
  if (group.calls.length === 0) return '';
  return counted(group.calls.length, 'call') + (group.failed > 0 ? `, ${group.failed} failed` : '');
}
