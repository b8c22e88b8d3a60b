// What the gateway tells of a run's times, and which items of the response belong to which turn.

/**
 * @typedef {{input_tokens: number, input_tokens_details?: {cached_tokens?: number}, output_tokens: number,
 *   output_tokens_details?: {reasoning_tokens?: number}, total_tokens: number}} Usage
 * @typedef {'reasoning' | 'text' | 'arguments'} Kind what a model writes
 * @typedef {{kind: Kind, from: number, to: number}} Span
 * @typedef {object} Call
 * @property {string} call_id
 * @property {string} name
 * @property {string | null} executor
 * @property {number} attempts
 * @property {number[]} [retried_at]
 * @property {number} started_at
 * @property {number | null} ended_at
 * @property {'completed' | 'failed' | 'async' | 'cancelled' | 'unknown' | null} outcome null while it runs
 * @property {string | null} [error]
 * @property {boolean} [cached]
 * @property {string | null} [fallback]
 * @property {boolean} [truncated]
 * @typedef {object} Turn
 * @property {number} index
 * @property {string | null} provider
 * @property {string | null} model
 * @property {number} attempts 0: the model was not asked, only approved calls were made
 * @property {number[]} [retried_at]
 * @property {number} sent_at
 * @property {number | null} first_byte_at
 * @property {number | null} first_token_at
 * @property {number | null} ended_at
 * @property {Usage | null} usage
 * @property {number | null} cost_usd
 * @property {Call[]} calls
 * @property {Span[]} [spans] when the model wrote what, where that was watched
 * @typedef {{kind: string, from: number, to: number | null}} Wait
 * @typedef {{name: string, at: number}} Limit
 * @typedef {object} Trace
 * @property {string} id
 * @property {number} started_at
 * @property {number | null} ended_at
 * @property {Turn[]} turns
 * @property {Wait[]} waits
 * @property {Limit[]} limits
 * @property {boolean} [watched] the times are those of this page's clock
 * @property {boolean} [late] watched from the middle on
 */

/** The type of an item without the prefix that one dialect gives it. @param {any} item @returns {string} */
export const plainType = (item) => String(item?.type ?? '').replace(/^antwort:/, '');

/** @param {any} item */
export const isCall = (item) => /_call$/.test(plainType(item));

/** @param {any} item */
const isOutput = (item) => /_output$/.test(plainType(item));

/**
 * @typedef {object} Belonging
 * @property {any[][]} turns the items of each turn, in order
 * @property {Map<string, any>} items the item of a call, by the call's id
 * @property {Map<string, any>} outputs the item with the result of a call, where that is one of its own
 */

/**
 * Which items belong to which turn. The trace names the calls of each turn; what the model wrote before them is of their
 * turn, what comes behind them of the next.
 * @param {any[]} output
 * @param {Trace} trace
 * @returns {Belonging}
 */
export function belonging(output, trace) {
  const { items, turnOf } = claim(output, trace);
  const outputs = new Map();
  const count = Math.max(1, trace.turns.length);
  /** @type {any[][]} */
  const turns = Array.from({ length: count }, () => []);
  let turn = 0;
  let behindCalls = false;
  for (const item of output) {
    const claimed = turnOf.get(item);
    if (claimed !== undefined) {
      turn = claimed;
      behindCalls = true;
    } else if (isOutput(item)) {
      outputs.set(item.call_id, item);
      behindCalls = true;
    } else if (behindCalls && turn + 1 < count) {
      turn += 1;
      behindCalls = false;
    }
    turns[turn].push(item);
  }
  return { turns, items, outputs };
}

/**
 * Finds the item of each call: by its id, else the next one of its name.
 * @param {any[]} output
 * @param {Trace} trace
 */
function claim(output, trace) {
  /** @type {Map<string, any>} */
  const byId = new Map();
  const calls = output.filter(isCall);
  for (const item of calls) for (const id of [item.call_id, item.id]) if (id) byId.set(id, item);
  const items = new Map();
  /** @type {Map<any, number>} */
  const turnOf = new Map();
  trace.turns.forEach((turn, index) => {
    for (const call of turn.calls) {
      const item = byId.get(call.call_id) ?? calls.find((other) => !turnOf.has(other) && nameOf(other) === call.name);
      if (!item) continue;
      items.set(call.call_id, item);
      turnOf.set(item, index);
    }
  });
  return { items, turnOf };
}

/** @param {any} item @returns {string} */
export const nameOf = (item) => item.name ?? plainType(item).replace(/_call$/, '');

/**
 * What a model wrote in a turn, in order, with its length: how the bar of a turn is divided where nobody watched.
 * @param {any[]} items
 * @returns {{kind: Kind, length: number}[]}
 */
export function written(items) {
  /** @type {{kind: Kind, length: number}[]} */
  const parts = [];
  for (const item of items) {
    const part = writtenIn(item);
    if (!part || part.length === 0) continue;
    const last = parts.at(-1);
    if (last?.kind === part.kind) last.length += part.length;
    else parts.push(part);
  }
  return parts;
}

/** @param {any} item @returns {{kind: Kind, length: number} | null} */
function writtenIn(item) {
  const type = plainType(item);
  if (type === 'message') return { kind: 'text', length: texts(item.content).join('').length };
  if (type === 'reasoning') {
    const shown = texts([...(item.content ?? []), ...(item.summary ?? [])]).join('').length;
    // Reasoning that is sealed has a length, too, and was written.
    return { kind: 'reasoning', length: shown || Math.round((item.encrypted_content?.length ?? 0) / 2) };
  }
  // An approved call was written in the response that asked for the approval.
  if (item.approval_request_id) return null;
  if (isCall(item)) return { kind: 'arguments', length: (item.arguments ?? item.input ?? '').length + nameOf(item).length };
  if (type === 'mcp_approval_request') return { kind: 'arguments', length: (item.arguments ?? '').length + nameOf(item).length };
  return null;
}

/**
 * The texts of content parts.
 * @param {any[] | string | null | undefined} content
 * @returns {string[]}
 */
export function texts(content) {
  if (typeof content === 'string') return [content];
  return (content ?? []).map((part) => part?.text ?? part?.refusal ?? '').filter(Boolean);
}

/**
 * Turns are counted as inferences: approved calls that come before the first are of none.
 * @param {Trace} trace
 * @param {Turn | null | undefined} turn
 */
export const turnNumber = (trace, turn) => trace.turns.filter((one) => one.attempts > 0 && one.index <= (turn?.index ?? 0)).length;

/** @param {Trace} trace @param {Turn | null | undefined} turn */
export const turnName = (trace, turn) => (turn?.attempts === 0 ? 'the approved calls' : `turn ${turnNumber(trace, turn)}`);

/** The last moment that a trace knows. @param {Trace} trace */
export function lastMoment(trace) {
  let last = trace.started_at;
  const see = (/** @type {(number | null | undefined)[]} */ ...moments) => {
    for (const moment of moments) if (moment && moment > last) last = moment;
  };
  see(trace.ended_at);
  for (const turn of trace.turns) {
    see(turn.sent_at, turn.first_byte_at, turn.first_token_at, turn.ended_at);
    for (const call of turn.calls) see(call.started_at, call.ended_at);
  }
  for (const wait of trace.waits) see(wait.from, wait.to);
  for (const limit of trace.limits) see(limit.at);
  return last;
}
