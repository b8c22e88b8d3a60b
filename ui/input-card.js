// What a running response asks for (`antwort:input_required`): the output of a client's function, or an answer of the user to a
// question of a tool. The response waits, and goes on in the same stream.

import { clockText, countDown, renderError } from './errors.js';
import { reveal } from './json-text.js';
import { announce } from './lib/announce.js';
import { el, replace } from './lib/dom.js';
import { cardHead, inert, outcomeForm } from './next-step.js';
import { schemaForm } from './schema-form.js';

/** @typedef {Record<string, any>} Json */

/**
 * @param {Json} event `antwort:input_required`
 * @param {string} responseId
 * @param {{api: import('./lib/api.js').Api, onAnswered?: () => void}} options
 * @returns {HTMLElement}
 */
export function renderInput(event, responseId, { api, onAnswered }) {
  const root = el('section', { class: 'stack input-card', 'aria-label': event.elicitation ? `Question of ${event.name}` : `Call of ${event.name}` });
  const failure = el('div');
  const buttons = el('div', { class: 'row' });
  const clock = el('span', { class: 'muted' });
  const ready = inert(root, () => buttons.querySelectorAll('button').forEach((button) => button.removeAttribute('aria-disabled')));
  let [sending, over] = [false, false];

  /** @param {Json | null} answer */
  async function send(answer) {
    if (!answer || sending || over || !ready()) return;
    sending = true;
    replace(failure);
    try {
      await api.post(`v1/responses/${encodeURIComponent(responseId)}/inputs`, { call_id: event.call_id, ...answer });
      over = true;
      announce('Answered.');
      replace(root, el('p', { class: 'notice ok', text: `Answered: ${reveal(String(event.name))} goes on.` }));
      onAnswered?.();
    } catch (error) {
      replace(failure, renderError(error));
    }
    sending = false;
  }
  const button = (/** @type {string} */ text, /** @type {() => Json | null} */ answer, /** @type {string} */ look = '') =>
    el('button', { type: 'button', class: look, text, 'aria-disabled': true, on: { click: () => void send(answer()) } });
  const question = event.elicitation ? questionView(event) : null;
  if (question) {
    buttons.append(button('Send', () => question.accept(), 'primary'), button('Decline', () => ({ output: { action: 'decline' } })), button('Cancel', () => ({ output: { action: 'cancel' } }), 'quiet'));
    buttons.append(clock);
    replace(root, el('div', { class: 'card' }, question.root, buttons), failure);
  } else {
    const form = outcomeForm(event);
    buttons.append(button('Send the output', form.read, 'primary'), clock);
    replace(root, form.root, buttons, failure);
  }
  countDown(event.expires_at * 1000, root, (left) => (clock.textContent = left > 0 ? `waits for ${clockText(left)} more` : 'too late: the response goes on without the answer'));
  return root;
}

/**
 * @param {Json} event
 * @returns {{root: HTMLElement, accept: () => Json | null}}
 */
function questionView({ name, namespace, elicitation }) {
  const who = namespace ? `${name} of ${namespace}` : String(name);
  const message = String(elicitation.message ?? '').trim();
  const head = [
    cardHead('A tool asks', who),
    el('p', { class: 'message', text: message ? reveal(message) : 'The server has not said what it asks for.' }),
    el('p', { class: 'hint', text: 'The answer goes to the server of the tool. Do not enter passwords.' }),
  ];
  if (elicitation.mode === 'url') {
    const address = el('code', { text: reveal(String(elicitation.url)) });
    const copy = el('button', { type: 'button', class: 'small', text: 'Copy the address', on: { click: () => void navigator.clipboard?.writeText(String(elicitation.url)) } });
    const note = el('p', { text: 'It wants you to open this address. It comes from the server: open it only if you trust both. Sending says that you agree.' });
    return { root: el('div', { class: 'stack' }, head, note, el('div', { class: 'row' }, address, copy)), accept: () => ({ output: { action: 'accept' } }) };
  }
  const form = schemaForm(elicitation.requested_schema, { name: `Answer to ${who}` });
  return {
    root: el('div', { class: 'stack' }, head, form.root),
    accept() {
      const { value, faults } = form.readForm();
      return faults.length > 0 ? null : { output: { action: 'accept', content: value } };
    },
  };
}
