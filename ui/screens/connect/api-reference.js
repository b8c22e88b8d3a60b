// The API, as the gateway describes it in `openapi.json`: operations by their tag, to be opened.

import { renderError } from '../../errors.js';
import { reveal } from '../../json-text.js';
import { el, replace } from '../../lib/dom.js';
import { counted } from '../../lib/format.js';
import { asObject } from '../../schema-fields.js';
import { button, fill } from '../parts.js';

/** @typedef {Record<string, any>} Json */
/** @typedef {{method: string, path: string, of: Json, shared: unknown}} Operation */

const METHODS = ['get', 'post', 'put', 'patch', 'delete'];

/** The document is fetched when it is asked for: it is large. @param {import('../../lib/api.js').Api} api */
export function apiReference(api) {
  const place = el('div', { class: 'stack' });
  const load = () => fill(place, () => api.get('openapi.json'), reference, (error) => renderError(error, { onRetry: load }));
  replace(place, el('div', { class: 'row' }, button('Show the operations', load), el('a', { href: '../openapi.json', text: 'openapi.json' }), el('a', { href: '../openapi.yaml', text: 'openapi.yaml' })));
  return place;
}

/** @param {Json} document */
function reference(document) {
  /** @type {Map<string, Operation[]>} */
  const byTag = new Map();
  for (const [path, item] of Object.entries(asObject(document.paths))) {
    for (const method of METHODS) {
      const of = /** @type {Json | undefined} */ (asObject(item)[method]);
      if (!of) continue;
      const tag = String(of.tags?.[0] ?? 'other');
      byTag.set(tag, [...(byTag.get(tag) ?? []), { method, path, of, shared: asObject(item).parameters }]);
    }
  }
  const about = new Map((document.tags ?? []).map((/** @type {Json} */ tag) => [tag.name, tag.description]));
  return [...byTag].map(([tag, operations]) => el('details', { class: 'tag' },
    el('summary', null, el('strong', { text: reveal(tag) }), el('span', { class: 'muted', text: ` ${reveal(String(about.get(tag) ?? ''))} ${counted(operations.length, 'operation')}` })),
    operations.map((operation) => operationView(operation, document))));
}

/** @param {Operation} operation @param {Json} document */
function operationView({ method, path, of, shared }, document) {
  const parameters = [...(Array.isArray(shared) ? shared : []), ...(of.parameters ?? [])].map((one) => resolved(one, document)).filter(({ name }) => name && name !== 'x-request-id');
  const body = asObject(asObject(asObject(of.requestBody).content)['application/json']).schema;
  /** @type {[string, HTMLElement | string][]} */
  const rows = [
    ...parameters.map((one) => /** @type {[string, HTMLElement]} */ ([`${one.in} ${one.name}`, el('span', null, prose(one.description ?? typeName(one.schema)))])),
    ...(body ? [/** @type {[string, HTMLElement]} */ (['body', schemaView(body, document)])] : []),
    ...Object.entries(asObject(of.responses)).map(([status, answer]) => /** @type {[string, HTMLElement]} */ ([`answer ${status}`, answerView(resolved(/** @type {Json} */ (answer), document))])),
  ];
  return el('details', { class: 'operation' },
    el('summary', null, el('span', { class: `method ${method}`, text: method.toUpperCase() }), el('code', { text: path }), el('span', { class: 'muted', text: ` ${clean(of.summary)}` })),
    el('div', { class: 'stack inset' }, of.description ? el('p', { class: 'message' }, prose(of.description)) : null, el('dl', { class: 'facts' }, rows.flatMap(([term, value]) => [el('dt', null, el('code', { text: term })), el('dd', null, value)]))));
}

/** @param {Json} answer */
function answerView(answer) {
  const schemas = Object.entries(asObject(answer.content)).map(([type, media]) => `${type}: ${typeName(asObject(media).schema)}`);
  return el('span', null, prose([answer.description, ...schemas].filter(Boolean).join(' — ')));
}

/** The fields of a body, one level deep. @param {Json} schema @param {Json} document */
function schemaView(schema, document) {
  const of = resolved(schema, document);
  const required = new Set(of.required ?? []);
  const fields = Object.entries(asObject(of.properties));
  if (fields.length === 0) return el('span', { text: typeName(schema) });
  return el('div', null, el('span', { text: typeName(schema) }), el('ul', { class: 'fields-list' }, fields.map(([name, one]) =>
    el('li', null, el('code', { text: name }), el('span', { class: 'muted', text: ` ${typeName(one)}${required.has(name) ? ', required' : ''}${asObject(one).description ? ': ' : ''}` }), prose(asObject(one).description)))));
}

/** Follows one reference within the document. @param {Json} value @param {Json} document @returns {Json} */
function resolved(value, document) {
  const parts = /^#\/components\/(\w+)\/([\w.-]+)$/u.exec(String(value?.$ref ?? ''));
  return parts ? asObject(asObject(asObject(document.components)[parts[1]])[parts[2]]) : asObject(value);
}

/** @param {unknown} schema @returns {string} */
function typeName(schema) {
  const of = asObject(schema);
  if (of.$ref) return String(of.$ref).split('/').at(-1) ?? '';
  if (of.const !== undefined) return JSON.stringify(of.const);
  if (Array.isArray(of.enum)) return of.enum.map((one) => JSON.stringify(one)).join(' | ');
  const union = of.oneOf ?? of.anyOf;
  if (Array.isArray(union)) return union.slice(0, 8).map(typeName).join(' | ');
  if (of.type === 'array') return `list of ${typeName(of.items)}`;
  return [of.type].flat().filter(Boolean).join(' or ') || 'any value';
}

/** @param {unknown} value */
const clean = (value) => reveal(String(value ?? '').trim());

/** Words between backticks are code. @param {unknown} text */
const prose = (text) => clean(text).replace(/([^\n])\n(?!\n|[-*])/gu, '$1 ').split('`').map((part, i) => (i % 2 ? el('code', { text: part }) : part));
