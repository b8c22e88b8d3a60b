// Requests: the one of the screen Try, which form and JSON editor change, and the one that goes on with a response. No page here.

import { asObject } from './forms.js';

/** @type {Requests['getAt']} */
export const getAt = (body, path) => path.split('.').reduce((/** @type {any} */ found, key) => asObject(found)[key], body) ?? undefined;

/** A copy with another value; without one the field is gone, and what was only there for it. @type {Requests['setAt']} */
export function setAt(body, path, value) {
  const [key, ...rest] = path.split('.');
  const inner = rest.length > 0 ? setAt(asObject(body[key]), rest.join('.'), value) : value;
  const { [key]: _, ...others } = body;
  return inner === undefined || (rest.length > 0 && Object.keys(asObject(inner)).length === 0) ? others : { ...body, [key]: inner };
}

/** The input as a text and an image; null if it is more than that, and only JSON can say it. @type {Requests['readInput']} */
export function readInput(input = '') {
  if (typeof input === 'string') return { text: input, image: null };
  if (!Array.isArray(input) || input.length !== 1 || input[0]?.role !== 'user') return null;
  const { content } = input[0];
  if (typeof content === 'string') return { text: content, image: null };
  const of = (/** @type {string} */ type, /** @type {string} */ key) => (Array.isArray(content) ? content : []).filter((part) => part?.type === type).map((part) => part[key]);
  const [texts, images] = [of('input_text', 'text'), of('input_image', 'image_url')];
  const fits = texts.length < 2 && images.length < 2 && [...texts, ...images].every((value) => typeof value === 'string');
  return fits && texts.length + images.length === content?.length ? { text: texts[0] ?? '', image: images[0] ?? null } : null;
}

/** @type {Requests['writeInput']} */
export function writeInput(text, image) {
  if (image === null) return text;
  return [{ role: 'user', content: [...(text ? [{ type: 'input_text', text }] : []), { type: 'input_image', image_url: image }] }];
}

/** Files are kept beside the request, under short names, so that its JSON can be read and edited. @returns {Draft['files']} */
export function attachments() {
  /** @type {Map<unknown, string>} */
  const files = new Map();
  return {
    add(name, url) {
      const short = `${url.slice(0, url.indexOf(','))},ATTACHED_${files.size + 1}_${name.replace(/[^\w.-]+/gu, '_').slice(-40)}`;
      files.set(short, url);
      return short;
    },
    get: (short) => files.get(short),
    expand: (value) => JSON.parse(JSON.stringify(value), (_, inner) => files.get(inner) ?? inner),
  };
}

/** A tool in a few words: its name, and what it is. @type {Requests['describeTool']} */
export function describeTool(tool) {
  const { type, name, server_label: label, server_url: url } = asObject(tool);
  if (type === 'mcp') return label === 'antwort' ? ['All tools of the gateway', ''] : [String(label), `MCP server ${url ?? ''}`];
  if (type === 'function' || type === 'custom') return [String(name), 'function of the client'];
  return [String(type ?? 'tool without a type').replace(/^antwort:/u, ''), ''];
}

/** The same in both dialects. @type {Requests['is']} */
const is = (item, type) => item?.type === type || item?.type === `antwort:${type}`;
/** @type {Requests['items']} */
const items = ({ output }) => (Array.isArray(output) ? output.filter((item) => asObject(item) === item) : []);

/** The calls that a person has to approve. @param {Json} response */
export const openApprovals = (response) => (/^(queued|in_progress)$/u.test(response.status) ? [] : items(response).filter((item) => is(item, 'mcp_approval_request')));

/** The calls that the client has to run. @param {Json} response */
export function openCalls(response) {
  if (!/^(requires_action|completed)$/u.test(response.status)) return [];
  const answered = items(response).filter(({ type }) => /call_output$/u.test(type)).map((item) => item.call_id);
  const calls = items(response).filter((item) => (is(item, 'function_call') || is(item, 'custom_tool_call')) && !answered.includes(item.call_id));
  // With hidden calls, those of the gateway look like the client's; only the names tell them apart.
  const own = response.antwort?.stream_visibility === 'hidden' ? ownNames(response.tools) : null;
  return calls.filter(({ name }) => own?.includes(name) ?? true);
}

/** @type {Requests['ownNames']} */
const ownNames = (tools) => (Array.isArray(tools) ? tools : []).flatMap((tool) => (tool?.type === 'namespace' ? ownNames(tool.tools) : /^(function|custom)$/u.test(tool?.type) ? [tool.name] : []));

/** What the server says of a tool, where the response has it. @type {Requests['definitionIn']} */
export function definitionIn(response, label, name) {
  const lists = items(response).filter((item) => is(item, 'mcp_list_tools') && item.server_label === label);
  return lists.flatMap(({ tools }) => tools ?? []).findLast((tool) => tool?.name === name);
}

/** @type {Requests['approvalItem']} */
export const approvalItem = (id, approve, reason = '') => ({ type: 'mcp_approval_response', approval_request_id: id, approve, ...(!approve && reason.trim() && { reason: reason.trim() }) });

/** A failure has no field in the API: the model reads it as it reads those of the gateway's tools. @type {Requests['outputItem']} */
export const outputItem = (call, { output = '', error }) => ({ type: `${is(call, 'custom_tool_call') ? 'custom_tool' : 'function'}_call_output`, call_id: call.call_id, output: error === undefined ? output : `Error: ${error}` });

/** Why a response cannot be gone on with. @type {Requests['obstacle']} */
export const obstacle = (response, request) => (response.store === false && !request ? 'This response was not stored, so only its own client can go on with it.' : null);

/** Whether a call needs a credential that only the first request had. @type {Requests['mayNeedToken']} */
export const mayNeedToken = ({ tools }, label) => Array.isArray(tools) && tools.some((tool) => tool?.type === 'mcp' && tool.server_label === label && tool.server_url);

/** The request that goes on with these items. @type {Requests['continuation']} */
export function continuation(response, answers, { request, tokens = new Map() } = {}) {
  const { input, previous_response_id: _, tool_choice: choice, ...body } = request ?? echoed(response);
  // What was forced was done, and would be forced again.
  if (choice === 'none' || asObject(choice).mode === 'auto') body.tool_choice = choice;
  if (body.tools) body.tools = body.tools.map((/** @type {Json} */ tool) => (tokens.get(tool.server_label) ? { ...tool, authorization: tokens.get(tool.server_label) } : tool));
  const before = Array.isArray(input) ? input : [{ role: 'user', content: input }];
  const unstored = response.store === false && !response.conversation;
  return { ...body, ...(!unstored && !response.conversation && { previous_response_id: response.id }), input: unstored ? [...before, ...items(response), ...answers] : answers };
}

/** What a response repeats of its request, and how it does where the request has not said it. @type {Json} */
const ECHOED = { model: null, agent: null, prompt: null, instructions: null, conversation: null, background: false, temperature: 1, top_p: 1, max_output_tokens: null, max_tool_calls: null, parallel_tool_calls: true, truncation: 'disabled', store: true, metadata: {}, service_tier: 'default' };
const OPTIONS = ['limits', 'stream_visibility', 'tool_cache', 'tool_progress', 'client_action_status', 'client_tools', 'elicitation'];

/** The request, as far as its response repeats it. @type {Requests['echoed']} */
function echoed(response) {
  const pairs = Object.entries(ECHOED).map(([name, usual]) => [name, response[name] ?? usual, usual]).filter(([, value, usual]) => JSON.stringify(value) !== JSON.stringify(usual));
  const body = Object.fromEntries(pairs);
  // An agent's instructions are its own.
  if (body.agent || body.prompt) delete body.instructions;
  if (response.tools?.length > 0) body.tools = response.tools.map((/** @type {Json} */ tool) => Object.fromEntries(Object.entries(tool).filter(([, value]) => value !== null)));
  if (response.text?.format?.type === 'json_schema') body.text = { format: response.text.format };
  if (response.reasoning?.effort) body.reasoning = { effort: response.reasoning.effort };
  const options = OPTIONS.filter((name) => response.antwort?.[name] !== undefined).map((name) => [name, response.antwort[name]]);
  return options.length > 0 ? { ...body, antwort: Object.fromEntries(options) } : body;
}
