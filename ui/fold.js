// Folds the events of a stream into the response that they describe. The twin of the gateway's
// `src/response/accumulator.rs`: what a client would build, tested on the same streams.

/**
 * @typedef {Record<string, any> & {output: any[]}} Folded the response as it is so far
 * @typedef {Record<string, any> & {type: string}} StreamEvent
 */

/** A response of which nothing is known yet. @returns {Folded} */
export const nothing = () => ({ object: 'response', id: null, status: 'queued', output: [] });

/**
 * The response at the end of these events.
 * @param {StreamEvent[]} events
 * @param {number} [count] only the first so many
 */
export function foldAll(events, count = events.length) {
  let response = nothing();
  for (const event of events.slice(0, count)) response = fold(response, event);
  return response;
}

/**
 * Applies one event. Changes the response that it is given, unless the event brings one of its own.
 * @param {Folded} response
 * @param {StreamEvent} event
 * @returns {Folded}
 */
export function fold(response, event) {
  // The dialects differ in the names of events that only one of them has.
  const name = event.type.replace(/^(response\.|antwort:)/, '');
  if (event.response && typeof event.response === 'object') return whole(response, event);
  const item = response.output[event.output_index];
  switch (name) {
    case 'error':
      // The error is top-level too; `response.failed` follows and brings the same.
      response.error = event.error ?? { code: event.code, message: event.message, param: event.param };
      break;
    case 'output_item.added':
    case 'output_item.done':
      response.output[event.output_index] = structuredClone(event.item);
      break;
    case 'content_part.added':
    case 'content_part.done':
      list(item, 'content')[event.content_index] = structuredClone(event.part);
      break;
    case 'reasoning_summary_part.added':
    case 'reasoning_summary_part.done':
      list(item, 'summary')[event.summary_index] = structuredClone(event.part);
      break;
    default:
      if (item) change(item, name, event);
  }
  return response;
}

/**
 * An event with the whole response. It replaces everything, but a response that comes without its items keeps those of the stream.
 * @param {Folded} before
 * @param {StreamEvent} event
 * @returns {Folded}
 */
function whole(before, event) {
  const output = Array.isArray(event.response.output) ? structuredClone(event.response.output) : before.output;
  return { ...structuredClone({ ...event.response, output: [] }), output };
}

/**
 * @param {any} item
 * @param {string} name
 * @param {StreamEvent} event
 */
function change(item, name, event) {
  switch (name) {
    case 'output_text.delta': {
      const part = partOf(item, 'content', event.content_index);
      part.text = (part.text ?? '') + event.delta;
      if (event.logprobs?.length > 0) part.logprobs = [...(part.logprobs ?? []), ...event.logprobs];
      break;
    }
    case 'output_text.done':
    case 'reasoning_text.done':
    case 'reasoning.done':
      partOf(item, 'content', event.content_index).text = event.text;
      break;
    case 'output_text.annotation.added':
      list(partOf(item, 'content', event.content_index), 'annotations').push(event.annotation);
      break;
    case 'reasoning_text.delta':
    case 'reasoning.delta':
      grow(partOf(item, 'content', event.content_index), 'text', event.delta);
      break;
    case 'refusal.delta':
      grow(partOf(item, 'content', event.content_index), 'refusal', event.delta);
      break;
    case 'refusal.done':
      partOf(item, 'content', event.content_index).refusal = event.refusal;
      break;
    case 'reasoning_summary_text.delta':
      grow(partOf(item, 'summary', event.summary_index), 'text', event.delta);
      break;
    case 'reasoning_summary_text.done':
      partOf(item, 'summary', event.summary_index).text = event.text;
      break;
    case 'function_call_arguments.delta':
    case 'mcp_call_arguments.delta':
      grow(item, 'arguments', event.delta);
      break;
    case 'function_call_arguments.done':
    case 'mcp_call_arguments.done':
      item.arguments = event.arguments;
      break;
    case 'custom_tool_call_input.delta':
      grow(item, 'input', event.delta);
      break;
    case 'custom_tool_call_input.done':
      item.input = event.input;
      break;
    case 'code_interpreter_call_code.delta':
      grow(item, 'code', event.delta);
      break;
    case 'code_interpreter_call_code.done':
      item.code = event.code;
      break;
    default:
      // Stages of hosted tools, progress reports and questions change no item.
  }
}

/**
 * @param {any} of
 * @param {string} name
 * @returns {any[]}
 */
function list(of, name) {
  return (of[name] ??= []);
}

/**
 * @param {any} item
 * @param {'content' | 'summary'} name
 * @param {number} index
 */
function partOf(item, name, index) {
  return (list(item, name)[index] ??= {});
}

/**
 * @param {any} of
 * @param {string} name
 * @param {string} delta
 */
function grow(of, name, delta) {
  of[name] = (of[name] ?? '') + delta;
}
