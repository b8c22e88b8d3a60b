// How clients are pointed at this gateway. Each is a client of `docs/compatibility.md`, set up as the project's tests do it.

import { pythonValue, scriptValue, shellWord } from './snippets.js';

/** @typedef {{name: string, note?: string, text: string}} Recipe */

/**
 * @param {string} base the gateway's address with `/v1`
 * @param {string} model
 * @returns {Recipe[]}
 */
export function recipes(base, model) {
  const py = (/** @type {unknown} */ value) => pythonValue(value, 0);
  const js = (/** @type {unknown} */ value) => scriptValue(value, 0);
  return [...sdks(py, js, base, model), ...frameworks(py, js, base, model), ...programs(py, base, model)];
}

/**
 * @param {(value: unknown) => string} py
 * @param {(value: unknown) => string} js
 * @param {string} base
 * @param {string} model
 * @returns {Recipe[]}
 */
function sdks(py, js, base, model) {
  return [
    { name: 'OpenAI SDK, Python', note: 'pip install openai', text: `import os\nfrom openai import OpenAI\n\nclient = OpenAI(base_url=${py(base)}, api_key=os.environ.get("ANTWORT_API_KEY", "none"))\nprint(client.responses.create(model=${py(model)}, input="Hello").output_text)` },
    { name: 'OpenAI SDK, JavaScript', note: 'npm install openai', text: `import OpenAI from 'openai';\n\nconst client = new OpenAI({ baseURL: ${js(base)}, apiKey: process.env.ANTWORT_API_KEY ?? 'none' });\nconst response = await client.responses.create({ model: ${js(model)}, input: 'Hello' });\nconsole.log(response.output_text);` },
    { name: 'curl', text: `curl ${shellWord(`${base}/responses`)} \\\n  -H "Authorization: Bearer $ANTWORT_API_KEY" -H 'content-type: application/json' \\\n  -d ${shellWord(JSON.stringify({ model, input: 'Hello' }))}` },
    { name: 'Environment', note: 'OpenAI’s SDKs, and most programs that use them, read these.', text: `export OPENAI_BASE_URL=${shellWord(base)}\nexport OPENAI_API_KEY="$ANTWORT_API_KEY"   # any text, if the gateway asks for no key` },
  ];
}

/**
 * @param {(value: unknown) => string} py
 * @param {(value: unknown) => string} js
 * @param {string} base
 * @param {string} model
 * @returns {Recipe[]}
 */
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

/**
 * @param {(value: unknown) => string} py
 * @param {string} base
 * @param {string} model
 * @returns {Recipe[]}
 */
function programs(py, base, model) {
  return [
    { name: 'Codex CLI', note: '~/.codex/config.toml. Set ANTWORT_API_KEY to any text, if the gateway asks for no key.', text: `model = ${JSON.stringify(model)}\nmodel_provider = "antwort"\n\n[model_providers.antwort]\nname = "OpenAI"\nbase_url = ${JSON.stringify(base)}\nenv_key = "ANTWORT_API_KEY"\nwire_api = "responses"` },
    { name: 'LiteLLM', note: 'pip install litellm', text: `import os\nimport litellm\n\nresponse = litellm.responses(model=${py(`openai/${model}`)}, input="Hello", api_base=${py(base)}, api_key=os.environ.get("ANTWORT_API_KEY", "none"))\nprint(response.output[-1].content[0].text)` },
    { name: 'Chat completions', note: 'Programs that only know chat completions, such as Open WebUI, take the same address: these calls are passed on to the model server as they are, without the gateway’s tools.', text: `curl ${shellWord(`${base}/chat/completions`)} \\\n  -H "Authorization: Bearer $ANTWORT_API_KEY" -H 'content-type: application/json' \\\n  -d ${shellWord(JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] }))}` },
  ];
}
