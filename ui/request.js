// The request of the screen Try as an object that both the form and the JSON editor change. No page here.
//
// What the form does not know stays as it is. Attached files are kept beside the request, under short names, so that the JSON
// can be read and edited.

import { asObject } from './schema-fields.js';

/** @typedef {Record<string, any>} Json */

/** @param {Json} body @param {string} path such as `antwort.limits.max_turns` @returns {any} */
export function getAt(body, path) {
  /** @type {any} */
  let found = body;
  for (const key of path.split('.')) found = asObject(found)[key];
  return found ?? undefined;
}

/**
 * A copy with another value; without a value the field is gone, and what was only there for it.
 * @param {Json} body
 * @param {string} path
 * @param {unknown} value
 * @returns {Json}
 */
export function setAt(body, path, value) {
  const [key, ...rest] = path.split('.');
  const inner = rest.length > 0 ? setAt(asObject(body[key]), rest.join('.'), value) : value;
  const empty = inner === undefined || (rest.length > 0 && Object.keys(/** @type {Json} */ (inner)).length === 0);
  if (empty) {
    const { [key]: _, ...others } = body;
    return others;
  }
  return { ...body, [key]: inner };
}

/**
 * The input as the form shows it: a text, and an image. `null` if it is more than that, and only JSON can say it.
 * @param {unknown} input
 * @returns {{text: string, image: string | null} | null}
 */
export function readInput(input) {
  if (input === undefined || input === null) return { text: '', image: null };
  if (typeof input === 'string') return { text: input, image: null };
  if (!Array.isArray(input) || input.length !== 1 || input[0]?.role !== 'user' || (input[0].type ?? 'message') !== 'message') return null;
  const { content } = input[0];
  if (typeof content === 'string') return { text: content, image: null };
  if (!Array.isArray(content)) return null;
  const texts = content.filter((part) => part?.type === 'input_text' && typeof part.text === 'string');
  const images = content.filter((part) => part?.type === 'input_image' && typeof part.image_url === 'string');
  if (texts.length > 1 || images.length > 1 || texts.length + images.length !== content.length) return null;
  return { text: texts[0]?.text ?? '', image: images[0]?.image_url ?? null };
}

/** @param {string} text @param {string | null} image @returns {unknown} */
export function writeInput(text, image) {
  if (image === null) return text === '' ? undefined : text;
  const said = text === '' ? [] : [{ type: 'input_text', text }];
  return [{ role: 'user', content: [...said, { type: 'input_image', image_url: image }] }];
}

/** Files under the names that stand for them in the request. */
export class Attachments {
  /** @type {Map<string, string>} */
  #files = new Map();

  /** @param {string} name @param {string} url a `data:` URL @returns {string} what stands for it */
  add(name, url) {
    const type = /^data:([\w.+/-]{1,60})/u.exec(url)?.[1] ?? 'application/octet-stream';
    const plain = name.replace(/[^\w.-]+/gu, '_').slice(-40) || 'file';
    const short = `data:${type};base64,ATTACHED_${this.#files.size + 1}_${plain}`;
    this.#files.set(short, url);
    return short;
  }

  /** @param {string} short */
  get(short) {
    return this.#files.get(short) ?? null;
  }

  /** The same value, with the files in it. @template T @param {T} value @returns {T} */
  expand(value) {
    if (this.#files.size === 0) return value;
    if (typeof value === 'string') return /** @type {T} */ (this.#files.get(value) ?? value);
    if (Array.isArray(value)) return /** @type {T} */ (value.map((element) => this.expand(element)));
    if (typeof value !== 'object' || value === null) return value;
    return /** @type {T} */ (Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, this.expand(inner)])));
  }
}

/** A tool of the request in a few words. @param {any} tool @returns {{title: string, kind: string}} */
export function describeTool(tool) {
  const of = asObject(tool);
  const type = String(of.type ?? '');
  if (type === 'mcp' && of.server_label === 'antwort') return { title: 'All tools of the gateway', kind: 'gateway' };
  if (type === 'mcp') return { title: String(of.server_label ?? ''), kind: of.server_url ? `MCP server ${of.server_url}` : 'MCP server' };
  if (type === 'function' || type === 'custom') return { title: String(of.name ?? ''), kind: type === 'function' ? 'function of the client' : 'custom tool of the client' };
  if (type.startsWith('antwort:')) return { title: type.slice(8), kind: 'gateway' };
  return { title: type || 'tool without a type', kind: type === 'namespace' ? `namespace ${of.name}` : 'hosted tool' };
}

/**
 * The request that a response is of, to be sent again: as it echoes it, with the items of its input.
 * @param {Json} echoed
 * @param {Json[]} items of `input_items`, oldest first
 * @returns {Json}
 */
export function again(echoed, items) {
  const parts = items.map(({ id: _, status: __, ...item }) => item);
  const only = readInput(parts.map(({ type: _, ...item }) => item));
  const input = only && only.image === null && parts.length === 1 ? only.text : parts;
  return { ...echoed, input };
}
