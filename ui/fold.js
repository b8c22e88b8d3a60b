// Folds the events of a stream into the response that they describe. The twin of the gateway's
// `src/response/accumulator.rs`: what a client would build, tested on the same streams. And the way back.

/** @returns {Folded} */
export const nothing = () => ({ object: 'response', id: null, status: 'queued', output: [] });

/** A list of the item, and a field of its part; or a field of the item. @type {Record<string, [string, string]>} */
const TEXTS = {
  output_text: ['content', 'text'],
  refusal: ['content', 'refusal'],
  // The dialects differ in the name of this one.
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
