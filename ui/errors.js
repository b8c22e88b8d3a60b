// An error as a person needs it: what happened, whose fault it is, what to do next, and when to try again.

import { announce } from './lib/announce.js';
import { el } from './lib/dom.js';
import { icon } from './lib/icons.js';
import { explain, FAULTS } from './error-table.js';
import { reveal, shown } from './json-text.js';

export { explain, FAULTS };

/**
 * @param {any} error an `ApiError`, the `error` of a response, of a call, or of a stream's event; or a text
 * @returns {{message: string, code: string, param: string, requestId: string, status: number, retryAfter: number, fault: import('./error-table.js').Fault, next: string, type: string}}
 */
export function detailsOf(error) {
  const of = typeof error === 'object' && error !== null ? error : { message: error };
  const content = Array.isArray(of.content) ? of.content.map((/** @type {any} */ part) => part?.text).filter(Boolean).join('\n') : '';
  const wait = Number(of.retryAfter ?? of.retry_after ?? 0);
  return {
    message: reveal(words(of.message) || content || (typeof error === 'object' ? shown(error) : 'No message.')),
    code: words(of.code),
    type: words(of.type),
    param: words(of.param),
    requestId: words(of.requestId ?? of.request_id),
    status: Number(of.status) || 0,
    retryAfter: Number.isFinite(wait) ? Math.min(wait, 86_400) : 0,
    ...explain(of),
  };
}

/** @param {unknown} value */
function words(value) {
  return typeof value === 'string' || typeof value === 'number' ? reveal(String(value)).slice(0, 4000) : '';
}

/**
 * A card; what there is of an output stays beside it.
 * @param {any} error
 * @param {{onRetry?: () => void, title?: string}} [options] a button to try again, inert until `Retry-After` is over
 */
export function renderError(error, { onRetry, title = 'Error' } = {}) {
  const details = detailsOf(error);
  /** @type {[string, string | Node][]} */
  const rows = [['Cause', FAULTS[details.fault]], ['Next', details.next]];
  if (details.param) rows.push(['Field', el('code', { text: details.param })]);
  const name = details.code || details.type;
  if (name) rows.push(['Code', el('code', { text: details.status ? `${name} (HTTP ${details.status})` : name })]);
  else if (details.status) rows.push(['Status', `HTTP ${details.status}`]);
  if (details.requestId) rows.push(['Request id', el('code', { text: details.requestId })]);
  const list = el('dl', { class: 'facts' }, rows.flatMap(([term, value]) => [el('dt', { text: term }), el('dd', null, value)]));
  const card = el('section', { class: 'card error-card', role: 'group', 'aria-label': title, data: { fault: details.fault } },
    el('h2', { class: 'state bad card-head' }, icon('failed'), title),
    el('p', { class: 'message', text: details.message }), list);
  if (details.retryAfter > 0 || onRetry) card.append(retry(details.retryAfter, onRetry));
  return card;
}

/**
 * Counts down, for as long as it is on the page.
 * @param {number} seconds
 * @param {(() => void) | undefined} onRetry
 */
function retry(seconds, onRetry) {
  const until = Date.now() + seconds * 1000;
  const clock = el('span', { class: 'countdown' });
  const button = onRetry ? el('button', { type: 'button', text: 'Try again', on: { click: () => until <= Date.now() && onRetry() } }) : null;
  const tick = () => {
    const left = Math.ceil((until - Date.now()) / 1000);
    clock.textContent = left > 0 ? `The server asks to wait: ${clockText(left)}` : seconds > 0 ? 'It may be tried again now.' : '';
    button?.setAttribute('aria-disabled', String(left > 0));
    if (left > 0) setTimeout(() => row.isConnected && tick(), 500);
    else if (seconds > 0) announce('It may be tried again now.');
  };
  const row = el('div', { class: 'row' }, button, clock);
  // The first look is after the card is on the page.
  queueMicrotask(tick);
  return row;
}

/** @param {number} seconds as `4:05` or `12 s` */
export function clockText(seconds) {
  if (seconds < 60) return `${seconds} s`;
  const [hours, minutes, rest] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, String(seconds % 60).padStart(2, '0')];
  return hours > 0 ? `${hours}:${String(minutes).padStart(2, '0')}:${rest}` : `${minutes}:${rest}`;
}
