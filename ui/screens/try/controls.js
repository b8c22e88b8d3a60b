// The request that is being written, and controls that are bound to its fields: they write their field, and show it when something
// else has written it.

import { el, replace } from '../../lib/dom.js';
import { Attachments, getAt, setAt } from '../../request.js';
import { field } from '../parts.js';

/** @typedef {Record<string, any>} Json */
/** What shows a part of the request, and is told of changes that others make. @typedef {{refresh: (body: Json) => void}} View */

export class Draft {
  /** @type {Json} */
  body = { input: '' };
  attachments = new Attachments();
  /** What is wrong with the JSON that is being typed; `body` is the last that was right. @type {string | null} */
  fault = null;
  /** @type {Set<View>} */
  #views = new Set();

  /** @param {View} view */
  watch(view) {
    this.#views.add(view);
    view.refresh(this.body);
  }

  /** @param {Json} body @param {View} [by] is not told: it has made the change, and may have the cursor */
  set(body, by) {
    this.body = body;
    this.fault = null;
    for (const view of this.#views) if (view !== by) view.refresh(body);
  }

  /** Views of a screen that is gone are forgotten. */
  forget() {
    this.#views.clear();
  }
}

/** @param {Draft} draft @param {string} path @param {string} label @param {{rows?: number, hint?: string, placeholder?: string}} [options] */
export function textField(draft, path, label, { rows, hint, placeholder } = {}) {
  const attributes = { placeholder, autocomplete: 'off', on: { input: () => draft.set(setAt(draft.body, path, control.value || undefined), view) } };
  /** @type {HTMLTextAreaElement | HTMLInputElement} */
  const control = rows ? el('textarea', { ...attributes, rows }) : el('input', { ...attributes, type: 'text' });
  /** @type {View} */
  const view = { refresh: (body) => void (control.value = String(getAt(body, path) ?? '')) };
  draft.watch(view);
  return field(label, control, hint);
}

/** @param {Draft} draft @param {string} path @param {string} label @param {{hint?: string, min?: number, step?: string}} [options] */
export function numberField(draft, path, label, { hint, min = 1, step = '1' } = {}) {
  /** @type {HTMLInputElement} */
  const control = el('input', { type: 'number', min, step, inputmode: 'decimal', placeholder: 'not set', on: { input: () => draft.set(setAt(draft.body, path, control.value === '' ? undefined : Number(control.value)), view) } });
  /** @type {View} */
  const view = { refresh: (body) => void (control.value = String(getAt(body, path) ?? '')) };
  draft.watch(view);
  return field(label, control, hint);
}

/**
 * A box that sets one value when it is checked, and another, or none, when not.
 * @param {Draft} draft
 * @param {string} path
 * @param {string} label
 * @param {{checked: unknown, unchecked?: unknown, byDefault?: boolean}} values
 */
export function checkField(draft, path, label, { checked, unchecked, byDefault = false }) {
  /** @type {HTMLInputElement} */
  const control = el('input', { type: 'checkbox', on: { change: () => draft.set(setAt(draft.body, path, control.checked ? checked : unchecked), view) } });
  const same = (/** @type {unknown} */ value, /** @type {unknown} */ other) => JSON.stringify(value) === JSON.stringify(other);
  /** @type {View} */
  const view = {
    refresh(body) {
      const value = getAt(body, path);
      control.checked = value === undefined ? byDefault : byDefault ? !same(value, unchecked) : same(value, checked);
    },
  };
  draft.watch(view);
  return el('label', { class: 'check' }, control, label);
}

/**
 * @param {Draft} draft
 * @param {string} path
 * @param {string} label
 * @param {[unknown, string][]} options value and words; undefined leaves the field out
 * @param {string} [hint]
 */
export function selectField(draft, path, label, options, hint) {
  const control = el('select', { on: { change: () => draft.set(setAt(draft.body, path, options[Number(control.value)]?.[0]), view) } });
  /** @type {View} */
  const view = {
    refresh(body) {
      const value = getAt(body, path);
      const found = options.findIndex(([option]) => JSON.stringify(option) === JSON.stringify(value));
      const custom = found < 0 ? el('option', { value: 'custom', text: 'as the JSON says' }) : null;
      replace(control, options.map(([, words], i) => el('option', { value: i, text: words })), custom);
      control.value = found < 0 ? 'custom' : String(found);
    },
  };
  draft.watch(view);
  return field(label, control, hint);
}

/**
 * A choice of names that were loaded, or any other name.
 * @param {Draft} draft
 * @param {string} path
 * @param {string} label
 * @param {string} none what it means to choose nothing
 * @returns {{root: HTMLElement, offer: (names: {name: string, words?: string}[], note?: string) => void}}
 */
export function nameField(draft, path, label, none) {
  /** @type {{name: string, words?: string}[]} */
  let offered = [];
  const note = el('p', { class: 'hint' });
  const control = el('select', { on: { change: () => chosen() } });
  /** @type {HTMLInputElement} */
  const other = el('input', { type: 'text', autocomplete: 'off', spellcheck: 'false', 'aria-label': `Other ${label.toLowerCase()}`, placeholder: 'name', hidden: true, on: { input: () => draft.set(setAt(draft.body, path, other.value || undefined), view) } });
  function chosen() {
    other.hidden = control.value !== 'other';
    if (!other.hidden) return other.focus();
    draft.set(setAt(draft.body, path, control.value === '' ? undefined : offered[Number(control.value)].name), view);
  }
  /** @type {View} */
  const view = {
    refresh(body) {
      const value = getAt(body, path);
      const found = offered.findIndex(({ name }) => name === value);
      replace(control, el('option', { value: '', text: none }), offered.map(({ name, words }, i) => el('option', { value: i, text: words ? `${name} – ${words}` : name })), el('option', { value: 'other', text: 'Another…' }));
      const isOther = value !== undefined && found < 0;
      control.value = isOther ? 'other' : found < 0 ? '' : String(found);
      other.hidden = !isOther;
      if (isOther) other.value = String(value);
    },
  };
  const root = field(label, control);
  root.append(other, note);
  draft.watch(view);
  return {
    root,
    offer(names, why = '') {
      offered = names;
      note.textContent = why;
      view.refresh(draft.body);
    },
  };
}
