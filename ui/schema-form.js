// A form from a JSON Schema, with JSON in its place for what a form cannot say. What it asks for is in `schema-fields.js`.

import { indented, parseJson } from './json-text.js';
import { el, replace } from './lib/dom.js';
import { aboutOf, asObject, fieldsOf, join, valueOf } from './schema-fields.js';

/** @typedef {import('./schema-fields.js').Field} Field */
/** @typedef {import('./schema-fields.js').Raw} Raw */
/** @typedef {import('./schema-fields.js').Fault} Fault */
/** @typedef {{root: HTMLElement, read: () => Raw, mark: (faults: Map<string, string>) => void}} Control */
/** `text` is the value as JSON, as it was typed. @typedef {{value: any, text: string, faults: Fault[]}} Reading */

const MAX_ROWS = 100;
let ids = 0;

/**
 * @param {unknown} schema of an object
 * @param {{name: string}} options the form's name, for screen readers
 * @returns {{root: HTMLElement, readForm: () => Reading}} `readForm`: what was filled in; faults are shown, and the first is focused
 */
export function schemaForm(schema, { name }) {
  const field = fieldsOf(schema);
  const jsonField = /** @type {Field} */ ({ ...field, kind: 'json', label: 'JSON', description: '' });
  let control = controlOf(field, field.schema.default ?? (field.kind === 'json' ? {} : undefined), '');
  let asJson = field.kind === 'json';
  const body = el('div', { class: 'fields' }, control.root);
  const toggle = el('button', { type: 'button', class: 'quiet small', hidden: asJson, text: 'Write JSON', on: { click: swap } });
  const message = el('p', { class: 'fault', role: 'alert' });

  /** @returns {Reading} */
  function reading() {
    if (!asJson) {
      const { value, faults } = valueOf(field, control.read());
      return { value, text: JSON.stringify(value), faults };
    }
    const text = String(control.read()).trim() || '{}';
    const { value, error } = parseJson(text);
    const wrong = error ?? (asObject(value) === value ? null : 'This has to be a JSON object: {…}.');
    return { value, text, faults: wrong === null ? [] : [{ path: '', message: wrong }] };
  }
  // What was filled in goes along; gaps in it are no fault of who wants to write JSON.
  function swap() {
    const { value, faults } = reading();
    if (asJson && faults.length > 0) return void readForm();
    asJson = !asJson;
    control = controlOf(asJson ? jsonField : field, value, '');
    replace(body, control.root);
    toggle.textContent = asJson ? 'Fill in a form' : 'Write JSON';
    message.textContent = '';
  }
  function readForm() {
    const read = reading();
    control.mark(new Map(read.faults.map((fault) => [fault.path, fault.message])));
    message.textContent = read.faults.length > 0 ? 'Not sent: see the marked fields.' : '';
    /** @type {HTMLElement | null} */ (body.querySelector('[aria-invalid=true]'))?.focus();
    return read;
  }
  return { root: el('div', { class: 'fields', role: 'group', 'aria-label': name }, body, el('div', { class: 'row spread' }, toggle, message)), readForm };
}

/** @param {Field} field @param {unknown} value @param {string} path @returns {Control} */
function controlOf(field, value, path) {
  if (field.kind === 'group') return groupControl(field, value, path);
  if (field.kind === 'list') return listControl(field, value, path);
  if (field.kind === 'choices') return choicesControl(field, value, path);
  const id = `field-${(ids += 1)}`;
  const input = inputOf(field, value);
  for (const [name, text] of Object.entries({ id, 'aria-describedby': `${id}-about ${id}-fault`, spellcheck: 'false', autocomplete: 'off' })) input.setAttribute(name, text);
  input.required = field.required;
  const fault = el('p', { class: 'fault', id: `${id}-fault` });
  return {
    root: el('div', { class: 'field' }, el('label', { for: id }, ...labelOf(field)), el('p', { class: 'hint', id: `${id}-about`, text: aboutOf(field) }), input, fault),
    read: () => input.value,
    mark(faults) {
      fault.textContent = faults.get(path) ?? '';
      input.setAttribute('aria-invalid', String(faults.has(path)));
    },
  };
}

/** @param {Field} field */
const labelOf = (field) => [field.label || 'Value', field.required ? null : el('span', { class: 'optional', text: ' optional' })];

/** @param {Field} field @param {unknown} value */
function inputOf({ kind, schema, options, required }, value) {
  if (kind === 'choice' || kind === 'boolean') {
    const all = options ?? [{ value: true, label: 'true' }, { value: false, label: 'false' }];
    const names = all.map((option, i) => (options ? String(i) : option.label));
    const select = el('select', null, el('option', { value: '', text: required ? 'Choose…' : 'Not set' }), all.map(({ label }, i) => el('option', { value: names[i], text: label })));
    select.value = names[all.findIndex((option) => JSON.stringify(option.value) === JSON.stringify(value))] ?? '';
    return select;
  }
  const text = value === undefined || value === null ? '' : typeof value === 'string' && kind === 'text' ? value : indented(JSON.stringify(value));
  const long = text.length > 80 || /\n/u.test(text) || schema.maxLength > 200;
  if (kind === 'json' || (kind === 'text' && long)) return el('textarea', { class: kind === 'json' ? 'code' : '', rows: Math.min(12, Math.max(4, text.split('\n').length)), value: text });
  return el('input', { type: schema.format === 'date' ? 'date' : 'text', inputmode: kind === 'text' ? null : 'decimal', value: text });
}

/** @param {Field} field @param {unknown} value @param {string} path @returns {Control} */
function groupControl(field, value, path) {
  const known = asObject(value);
  const inner = (field.fields ?? []).map((part) => ({ key: part.key, control: controlOf(part, Object.hasOwn(known, part.key) ? known[part.key] : part.schema.default, join(path, part.key)) }));
  const roots = inner.map(({ control }) => control.root);
  const empty = roots.length === 0 ? el('p', { class: 'hint', text: 'No arguments.' }) : null;
  return {
    root: path === '' ? el('div', { class: 'fields' }, empty, roots) : frame(field, ...roots),
    read: () => new Map(inner.map(({ key, control }) => [key, control.read()])),
    mark: (faults) => inner.forEach(({ control }) => control.mark(faults)),
  };
}

/** @param {Field} field @param {...HTMLElement} children */
function frame(field, ...children) {
  const about = aboutOf(field);
  return el('fieldset', null, el('legend', null, ...labelOf(field)), about ? el('p', { class: 'hint', text: about }) : null, ...children);
}

/** @param {Field} field @param {unknown} value @param {string} path @returns {Control} */
function listControl(field, value, path) {
  const item = /** @type {Field} */ (field.item);
  /** @type {{row: HTMLElement, control: Control}[]} */
  let rows = [];
  const list = el('div', { class: 'fields' });
  const fault = el('p', { class: 'fault' });
  const add = el('button', { type: 'button', class: 'small', text: `Add to ${field.label || 'the list'}`, on: { click: () => append(item.schema.default)?.querySelector('input, select, textarea')?.focus() } });

  /** @param {unknown} element @returns {any} */
  function append(element) {
    if (rows.length >= MAX_ROWS) return null;
    const name = `${field.label || 'Element'} ${rows.length + 1}`;
    const control = controlOf({ ...item, label: item.label || name }, element, join(path, String(rows.length)));
    const row = el('div', { class: 'element' }, control.root, el('button', { type: 'button', class: 'small quiet', 'aria-label': `Remove ${name}`, text: 'Remove', on: { click: () => drop(row) } }));
    rows.push({ row, control });
    list.append(row);
    return row;
  }
  /** Those behind it get other numbers, so all are made anew. @param {HTMLElement} gone */
  function drop(gone) {
    const kept = rows.filter(({ row }) => row !== gone).map(({ control }) => valueOf({ ...item, required: false }, control.read()).value);
    rows = [];
    replace(list);
    kept.forEach(append);
    add.focus();
  }
  if (Array.isArray(value)) value.slice(0, MAX_ROWS).forEach(append);
  return {
    root: frame(field, list, add, fault),
    read: () => rows.map(({ control }) => control.read()),
    mark(faults) {
      fault.textContent = faults.get(path) ?? '';
      rows.forEach(({ control }) => control.mark(faults));
    },
  };
}

/** Any number of choices. @param {Field} field @param {unknown} value @param {string} path @returns {Control} */
function choicesControl(field, value, path) {
  const chosen = (Array.isArray(value) ? value : []).map((element) => JSON.stringify(element));
  const fault = el('p', { class: 'fault' });
  const boxes = (field.options ?? []).map((option) => ({ ...option, box: el('input', { type: 'checkbox', checked: chosen.includes(JSON.stringify(option.value)) }) }));
  return {
    root: frame(field, ...boxes.map(({ label, box }) => el('label', { class: 'check' }, box, label)), fault),
    read: () => boxes.flatMap(({ box }, i) => (box.checked ? [String(i)] : [])),
    mark: (faults) => void (fault.textContent = faults.get(path) ?? ''),
  };
}
