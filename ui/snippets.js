// The request as a program: curl, Python and JavaScript. Texts are quoted for each language; the key is an environment variable.

import { reveal } from './json-text.js';

/** @typedef {Record<string, unknown>} Json */

/** The parameters of `responses.create` in the Python SDK; others go into `extra_body`. */
const PYTHON = new Set('background context_management conversation include input instructions max_output_tokens max_tool_calls metadata model parallel_tool_calls previous_response_id prompt prompt_cache_key reasoning safety_identifier service_tier store stream stream_options temperature text tool_choice tools top_logprobs top_p truncation user'.split(' '));

/** @param {string} base the gateway's address with `/v1` @param {Json} body */
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

/** @param {string} base @param {Json} body */
export function python(base, body) {
  const known = Object.entries(body).filter(([name]) => PYTHON.has(name));
  const extra = Object.entries(body).filter(([name]) => !PYTHON.has(name));
  const lines = known.map(([name, value]) => `    ${name}=${pythonValue(value, 1)},\n`);
  if (extra.length > 0) lines.push(`    extra_body=${pythonValue(Object.fromEntries(extra), 1)},\n`);
  const call = `client.responses.create(\n${lines.join('')})`;
  const use = body.stream === true ? `for event in ${call}:\n    print(event.type)` : `response = ${call}\nprint(response.${body.background === true ? 'id' : 'output_text'})`;
  return `import os\n\nfrom openai import OpenAI\n\nclient = OpenAI(base_url=${pythonText(base)}, api_key=os.environ.get("ANTWORT_API_KEY", "none"))\n${use}`;
}

/** @param {unknown} value @param {number} depth @returns {string} */
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

/** @param {string} base @param {Json} body */
export function javascript(base, body) {
  const call = `await client.responses.create(${scriptValue(body, 0)})`;
  const use = body.stream === true ? `for await (const event of ${call}) console.log(event.type);` : `const response = ${call};\nconsole.log(response.${body.background === true ? 'id' : 'output_text'});`;
  return `import OpenAI from 'openai';\n\nconst client = new OpenAI({ baseURL: ${scriptText(base)}, apiKey: process.env.ANTWORT_API_KEY ?? 'none' });\n${use}`;
}

/** @param {unknown} value @param {number} depth @returns {string} */
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

/**
 * @param {string} open
 * @param {string[]} inside
 * @param {string} close
 * @param {number} depth
 * @param {string} step
 */
function block(open, inside, close, depth, step) {
  if (inside.length === 0) return open + close;
  const line = inside.join(', ');
  if (line.length < 60 && !line.includes('\n')) return open === '{' && step === '  ' ? `{ ${line} }` : open + line + close;
  const indent = step.repeat(depth + 1);
  return `${open}\n${inside.map((part) => `${indent}${part},\n`).join('')}${step.repeat(depth)}${close}`;
}
