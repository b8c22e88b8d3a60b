// Requests: the one of the screen Try, which form and JSON editor change; the one that goes on with a response; and programs to copy that
// send one. Their texts are quoted for each language; the key is an environment variable. No page here.

import { asObject } from './forms.js';
import { reveal } from './json-text.js';

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

/** The parameters of `responses.create` in the Python SDK; others go into `extra_body`. */
const PYTHON = new Set('background context_management conversation include input instructions max_output_tokens max_tool_calls metadata model parallel_tool_calls previous_response_id prompt prompt_cache_key reasoning safety_identifier service_tier store stream stream_options temperature text tool_choice tools top_logprobs top_p truncation user'.split(' '));

/** @type {Requests['curl']} */
export function curl(base, body) {
  const buffered = body.stream === true ? ' -N' : '';
  return `curl${buffered} ${shellWord(`${base}/responses`)} \\
  -H "Authorization: Bearer $ANTWORT_API_KEY" \\
  -H 'content-type: application/json' \\
  -d ${shellWord(reveal(JSON.stringify(body, null, 2)))}`;
}

/** @param {string} text */
export function shellWord(text) {
  return /^[\w@%+=:,./-]+$/u.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** @type {Requests['python']} */
export function python(base, body) {
  const known = Object.entries(body).filter(([name]) => PYTHON.has(name));
  const extra = Object.entries(body).filter(([name]) => !PYTHON.has(name));
  const lines = known.map(([name, value]) => `    ${name}=${pythonValue(value, 1)},\n`);
  if (extra.length > 0) lines.push(`    extra_body=${pythonValue(Object.fromEntries(extra), 1)},\n`);
  const call = `client.responses.create(\n${lines.join('')})`;
  const use = body.stream === true ? `for event in ${call}:\n    print(event.type)` : `response = ${call}\nprint(response.${body.background === true ? 'id' : 'output_text'})`;
  return `import os\n\nfrom openai import OpenAI\n\nclient = OpenAI(base_url=${pythonText(base)}, api_key=os.environ.get("ANTWORT_API_KEY", "none"))\n${use}`;
}

/** @type {Requests['pythonValue']} */
export function pythonValue(value, depth) {
  if (value === null || value === undefined) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : 'None';
  if (typeof value === 'string') return pythonText(value);
  if (Array.isArray(value)) return block('[', value.map((element) => pythonValue(element, depth + 1)), ']', depth, '    ');
  return block('{', Object.entries(value).map(([key, inner]) => `${pythonText(key)}: ${pythonValue(inner, depth + 1)}`), '}', depth, '    ');
}

/** The escapes of JSON are those of Python, but for characters that need two units. @param {string} text */
function pythonText(text) {
  return reveal(JSON.stringify(text)).replace(/\\\\|\\u(d[89ab][\da-f]{2})\\u(d[c-f][\da-f]{2})/gu, (found, high, low) => {
    if (!high) return found;
    return `\\U${(0x10000 + ((Number.parseInt(high, 16) & 0x3ff) << 10) + (Number.parseInt(low, 16) & 0x3ff)).toString(16).padStart(8, '0')}`;
  });
}

/** @type {Requests['javascript']} */
export function javascript(base, body) {
  const call = `await client.responses.create(${scriptValue(body, 0)})`;
  const use = body.stream === true ? `for await (const event of ${call}) console.log(event.type);` : `const response = ${call};\nconsole.log(response.${body.background === true ? 'id' : 'output_text'});`;
  return `import OpenAI from 'openai';\n\nconst client = new OpenAI({ baseURL: ${scriptText(base)}, apiKey: process.env.ANTWORT_API_KEY ?? 'none' });\n${use}`;
}

/** @type {Requests['scriptValue']} */
export function scriptValue(value, depth) {
  if (typeof value === 'string') return scriptText(value);
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'undefined';
  if (Array.isArray(value)) return block('[', value.map((element) => scriptValue(element, depth + 1)), ']', depth, '  ');
  return block('{', Object.entries(value).map(([key, inner]) => `${scriptKey(key)}: ${scriptValue(inner, depth + 1)}`), '}', depth, '  ');
}

/** A plain `__proto__` would be no property. @param {string} key */
function scriptKey(key) {
  if (key === '__proto__') return "['__proto__']";
  return /^[a-z_$][\w$]*$/iu.test(key) ? key : scriptText(key);
}

/** @param {string} text */
function scriptText(text) {
  const json = reveal(JSON.stringify(text));
  return text.includes("'") ? json : `'${json.slice(1, -1).replaceAll('\\"', '"')}'`;
}

/** @type {Requests['block']} */
function block(open, inside, close, depth, step) {
  if (inside.length === 0) return open + close;
  const line = inside.join(', ');
  if (line.length < 60 && !line.includes('\n')) return open === '{' && step === '  ' ? `{ ${line} }` : open + line + close;
  const indent = step.repeat(depth + 1);
  return `${open}\n${inside.map((part) => `${indent}${part},\n`).join('')}${step.repeat(depth)}${close}`;
}

/** @type {Requests['recipes']} */
export function recipes(base, model) {
  const py = (/** @type {unknown} */ value) => pythonValue(value, 0);
  const js = (/** @type {unknown} */ value) => scriptValue(value, 0);
  return [...sdks(py, js, base, model), ...frameworks(py, js, base, model), ...programs(py, base, model)];
}

/** @type {Requests['sdks']} */
function sdks(py, js, base, model) {
  return [
    { name: 'OpenAI SDK, Python', note: 'pip install openai', text: `import os\nfrom openai import OpenAI\n\nclient = OpenAI(base_url=${py(base)}, api_key=os.environ.get("ANTWORT_API_KEY", "none"))\nprint(client.responses.create(model=${py(model)}, input="Hello").output_text)` },
    { name: 'OpenAI SDK, JavaScript', note: 'npm install openai', text: `import OpenAI from 'openai';\n\nconst client = new OpenAI({ baseURL: ${js(base)}, apiKey: process.env.ANTWORT_API_KEY ?? 'none' });\nconst response = await client.responses.create({ model: ${js(model)}, input: 'Hello' });\nconsole.log(response.output_text);` },
    { name: 'curl', text: `curl ${shellWord(`${base}/responses`)} \\\n  -H "Authorization: Bearer $ANTWORT_API_KEY" -H 'content-type: application/json' \\\n  -d ${shellWord(JSON.stringify({ model, input: 'Hello' }))}` },
    { name: 'Environment', note: 'OpenAI’s SDKs, and most programs that use them, read these.', text: `export OPENAI_BASE_URL=${shellWord(base)}\nexport OPENAI_API_KEY="$ANTWORT_API_KEY"   # any text, if the gateway asks for no key` },
  ];
}

/** @type {Requests['frameworks']} */
function frameworks(py, js, base, model) {
  const key = 'os.environ.get("ANTWORT_API_KEY", "none")';
  const env = "process.env.ANTWORT_API_KEY ?? 'none'";
  return [
    { name: 'OpenAI Agents SDK, Python', note: 'pip install openai-agents', text: `import os\nimport agents, openai\n\nagents.set_tracing_disabled(True)  # its traces would go to OpenAI\nclient = openai.AsyncOpenAI(base_url=${py(base)}, api_key=${key})\nmodel = agents.OpenAIResponsesModel(model=${py(model)}, openai_client=client)\nagent = agents.Agent(name="helper", instructions="Be brief.", model=model)\nprint(agents.Runner.run_sync(agent, "Hello").final_output)` },
    { name: 'OpenAI Agents SDK, JavaScript', note: 'npm install @openai/agents openai', text: `import { Agent, OpenAIResponsesModel, Runner, setTracingDisabled } from '@openai/agents';\nimport OpenAI from 'openai';\n\nsetTracingDisabled(true); // its traces would go to OpenAI\nconst client = new OpenAI({ baseURL: ${js(base)}, apiKey: ${env} });\nconst agent = new Agent({ name: 'helper', instructions: 'Be brief.', model: new OpenAIResponsesModel(client, ${js(model)}) });\nconsole.log((await new Runner().run(agent, 'Hello')).finalOutput);` },
    { name: 'AI SDK', note: 'npm install ai @ai-sdk/openai', text: `import { createOpenAI } from '@ai-sdk/openai';\nimport { generateText } from 'ai';\n\nconst provider = createOpenAI({ baseURL: ${js(base)}, apiKey: ${env} });\nconst { text } = await generateText({ model: provider.responses(${js(model)}), prompt: 'Hello' });\nconsole.log(text);` },
    { name: 'LangChain, Python', note: 'pip install langchain-openai', text: `import os\nfrom langchain_openai import ChatOpenAI\n\nmodel = ChatOpenAI(model=${py(model)}, base_url=${py(base)}, api_key=${key}, use_responses_api=True)\nprint(model.invoke("Hello").text)` },
    { name: 'LangChain, JavaScript', note: 'npm install @langchain/openai', text: `import { ChatOpenAI } from '@langchain/openai';\n\nconst model = new ChatOpenAI({ model: ${js(model)}, apiKey: ${env}, useResponsesApi: true, configuration: { baseURL: ${js(base)} } });\nconsole.log((await model.invoke('Hello')).text);` },
    { name: 'Pydantic AI', note: 'pip install pydantic-ai-slim[openai]', text: `import os\nfrom pydantic_ai import Agent\nfrom pydantic_ai.models.openai import OpenAIResponsesModel\nfrom pydantic_ai.providers.openai import OpenAIProvider\n\nprovider = OpenAIProvider(base_url=${py(base)}, api_key=${key})\nprint(Agent(OpenAIResponsesModel(${py(model)}, provider=provider)).run_sync("Hello").output)` },
  ];
}

/** @type {Requests['programs']} */
function programs(py, base, model) {
  return [
    { name: 'Codex CLI', note: '~/.codex/config.toml. Set ANTWORT_API_KEY to any text, if the gateway asks for no key.', text: `model = ${JSON.stringify(model)}\nmodel_provider = "antwort"\n\n[model_providers.antwort]\nname = "OpenAI"\nbase_url = ${JSON.stringify(base)}\nenv_key = "ANTWORT_API_KEY"\nwire_api = "responses"` },
    { name: 'LiteLLM', note: 'pip install litellm', text: `import os\nimport litellm\n\nresponse = litellm.responses(model=${py(`openai/${model}`)}, input="Hello", api_base=${py(base)}, api_key=os.environ.get("ANTWORT_API_KEY", "none"))\nprint(response.output[-1].content[0].text)` },
    { name: 'Chat completions', note: 'Programs that only know chat completions, such as Open WebUI, take the same address: these calls are passed on to the model server as they are, without the gateway’s tools.', text: `curl ${shellWord(`${base}/chat/completions`)} \\\n  -H "Authorization: Bearer $ANTWORT_API_KEY" -H 'content-type: application/json' \\\n  -d ${shellWord(JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] }))}` },
  ];
}
