// A form from a JSON Schema, with JSON in its place for what a form cannot say. What it asks for is in `schema-fields.js`.

import { indented, parseJson, shown } from './json-text.js';
import { el, replace } from './lib/dom.js';
import { asObject, fieldsOf, hintOf, join, valueOf } from './schema-fields.js';

/** @typedef {import('./schema-fields.js').Field} Field */
/** @typedef {import('./schema-fields.js').Raw} Raw */
/** @typedef {import('./schema-fields.js').Fault} Fault */
/** @typedef {{root: HTMLElement, read: () => Raw, mark: (faults: Map<string, string>) => void}} Control */
/**
 * @typedef {object} SchemaForm
 * @property {HTMLElement} root
 * @property {() => Reading} readForm  what was filled in; faults are shown, and the first is focused
 */
/** `text` is the value as JSON, as it was typed. @typedef {{value: unknown, text: string, faults: Fault[]}} Reading */

const MAX_ROWS = 100;
let ids = 0;

/**
 * @param {unknown} schema of an object
 * @param {{value?: unknown, name: string}} options the value to begin with; the form's name for screen readers
 * @returns {SchemaForm}
 */
export function schemaForm(schema, { value, name }) {
  const field = fieldsOf(schema);
  const onlyJson = field.kind !== 'group';
  let asJson = onlyJson;
  let fields = onlyJson ? null : control(field, value ?? field.preset, '');
  let json = jsonControl({ ...field, label: 'JSON', kind: 'json' }, value ?? field.preset ?? (onlyJson ? {} : undefined), '');
  const body = el('div', { class: 'schema-body' });
  const toggle = el('button', { type: 'button', class: 'quiet small', on: { click: () => swap() } });
  const message = el('p', { class: 'fault', role: 'alert' });

  function swap() {
    const { value: now, faults } = reading(!asJson);
    if (asJson && faults.length > 0) return;
    asJson = !asJson;
    // What was filled in goes along; gaps in it are no fault of the person who wants to write JSON.
    if (asJson) json = jsonControl({ ...field, label: 'JSON', kind: 'json' }, now ?? {}, '');
    else fields = control(field, now, '');
    draw();
  }
  function draw() {
    replace(body, (asJson ? json : /** @type {Control} */ (fields)).root);
    toggle.textContent = asJson ? 'Fill in a form' : 'Write JSON';
    message.textContent = '';
  }
  /** @param {boolean} [quiet] faults are not shown */
  function reading(quiet = false) {
    const { value: read, text, faults } = asJson ? readJson(json) : readFields(/** @type {Control} */ (fields), field);
    if (quiet) return { value: read, text, faults };
    (asJson ? json : /** @type {Control} */ (fields)).mark(new Map(faults.map((fault) => [fault.path, fault.message])));
    message.textContent = faults.length > 0 ? `Not sent: ${faults.length === 1 ? 'one field has' : `${faults.length} fields have`} to be mended.` : '';
    /** @type {HTMLElement | null} */ (body.querySelector('[aria-invalid=true]'))?.focus();
    return { value: read, text, faults };
  }
  draw();
  const root = el('div', { class: 'schema-form', role: 'group', 'aria-label': name }, body, el('div', { class: 'row' }, onlyJson ? null : toggle, message));
  return { root, readForm: () => reading() };
}

/** @param {Control} json @returns {Reading} */
function readJson(json) {
  const text = String(json.read()).trim() || '{}';
  const { value, error } = parseJson(text);
  const wrong = error ?? (typeof value === 'object' && value !== null && !Array.isArray(value) ? null : 'This has to be a JSON object: {…}.');
  return { value, text, faults: wrong === null ? [] : [{ path: '', message: wrong }] };
}

/** @param {Control} fields @param {Field} field @returns {Reading} */
function readFields(fields, field) {
  const { value, faults } = valueOf(field, fields.read());
  return { value, text: JSON.stringify(value ?? {}), faults };
}

/**
 * @param {Field} field
 * @param {unknown} value
 * @param {string} path
 * @returns {Control}
 */
function control(field, value, path) {
  if (field.kind === 'group') return groupControl(field, value, path);
  if (field.kind === 'list') return listControl(field, value, path);
  if (field.kind === 'choices') return choicesControl(field, value, path);
  if (field.kind === 'json') return jsonControl(field, value, path);
  return leafControl(field, value, path);
}

/**
 * A label, what is to be known, the control, and its fault.
 * @param {Field} field
 * @param {string} path
 * @param {(attributes: Record<string, unknown>) => HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} make
 * @returns {Control}
 */
function labelled(field, path, make) {
  const id = `field-${(ids += 1)}`;
  const about = [field.description, hintOf(field)].filter(Boolean).join(' — ');
  const input = make({ id, required: field.required, 'aria-describedby': `${id}-about ${id}-fault` });
  const fault = el('p', { class: 'fault', id: `${id}-fault` });
  const root = el('div', { class: 'field' }, el('label', { for: id }, field.label || 'Value', marker(field)), el('p', { class: 'hint', id: `${id}-about`, text: about }), input, fault);
  return {
    root,
    read: () => input.value,
    mark(faults) {
      fault.textContent = faults.get(path) ?? '';
      input.setAttribute('aria-invalid', String(faults.has(path)));
    },
  };
}

/** @param {Field} field */
function marker(field) {
  return field.required ? null : el('span', { class: 'optional', text: ' optional' });
}

/**
 * @param {Field} field
 * @param {unknown} value
 * @param {string} path
 * @returns {Control}
 */
function leafControl(field, value, path) {
  if (field.kind === 'choice' || field.kind === 'boolean') {
    const options = field.options ?? [{ value: true, label: 'true' }, { value: false, label: 'false' }];
    const names = field.options ? options.map((_, i) => String(i)) : ['true', 'false'];
    const chosen = options.findIndex((option) => JSON.stringify(option.value) === JSON.stringify(value));
    return labelled(field, path, (attributes) => {
      const empty = el('option', { value: '', text: field.required ? 'Choose…' : 'Not set' });
      const select = el('select', attributes, empty, options.map((option, i) => el('option', { value: names[i], text: option.label })));
      select.value = chosen < 0 ? '' : names[chosen];
      return select;
    });
  }
  const text = typeof value === 'string' ? value : value === undefined || value === null ? '' : JSON.stringify(value);
  const numeric = field.kind !== 'text';
  const long = !numeric && (text.length > 80 || /\n/u.test(text) || Number(field.schema.maxLength) > 200);
  return labelled(field, path, (attributes) => {
    const common = { ...attributes, spellcheck: 'false', autocomplete: 'off', value: text };
    if (long) return el('textarea', { ...common, rows: 4 });
    if (field.schema.format === 'date') return el('input', { ...common, type: 'date' });
    return el('input', { ...common, type: 'text', inputmode: numeric ? 'decimal' : null });
  });
}

/**
 * @param {Field} field
 * @param {unknown} value
 * @param {string} path
 * @returns {Control}
 */
function jsonControl(field, value, path) {
  const text = value === undefined ? '' : typeof value === 'string' && path === '' ? indented(value) : shown(JSON.stringify(value));
  return labelled(field, path, (attributes) => el('textarea', { ...attributes, class: 'code', spellcheck: 'false', rows: Math.min(12, Math.max(4, text.split('\n').length)), value: text }));
}

/**
 * @param {Field} field
 * @param {unknown} value
 * @param {string} path
 * @returns {Control}
 */
function groupControl(field, value, path) {
  const fields = field.fields ?? [];
  const known = asObject(value);
  const inner = fields.map((part) => ({ key: part.key, control: control(part, Object.hasOwn(known, part.key) ? known[part.key] : part.preset, join(path, part.key)) }));
  const empty = fields.length === 0 ? el('p', { class: 'hint', text: 'No arguments.' }) : null;
  const roots = inner.map(({ control: part }) => part.root);
  const root = path === '' ? el('div', { class: 'fields' }, empty, roots) : frame(field, roots);
  return {
    root,
    read: () => new Map(inner.map(({ key, control: part }) => [key, part.read()])),
    mark: (faults) => inner.forEach(({ control: part }) => part.mark(faults)),
  };
}

/**
 * @param {Field} field
 * @param {...(HTMLElement | HTMLElement[])} children
 */
function frame(field, ...children) {
  const about = [field.description, hintOf(field)].filter(Boolean).join(' — ');
  return el('fieldset', null, el('legend', null, field.label || 'Element', marker(field)), about ? el('p', { class: 'hint', text: about }) : null, ...children);
}

/**
 * @param {Field} field
 * @param {unknown} value
 * @param {string} path
 * @returns {Control}
 */
function listControl(field, value, path) {
  const item = /** @type {Field} */ (field.item);
  /** @type {{row: HTMLElement, control: Control}[]} */
  let rows = [];
  const list = el('div', { class: 'elements' });
  const fault = el('p', { class: 'fault' });
  const add = el('button', { type: 'button', class: 'small', text: `Add to ${field.label || 'the list'}`, on: { click: () => append(item.preset, true) } });

  /** @param {unknown} element @param {boolean} [focus] */
  function append(element, focus) {
    if (rows.length >= MAX_ROWS) return;
    const number = String(rows.length);
    const part = control({ ...item, label: item.label || `${field.label || 'Element'} ${rows.length + 1}` }, element, join(path, number));
    const remove = el('button', { type: 'button', class: 'small quiet', 'aria-label': `Remove ${field.label || 'element'} ${rows.length + 1}`, text: 'Remove', on: { click: () => drop(row) } });
    const row = el('div', { class: 'element' }, part.root, remove);
    rows.push({ row, control: part });
    list.append(row);
    if (focus) /** @type {HTMLElement | null} */ (row.querySelector('input, select, textarea'))?.focus();
  }
  /** Later ones get other numbers, so all are made anew. @param {HTMLElement} gone */
  function drop(gone) {
    const kept = rows.filter(({ row }) => row !== gone).map(({ control: part }) => valueOf({ ...item, required: false }, part.read()).value);
    rows = [];
    replace(list);
    for (const element of kept) append(element);
    add.focus();
  }
  if (Array.isArray(value)) for (const element of value.slice(0, MAX_ROWS)) append(element);
  return {
    root: frame(field, list, add, fault),
    read: () => rows.map(({ control: part }) => part.read()),
    mark(faults) {
      fault.textContent = faults.get(path) ?? '';
      rows.forEach(({ control: part }) => part.mark(faults));
    },
  };
}

/**
 * Any number of choices.
 * @param {Field} field
 * @param {unknown} value
 * @param {string} path
 * @returns {Control}
 */
function choicesControl(field, value, path) {
  const chosen = new Set(Array.isArray(value) ? value.map((element) => JSON.stringify(element)) : []);
  const fault = el('p', { class: 'fault' });
  const boxes = (field.options ?? []).map((option) => ({ option, box: el('input', { type: 'checkbox', checked: chosen.has(JSON.stringify(option.value)) }) }));
  const labels = boxes.map(({ option, box }) => el('label', { class: 'check' }, box, ` ${option.label}`));
  return {
    root: frame(field, labels, fault),
    read: () => boxes.flatMap(({ box }, i) => (box.checked ? [String(i)] : [])),
    mark: (faults) => void (fault.textContent = faults.get(path) ?? ''),
  };
}
