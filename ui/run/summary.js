// The card on top of a run: its findings in words, and a bar of where the time went.

import { el, replace } from '../lib/dom.js';
import { duration } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { account } from './trace.js';
import { ending, percent, slowness, totals, troubles } from './findings.js';
import { isRunning, PARTS } from './words.js';

// So many troubles are named; the table has the others.
const NAMED = 8;

/** @param {HTMLElement} root @param {Run} run @param {(row: string) => void} onShow shows a row of the picture */
export function renderSummary(root, { response, trace, now }, onShow) {
  const line = (/** @type {Finding} */ { text, tone, row }) => el('li', { class: `tone-${tone}` },
    icon({ bad: 'failed', warn: 'limit', ok: 'done', '': 'queued' }[tone]), el('span', { class: 'words', text }), ' ',
    row ? el('button', { type: 'button', class: 'link', text: 'show', 'aria-label': `show in the picture: ${text}`, on: { click: () => onShow(row) } }) : null);
  const why = ending(response, trace, now);
  const found = trace ? troubles(trace) : [];
  const wentWell = trace?.turns.some((turn) => turn.calls.length > 0) && !isRunning(response) && !found.some((one) => one.tone === 'bad');
  replace(
    root,
    el('h2', { class: 'visually-hidden', text: 'Summary' }),
    el('ul', { class: 'findings' },
      line(why), why.advice ? el('li', null, why.advice) : null, el('li', { class: 'muted' }, totals(response, trace)),
      (trace ? slowness(trace, now) : []).map(line), found.slice(0, NAMED).map(line),
      found.length > NAMED ? el('li', { class: 'muted', text: `and ${found.length - NAMED} more: see the table` }) : null,
      wentWell ? el('li', null, icon('done'), 'No tool call failed.') : null),
    trace ? timeBar(trace, now) : null,
  );
}

/** @param {Trace} trace @param {number} [now] */
function timeBar(trace, now) {
  const { total, parts } = account(trace, now);
  const shown = parts.filter((part) => part.ms > 0);
  return el('div', { class: 'time-bar' },
    el('div', { class: 'time-parts', 'aria-hidden': 'true' }, shown.map((part) => el('span', { class: `part-${part.part}`, style: { 'flex-grow': part.ms } }))),
    el('ul', { class: 'time-legend', 'aria-label': 'Where the time went' }, shown.map((part) =>
      el('li', null, el('span', { class: `swatch part-${part.part}`, 'aria-hidden': 'true' }), `${PARTS[part.part][0]} `, el('strong', { text: duration(part.ms) }), el('span', { class: 'muted', text: ` ${percent(part.ms, total)}` })))));
}
