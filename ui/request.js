// Requests: the one of the screen Try, which form and JSON editor change, and the one that goes on with a response. No page here.
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

/** The same in both dialects. @param {Json} item @param {string} type */
const is = (item, type) => item?.type === type || item?.type === `antwort:${type}`;

/** @param {Json} response @returns {Json[]} */
function items(response) {
  return Array.isArray(response.output) ? response.output.filter((item) => typeof item === 'object' && item !== null) : [];
}

/** The calls that a person has to approve. @param {Json} response @returns {Json[]} */
export function openApprovals(response) {
  return response.status === 'in_progress' || response.status === 'queued' ? [] : items(response).filter((item) => is(item, 'mcp_approval_request'));
}

/** The calls that the client has to run. @param {Json} response @returns {Json[]} */
export function openCalls(response) {
  if (response.status !== 'requires_action' && response.status !== 'completed') return [];
  const answered = new Set(items(response).filter((item) => /call_output$/u.test(item.type)).map((item) => item.call_id));
  const calls = items(response).filter((item) => (is(item, 'function_call') || is(item, 'custom_tool_call')) && !answered.has(item.call_id));
  // With hidden calls, those of the gateway look like the client's; only the names tell them apart.
  if (asObject(response.antwort).stream_visibility !== 'hidden') return calls;
  const own = ownNames(response.tools);
  return calls.filter((call) => own.has(call.name));
}

/** The names of the client's own functions, namespaces included. @param {unknown} tools @returns {Set<string>} */
function ownNames(tools) {
  const list = Array.isArray(tools) ? tools : [];
  return new Set(list.flatMap((tool) => (tool?.type === 'namespace' ? [...ownNames(tool.tools)] : ['function', 'custom'].includes(tool?.type) ? [tool.name] : [])));
}

/** What the server says of a tool, where the response has it. @param {Json} response @param {string} label @param {string} name @returns {Json | null} */
export function definitionIn(response, label, name) {
  const lists = items(response).filter((item) => is(item, 'mcp_list_tools') && item.server_label === label);
  const tools = lists.flatMap((item) => (Array.isArray(item.tools) ? item.tools : []));
  return tools.findLast((tool) => tool?.name === name) ?? null;
}

/** @param {string} id @param {{approve: boolean, reason?: string}} decision */
export function approvalItem(id, { approve, reason = '' }) {
  const why = !approve && reason.trim() !== '' ? { reason: reason.trim() } : {};
  return { type: 'mcp_approval_response', approval_request_id: id, approve, ...why };
}

/** @param {Json} call @param {{output?: string, error?: string}} answer */
export function outputItem(call, { output = '', error }) {
  const type = is(call, 'custom_tool_call') ? 'custom_tool_call_output' : 'function_call_output';
  // The API has no field for a failure: the model reads it as it reads the failures of the gateway's tools.
  return { type, call_id: call.call_id, output: error === undefined ? output : `Error: ${error}` };
}

/** What a response repeats of its request, and how it does where the request has not said it. @type {Json} */
const ECHOED = { model: null, agent: null, prompt: null, instructions: null, temperature: 1, top_p: 1, max_output_tokens: null, max_tool_calls: null, parallel_tool_calls: true, truncation: 'disabled', store: true, metadata: {}, service_tier: 'default' };
const OPTIONS = ['limits', 'stream_visibility', 'tool_cache', 'tool_progress', 'client_action_status', 'client_tools', 'elicitation'];

/**
 * The request that goes on with these items.
 * @param {Json} response
 * @param {Json[]} answers
 * @param {{request?: Json | null, credentials?: Map<string, string>}} [known] the request that the response is of, which has
 *   the credentials that no response shows; or tokens for MCP servers by their label
 * @returns {Json}
 */
export function continuation(response, answers, { request, credentials = new Map() } = {}) {
  const { input, previous_response_id: _, tool_choice: choice, ...rest } = request ?? echoed(response);
  // What was forced was done, and would be forced again.
  const chosen = choice === 'none' || asObject(choice).mode === 'auto' ? { tool_choice: choice } : {};
  const tools = Array.isArray(rest.tools) ? { tools: rest.tools.map((/** @type {Json} */ tool) => withToken(tool, credentials)) } : {};
  const body = { ...rest, ...chosen, ...tools };
  if (asObject(response.conversation).id) return { ...body, input: answers };
  if (response.store === false) return { ...body, input: [...asItems(input), ...items(response), ...answers] };
  return { ...body, previous_response_id: response.id, input: answers };
}

/** @param {unknown} input @returns {Json[]} */
function asItems(input) {
  return Array.isArray(input) ? input : [{ role: 'user', content: String(input ?? '') }];
}

/** @param {Json} tool @param {Map<string, string>} credentials */
function withToken(tool, credentials) {
  const token = tool?.type === 'mcp' ? credentials.get(tool.server_label) : undefined;
  return token ? { ...tool, authorization: token } : tool;
}

/** The request, as far as its response repeats it. @param {Json} response @returns {Json} */
export function echoed(response) {
  /** @type {Json} */
  const body = {};
  for (const [name, usual] of Object.entries(ECHOED)) if (JSON.stringify(response[name] ?? usual) !== JSON.stringify(usual)) body[name] = response[name];
  // An agent's model and instructions are its own.
  if (body.agent || body.prompt) delete body.instructions;
  if (Array.isArray(response.tools) && response.tools.length > 0) body.tools = response.tools.map(declared);
  if (asObject(asObject(response.text).format).type === 'json_schema') body.text = { format: asObject(response.text).format };
  if (asObject(response.reasoning).effort) body.reasoning = { effort: response.reasoning.effort };
  if (response.conversation) body.conversation = response.conversation;
  if (response.background) body.background = true;
  const options = OPTIONS.filter((name) => asObject(response.antwort)[name] !== undefined).map((name) => [name, response.antwort[name]]);
  if (options.length > 0) body.antwort = Object.fromEntries(options);
  return body;
}

/** A tool without the gaps that its echo has. @param {Json} tool */
function declared(tool) {
  return Object.fromEntries(Object.entries(tool).filter(([, value]) => value !== null));
}

/** Whether the answers need a credential that only the first request had. @param {Json} response @param {string} label */
export function mayNeedToken(response, label) {
  const tools = Array.isArray(response.tools) ? response.tools : [];
  return tools.some((tool) => tool?.type === 'mcp' && tool.server_label === label && Boolean(tool.server_url));
}

/** Where a response cannot be gone on with, the reason. @param {Json} response @param {Json | null | undefined} request */
export function obstacle(response, request) {
  if (response.store === false && !request) return 'This response was not stored, so only its own client can go on with it.';
  return null;
}
