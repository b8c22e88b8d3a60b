// Forms for the calls that the client has to run: here a person plays the client.

import { argumentsView } from './approvals.js';
import { outputItem } from './continuation.js';
import { parseJson, shown } from './json-text.js';
import { el } from './lib/dom.js';
import { icon } from './lib/icons.js';

/** @typedef {Record<string, any>} Json */
/** @typedef {{output: string} | {error: string}} Answer */

/** What was answered to a function before: the next call of it begins with that. @type {Map<string, string>} */
const before = new Map();
let ids = 0;

/**
 * The outcome of one call.
 * @param {Json} call with `name`, `call_id`, and `arguments` or `input`
 * @param {{onChange?: () => void}} [options]
 * @returns {{root: HTMLElement, read: () => Answer | null}} `read` shows what is wrong, if it returns none
 */
export function outcomeForm(call, { onChange } = {}) {
  const id = `call-${(ids += 1)}`;
  let kind = 'text';
  const fault = el('p', { class: 'fault', id: `${id}-fault`, role: 'alert' });
  const box = el('textarea', { id, class: 'code', rows: 4, spellcheck: 'false', 'aria-describedby': `${id}-fault`, value: before.get(call.name) ?? '', on: { input: () => onChange?.() } });
  const label = el('label', { for: id });
  const choice = (/** @type {string} */ value, /** @type {string} */ text) =>
    el('label', { class: 'check' }, el('input', { type: 'radio', name: `${id}-kind`, checked: value === kind, on: { change: () => { kind = value; draw(); onChange?.(); } } }), text);
  const draw = () => {
    label.textContent = { text: 'What the function returned', json: 'What the function returned, as JSON', error: 'Why it failed, for the model' }[kind] ?? '';
    fault.textContent = '';
    box.setAttribute('aria-invalid', 'false');
  };
  draw();
  const root = el('section', { class: 'card call', 'aria-label': `Call of ${call.name}` },
    el('h2', { class: 'row card-head' }, el('span', { class: 'state warn' }, icon('waits'), 'The client runs'), el('code', { text: shown(String(call.namespace ? `${call.namespace}.${call.name}` : call.name)) })),
    el('div', { class: 'field' }, el('span', { class: 'caption', text: 'Arguments' }), argumentsView(call.arguments ?? call.input)),
    el('fieldset', { class: 'decision' }, el('legend', { class: 'visually-hidden', text: `Outcome of ${call.name}` }), choice('text', 'Output'), choice('json', 'Output as JSON'), choice('error', 'Error')),
    el('div', { class: 'field' }, label, box, fault));
  return {
    root,
    read() {
      const wrong = kind === 'json' ? parseJson(box.value).error : kind === 'error' && box.value.trim() === '' ? 'Say what went wrong.' : null;
      fault.textContent = wrong ?? '';
      box.setAttribute('aria-invalid', String(wrong !== null));
      if (wrong !== null) {
        box.focus();
        return null;
      }
      if (kind === 'error') return { error: box.value };
      before.set(call.name, box.value);
      return { output: box.value };
    },
  };
}

/**
 * The same, as an item of the next request.
 * @param {Json} call
 * @param {{onChange: () => void}} options
 */
export function callCard(call, options) {
  const form = outcomeForm(call, options);
  return {
    root: form.root,
    read() {
      const answer = form.read();
      return { item: answer && outputItem(call, answer) };
    },
  };
}
