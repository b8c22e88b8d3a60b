// What a response waits for, in one place: approvals and functions of the client are answered together, by one button.

import { approvalCard } from './approvals.js';
import { callCard } from './client-calls.js';
import { continuation, obstacle, openApprovals, openCalls } from './continuation.js';
import { renderError } from './errors.js';
import { announce } from './lib/announce.js';
import { el, replace } from './lib/dom.js';
import { counted } from './lib/format.js';

/** @typedef {Record<string, any>} Json */

/** How long what has just come does not take clicks. */
const INERT_MS = 1000;

/**
 * The cards of a response, or null if it waits for nobody.
 * @param {Json} response that has ended
 * @param {(body: Json) => void | Promise<unknown>} onContinue sends the request that goes on; what it throws is shown
 * @param {{api: import('./lib/api.js').Api, request?: Json | null}} options the request that the response is of, if it is known
 * @returns {HTMLElement | null}
 */
export function renderNextStep(response, onContinue, { api, request }) {
  const [approvals, calls] = [openApprovals(response), openCalls(response)];
  if (approvals.length + calls.length === 0) return null;
  const blocked = obstacle(response, request);
  if (blocked) return el('p', { class: 'notice warn', text: `${counted(approvals.length + calls.length, 'answer')} missing. ${blocked}` });
  const root = el('section', { class: 'next-step stack', 'aria-label': 'What the response waits for' });
  const ready = inert(root, () => update());
  const cards = [
    ...approvals.map((item) => approvalCard(item, response, { api, hasRequest: Boolean(request), onChange: () => update() })),
    ...calls.map((item) => callCard(item, { onChange: () => update() })),
  ];
  const decisions = cards.slice(0, approvals.length);
  const button = el('button', { type: 'button', class: 'primary', on: { click: () => void send() } });
  const status = el('span', { class: 'muted', role: 'status' });
  const failure = el('div');
  let sending = false;

  function update() {
    const missing = decisions.filter((card) => !card.read().item).length;
    button.setAttribute('aria-disabled', String(!ready() || sending || missing > 0));
    button.textContent = buttonText(decisions.map((card) => card.read().item), calls.length);
    status.textContent = missing > 0 && cards.length > 1 ? 'All are sent together.' : '';
  }
  async function send() {
    if (button.getAttribute('aria-disabled') === 'true') return;
    const answers = cards.map((card) => card.read());
    if (answers.some(({ item }) => !item)) return;
    const tokens = answers.flatMap((answer) => ('token' in answer && answer.token ? [answer.token] : []));
    const body = continuation(response, answers.map(({ item }) => /** @type {Json} */ (item)), { request, credentials: new Map(tokens) });
    sending = true;
    replace(failure);
    update();
    try {
      await onContinue(body);
      announce('Sent.');
    } catch (error) {
      replace(failure, renderError(error));
    }
    sending = false;
    update();
  }
  replace(root, ...cards.map((card) => card.root), el('div', { class: 'row' }, button, status), failure);
  update();
  announce(`The response waits for ${[approvals.length > 0 && counted(approvals.length, 'approval'), calls.length > 0 && counted(calls.length, 'function output')].filter(Boolean).join(' and ')}.`);
  return root;
}

/** @param {(Json | null)[]} decisions @param {number} calls */
function buttonText(decisions, calls) {
  const [yes, no] = [decisions.filter((item) => item?.approve === true).length, decisions.filter((item) => item?.approve === false).length];
  const parts = [yes > 0 && `${yes} approved`, no > 0 && `${no} denied`, calls > 0 && counted(calls, 'output')].filter(Boolean);
  const open = decisions.length - yes - no;
  return open > 0 ? `Approve or deny ${decisions.length > 1 ? `all ${decisions.length}` : 'it'} first` : `Send: ${parts.join(', ')}`;
}

/**
 * Whether what was drawn may be sent: not before it has been seen for a second, so that it does not take a click that was meant
 * for what was there before.
 * @param {HTMLElement} root
 * @param {() => void} onReady
 * @returns {() => boolean}
 */
export function inert(root, onReady) {
  let ready = false;
  const observer = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    setTimeout(() => {
      ready = true;
      onReady();
    }, INERT_MS);
  });
  observer.observe(root);
  return () => ready;
}
