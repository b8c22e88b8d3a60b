// Forms from JSON Schemas of servers: deep, huge, recursive or nonsense. Patterns are shown, never run.

import { el, indented, parseJson, replace, reveal } from './lib/dom.js';

const MAX_DEPTH = 5;
const MAX_FIELDS = 120;
const MAX_OPTIONS = 250;
const MAX_REFS = 8;
const MAX_ROWS = 100;
const MAX_TEXT = 2_000;

/** @type {Of['asObject']} */
export const asObject = (value) => (typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {});
/** @type {Of['text']} */
const text = (value) => (typeof value === 'string' ? reveal(value.slice(0, MAX_TEXT)) : '');
/** @type {Of['join']} */
const join = (path, key) => `${path}/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`;

/** @type {Of['fieldsOf']} */
export function fieldsOf(schema) {
  const root = asObject(schema);
  const field = fieldOf('', root, true, { root, left: MAX_FIELDS }, 0);
  return field.kind === 'group' ? field : { ...field, kind: 'json' };
}

/** @type {Of['fieldOf']} */
function fieldOf(key, declared, required, budget, depth) {
  budget.left -= 1;
  const { schema, nullable } = plain(asObject(declared), budget.root);
  /** @type {Field} */
  const field = { kind: 'json', key, label: text(schema.title) || key, about: aboutOf(schema), required: required && !nullable, schema };
  return budget.left < 0 ? field : { ...field, ...shape(schema, budget, depth) };
}

/** @type {Of['shape']} */
function shape(schema, budget, depth) {
  const options = optionsOf(schema);
  if (options) return options.length > 0 ? { kind: 'choice', options } : {};
  if (schema.anyOf || schema.oneOf || schema.allOf || schema.not || schema.if) return {};
  const type = schema.type ?? (schema.properties && 'object');
  if (type === 'string') return { kind: 'text' };
  if (type === 'number' || type === 'integer' || type === 'boolean') return { kind: type };
  if (depth >= MAX_DEPTH) return {};
  if (type === 'array' && !schema.prefixItems && typeof schema.items === 'object') {
    const item = fieldOf('', schema.items, true, budget, depth + 1);
    return item.kind === 'choice' ? { kind: 'choices', options: item.options } : item.kind === 'json' ? {} : { kind: 'list', item };
  }
  const properties = Object.entries(asObject(schema.properties));
  // Nothing is declared: nothing to ask for, unless anything is allowed.
  const empty = properties.length === 0 && (depth > 0 || schema.additionalProperties || schema.patternProperties);
  if (type !== 'object' || empty || properties.length > budget.left) return {};
  const required = Array.isArray(schema.required) ? schema.required : [];
  return { kind: 'group', fields: properties.map(([name, property]) => fieldOf(name, property, required.includes(name), budget, depth + 1)) };
}

/** @type {Of['plain']} */
function plain(schema, root) {
  let nullable = false;
  for (let step = 0; step < MAX_REFS; step += 1) {
    const { $ref, anyOf, oneOf, allOf, type, ...rest } = schema;
    const union = [anyOf ?? oneOf ?? []].flat();
    const others = union.filter((branch) => branch?.type !== 'null');
    if (typeof $ref === 'string') schema = { ...lookUp($ref, root), ...schema, $ref: undefined };
    else if (union.length === 2 && others.length === 1) [schema, nullable] = [{ ...asObject(others[0]), ...rest }, true];
    else if (Array.isArray(allOf) && allOf.length === 1) schema = { ...asObject(allOf[0]), ...schema, allOf: undefined };
    else if (Array.isArray(type)) {
      const types = type.filter((name) => name !== 'null');
      nullable ||= types.length < type.length;
      schema = { ...schema, type: types.length === 1 ? types[0] : 'any' };
    } else return { schema, nullable };
  }
  // It refers to itself: whatever fits.
  return { schema: {}, nullable };
}

/** @type {Of['lookUp']} */
function lookUp(reference, root) {
  let found = reference.startsWith('#') ? root : {};
  for (const part of reference.split('/').slice(1, 11)) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
    found = Object.hasOwn(found, key) ? asObject(found[key]) : {};
  }
  return found;
}

/** @type {Of['optionsOf']} */
function optionsOf(schema) {
  const of = (/** @type {any} */ value, /** @type {any} */ title) =>
    ({ value, label: text(title) || text(typeof value === 'string' ? value : JSON.stringify(value)).slice(0, 200) || '(empty)' });
  if (Object.hasOwn(schema, 'const')) return [of(schema.const, schema.title)];
  if (Array.isArray(schema.enum)) return schema.enum.length > MAX_OPTIONS ? [] : schema.enum.map((value, i) => of(value, schema.enumNames?.[i]));
  const union = schema.oneOf ?? schema.anyOf;
  if (!Array.isArray(union) || union.length === 0 || union.length > MAX_OPTIONS) return null;
  return union.every((branch) => Object.hasOwn(asObject(branch), 'const')) ? union.map((branch) => of(branch.const, branch.title)) : null;
}

/** @type {[string, string, (size: number, limit: number) => boolean][]} */
const BOUNDS = [
  ['minimum', 'at least', (size, limit) => size >= limit], ['exclusiveMinimum', 'more than', (size, limit) => size > limit],
  ['maximum', 'at most', (size, limit) => size <= limit], ['exclusiveMaximum', 'less than', (size, limit) => size < limit],
  ['minLength', 'length at least', (size, limit) => size >= limit], ['maxLength', 'length at most', (size, limit) => size <= limit],
  ['minItems', 'elements: at least', (size, limit) => size >= limit], ['maxItems', 'elements: at most', (size, limit) => size <= limit],
];

/** @type {Of['aboutOf']} */
function aboutOf(schema) {
  const bounds = BOUNDS.filter(([name]) => typeof schema[name] === 'number').map(([name, words]) => `${words} ${schema[name]}`);
  const hints = ['format', 'pattern'].filter((name) => text(schema[name])).map((name) => `${name}: ${text(schema[name]).slice(0, 200)}`);
  return [text(schema.description), [...hints, ...bounds].join('; ')].filter(Boolean).join(' — ');
}

/** @type {Of['boundFault']} */
function boundFault(schema, value) {
  const size = typeof value === 'number' ? value : [...value].length;
  const kinds = typeof value === 'number' ? /imum$/ : typeof value === 'string' ? /Length$/ : /Items$/;
  const broken = BOUNDS.find(([name, , holds]) => kinds.test(name) && typeof schema[name] === 'number' && !holds(size, schema[name]));
  return broken ? `It has to be: ${broken[1]} ${schema[broken[0]]}.` : null;
}

/** @type {Of['valueOf']} */
export function valueOf(field, raw, path = '') {
  const skipped = raw === undefined || isEmpty(raw);
  if (skipped && !field.required) return { value: undefined, faults: [] };
  if (field.kind === 'group') {
    const parts = (field.fields ?? []).map((part) => ({ key: part.key, ...valueOf(part, raw instanceof Map ? raw.get(part.key) : '', join(path, part.key)) }));
    const given = parts.filter(({ value }) => value !== undefined).map(({ key, value }) => [key, value]);
    return { value: Object.fromEntries(given), faults: parts.flatMap(({ faults }) => faults) };
  }
  if (field.kind === 'list' || field.kind === 'choices') {
    const item = /** @type {Field} */ (field.item ?? { ...field, kind: 'choice', required: true });
    const parts = (Array.isArray(raw) ? raw : []).map((element, i) => valueOf(item, element, join(path, i)));
    const message = boundFault(field.schema, parts);
    return { value: parts.map(({ value }) => value), faults: [...(message ? [{ path, message }] : []), ...parts.flatMap(({ faults }) => faults)] };
  }
  const { value, error } = skipped ? { value: undefined, error: 'This is required.' } : leafValue(field, String(raw));
  return { value, faults: error === null ? [] : [{ path, message: error }] };
}

/** @type {Of['isEmpty']} */
const isEmpty = (raw) => (typeof raw === 'string' ? raw === '' : [...raw.values()].every(isEmpty));

/** @type {Of['leafValue']} */
function leafValue({ kind, options, schema }, typed) {
  if (kind === 'json') return parseJson(typed);
  if (kind === 'boolean') return { value: typed === 'true', error: null };
  if (kind === 'choice') return { value: options?.[Number(typed)]?.value, error: options?.[Number(typed)] ? null : 'This is none of the choices.' };
  if (kind === 'text') return { value: typed, error: boundFault(schema, typed) };
  const value = Number(typed);
  const number = /^\s*-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?\s*$/u.test(typed) && (kind === 'number' || Number.isInteger(value));
  if (!number) return { value, error: `This has to be a ${kind === 'integer' ? 'whole ' : ''}number.` };
  return { value, error: Math.abs(value) > Number.MAX_SAFE_INTEGER ? 'Too large to be kept exactly: write JSON.' : boundFault(schema, value) };
}

let ids = 0;

/** @type {Of['schemaForm']} */
export function schemaForm(schema, { name, value = asObject(schema).default, bare = false }) {
  const field = fieldsOf(schema);
  let asJson = field.kind === 'json';
  let control = controlOf(field, value ?? (asJson ? {} : undefined), '');
  const body = el('div', { class: 'fields' }, control.root);
  if (bare) body.querySelectorAll('.optional').forEach((marker) => marker.remove());
  const toggle = el('button', { class: 'quiet small', hidden: asJson || bare, text: 'Write JSON', on: { click: swap } });
  const message = el('p', { class: 'fault', role: 'alert' });

  /** @returns {Reading} */
  function reading() {
    const typed = String(control.read()).trim() || '{}';
    const { value: read, error } = asJson ? parseJson(typed) : { value: null, error: null };
    const wrong = error ?? (asJson && asObject(read) !== read ? 'This has to be a JSON object: {…}.' : null);
    const result = asJson ? { value: read, faults: wrong === null ? [] : [{ path: '', message: wrong }] } : valueOf(field, control.read());
    return { ...result, text: asJson ? typed : JSON.stringify(result.value) };
  }
  // What was filled in goes along; gaps are no fault.
  function swap() {
    const { value: now, faults } = reading();
    if (asJson && faults.length > 0) return void readForm();
    asJson = !asJson;
    control = controlOf(asJson ? { ...field, kind: 'json', label: 'JSON', about: '' } : field, now, '');
    replace(body, control.root);
    toggle.textContent = asJson ? 'Fill in a form' : 'Write JSON';
    message.textContent = '';
  }
  function readForm(quiet = false) {
    const read = reading();
    control.mark(new Map(read.faults.map((fault) => [fault.path, fault.message])));
    if (quiet) return read;
    message.textContent = read.faults.length > 0 ? 'Not sent: see the marked fields.' : '';
    /** @type {HTMLElement | null} */ (body.querySelector('[aria-invalid=true]'))?.focus();
    return read;
  }
  return { root: el('div', { class: 'fields', role: 'group', 'aria-label': name }, body, el('div', { class: 'row spread' }, toggle, message)), readForm };
}

/** @type {Of['controlOf']} */
function controlOf(field, value, path) {
  const fault = el('p', { class: 'fault' });
  const label = [field.label || 'Value', field.required ? null : el('span', { class: 'optional', text: ' optional' })];
  const about = el('p', { class: 'hint', text: field.about + (field.kind === 'json' ? ' JSON' : '') });
  const frame = (/** @type {HTMLElement[]} */ ...inside) => el('fieldset', null, el('legend', null, ...label), about, ...inside, fault);
  const mark = (/** @type {Map<string, string>} */ faults) => void (fault.textContent = faults.get(path) ?? '');
  if (field.kind === 'group') return groupControl(field, asObject(value), path, frame);
  if (field.kind === 'list') return listControl(field, value, path, frame, mark);
  if (field.kind === 'choices') {
    const chosen = [value ?? []].flat().map((element) => JSON.stringify(element));
    const boxes = (field.options ?? []).map((option) => el('label', { class: 'check' }, el('input', { type: 'checkbox', checked: chosen.includes(JSON.stringify(option.value)) }), option.label));
    return { root: frame(...boxes), read: () => boxes.flatMap((box, i) => (box.querySelector('input')?.checked ? [String(i)] : [])), mark };
  }
  const id = `field-${(ids += 1)}`;
  const input = inputOf(field, value);
  [fault.id, about.id, input.id] = [`${id}-fault`, `${id}-about`, id];
  input.setAttribute('aria-describedby', `${about.id} ${fault.id}`);
  return {
    root: el('div', { class: 'field' }, el('label', { for: id }, ...label), about, input, fault),
    read: () => input.value,
    mark(faults) {
      mark(faults);
      input.setAttribute('aria-invalid', String(faults.has(path)));
    },
  };
}

/** @type {Of['inputOf']} */
function inputOf({ kind, schema, options, required }, value) {
  if (kind === 'choice' || kind === 'boolean') {
    const all = options ?? [true, false].map((is) => ({ value: is, label: String(is) }));
    const names = all.map(({ label }, i) => (options ? String(i) : label));
    const chosen = all.findIndex((option) => JSON.stringify(option.value) === JSON.stringify(value));
    return el('select', null, el('option', { value: '', text: required ? 'Choose…' : 'Not set' }), all.map(({ label }, i) => el('option', { value: names[i], text: label, selected: i === chosen })));
  }
  const shown = value === undefined || value === null ? '' : kind === 'text' && typeof value === 'string' ? value : indented(JSON.stringify(value));
  const long = kind === 'json' || (kind === 'text' && (shown.length > 80 || shown.includes('\n') || schema.maxLength > 200 || schema.contentMediaType));
  const attributes = { required, spellcheck: 'false', autocomplete: 'off', value: shown, class: schema.writeOnly ? 'secret' : kind === 'json' ? 'code' : '' };
  return long ? el('textarea', { ...attributes, rows: 4 }) : el('input', { ...attributes, type: schema.format === 'date' ? 'date' : 'text', inputmode: kind === 'text' ? null : 'decimal' });
}

/** @type {Of['groupControl']} */
function groupControl(field, known, path, frame) {
  const parts = (field.fields ?? []).map((part) => ({ key: part.key, control: controlOf(part, Object.hasOwn(known, part.key) ? known[part.key] : part.schema.default, join(path, part.key)) }));
  const roots = parts.map(({ control }) => control.root);
  return {
    root: path ? frame(...roots) : el('div', { class: 'fields' }, roots.length > 0 ? roots : el('p', { class: 'hint', text: 'No arguments.' })),
    read: () => new Map(parts.map(({ key, control }) => [key, control.read()])),
    mark: (faults) => parts.forEach(({ control }) => control.mark(faults)),
  };
}

/** @type {Of['listControl']} */
function listControl(field, value, path, frame, mark) {
  const item = /** @type {Field} */ (field.item);
  /** @type {{row: HTMLElement, control: Control}[]} */
  let rows = [];
  const list = el('div', { class: 'fields' });
  const add = el('button', { class: 'small', text: `Add to ${field.label || 'the list'}`, on: { click: () => append(item.schema.default)?.querySelector('input, select, textarea')?.focus() } });

  /** @type {(element: unknown) => any} */
  function append(element) {
    if (rows.length >= MAX_ROWS) return null;
    const name = `${field.label || 'Element'} ${rows.length + 1}`;
    const control = controlOf({ ...item, label: item.label || name }, element, join(path, rows.length));
    const row = el('div', { class: 'element' }, control.root, el('button', { class: 'small quiet', 'aria-label': `Remove ${name}`, text: 'Remove', on: { click: () => drop(row) } }));
    rows.push({ row, control });
    list.append(row);
    return row;
  }
  // Those behind it get other numbers.
  function drop(/** @type {HTMLElement} */ gone) {
    const kept = rows.filter(({ row }) => row !== gone).map(({ control }) => valueOf({ ...item, required: false }, control.read()).value);
    rows = [];
    replace(list);
    kept.forEach(append);
    add.focus();
  }
  if (Array.isArray(value)) value.slice(0, MAX_ROWS).forEach(append);
  return {
    root: frame(list, add),
    read: () => rows.map(({ control }) => control.read()),
    mark(faults) {
      mark(faults);
      rows.forEach(({ control }) => control.mark(faults));
    },
  };
}
