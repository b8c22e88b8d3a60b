// What a response waits for, and the request that goes on. No page here.

import { asObject } from './schema-fields.js';

/** @typedef {Record<string, any>} Json */

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

/** Fields of a response that its continuation does not inherit, and needs again. */
const ECHOED = ['model', 'agent', 'prompt', 'instructions', 'temperature', 'top_p', 'max_output_tokens', 'max_tool_calls', 'parallel_tool_calls', 'truncation', 'store', 'metadata', 'service_tier'];
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
  for (const name of ECHOED) if (response[name] !== null && response[name] !== undefined) body[name] = response[name];
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
