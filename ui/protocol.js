// Requests, and the events that answer them. No page here.

import { asObject } from './forms.js';
import { reveal } from './lib/dom.js';

/** @type {Of['getAt']} */
export const getAt = (body, path) => path.split('.').reduce((/** @type {any} */ found, key) => asObject(found)[key], body) ?? undefined;

/** @type {Of['setAt']} */
export function setAt(body, path, value) {
  const [key, ...rest] = path.split('.');
  const inner = rest.length > 0 ? setAt(asObject(body[key]), rest.join('.'), value) : value;
  const { [key]: _, ...others } = body;
  return inner === undefined || (rest.length > 0 && Object.keys(asObject(inner)).length === 0) ? others : { ...body, [key]: inner };
}

/** @type {Of['readInput']} */
export function readInput(input = '') {
  if (typeof input === 'string') return { text: input, image: null };
  if (!Array.isArray(input) || input.length !== 1 || input[0]?.role !== 'user') return null;
  const { content } = input[0];
  if (typeof content === 'string') return { text: content, image: null };
  const of = (type = '', key = '') => (Array.isArray(content) ? content : []).filter((part) => part?.type === type).map((part) => part[key]);
  const [texts, images] = [of('input_text', 'text'), of('input_image', 'image_url')];
  const fits = texts.length < 2 && images.length < 2 && [...texts, ...images].every((value) => typeof value === 'string');
  return fits && texts.length + images.length === content?.length ? { text: texts[0] ?? '', image: images[0] ?? null } : null;
}

/** @type {Of['writeInput']} */
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

/** @type {Of['describeTool']} */
export function describeTool(tool) {
  const { type, name, server_label: label, server_url: url } = asObject(tool);
  if (type === 'mcp') return label === 'antwort' ? ['All tools of the gateway', ''] : [String(label), `MCP server ${url ?? ''}`];
  if (type === 'function' || type === 'custom') return [String(name), 'function of the client'];
  return [String(type ?? 'tool without a type').replace(/^antwort:/u, ''), ''];
}

/** @type {Of['isServer']} */
export const isServer = (tool) => tool?.type === 'mcp' && tool.server_label !== 'antwort';

/** @type {Of['isSameTool']} */
export const isSameTool = (one, other) => ['type', 'server_label', 'name'].every((key) => one?.[key] === other[key]);

/** With the first MCP server questions of its tools can be shown, if the response can wait for the answer. @type {Of['withTools']} */
export function withTools(body, tools) {
  const asks = tools.some(isServer);
  const changed = setAt(body, 'tools', tools.length > 0 ? tools : undefined);
  if (asks === [body.tools ?? []].flat().some(isServer)) return changed;
  return setAt(changed, 'antwort.elicitation', asks && body.store !== false ? ['form', 'url'] : undefined);
}

/** @type {Of['plainType']} */
export const plainType = (item) => String(item?.type ?? '').replace(/^antwort:/, '');

/** @type {Of['isCall']} */
export const isCall = (item) => /_call$/.test(plainType(item));

/** @type {Of['nameOf']} */
export const nameOf = (item) => item.name ?? plainType(item).replace(/_call$/, '');

/** @type {Of['isRunning']} */
export const isRunning = (response) => response.status === 'queued' || response.status === 'in_progress';

/** @type {Of['asSent']} */
export const asSent = (body) => ({ stream: true, ...body });

/** @type {Of['is']} */
const is = (item, type) => item?.type === type || item?.type === `antwort:${type}`;
/** @type {Of['items']} */
const items = ({ output }) => (Array.isArray(output) ? output.filter((item) => asObject(item) === item) : []);

/** @type {Of['openApprovals']} */
export const openApprovals = (response) => (/^(queued|in_progress)$/u.test(response.status) ? [] : items(response).filter((item) => is(item, 'mcp_approval_request') && item.status !== 'incomplete'));

/** @type {Of['openCalls']} */
export function openCalls(response) {
  if (!/^(requires_action|completed)$/u.test(response.status)) return [];
  const answered = items(response).filter(({ type }) => /call_output$/u.test(type)).map((item) => item.call_id);
  const calls = items(response).filter((item) => (is(item, 'function_call') || is(item, 'custom_tool_call')) && item.status !== 'incomplete' && !answered.includes(item.call_id));
  // Hidden calls of the gateway look like these: only names differ.
  const own = response.antwort?.stream_visibility === 'hidden' ? ownNames(response.tools) : null;
  return calls.filter(({ name }) => own?.includes(name) ?? true);
}

/** @type {Of['ownNames']} */
const ownNames = (tools) => (Array.isArray(tools) ? tools : []).flatMap((tool) => (tool?.type === 'namespace' ? ownNames(tool.tools) : /^(function|custom)$/u.test(tool?.type) ? [tool.name] : []));

/** @type {Of['definitionIn']} */
export function definitionIn(response, label, name) {
  const lists = items(response).filter((item) => is(item, 'mcp_list_tools') && item.server_label === label);
  return lists.flatMap(({ tools }) => tools ?? []).findLast((tool) => tool?.name === name);
}

/** @type {Of['approvalItem']} */
export const approvalItem = (id, approve, reason = '') => ({ type: 'mcp_approval_response', approval_request_id: id, approve, ...(!approve && reason.trim() && { reason: reason.trim() }) });

/** A failure has no field in the API: the model reads it as it reads those of the gateway's tools. @type {Of['outputItem']} */
export const outputItem = (call, { output = '', error }) => ({ type: `${is(call, 'custom_tool_call') ? 'custom_tool' : 'function'}_call_output`, call_id: call.call_id, output: error === undefined ? output : `Error: ${error}` });

/** @type {Of['obstacle']} */
export const obstacle = (response, request) => (response.store === false && !request ? 'This response was not stored, so only its own client can go on with it.' : null);

/** @type {Of['continuation']} */
export function continuation(response, answers, request) {
  const { input, previous_response_id: _, tool_choice: choice, ...body } = request ?? echoed(response);
  // What was forced was done, and would be forced again.
  if (choice === 'none' || asObject(choice).mode === 'auto') body.tool_choice = choice;
  const before = Array.isArray(input) ? input : [{ role: 'user', content: input }];
  const unstored = response.store === false && !response.conversation;
  return { ...body, ...(!unstored && !response.conversation && { previous_response_id: response.id }), input: unstored ? [...before, ...items(response), ...answers] : answers };
}

/** As a response repeats what its request has not said. @type {Json} */
const ECHOED = { model: null, agent: null, prompt: null, instructions: null, conversation: null, background: false, temperature: 1, top_p: 1, max_output_tokens: null, max_tool_calls: null, parallel_tool_calls: true, truncation: 'disabled', store: true, metadata: {}, service_tier: 'default' };
const OPTIONS = ['limits', 'stream_visibility', 'tool_cache', 'tool_progress', 'client_action_status', 'client_tools', 'elicitation'];

/** @type {Of['echoed']} */
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

/** Of the Python SDK's `responses.create`; others go into `extra_body`. */
const PYTHON = new Set('background context_management conversation include input instructions max_output_tokens max_tool_calls metadata model parallel_tool_calls previous_response_id prompt prompt_cache_key reasoning safety_identifier service_tier store stream stream_options temperature text tool_choice tools top_logprobs top_p truncation user'.split(' '));

const KEY = '"Authorization: Bearer $ANTWORT_API_KEY"';
const PYTHON_KEY = 'os.environ.get("ANTWORT_API_KEY", "none")';
const SCRIPT_KEY = "process.env.ANTWORT_API_KEY ?? 'none'";

const shellWord = (text = '') => (/^[\w@%+=:,./-]+$/u.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`);
/** JSON is JavaScript, but for one name. @param {unknown} value */
const js = (value) => reveal(JSON.stringify(value, null, 2)).replaceAll('"__proto__":', '["__proto__"]:');

/** JSON is Python, but for three words and characters of two units. @param {unknown} value @returns {string} */
function py(value) {
  const words = { true: 'True', false: 'False', null: 'None' };
  const pair = (text = '') => `\\U${(text.codePointAt(0) ?? 0).toString(16).padStart(8, '0')}`;
  return reveal(JSON.stringify(value, null, 4)).replace(/"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b/gu, (found) => words[/** @type {'true'} */ (found)]
    ?? found.replace(/\\\\|\\ud[89ab]..\\ud[c-f]../gu, (units) => (units === '\\\\' ? units : pair(JSON.parse(`"${units}"`)))));
}

/** @type {Of['curl']} */
export const curl = (base, body) => `curl${body.stream === true ? ' -N' : ''} ${shellWord(`${base}/${body.messages ? 'chat/completions' : 'responses'}`)} \\
  -H ${KEY} \\
  -H 'content-type: application/json' \\
  -d ${shellWord(reveal(JSON.stringify(body, null, 2)))}`;

/** @type {Of['python']} */
export function python(base, body) {
  const [known, extra] = [true, false].map((wanted) => Object.entries(body).filter(([name]) => PYTHON.has(name) === wanted));
  const all = extra.length > 0 ? [...known, ['extra_body', Object.fromEntries(extra)]] : known;
  const call = `client.responses.create(\n${all.map(([name, value]) => `    ${name}=${py(value).replaceAll('\n', '\n    ')},\n`).join('')})`;
  const use = body.stream === true ? `for event in ${call}:\n    if event.type == "response.output_text.delta":\n        print(event.delta, end="", flush=True)` : `response = ${call}\nprint(response.${body.background === true ? 'id' : 'output_text'})`;
  return `import os\nfrom openai import OpenAI\n\nclient = OpenAI(base_url=${py(base)}, api_key=${PYTHON_KEY})\n${use}`;
}

/** @type {Of['javascript']} */
export function javascript(base, body) {
  const call = `await client.responses.create(${js(body)})`;
  const use = body.stream === true ? `for await (const event of ${call}) if (event.type === 'response.output_text.delta') process.stdout.write(event.delta);` : `const response = ${call};\nconsole.log(response.${body.background === true ? 'id' : 'output_text'});`;
  return `import OpenAI from 'openai';\n\nconst client = new OpenAI({ baseURL: ${js(base)}, apiKey: ${SCRIPT_KEY} });\n${use}`;
}

/** @type {Of['recipes']} */
export function recipes(base, model) {
  const [address, name, hello] = [py(base), py(model), { model, input: 'Hello' }];
  return [
    { name: 'OpenAI SDK, Python', note: 'pip install openai', text: python(base, hello) },
    { name: 'OpenAI SDK, JavaScript', note: 'npm install openai', text: javascript(base, hello) },
    { name: 'curl', text: curl(base, hello) },
    { name: 'Environment', note: 'OpenAI’s SDKs, and most programs that use them, read these. Any text will do as the key of a gateway that asks for none.', text: `export OPENAI_BASE_URL=${shellWord(base)}\nexport OPENAI_API_KEY="\${ANTWORT_API_KEY:-none-needed}"` },
    { name: 'OpenAI Agents SDK, Python', note: 'pip install openai-agents', text: `import os\nimport agents, openai\n\nagents.set_tracing_disabled(True)  # its traces would go to OpenAI\nclient = openai.AsyncOpenAI(base_url=${address}, api_key=${PYTHON_KEY})\nmodel = agents.OpenAIResponsesModel(model=${name}, openai_client=client)\nagent = agents.Agent(name="helper", instructions="Be brief.", model=model)\nprint(agents.Runner.run_sync(agent, "Hello").final_output)` },
    { name: 'OpenAI Agents SDK, JavaScript', note: 'npm install @openai/agents openai', text: `import { Agent, OpenAIResponsesModel, Runner, setTracingDisabled } from '@openai/agents';\nimport OpenAI from 'openai';\n\nsetTracingDisabled(true); // its traces would go to OpenAI\nconst client = new OpenAI({ baseURL: ${js(base)}, apiKey: ${SCRIPT_KEY} });\nconst agent = new Agent({ name: 'helper', instructions: 'Be brief.', model: new OpenAIResponsesModel(client, ${js(model)}) });\nconsole.log((await new Runner().run(agent, 'Hello')).finalOutput);` },
    { name: 'AI SDK', note: 'npm install ai @ai-sdk/openai', text: `import { createOpenAI } from '@ai-sdk/openai';\nimport { generateText } from 'ai';\n\nconst provider = createOpenAI({ baseURL: ${js(base)}, apiKey: ${SCRIPT_KEY} });\nconst { text } = await generateText({ model: provider.responses(${js(model)}), prompt: 'Hello' });\nconsole.log(text);` },
    { name: 'LangChain, Python', note: 'pip install langchain-openai', text: `import os\nfrom langchain_openai import ChatOpenAI\n\nmodel = ChatOpenAI(model=${name}, base_url=${address}, api_key=${PYTHON_KEY}, use_responses_api=True)\nprint(model.invoke("Hello").text)` },
    { name: 'LiteLLM', note: 'pip install litellm', text: `import os\nimport litellm\n\nresponse = litellm.responses(model=${py(`openai/${model}`)}, input="Hello", api_base=${address}, api_key=${PYTHON_KEY})\nprint(response.output[-1].content[0].text)` },
    { name: 'Codex CLI', note: '~/.codex/config.toml', text: `model = ${JSON.stringify(model)}\nmodel_provider = "antwort"\n\n[model_providers.antwort]\nname = "OpenAI"\nbase_url = ${JSON.stringify(base)}\nenv_key = "ANTWORT_API_KEY"\nwire_api = "responses"` },
    { name: 'Chat completions', note: 'For programs that know nothing else, such as Open WebUI. They are passed on to the model server as they are, without the gateway’s tools.', text: curl(base, { model, messages: [{ role: 'user', content: 'Hello' }] }) },
  ];
}

// --- events ---

/** @returns {Folded} */
export const nothing = () => ({ object: 'response', id: null, status: 'queued', output: [] });

/** A list of the item, and a field of its part; or a field of the item. @type {Record<string, [string, string]>} */
const TEXTS = {
  output_text: ['content', 'text'],
  refusal: ['content', 'refusal'],
  // Dialects differ in its name.
  reasoning_text: ['content', 'text'],
  reasoning: ['content', 'text'],
  reasoning_summary_text: ['summary', 'text'],
  function_call_arguments: ['', 'arguments'],
  mcp_call_arguments: ['', 'arguments'],
  custom_tool_call_input: ['', 'input'],
  code_interpreter_call_code: ['', 'code'],
};

/** @type {Of['foldAll']} */
export function foldAll(events, count = events.length) {
  let response = nothing();
  for (const event of events.slice(0, count)) response = fold(response, event);
  return response;
}

/** @type {Of['fold']} */
export function fold(response, event) {
  if (event.response) return whole(response, event.response);
  const name = event.type.replace(/^(response\.|antwort:)/, '');
  const item = response.output[event.output_index];
  // `response.failed` follows, and brings the same error.
  if (name === 'error') response.error = event.error ?? { code: event.code, message: event.message, param: event.param };
  else if (/^output_item\.(added|done)$/.test(name)) response.output[event.output_index] = structuredClone(event.item);
  else if (item) change(item, name, event);
  return response;
}

/** @type {Of['whole']} */
function whole(before, response) {
  const output = Array.isArray(response.output) ? structuredClone(response.output) : before.output;
  return { ...structuredClone({ ...response, output: [] }), output };
}

/** @type {Of['change']} */
function change(item, name, event) {
  const at = event.content_index ?? event.summary_index;
  if (/^(content|reasoning_summary)_part\./.test(name)) {
    (item[name.startsWith('content') ? 'content' : 'summary'] ??= [])[at] = structuredClone(event.part);
  } else if (name === 'output_text.annotation.added') {
    (item.content[at].annotations ??= []).push(event.annotation);
  } else {
    const [, kind, step] = /^(.*)\.(delta|done)$/.exec(name) ?? [];
    // Stages of hosted tools, progress reports and questions change no item.
    if (kind && Object.hasOwn(TEXTS, kind)) writeText(item, TEXTS[kind], at, step === 'done', event);
  }
}

/** @type {Of['writeText']} */
function writeText(item, [list, field], at, done, event) {
  const of = list ? ((item[list] ??= [])[at] ??= {}) : item;
  of[field] = done ? event[field] : (of[field] ?? '') + event.delta;
  if (!done && event.logprobs?.length > 0) of.logprobs = [...(of.logprobs ?? []), ...event.logprobs];
}

/** @type {Of['reconstruct']} */
export function reconstruct(response) {
  const begun = { ...response, status: 'in_progress', output: [], usage: null, error: null, incomplete_details: null, completed_at: null };
  /** @type {any[]} */
  const events = [{ type: 'response.created', response: begun }, { type: 'response.in_progress', response: begun }];
  (response.output ?? []).forEach((/** @type {any} */ item, index = 0) => events.push(...ofItem(item, index)));
  const end = response.status === 'failed' || response.status === 'incomplete' ? response.status : 'completed';
  events.push({ type: `response.${end}`, response });
  return events.map((event, index) => ({ sequence_number: index, ...event }));
}

/** @type {Of['ofItem']} */
function ofItem(item, index) {
  const at = { output_index: index, item_id: item.id };
  const done = { type: 'response.output_item.done', output_index: index, item };
  const added = (/** @type {any} */ begun) => ({ type: 'response.output_item.added', output_index: index, item: { ...item, ...begun } });
  const status = item.status ? { status: 'in_progress' } : {};
  const type = item.type.replace(/^antwort:/, '');
  if (type === 'message') {
    const parts = (item.content ?? []).flatMap((/** @type {any} */ part, number = 0) => ofPart(part, { ...at, content_index: number }));
    return [added({ ...status, content: [] }), ...parts, done];
  }
  if (type === 'reasoning') {
    const parts = (item.summary ?? []).flatMap((/** @type {any} */ part, number = 0) => [
      { type: 'response.reasoning_summary_part.added', ...at, summary_index: number, part: { ...part, text: '' } },
      { type: 'response.reasoning_summary_text.delta', ...at, summary_index: number, delta: part.text ?? '' },
    ]);
    return [added({ summary: [], ...(item.content ? { content: [] } : {}) }), ...parts, done];
  }
  if (typeof item.arguments === 'string' && type !== 'mcp_approval_request') {
    const of = type === 'mcp_call' || type === 'tool_call' ? 'mcp_call' : 'function_call';
    return [added({ ...status, arguments: '', ...('output' in item ? { output: null } : {}), ...('error' in item ? { error: null } : {}) }), { type: `response.${of}_arguments.delta`, ...at, delta: item.arguments }, done];
  }
  return [added(status), done];
}

/** @type {Of['ofPart']} */
function ofPart(part, at) {
  const refusal = part.type === 'refusal';
  const empty = refusal ? { ...part, refusal: '' } : { ...part, text: '', annotations: [] };
  return [
    { type: 'response.content_part.added', ...at, part: empty },
    { type: `response.${refusal ? 'refusal' : 'output_text'}.delta`, ...at, delta: (refusal ? part.refusal : part.text) ?? '' },
    { type: 'response.content_part.done', ...at, part },
  ];
}
