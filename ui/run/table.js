// The table that says the same as the picture.

import { reveal } from '../json-text.js';
import { el, replace } from '../lib/dom.js';
import { cost, duration, rate, tokens } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { callId } from './account.js';
import { belonging, turnNumber, written } from './trace.js';
import { attemptWords, limitWords, outcomeWords, statusWords, waitsFor, waitWords } from './words.js';

/** @typedef {{at: number, cells: (string | Node)[], tone: string, row: string}} Row */

const HEADS = ['What', 'State', 'Remarks', 'Begins', 'Time', 'To first byte', 'To first token', 'Tokens in (cached)', 'Tokens out', 'Tokens/s', 'Cost'];
const FIRST_NUMBER = 3;
const NONE = ['', '', '', '', '', ''];

/**
 * @param {HTMLElement} root
 * @param {{response: any, trace: import('./trace.js').Trace}} run
 * @param {(row: string) => void} onShow
 */
export function renderTable(root, { response, trace }, onShow) {
  const rows = rowsOf(response, trace);
  replace(root, el('div', { class: 'scroll', role: 'region', tabindex: 0, 'aria-label': 'The run as a table' },
    el('table', { class: 'run-table' },
      el('caption', { class: 'visually-hidden', text: 'All steps of the run in the order of their begin' }),
      el('thead', null, el('tr', null, HEADS.map((head, index) => el('th', { scope: 'col', class: index >= FIRST_NUMBER ? 'number' : '', text: head })))),
      el('tbody', null, rows.map((row) => el('tr', { class: row.tone }, row.cells.map((cell, index) => cellOf(cell, index, row, onShow))))))));
}

/**
 * @param {string | Node} cell
 * @param {number} index
 * @param {Row} row
 * @param {(row: string) => void} onShow
 */
function cellOf(cell, index, row, onShow) {
  if (index > 0) return el('td', { class: index >= FIRST_NUMBER ? 'number' : '' }, cell);
  return el('th', { scope: 'row' }, el('button', { type: 'button', class: 'link', on: { click: () => onShow(row.row) } }, cell));
}

/**
 * @param {any} response
 * @param {import('./trace.js').Trace} trace
 * @returns {Row[]}
 */
function rowsOf(response, trace) {
  const items = belonging(response?.output ?? [], trace).turns;
  const begins = (/** @type {number} */ at) => (at === trace.started_at ? '0' : duration(at - trace.started_at));
  /** @type {Row[]} */
  const rows = [];
  trace.turns.forEach((turn, index) => {
    if (turn.attempts > 0) rows.push(turnRow(`Turn ${turnNumber(trace, turn)}`, turn, items[index] ?? [], begins));
    turn.calls.forEach((call, number) => rows.push(callRow(call, callId(turn, number), begins, trace.ended_at !== null)));
  });
  trace.waits.forEach((wait, index) => rows.push({
    at: wait.from, tone: '', row: `wait-${index}`,
    cells: ['Wait', wait.to === null ? 'Goes on' : 'Over', waitWords(wait.kind, wait.to === null ? null : wait.to - wait.from), begins(wait.from), duration(wait.to === null ? null : wait.to - wait.from), ...NONE],
  }));
  rows.sort((a, b) => a.at - b.at);
  if (trace.ended_at !== null) rows.push(endRow(response, trace, trace.ended_at));
  return rows;
}

/**
 * @param {string} name
 * @param {import('./trace.js').Turn} turn
 * @param {any[]} items
 * @param {(at: number) => string} begins
 * @returns {Row}
 */
function turnRow(name, turn, items, begins) {
  const since = (/** @type {number | null} */ at) => (at === null ? '–' : duration(at - turn.sent_at));
  const cached = turn.usage?.input_tokens_details?.cached_tokens ?? 0;
  const speed = turn.usage && turn.first_token_at && turn.ended_at ? rate(turn.usage.output_tokens, turn.ended_at - turn.first_token_at) : null;
  const kinds = written(items).map((part) => ({ reasoning: 'reasoning', text: 'text', arguments: 'call arguments' })[part.kind]);
  return {
    at: turn.sent_at, tone: 'turn', row: `turn-${turn.index}`,
    cells: [`${name}: ${turn.model ?? 'model'}`, turn.ended_at === null ? 'Not finished' : 'Finished', [attemptWords(turn), kinds.join(', ')].filter(Boolean).join('; '), begins(turn.sent_at), since(turn.ended_at), since(turn.first_byte_at), since(turn.first_token_at),
      turn.usage ? `${tokens(turn.usage.input_tokens)}${cached ? ` (${tokens(cached)})` : ''}` : '–', tokens(turn.usage?.output_tokens), speed?.replace(' tokens/s', '') ?? '–', cost(turn.cost_usd)],
  };
}

/**
 * @param {import('./trace.js').Call} call
 * @param {string} row
 * @param {(at: number) => string} begins
 * @param {boolean} over
 * @returns {Row}
 */
function callRow(call, row, begins, over) {
  const remarks = [call.error, attemptWords(call), call.cached ? 'cached' : '', call.fallback ? `fallback for ${call.fallback}` : '', call.truncated ? 'truncated' : '', call.executor];
  const state = outcomeWords(call, over);
  return {
    at: call.started_at, tone: call.outcome === 'failed' ? 'bad' : '', row,
    cells: [reveal(call.name), stateOf(state), remarks.filter(Boolean).join('; '), begins(call.started_at), duration(call.ended_at === null ? null : call.ended_at - call.started_at), ...NONE],
  };
}

/** @param {import('./words.js').State} state */
const stateOf = (state) => el('span', { class: `state ${state.tone}` }, icon(state.icon), state.word);

/**
 * @param {any} response
 * @param {import('./trace.js').Trace} trace
 * @param {number} ended
 * @returns {Row}
 */
function endRow(response, trace, ended) {
  const reason = response.incomplete_details?.reason ?? null;
  const why = reason ? `${limitWords(reason)} (${reason})` : (response.error?.code ?? '');
  const state = statusWords(waitsFor(response) === 'approval' ? 'approval' : response.status);
  return { at: ended, tone: 'turn', row: 'end', cells: ['End', stateOf(state), why, duration(ended - trace.started_at), duration(ended - trace.started_at), ...NONE] };
}
