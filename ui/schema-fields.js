// What a form can say of a JSON Schema, and the value of a filled-in form. No page here: `schema-form.js` draws it.
//
// Schemas come from servers, and may be deep, huge, recursive or nonsense: depth, fields and choices are bounded, and what is
// beyond becomes a field for JSON. Patterns are shown, never run.

import { parseJson, reveal } from './json-text.js';

/** @typedef {Record<string, any>} Json */
/**
 * @typedef {object} Field
 * @property {'text' | 'number' | 'integer' | 'boolean' | 'choice' | 'choices' | 'list' | 'group' | 'json'} kind
 * @property {string} key
 * @property {string} label
 * @property {string} description
 * @property {boolean} required
 * @property {Json} schema
 * @property {{value: unknown, label: string}[]} [options]  of a choice
 * @property {Field[]} [fields]  of a group
 * @property {Field} [item]  of a list
 */
/** What was typed: text; a list or a group of such. @typedef {string | Raw[] | Map<string, Raw>} Raw */
/** @typedef {{path: string, message: string}} Fault */
/** @typedef {{root: Json, budget: {left: number}, depth: number}} Context */

const MAX_DEPTH = 5;
const MAX_FIELDS = 120;
const MAX_OPTIONS = 250;
const MAX_REFS = 8;
const MAX_TEXT = 2_000;

/** The fields of a schema; the root is a group, or one field for JSON. @param {unknown} schema @returns {Field} */
export function fieldsOf(schema) {
  const root = asObject(schema);
  const field = fieldOf('', root, true, { root, budget: { left: MAX_FIELDS }, depth: 0 });
  return field.kind === 'group' ? field : { ...field, kind: 'json' };
}

/** @param {string} key @param {unknown} declared @param {boolean} required @param {Context} context @returns {Field} */
function fieldOf(key, declared, required, context) {
  context.budget.left -= 1;
  const { schema, nullable } = plain(asObject(declared), context.root);
  /** @type {Field} */
  const field = { kind: 'json', key, label: text(schema.title) || key, description: text(schema.description), required: required && !nullable, schema };
  if (context.budget.left < 0) return field;
  const options = optionsOf(schema);
  if (options) return options.length > 0 ? { ...field, kind: 'choice', options } : field;
  if (schema.anyOf || schema.oneOf || schema.allOf || schema.not || schema.if) return field;
  return { ...field, ...shape(schema, context) };
}

/** What goes by the `type`. @param {Json} schema @param {Context} context @returns {Partial<Field>} */
function shape(schema, context) {
  const type = schema.type ?? (schema.properties ? 'object' : undefined);
  if (type === 'string') return { kind: 'text' };
  if (type === 'number' || type === 'integer' || type === 'boolean') return { kind: type };
  const inner = { ...context, depth: context.depth + 1 };
  if (context.depth >= MAX_DEPTH) return {};
  if (type === 'array' && !schema.prefixItems && typeof schema.items === 'object') {
    const item = fieldOf('', schema.items, true, inner);
    if (item.kind === 'choice') return { kind: 'choices', options: item.options };
    return item.kind === 'json' ? {} : { kind: 'list', item };
  }
  const properties = Object.entries(asObject(schema.properties));
  const open = Boolean(schema.additionalProperties ?? schema.patternProperties);
  // Where nothing is declared there is nothing to ask for, unless anything is allowed.
  if (type !== 'object' || properties.length > context.budget.left || (properties.length === 0 && (open || context.depth > 0))) return {};
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  return { kind: 'group', fields: properties.map(([name, property]) => fieldOf(name, property, required.has(name), inner)) };
}

/**
 * Follows references within the schema, and takes the null out of `X or null`.
 * @param {Json} schema
 * @param {Json} root
 * @returns {{schema: Json, nullable: boolean}}
 */
function plain(schema, root) {
  let nullable = false;
  for (let step = 0; step < MAX_REFS; step += 1) {
    const { $ref, anyOf, oneOf, allOf, type, ...rest } = schema;
    const union = Array.isArray(anyOf ?? oneOf) ? (anyOf ?? oneOf) : [];
    const others = union.filter((/** @type {any} */ branch) => branch?.type !== 'null');
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

/** @param {string} reference such as `#/$defs/Size` @param {Json} root */
function lookUp(reference, root) {
  /** @type {Json} */
  let found = reference.startsWith('#') ? root : {};
  for (const part of reference.split('/').slice(1, 11)) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
    found = Object.hasOwn(found, key) ? asObject(found[key]) : {};
  }
  return found;
}

/**
 * The choices of a schema, if it is one: `enum`, `const`, or constants with titles. None: there are too many, or no sense in them.
 * @param {Json} schema
 * @returns {{value: unknown, label: string}[] | null}
 */
function optionsOf(schema) {
  if (Object.hasOwn(schema, 'const')) return [option(schema.const)];
  if (Array.isArray(schema.enum)) return schema.enum.length > MAX_OPTIONS ? [] : schema.enum.map((value, i) => option(value, schema.enumNames?.[i]));
  const union = schema.oneOf ?? schema.anyOf;
  const constants = Array.isArray(union) && union.length > 0 && union.length <= MAX_OPTIONS && union.every((branch) => Object.hasOwn(asObject(branch), 'const'));
  return constants ? union.map((branch) => option(branch.const, branch.title)) : null;
}

/** @param {unknown} value @param {unknown} [title] */
function option(value, title) {
  return { value, label: text(title) || text(typeof value === 'string' ? value : JSON.stringify(value)).slice(0, 200) || '(empty)' };
}

/** @type {[string, string][]} */
const HINTS = [['pattern', 'pattern:'], ['minimum', 'at least'], ['exclusiveMinimum', 'more than'], ['maximum', 'at most'], ['exclusiveMaximum', 'less than'], ['multipleOf', 'a multiple of'], ['minLength', 'length at least'], ['maxLength', 'length at most'], ['minItems', 'elements: at least'], ['maxItems', 'elements: at most']];

/** What a person should know of a field: what its schema says, and what it demands. @param {Field} field */
export function aboutOf({ kind, schema, description }) {
  const format = kind === 'text' && text(schema.format);
  const hints = HINTS.filter(([name]) => /^(number|string)$/u.test(typeof schema[name])).map(([name, words]) => `${words} ${text(String(schema[name])).slice(0, 200)}`);
  if (format) hints.unshift(FORMATS[format]?.[0] ?? `format: ${format.slice(0, 200)}`);
  if (kind === 'json') hints.push('JSON');
  return [description, hints.join('; ')].filter(Boolean).join(' — ');
}

const DATE = /^\d{4}-\d\d-\d\d([Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d))?$/u;
const isDate = (/** @type {string} */ value) => DATE.test(value) && !Number.isNaN(Date.parse(value));
/** @type {Record<string, [string, (text: string) => boolean]>} */
const FORMATS = Object.assign(Object.create(null), {
  email: ['an e-mail address', (/** @type {string} */ value) => /^[^\s@]+@[^\s@]+$/u.test(value)],
  uri: ['an address with its scheme, such as https://example.com', (/** @type {string} */ value) => URL.canParse(value)],
  date: ['a date, such as 2026-01-31', (/** @type {string} */ value) => isDate(value) && value.length === 10],
  'date-time': ['date and time with an offset, such as 2026-01-31T09:30:00Z', (/** @type {string} */ value) => isDate(value) && value.length > 10],
});

/**
 * The value of a filled-in field. `undefined`: it was left empty, and may be.
 * @param {Field} field
 * @param {Raw | undefined} raw
 * @param {string} [path]
 * @returns {{value: unknown, faults: Fault[]}}
 */
export function valueOf(field, raw, path = '') {
  if (field.kind === 'group') return groupValue(field, raw instanceof Map ? raw : new Map(), path);
  if (field.kind === 'list' || field.kind === 'choices') return listValue(field, Array.isArray(raw) ? raw : [], path);
  const typed = typeof raw === 'string' ? raw : '';
  const empty = field.kind === 'text' ? typed === '' : typed.trim() === '';
  if (empty && !field.required) return { value: undefined, faults: [] };
  const { value, error } = empty ? { value: undefined, error: field.kind === 'text' ? 'This is required. To send an empty text, write JSON.' : 'This is required.' } : leafValue(field, typed);
  return { value, faults: error === null ? [] : [{ path, message: error }] };
}

/** @param {Field} field @param {string} typed @returns {{value?: unknown, error: string | null}} */
function leafValue(field, typed) {
  if (field.kind === 'json') return parseJson(typed);
  if (field.kind === 'boolean') return { value: typed === 'true', error: null };
  if (field.kind === 'choice') return { value: field.options?.[Number(typed)]?.value, error: field.options?.[Number(typed)] ? null : 'This is none of the choices.' };
  if (field.kind === 'text') return { value: typed, error: textFault(field.schema, typed) };
  const value = Number(typed);
  return { value, error: numberFault(field, typed.trim(), value) };
}

/** @param {Json} schema @param {string} typed */
function textFault({ format, minLength, maxLength }, typed) {
  const length = [...typed].length;
  if (FORMATS[format]?.[1](typed) === false) return `This has to be ${FORMATS[format][0]}.`;
  if (length < minLength) return `At least ${minLength} characters.`;
  return length > maxLength ? `At most ${maxLength} characters; these are ${length}.` : null;
}

/** @param {Field} field @param {string} typed @param {number} value */
function numberFault({ kind, schema }, typed, value) {
  if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/u.test(typed)) return 'This has to be a number, such as 3 or 0.5.';
  if (kind === 'integer' && !Number.isInteger(value)) return 'This has to be a whole number.';
  if (Math.abs(value) > Number.MAX_SAFE_INTEGER) return 'Too large to be kept exactly: write JSON.';
  if (value < schema.minimum || value <= schema.exclusiveMinimum) return 'Too small.';
  return value > schema.maximum || value >= schema.exclusiveMaximum ? 'Too large.' : null;
}

/** @param {Field} field @param {Map<string, Raw>} raw @param {string} path */
function groupValue(field, raw, path) {
  const fields = field.fields ?? [];
  // What may be left out, and has nothing in it but gaps, is left out as a whole.
  if (!field.required && isEmpty(raw)) return { value: undefined, faults: [] };
  const parts = fields.map((part) => ({ key: part.key, ...valueOf(part, raw.get(part.key), join(path, part.key)) }));
  const given = parts.filter(({ value }) => value !== undefined).map(({ key, value }) => [key, value]);
  return { value: Object.fromEntries(given), faults: parts.flatMap(({ faults }) => faults) };
}

/** @param {Raw} raw @returns {boolean} */
function isEmpty(raw) {
  return typeof raw === 'string' ? raw === '' : Array.isArray(raw) ? raw.length === 0 : [...raw.values()].every(isEmpty);
}

/** @param {Field} field @param {Raw[]} raw @param {string} path */
function listValue(field, raw, path) {
  const { minItems, maxItems } = field.schema;
  if (raw.length === 0 && !field.required) return { value: undefined, faults: [] };
  /** @type {Field} */
  const item = field.item ?? { ...field, kind: 'choice', required: true };
  const parts = raw.map((element, i) => valueOf(item, element, join(path, String(i))));
  const faults = parts.flatMap((part) => part.faults);
  if (raw.length < minItems || raw.length > maxItems) faults.push({ path, message: raw.length < minItems ? `At least ${minItems} elements.` : `At most ${maxItems} elements.` });
  return { value: parts.map(({ value }) => value), faults };
}

/** @param {string} path @param {string} key */
export const join = (path, key) => `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;

/** @param {unknown} value @returns {Json} */
export const asObject = (value) => (typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {});

/** @param {unknown} value */
const text = (value) => (typeof value === 'string' ? reveal(value.slice(0, MAX_TEXT)) : '');
