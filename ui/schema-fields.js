// What a form can say of a JSON Schema, and the value of a filled-in form. No page here: `schema-form.js` draws it.
//
// Schemas come from servers, and may be deep, huge, recursive or nonsense: depth, fields and choices are bounded, and what is
// beyond becomes a field for JSON. Patterns are shown, never run.

import { parseJson, reveal } from './json-text.js';

/** @typedef {Record<string, unknown>} Json */
/**
 * @typedef {object} Field
 * @property {'text' | 'number' | 'integer' | 'boolean' | 'choice' | 'choices' | 'list' | 'group' | 'json'} kind
 * @property {string} key
 * @property {string} label
 * @property {string} description
 * @property {boolean} required
 * @property {Json} schema
 * @property {unknown} preset  the default
 * @property {{value: unknown, label: string}[]} [options]  of a choice
 * @property {Field[]} [fields]  of a group
 * @property {Field} [item]  of a list
 */
/** What was typed: text; a list or a group of such. @typedef {string | Raw[] | Map<string, Raw>} Raw */
/** @typedef {{path: string, message: string}} Fault */

const MAX_DEPTH = 5;
const MAX_FIELDS = 120;
const MAX_OPTIONS = 250;
const MAX_REFS = 8;
const MAX_TEXT = 2_000;

/**
 * The fields of a schema; the root is always a group or one field for JSON.
 * @param {unknown} schema
 * @returns {Field}
 */
export function fieldsOf(schema) {
  const root = asObject(schema);
  const budget = { left: MAX_FIELDS };
  const field = fieldOf('', root, true, { root, budget, depth: 0 });
  return field.kind === 'group' ? field : { ...field, kind: 'json' };
}

/**
 * @param {string} key
 * @param {unknown} declared
 * @param {boolean} required
 * @param {{root: Json, budget: {left: number}, depth: number}} context
 * @returns {Field}
 */
function fieldOf(key, declared, required, context) {
  context.budget.left -= 1;
  const { schema, nullable } = plain(asObject(declared), context.root);
  /** @type {Field} */
  const field = {
    kind: 'json',
    key,
    label: text(schema.title) || key,
    description: text(schema.description),
    required: required && !nullable,
    schema,
    preset: schema.default,
  };
  if (context.budget.left < 0) return field;
  const options = optionsOf(schema);
  if (options) return options.length > 0 ? { ...field, kind: 'choice', options } : field;
  if (schema.anyOf || schema.oneOf || schema.allOf || schema.not || schema.if) return field;
  return shaped(field, schema, context);
}

/**
 * The field by its `type`.
 * @param {Field} field
 * @param {Json} schema
 * @param {{root: Json, budget: {left: number}, depth: number}} context
 * @returns {Field}
 */
function shaped(field, schema, context) {
  const type = schema.type ?? (schema.properties ? 'object' : undefined);
  if (type === 'string') return { ...field, kind: 'text' };
  if (type === 'number' || type === 'integer' || type === 'boolean') return { ...field, kind: type };
  if (context.depth >= MAX_DEPTH) return field;
  const inner = { ...context, depth: context.depth + 1 };
  if (type === 'array') return listOf(field, schema, inner);
  if (type !== 'object') return field;
  const properties = Object.entries(asObject(schema.properties));
  const open = schema.additionalProperties !== false && (schema.additionalProperties !== undefined || schema.patternProperties !== undefined);
  // Without declared properties there is nothing to ask for, unless any are allowed.
  if (properties.length === 0 && (open || context.depth > 0)) return field;
  if (properties.length > context.budget.left) return field;
  const required = Array.isArray(schema.required) ? new Set(schema.required) : new Set();
  const fields = properties.map(([name, property]) => fieldOf(name, property, required.has(name), inner));
  return { ...field, kind: 'group', fields };
}

/**
 * @param {Field} field
 * @param {Json} schema
 * @param {{root: Json, budget: {left: number}, depth: number}} context
 * @returns {Field}
 */
function listOf(field, schema, context) {
  if (schema.prefixItems || typeof schema.items !== 'object') return field;
  const item = fieldOf('', schema.items, true, context);
  if (item.kind === 'choice') return { ...field, kind: 'choices', options: item.options ?? [] };
  return item.kind === 'json' ? field : { ...field, kind: 'list', item };
}

/**
 * Follows references within the schema, and takes the null out of `X or null`.
 * @param {Json} declared
 * @param {Json} root
 * @returns {{schema: Json, nullable: boolean}}
 */
function plain(declared, root) {
  let [schema, nullable] = [declared, false];
  for (let step = 0; step < MAX_REFS; step += 1) {
    const { $ref, ...beside } = schema;
    const union = schema.anyOf ?? schema.oneOf;
    const others = Array.isArray(union) ? union.filter((branch) => asObject(branch).type !== 'null') : [];
    if (typeof $ref === 'string') schema = { ...lookUp($ref, root), ...beside };
    else if (Array.isArray(union) && others.length === 1 && union.length === 2) {
      const { anyOf: _, oneOf: __, ...rest } = schema;
      [schema, nullable] = [{ ...asObject(others[0]), ...rest }, true];
    } else if (Array.isArray(schema.allOf) && schema.allOf.length === 1) {
      const { allOf, ...rest } = schema;
      schema = { ...asObject(/** @type {unknown[]} */ (allOf)[0]), ...rest };
    } else if (Array.isArray(schema.type)) {
      const types = schema.type.filter((type) => type !== 'null');
      nullable ||= types.length < schema.type.length;
      schema = { ...schema, type: types.length === 1 ? types[0] : 'any' };
    } else return { schema, nullable };
  }
  // A reference to itself, or a chain that is too long: whatever fits.
  return { schema: { description: schema.description, title: schema.title }, nullable };
}

/**
 * @param {string} reference such as `#/$defs/Size`
 * @param {Json} root
 */
function lookUp(reference, root) {
  if (!reference.startsWith('#/')) return {};
  /** @type {unknown} */
  let found = root;
  for (const part of reference.slice(2).split('/').slice(0, 10)) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
    found = Object.hasOwn(asObject(found), key) ? asObject(found)[key] : {};
  }
  return asObject(found);
}

/**
 * The choices of a schema, if it is one: `enum`, `const`, or `oneOf` constants with titles.
 * @param {Json} schema
 * @returns {{value: unknown, label: string}[] | null} none: there are too many, or they are nonsense
 */
function optionsOf(schema) {
  if (Object.hasOwn(schema, 'const')) return [option(schema.const)];
  if (Array.isArray(schema.enum)) {
    const names = Array.isArray(schema.enumNames) ? schema.enumNames : [];
    return schema.enum.length > MAX_OPTIONS ? [] : schema.enum.map((value, i) => option(value, names[i]));
  }
  const union = schema.oneOf ?? schema.anyOf;
  if (!Array.isArray(union) || union.length === 0 || union.length > MAX_OPTIONS) return null;
  if (!union.every((branch) => Object.hasOwn(asObject(branch), 'const'))) return null;
  return union.map((branch) => option(asObject(branch).const, asObject(branch).title));
}

/**
 * @param {unknown} value
 * @param {unknown} [title]
 */
function option(value, title) {
  const label = text(title) || (typeof value === 'string' ? reveal(value).slice(0, 200) : (JSON.stringify(value) ?? '').slice(0, 200));
  return { value, label: label || '(empty)' };
}

/**
 * What a person should know of a field beside its description.
 * @param {Field} field
 */
export function hintOf({ kind, schema }) {
  const hints = [];
  /** @param {string} name */
  const of = (name) => (typeof schema[name] === 'number' || typeof schema[name] === 'string' ? reveal(String(schema[name])).slice(0, 200) : null);
  if (kind === 'text' && of('format')) hints.push(FORMATS[String(of('format'))]?.hint ?? `format: ${of('format')}`);
  if (of('pattern')) hints.push(`pattern: ${of('pattern')}`);
  /** @type {[string, string][]} */
  const bounds = [['minimum', 'at least'], ['exclusiveMinimum', 'more than'], ['maximum', 'at most'], ['exclusiveMaximum', 'less than'], ['multipleOf', 'a multiple of']];
  /** @type {[string, string][]} */
  const lengths = [['minLength', 'length at least'], ['maxLength', 'length at most'], ['minItems', 'elements: at least'], ['maxItems', 'elements: at most']];
  for (const [name, words] of [...bounds, ...lengths]) if (of(name)) hints.push(`${words} ${of(name)}`);
  if (kind === 'json') hints.push('JSON');
  return hints.join('; ');
}

/** @type {Record<string, {hint: string, fits: (text: string) => boolean}>} */
const FORMATS = {
  email: { hint: 'an e-mail address', fits: (value) => /^[^\s@]+@[^\s@]+$/u.test(value) },
  uri: { hint: 'an address with its scheme, such as https://example.com', fits: (value) => URL.canParse(value) },
  date: { hint: 'a date, such as 2026-01-31', fits: (value) => /^\d{4}-\d\d-\d\d$/u.test(value) && !Number.isNaN(Date.parse(value)) },
  'date-time': {
    hint: 'date and time with an offset, such as 2026-01-31T09:30:00Z',
    fits: (value) => /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/u.test(value) && !Number.isNaN(Date.parse(value)),
  },
};

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
  const wrong = (/** @type {string} */ message) => ({ value: undefined, faults: [{ path, message }] });
  if (typed.trim() === '' && !(field.kind === 'text' && typed !== '')) {
    if (!field.required) return { value: undefined, faults: [] };
    return wrong(field.kind === 'text' ? 'This is required. To send an empty text, write JSON.' : 'This is required.');
  }
  const { value, error } = leafValue(field, typed);
  return error === null ? { value, faults: [] } : wrong(error);
}

/**
 * @param {Field} field
 * @param {string} typed
 * @returns {{value?: unknown, error: string | null}}
 */
function leafValue(field, typed) {
  if (field.kind === 'json') return parseJson(typed);
  if (field.kind === 'boolean') return { value: typed === 'true', error: null };
  if (field.kind === 'choice') {
    const chosen = field.options?.[Number(typed)];
    return chosen ? { value: chosen.value, error: null } : { error: 'This is none of the choices.' };
  }
  return field.kind === 'text' ? textValue(field.schema, typed) : numberValue(field, typed.trim());
}

/**
 * @param {Json} schema
 * @param {string} typed
 */
function textValue(schema, typed) {
  const length = [...typed.slice(0, 1_000_000)].length;
  const format = typeof schema.format === 'string' && Object.hasOwn(FORMATS, schema.format) ? FORMATS[schema.format] : null;
  if (format && !format.fits(typed)) return { error: `This has to be ${format.hint}.` };
  if (typeof schema.minLength === 'number' && length < schema.minLength) return { error: `At least ${schema.minLength} characters.` };
  if (typeof schema.maxLength === 'number' && length > schema.maxLength) return { error: `At most ${schema.maxLength} characters; these are ${length}.` };
  return { value: typed, error: null };
}

/**
 * @param {Field} field
 * @param {string} typed
 */
function numberValue({ kind, schema }, typed) {
  if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/u.test(typed)) return { error: 'This has to be a number, such as 3 or 0.5.' };
  const value = Number(typed);
  if (kind === 'integer' && !Number.isInteger(value)) return { error: 'This has to be a whole number.' };
  if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))) return { error: 'Too large to be kept exactly: write JSON.' };
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = schema;
  if (typeof minimum === 'number' && value < minimum) return { error: `At least ${minimum}.` };
  if (typeof maximum === 'number' && value > maximum) return { error: `At most ${maximum}.` };
  if (typeof exclusiveMinimum === 'number' && value <= exclusiveMinimum) return { error: `More than ${exclusiveMinimum}.` };
  if (typeof exclusiveMaximum === 'number' && value >= exclusiveMaximum) return { error: `Less than ${exclusiveMaximum}.` };
  return { value, error: null };
}

/**
 * @param {Field} field
 * @param {Map<string, Raw>} raw
 * @param {string} path
 */
function groupValue(field, raw, path) {
  const fields = field.fields ?? [];
  const parts = fields.map((part) => ({ part, ...valueOf(part, raw.get(part.key), join(path, part.key)) }));
  const given = parts.filter(({ value }) => value !== undefined);
  // What may be left out, and has nothing in it but gaps, is left out as a whole.
  const untouched = fields.every((part) => isEmpty(raw.get(part.key)));
  if (!field.required && untouched) return { value: undefined, faults: [] };
  return { value: Object.fromEntries(given.map(({ part, value }) => [part.key, value])), faults: parts.flatMap(({ faults }) => faults) };
}

/** @param {Raw | undefined} raw @returns {boolean} */
function isEmpty(raw) {
  if (raw === undefined) return true;
  if (typeof raw === 'string') return raw === '';
  return Array.isArray(raw) ? raw.length === 0 : [...raw.values()].every(isEmpty);
}

/**
 * @param {Field} field
 * @param {Raw[]} raw
 * @param {string} path
 */
function listValue(field, raw, path) {
  const { minItems, maxItems } = field.schema;
  /** @type {Field} */
  const item = field.item ?? { ...field, kind: 'choice', required: true };
  const parts = raw.map((element, i) => valueOf(item, element, join(path, String(i))));
  const faults = parts.flatMap((part) => part.faults);
  if (raw.length === 0 && !field.required) return { value: undefined, faults };
  if (typeof minItems === 'number' && raw.length < minItems) faults.push({ path, message: `At least ${minItems} elements.` });
  if (typeof maxItems === 'number' && raw.length > maxItems) faults.push({ path, message: `At most ${maxItems} elements.` });
  return { value: parts.map(({ value }) => value), faults };
}

/**
 * @param {string} path
 * @param {string} key
 */
export function join(path, key) {
  return `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

/** @param {unknown} value @returns {Json} */
export function asObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? /** @type {Json} */ (value) : {};
}

/** @param {unknown} value */
function text(value) {
  return typeof value === 'string' ? reveal(value).slice(0, MAX_TEXT) : '';
}
