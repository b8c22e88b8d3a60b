// The card on top of a run: its findings in words, and a bar of where the time went.

import { el, replace } from '../lib/dom.js';
import { duration } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { account } from './account.js';
import { ending, percent, slowness, totals, troubles } from './findings.js';
import { PART_WORDS } from './words.js';

// So many troubles are named; a table has the others.
const NAMED = 8;

/**
 * @param {HTMLElement} root
 * @param {{response: any, trace: import('./trace.js').Trace | null, now?: number}} run
 * @param {(row: string) => void} onShow shows a row of the picture
 */
export function renderSummary(root, { response, trace, now }, onShow) {
  const found = trace ? troubles(trace) : [];
  const failed = found.filter((one) => one.tone === 'bad');
  const named = [...failed, ...found.filter((one) => one.tone !== 'bad')].slice(0, NAMED);
  const running = response.status === 'in_progress' || response.status === 'queued';
  const why = ending(response, trace);
  replace(
    root,
    el('h2', { class: 'visually-hidden', text: 'Summary' }),
    el('ul', { class: 'findings' },
      finding(running ? { ...why, text: `${why.text.replace('.', '')}${trace ? ` for ${duration(account(trace, now).total)}` : ''}.` } : why, onShow),
      why.advice ? el('li', null, why.advice) : null,
      el('li', { class: 'muted' }, totals(response, trace)),
      (trace ? slowness(trace, now) : []).map((one) => finding(one, onShow)),
      named.map((one) => finding(one, onShow)),
      found.length > NAMED ? el('li', { class: 'muted', text: `and ${found.length - NAMED} more: see the table` }) : null,
      trace && failed.length === 0 && !running && trace.turns.some((turn) => turn.calls.length > 0) ? el('li', null, icon('done'), 'No tool call failed.') : null,
    ),
    trace ? timeBar(trace, now) : null,
  );
}

/**
 * @param {import('./findings.js').Finding} found
 * @param {(row: string) => void} onShow
 */
function finding(found, onShow) {
  const mark = { bad: 'failed', warn: 'limit', ok: 'done', '': 'queued' }[found.tone];
  const row = found.row;
  const show = row && row !== 'end' ? el('button', { type: 'button', class: 'link', text: 'show', 'aria-label': `Show in the picture: ${found.text}`, on: { click: () => onShow(row) } }) : null;
  return el('li', { class: found.tone ? `tone-${found.tone}` : '' }, icon(mark), el('span', { class: 'words', text: found.text }), ' ', show);
}

/**
 * @param {import('./trace.js').Trace} trace
 * @param {number} [now]
 */
function timeBar(trace, now) {
  const { total, parts } = account(trace, now);
  const shown = parts.filter((part) => part.ms > 0);
  if (total < 1) return null;
  return el('div', { class: 'time-bar' },
    el('div', { class: 'time-parts', 'aria-hidden': 'true' }, shown.map((part) => el('span', { class: `part-${part.part}`, style: { 'flex-grow': part.ms } }))),
    el('ul', { class: 'time-legend', 'aria-label': 'Where the time went' }, shown.map((part) =>
      el('li', null, el('span', { class: `swatch part-${part.part}`, 'aria-hidden': 'true' }), `${PART_WORDS[part.part]} `, el('strong', { text: duration(part.ms) }), el('span', { class: 'muted', text: ` ${percent(part.ms, total)}` })))));
}
