// The request as text: JSON that can be edited, and the same as a program.

import { parseJson } from '../../json-text.js';
import { gateway } from '../../lib/api.js';
import { el } from '../../lib/dom.js';
import { curl, javascript, python } from '../../snippets.js';
import { copyButton, field } from '../parts.js';

/** @typedef {Record<string, any>} Json */
/** @typedef {import('./controls.js').Draft} Draft */

/** @param {Draft} draft @returns {{root: HTMLElement, complain: () => void}} `complain` shows what keeps it from being sent */
export function jsonEditor(draft) {
  const fault = el('p', { class: 'fault', role: 'alert', id: 'request-json-fault' });
  /** @type {HTMLTextAreaElement} */
  const text = el('textarea', { class: 'code request-json', rows: 22, spellcheck: 'false', autocomplete: 'off', id: 'request-json', on: { input: () => read() } });
  function read() {
    const { value, error } = parseJson(text.value);
    const wrong = error ?? (typeof value === 'object' && value !== null && !Array.isArray(value) ? null : 'A request is a JSON object: {…}.');
    show(wrong);
    if (wrong === null) draft.set(/** @type {Json} */ (value), view);
    else draft.fault = wrong;
  }
  /** @param {string | null} wrong */
  function show(wrong) {
    fault.textContent = wrong === null ? '' : `${wrong} The form keeps the last version that could be read.`;
    text.setAttribute('aria-invalid', String(wrong !== null));
  }
  const view = {
    refresh(/** @type {Json} */ body) {
      text.value = JSON.stringify(body, null, 2);
      show(null);
    },
  };
  draft.watch(view);
  const root = field('Request body', text, 'Changes are taken over by the form, and the other way round.');
  text.setAttribute('aria-describedby', `${text.id}-hint ${fault.id}`);
  root.append(el('div', { class: 'row' }, copyButton(() => text.value)), fault);
  return { root, complain: () => text.focus() };
}

/**
 * The three programs; they are written when they are looked at.
 * @param {Draft} draft
 * @returns {{name: string, panel: HTMLElement, onShow: () => void}[]}
 */
export function programs(draft) {
  const base = new URL('v1', gateway()).href;
  /** @type {[string, (base: string, body: Json) => string][]} */
  const languages = [['curl', curl], ['Python', python], ['JavaScript', javascript]];
  return languages.map(([name, write]) => {
    const text = el('pre', { class: 'program', tabindex: 0, role: 'group', 'aria-label': `The request in ${name}` });
    const attached = el('p', { class: 'hint', text: 'Put the base64 text of the attached file in place of ATTACHED_….' });
    const refresh = (/** @type {Json} */ body) => {
      text.textContent = write(base, body);
      attached.hidden = !/base64,ATTACHED_\d/u.test(text.textContent);
    };
    draft.watch({ refresh });
    const hint = el('p', { class: 'hint', text: 'The key is read from the environment variable ANTWORT_API_KEY.' });
    return { name, panel: el('div', { class: 'stack' }, text, attached, el('div', { class: 'row' }, copyButton(() => text.textContent ?? ''), hint)), onShow: () => refresh(draft.body) };
  });
}
