// What the gateway tells of a run's times: where the time went, and which items of the response belong to which turn. Pure.

/** The type of an item without the prefix that one dialect gives it. @type {Of.trace['plainType']} */
export const plainType = (item) => String(item?.type ?? '').replace(/^antwort:/, '');

/** @type {Of.trace['isCall']} */
export const isCall = (item) => /_call$/.test(plainType(item));

/** @type {Of.trace['isOutput']} */
const isOutput = (item) => /_output$/.test(plainType(item));

/**
 * Which items belong to which turn. The trace names the calls of each turn; what the model wrote before them is of their turn, what comes behind them of the next.
 * @type {Of.trace['belonging']}
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

/** Finds the item of each call: by its id, else the next one of its name. @type {Of.trace['claim']} */
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

/** @type {Of.trace['nameOf']} */
export const nameOf = (item) => item.name ?? plainType(item).replace(/_call$/, '');

/**
 * What a model wrote in a turn, in order, with its length: how the bar of a turn is divided where nobody watched.
 * @type {Of.trace['written']}
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

/** @type {Of.trace['writtenIn']} */
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

/** The texts of content parts. @type {Of.trace['texts']} */
export function texts(content) {
  if (typeof content === 'string') return [content];
  return (content ?? []).map((part) => part?.text ?? part?.refusal ?? '').filter(Boolean);
}

/** Turns are counted as inferences: approved calls that come before the first are of none. @type {Of.trace['turnNumber']} */
export const turnNumber = (trace, turn) => trace.turns.filter((one) => one.attempts > 0 && one.index <= (turn?.index ?? 0)).length;

/** @type {Of.trace['turnName']} */
export const turnName = (trace, turn) => (turn?.attempts === 0 ? 'the approved calls' : `turn ${turnNumber(trace, turn)}`);

/** The last moment that a trace knows. @type {Of.trace['lastMoment']} */
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

// What counts where two overlap: a call that waits for its user is a wait, not a tool's work.
/** @type {Part[]} */
const ORDER = ['writing', 'first_token', 'first_byte', 'waits', 'tools', 'other'];
/** @type {Part[]} */
const SHOWN = ['first_byte', 'first_token', 'writing', 'tools', 'waits', 'other'];

/** @type {Of.trace['account']} */
export function account(trace, now = lastMoment(trace)) {
  const end = trace.ended_at ?? Math.max(now, lastMoment(trace));
  const stretches = stretchesOf(trace, end);
  const inside = stretches.flatMap(({ from, to }) => [from, to]).filter((at) => at > trace.started_at && at < end);
  const cuts = [...new Set([trace.started_at, ...inside, end])].sort((a, b) => a - b);
  const pieces = cuts.slice(1).map((to, index) => {
    const over = stretches.filter((one) => one.from < to && one.to >= to).map((one) => one.part);
    return { from: cuts[index], to, part: ORDER.find((one) => over.includes(one)) ?? 'other' };
  });
  const sum = (/** @type {Part} */ part) => pieces.reduce((ms, one) => ms + (one.part === part ? one.to - one.from : 0), 0);
  // A call that waits for others is not what took long: the wait is.
  const long = stretches.map((one) => ({ ...one, ms: one.to - one.from - (one.part === 'tools' ? waited(one, stretches) : 0) }));
  const longest = long.reduce((most, one) => (one.ms > (most?.ms ?? 0) ? one : most), /** @type {Account['longest']} */ (null));
  return { total: Math.max(0, end - trace.started_at), parts: SHOWN.map((part) => ({ part, ms: sum(part) })), pieces, longest };
}

/** @type {Of.trace['waited']} */
function waited(call, stretches) {
  const shared = (/** @type {Stretch} */ wait) => Math.max(0, Math.min(wait.to, call.to) - Math.max(wait.from, call.from));
  return stretches.reduce((sum, one) => sum + (one.part === 'waits' ? shared(one) : 0), 0);
}

/** @type {Of.trace['stretchesOf']} */
function stretchesOf(trace, end) {
  /** @type {Stretch[]} */
  const found = [];
  for (const turn of trace.turns) {
    const of = { name: '', turn: turn.index, id: `turn-${turn.index}` };
    const ended = turn.ended_at ?? end;
    const token = Math.min(turn.first_token_at ?? ended, ended);
    const byte = Math.min(turn.first_byte_at ?? token, token);
    if (turn.attempts > 0) found.push({ ...of, part: 'first_byte', from: turn.sent_at, to: byte }, { ...of, part: 'first_token', from: byte, to: token }, { ...of, part: 'writing', from: token, to: ended });
    turn.calls.forEach((call, index) => found.push({ part: 'tools', from: call.started_at, to: endOfCall(call, end), name: call.name, turn: turn.index, id: callId(turn, index) }));
  }
  trace.waits.forEach((wait, index) => found.push({ part: 'waits', from: wait.from, to: wait.to ?? end, name: wait.kind, turn: null, id: `wait-${index}` }));
  return found.filter((one) => one.to > one.from);
}

/** @type {Of.trace['endOfCall']} */
export const endOfCall = (call, end) => call.ended_at ?? (call.outcome === 'async' ? call.started_at : end);

/** The name of a call's row. @type {Of.trace['callId']} */
export const callId = (turn, index) => `turn-${turn.index}-call-${index}`;
