// Programs to copy: a request as curl, Python and JavaScript, and how clients are pointed at this gateway. Texts are quoted for each
// language; the key is an environment variable.

import { reveal } from './json-text.js';

/** The parameters of `responses.create` in the Python SDK; others go into `extra_body`. */
const PYTHON = new Set('background context_management conversation include input instructions max_output_tokens max_tool_calls metadata model parallel_tool_calls previous_response_id prompt prompt_cache_key reasoning safety_identifier service_tier store stream stream_options temperature text tool_choice tools top_logprobs top_p truncation user'.split(' '));

/** @type {Snippets['curl']} */
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

/** @type {Snippets['python']} */
export function python(base, body) {
  const known = Object.entries(body).filter(([name]) => PYTHON.has(name));
  const extra = Object.entries(body).filter(([name]) => !PYTHON.has(name));
  const lines = known.map(([name, value]) => `    ${name}=${pythonValue(value, 1)},\n`);
  if (extra.length > 0) lines.push(`    extra_body=${pythonValue(Object.fromEntries(extra), 1)},\n`);
  const call = `client.responses.create(\n${lines.join('')})`;
  const use = body.stream === true ? `for event in ${call}:\n    print(event.type)` : `response = ${call}\nprint(response.${body.background === true ? 'id' : 'output_text'})`;
  return `import os\n\nfrom openai import OpenAI\n\nclient = OpenAI(base_url=${pythonText(base)}, api_key=os.environ.get("ANTWORT_API_KEY", "none"))\n${use}`;
}

/** @type {Snippets['pythonValue']} */
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

/** @type {Snippets['javascript']} */
export function javascript(base, body) {
  const call = `await client.responses.create(${scriptValue(body, 0)})`;
  const use = body.stream === true ? `for await (const event of ${call}) console.log(event.type);` : `const response = ${call};\nconsole.log(response.${body.background === true ? 'id' : 'output_text'});`;
  return `import OpenAI from 'openai';\n\nconst client = new OpenAI({ baseURL: ${scriptText(base)}, apiKey: process.env.ANTWORT_API_KEY ?? 'none' });\n${use}`;
}

/** @type {Snippets['scriptValue']} */
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

/** @type {Snippets['block']} */
function block(open, inside, close, depth, step) {
  if (inside.length === 0) return open + close;
  const line = inside.join(', ');
  if (line.length < 60 && !line.includes('\n')) return open === '{' && step === '  ' ? `{ ${line} }` : open + line + close;
  const indent = step.repeat(depth + 1);
  return `${open}\n${inside.map((part) => `${indent}${part},\n`).join('')}${step.repeat(depth)}${close}`;
}

/** @type {Snippets['recipes']} */
export function recipes(base, model) {
  const py = (/** @type {unknown} */ value) => pythonValue(value, 0);
  const js = (/** @type {unknown} */ value) => scriptValue(value, 0);
  return [...sdks(py, js, base, model), ...frameworks(py, js, base, model), ...programs(py, base, model)];
}

/** @type {Snippets['sdks']} */
function sdks(py, js, base, model) {
  return [
    { name: 'OpenAI SDK, Python', note: 'pip install openai', text: `import os\nfrom openai import OpenAI\n\nclient = OpenAI(base_url=${py(base)}, api_key=os.environ.get("ANTWORT_API_KEY", "none"))\nprint(client.responses.create(model=${py(model)}, input="Hello").output_text)` },
    { name: 'OpenAI SDK, JavaScript', note: 'npm install openai', text: `import OpenAI from 'openai';\n\nconst client = new OpenAI({ baseURL: ${js(base)}, apiKey: process.env.ANTWORT_API_KEY ?? 'none' });\nconst response = await client.responses.create({ model: ${js(model)}, input: 'Hello' });\nconsole.log(response.output_text);` },
    { name: 'curl', text: `curl ${shellWord(`${base}/responses`)} \\\n  -H "Authorization: Bearer $ANTWORT_API_KEY" -H 'content-type: application/json' \\\n  -d ${shellWord(JSON.stringify({ model, input: 'Hello' }))}` },
    { name: 'Environment', note: 'OpenAI’s SDKs, and most programs that use them, read these.', text: `export OPENAI_BASE_URL=${shellWord(base)}\nexport OPENAI_API_KEY="$ANTWORT_API_KEY"   # any text, if the gateway asks for no key` },
  ];
}

/** @type {Snippets['frameworks']} */
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

/** @type {Snippets['programs']} */
function programs(py, base, model) {
  return [
    { name: 'Codex CLI', note: '~/.codex/config.toml. Set ANTWORT_API_KEY to any text, if the gateway asks for no key.', text: `model = ${JSON.stringify(model)}\nmodel_provider = "antwort"\n\n[model_providers.antwort]\nname = "OpenAI"\nbase_url = ${JSON.stringify(base)}\nenv_key = "ANTWORT_API_KEY"\nwire_api = "responses"` },
    { name: 'LiteLLM', note: 'pip install litellm', text: `import os\nimport litellm\n\nresponse = litellm.responses(model=${py(`openai/${model}`)}, input="Hello", api_base=${py(base)}, api_key=os.environ.get("ANTWORT_API_KEY", "none"))\nprint(response.output[-1].content[0].text)` },
    { name: 'Chat completions', note: 'Programs that only know chat completions, such as Open WebUI, take the same address: these calls are passed on to the model server as they are, without the gateway’s tools.', text: `curl ${shellWord(`${base}/chat/completions`)} \\\n  -H "Authorization: Bearer $ANTWORT_API_KEY" -H 'content-type: application/json' \\\n  -d ${shellWord(JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] }))}` },
  ];
}
