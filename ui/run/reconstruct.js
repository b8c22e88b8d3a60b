// A stream that could have made a response: for runs of which no events were kept. Pure, and never called exact.

import { plainType } from './trace.js';

/**
 * @param {any} response one that has ended
 * @returns {any[]} events whose fold is the response
 */
export function reconstruct(response) {
  const begun = { ...response, status: 'in_progress', output: [], usage: null, error: null, incomplete_details: null, completed_at: null };
  /** @type {any[]} */
  const events = [{ type: 'response.created', response: begun }, { type: 'response.in_progress', response: begun }];
  (response.output ?? []).forEach((/** @type {any} */ item, /** @type {number} */ index) => events.push(...ofItem(item, index)));
  const end = response.status === 'failed' || response.status === 'incomplete' ? response.status : 'completed';
  events.push({ type: `response.${end}`, response });
  return events.map((event, index) => ({ sequence_number: index, ...event }));
}

/**
 * @param {any} item
 * @param {number} index
 * @returns {any[]}
 */
function ofItem(item, index) {
  const at = { output_index: index, item_id: item.id };
  const done = { type: 'response.output_item.done', output_index: index, item };
  const added = (/** @type {any} */ begun) => ({ type: 'response.output_item.added', output_index: index, item: { ...item, ...begun } });
  const status = item.status ? { status: 'in_progress' } : {};
  const type = plainType(item);
  if (type === 'message') {
    const parts = (item.content ?? []).flatMap((/** @type {any} */ part, /** @type {number} */ number) => ofPart(part, { ...at, content_index: number }));
    return [added({ ...status, content: [] }), ...parts, done];
  }
  if (type === 'reasoning') {
    const parts = (item.summary ?? []).flatMap((/** @type {any} */ part, /** @type {number} */ number) => [
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

/**
 * @param {any} part
 * @param {Record<string, any>} at
 */
function ofPart(part, at) {
  const refusal = part.type === 'refusal';
  const empty = refusal ? { ...part, refusal: '' } : { ...part, text: '', annotations: [] };
  return [
    { type: 'response.content_part.added', ...at, part: empty },
    { type: `response.${refusal ? 'refusal' : 'output_text'}.delta`, ...at, delta: (refusal ? part.refusal : part.text) ?? '' },
    { type: 'response.content_part.done', ...at, part },
  ];
}
