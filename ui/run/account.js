// What happened in a run, and in plain words. Pure.

import { cost, counted, duration, own, tokens } from '../lib/dom.js';
import { explain } from '../next-step.js';
import { isCall, nameOf, openCalls, plainType } from '../protocol.js';

/** @type {Of['isOutput']} */
const isOutput = (item) => /_output$/.test(plainType(item));

/** @type {Of['belonging']} */
export function belonging(output, trace) {
  const { items, turnOf } = claim(output, trace);
  const outputs = new Map();
  const count = Math.max(1, trace.turns.length);
  /** @type {any[][]} */
  const turns = Array.from({ length: count }, () => []);
  const next = (from = 0, compacts = false) => {
    const found = trace.turns.findIndex((one, index) => index >= from && !!one.is_compaction === compacts);
    return found < 0 ? turn : found;
  };
  let turn = 0;
  turn = next();
  let behindCalls = false;
  let summaries = 0;
  for (const item of output) {
    const claimed = turnOf.get(item);
    if (claimed !== undefined) {
      turn = claimed;
      behindCalls = true;
    } else if (isOutput(item)) {
      outputs.set(item.call_id, item);
      behindCalls = true;
    } else if (plainType(item) === 'compaction') {
      turn = next(summaries, true);
      summaries = turn + 1;
      behindCalls = true;
    } else if (behindCalls) {
      turn = next(turn + 1);
      behindCalls = false;
    }
    turns[turn].push(item);
  }
  return { turns, items, outputs };
}

/** @type {Of['claim']} */
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

/** @type {Of['written']} */
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

/** @type {Of['writtenIn']} */
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

/** @type {Of['texts']} */
export function texts(content) {
  if (typeof content === 'string') return [content];
  return (content ?? []).map((part) => part?.text ?? part?.refusal ?? '').filter(Boolean);
}

/** @type {Of['turnNumber']} */
export const turnNumber = (trace, turn) => trace.turns.filter((one) => one.attempts > 0 && !one.is_compaction && one.index <= (turn?.index ?? 0)).length;

/** @type {Of['turnTitle']} */
export const turnTitle = (trace, turn) => (turn?.is_compaction ? 'Compaction' : `Turn ${turnNumber(trace, turn)}`);

/** @type {Of['turnName']} */
const turnName = (trace, turn) => (turn?.attempts === 0 ? 'the approved calls' : turnTitle(trace, turn).toLowerCase());

/** @type {Of['lastMoment']} */
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

/** @type {Of['account']} */
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
  const longest = long.reduce((most, one) => (one.ms > (most?.ms ?? 0) && !one.atMost ? one : most), /** @type {Account['longest']} */ (null));
  return { total: Math.max(0, end - trace.started_at), parts: SHOWN.map((part) => ({ part, ms: sum(part) })), pieces, longest };
}

/** @type {Of['waited']} */
function waited(call, stretches) {
  const shared = (/** @type {Stretch} */ wait) => Math.max(0, Math.min(wait.to, call.to) - Math.max(wait.from, call.from));
  return stretches.reduce((sum, one) => sum + (one.part === 'waits' ? shared(one) : 0), 0);
}

/** @type {Of['stretchesOf']} */
function stretchesOf(trace, end) {
  /** @type {Stretch[]} */
  const found = [];
  for (const turn of trace.turns) {
    const of = { name: '', turn: turn.index, id: `turn-${turn.index}` };
    const ended = turn.ended_at ?? end;
    const token = Math.min(turn.first_token_at ?? ended, ended);
    // A stream does not show the first byte.
    const byte = Math.min(turn.first_byte_at ?? (trace.watched ? turn.sent_at : token), token);
    if (turn.attempts > 0) found.push({ ...of, part: 'first_byte', from: turn.sent_at, to: byte }, { ...of, part: 'first_token', from: byte, to: token }, { ...of, part: 'writing', from: token, to: ended });
    turn.calls.forEach((call, index) => found.push({ atMost: call.at_most, part: 'tools', from: call.started_at, to: endOfCall(call, end), name: call.name, turn: turn.index, id: callId(turn, index) }));
  }
  trace.waits.forEach((wait, index) => found.push({ part: 'waits', from: wait.from, to: wait.to ?? end, name: wait.kind, turn: null, id: `wait-${index}` }));
  return found.filter((one) => one.to > one.from);
}

/** @type {Of['endOfCall']} */
export const endOfCall = (call, end) => call.ended_at ?? (call.outcome === 'async' ? call.started_at : end);

/** @type {Of['callId']} */
export const callId = (turn, index) => `turn-${turn.index}-call-${index}`;

// --- in words ---

/** @type {Record<string, State>} */
const STATES = {
  queued: { icon: 'queued', word: 'Queued', tone: 'off' },
  in_progress: { icon: 'runs', word: 'Running', tone: 'busy' },
  completed: { icon: 'done', word: 'Completed', tone: 'ok' },
  requires_action: { icon: 'waits', word: 'Waits for the client', tone: 'warn' },
  incomplete: { icon: 'limit', word: 'Stopped early', tone: 'warn' },
  failed: { icon: 'failed', word: 'Failed', tone: 'bad' },
  cancelled: { icon: 'cancelled', word: 'Cancelled', tone: 'off' },
};
export const STATUSES = Object.keys(STATES);
// No status of the API, but states of calls and of responses that wait for a person.
Object.assign(STATES, {
  approval: { icon: 'waits', word: 'Waits for approval', tone: 'warn' },
  answered: { icon: 'done', word: 'Answered', tone: 'ok' },
  async: { icon: 'waits', word: 'Answers later', tone: 'off' },
  dropped: { icon: 'cancelled', word: 'Dropped', tone: 'off' },
  unknown: { icon: 'unknown', word: 'Outcome unknown', tone: 'warn' },
});

/** @type {Of['statusWords']} */
export const statusWords = (status) => own(STATES, status, { icon: 'unknown', word: status, tone: 'off' });

/** @type {Of['stateOf']} */
export const stateOf = (response) => statusWords(response.answered_by ? 'answered' : waitsFor(response) === 'approval' ? 'approval' : response.status);

/** @type {Of['continuedWords']} */
export function continuedWords(response) {
  const waited = waitsFor(response);
  return waited ? { icon: 'done', word: waited === 'approval' ? 'Asked for approval' : 'Asked the client', tone: 'ok' } : statusWords(response.status);
}

/** @type {Of['waitsFor']} */
export function waitsFor(response) {
  if (response.status === 'completed' && response.output?.some((/** @type {any} */ item) => plainType(item) === 'mcp_approval_request')) return 'approval';
  return response.status === 'requires_action' ? 'client' : null;
}

/** @type {Of['outcomeWords']} */
export const outcomeWords = (call, over) => statusWords(call.outcome ?? (over ? 'dropped' : 'in_progress'));

/** @type {Record<string, string>} */
const LIMITS = {
  max_turns: 'the limit of turns (calls of the model) was reached',
  max_tool_calls: 'the limit of tool calls was reached',
  max_output_tokens: 'the limit of output tokens was reached',
  max_total_tokens: 'the limit of tokens in all was reached',
  max_cost_usd: 'the limit of cost was reached',
  max_seconds: 'the time that the request allows was used up',
  run_timeout: 'the time that the gateway allows a run was used up',
  deadline: 'its time was used up',
  max_identical_calls: 'the model made the same call with the same arguments again and again',
  max_consecutive_failures: 'every call of several turns in a row failed',
  max_response_size: 'the response became too large',
  content_filter: 'the provider filtered the content',
};

/** @type {Of['limitWords']} */
export const limitWords = (name) => own(LIMITS, name, `a limit was reached: ${name}`);

/** @type {Record<string, string>} */
const WAITS = { client: 'for the client', elicitation: 'for an answer of the user', callback: 'for a callback', queue: 'in the queue', mcp_list_tools: 'for MCP servers to list their tools', approval: 'for approval', next: 'until the next request' };

/** @type {Of['waitKind']} */
const waitKind = (kind) => own(WAITS, kind, `for ${kind}`);

/** @type {Of['waitWords']} */
export const waitWords = (kind, ms) => (ms === null ? `waits ${waitKind(kind)}` : `${duration(ms)} ${waitKind(kind)}`);

/** In the legend, and in a sentence. @type {Record<Part, [string, string]>} */
export const PARTS = {
  first_byte: ['Model, to first byte', 'waiting for the model’s first byte'],
  first_token: ['Model, to first token', 'waiting for the model’s first token'],
  writing: ['Model, writing', 'the model’s writing'],
  tools: ['Tools', 'tools'],
  waits: ['Waits', 'waiting for others'],
  other: ['Not in a recorded step', 'not in a recorded step (reading, storing)'],
};

/** @type {Of['waitBetween']} */
export function waitBetween(earlier, later) {
  const kind = waitsFor(earlier.response) ?? 'next';
  const [from, to] = [earlier.trace?.ended_at, later.trace?.watched ? null : later.trace?.started_at];
  if (from && to) return waitWords(kind, Math.max(0, to - from));
  if (!earlier.response.completed_at) return null;
  // Each of the two is known to the second.
  const seconds = Math.max(0, later.response.created_at - earlier.response.completed_at);
  return `${seconds < 2 ? `less than ${seconds + 1} s` : `about ${duration(seconds * 1000)}`} ${waitKind(kind)}`;
}

/** @type {Of['attemptWords']} */
export const attemptWords = (of) => (of.attempts > 1 ? counted(of.attempts, 'attempt') : null);

/** @type {Of['totals']} */
export function totals(response, trace) {
  const words = [];
  const turns = trace ? turnNumber(trace, trace.turns.at(-1)) : response.antwort?.turns;
  if (turns) words.push(counted(turns, 'turn'));
  const calls = trace?.turns.reduce((sum, turn) => sum + turn.calls.length, 0);
  if (calls) words.push(counted(calls, 'tool call'));
  const usage = response.usage;
  if (usage) {
    const cached = usage.input_tokens_details?.cached_tokens;
    words.push(`${tokens(usage.input_tokens)} tokens in${cached ? ` (${tokens(cached)} cached)` : ''}`, `${tokens(usage.output_tokens)} out`);
  }
  const prices = (trace?.turns ?? []).flatMap((turn) => turn.cost_usd ?? []);
  if (prices.length > 0) words.push(cost(prices.reduce((sum, price) => sum + price)));
  return words.join(', ');
}

/** @type {Of['ending']} */
export function ending(response, trace, now) {
  const time = trace ? duration(account(trace, now).total) : response.completed_at ? duration((response.completed_at - response.created_at) * 1000) : '';
  const took = time ? ` after ${time}` : '';
  const found = (text = '', /** @type {Finding['tone']} */ tone, advice = '') => ({ text, tone, row: null, advice });
  const reason = response.incomplete_details?.reason;
  if (response.answered_by) return found(`It stopped${took} to ask, and was answered.`, 'ok');
  switch (response.status) {
    case 'completed':
      if (waitsFor(response)) return found(`It stopped${took} to ask for approval: calls of tools are not made until someone decides.`, 'warn');
      return found(`Completed${time ? ` in ${time}` : ''}: the model gave its answer and made no further calls.`, 'ok');
    case 'requires_action':
      return found(`It stopped${took} and waits for the client to run ${counted(openCalls(response).length, 'function')} and send the output.`, 'warn');
    case 'incomplete':
      return found(`Stopped early${took}, because ${limitWords(reason)} (${reason}${limitOf(response, reason)}).`, 'warn', explain({ code: reason }).next);
    case 'failed':
      return found(`Failed${took}: ${response.error?.message ?? 'no reason was given'}`, 'bad');
    case 'cancelled':
      return found(`Cancelled${took}, on request.`, 'warn');
    default:
      return found(`${statusWords(response.status).word}${time ? ` for ${time}` : ''}.`, '');
  }
}

/** @type {Of['limitOf']} */
function limitOf(response, name) {
  const value = response.antwort?.limits?.[name] ?? response[name];
  return typeof value === 'number' ? `: ${value}` : '';
}

/** @type {Of['hasShares']} */
export const hasShares = (trace) => !trace.late && !(trace.watched && trace.ended_at === null);

/** Milliseconds; less than that nobody waits for. */
const NOTICEABLE = 100;

/** @type {Of['slowness']} */
export function slowness(trace, now) {
  if (!hasShares(trace)) return [];
  const { total, parts, longest } = account(trace, now);
  const [most] = [...parts].sort((a, b) => b.ms - a.ms);
  /** @type {Finding[]} */
  const found = [];
  if (most.ms >= NOTICEABLE && most.ms * 2 >= total) found.push({ text: `Most of the time ${most.part === 'other' ? 'was' : 'went to'} ${PARTS[most.part][1]}: ${duration(most.ms)} of ${duration(total)} (${percent(most.ms, total)}).`, tone: '', row: null });
  // A step that is small against that explains nothing.
  if (longest && longest.ms >= NOTICEABLE && longest.ms * 2 >= most.ms) found.push({ text: `The longest single step: ${stepWords(trace, longest)}, ${duration(longest.ms)} (${percent(longest.ms, total)}).`, tone: '', row: longest.id });
  return found;
}

/** @type {Of['stepWords']} */
function stepWords(trace, step) {
  const turn = trace.turns.find((one) => one.index === step.turn);
  if (step.part === 'tools') return `the call of ${step.name} in ${turnName(trace, turn)}`;
  if (step.part === 'waits') return `the wait ${waitKind(step.name)}`;
  const retried = turn && turn.attempts > 1 && step.part !== 'writing' ? `, which took ${attemptWords(turn)}` : '';
  return `the ${step.part.replace('_', ' ')} of the model${turn?.model ? ` (${turn.model})` : ''} in ${turnName(trace, turn)}${retried}`;
}

/** @type {Of['percent']} */
export const percent = (part, whole) => `${Math.round((part * 100) / Math.max(1, whole))} %`;

/** @type {Of['troubles']} */
export function troubles(trace) {
  /** @type {Finding[]} */
  const found = [];
  const add = (text = '', row = '', /** @type {'warn' | 'bad'} */ tone = 'warn') => found.push({ text, tone, row });
  /** @type {Set<string>} */
  const advised = new Set();
  for (const turn of trace.turns) {
    const answered = turn.first_byte_at ? ' before it answered' : ', and did not answer';
    if (turn.attempts > 1) add(`${turnTitle(trace, turn)}: the model server was asked ${turn.attempts} times${answered}.`, `turn-${turn.index}`);
    turn.calls.forEach((call, index) => {
      const row = callId(turn, index);
      const what = `${call.name} in ${turnName(trace, turn)}`;
      const tries = attemptWords(call);
      const code = call.error ?? 'without a code';
      // The same advice is given once.
      if (call.outcome === 'failed') add(`${what} failed${tries ? ` after ${tries}` : ''} (${code}).${advised.has(code) ? '' : ` ${explain({ code }).next}`}`, row, 'bad');
      else if (call.outcome === 'unknown') add(`${what}: the outcome is unknown; it may have had an effect.`, row);
      else if (call.fallback) add(`${what} was answered by a fallback, as ${call.fallback} failed.`, row);
      else if (tries) add(`${what} needed ${tries}.`, row);
      if (call.outcome === 'failed') advised.add(code);
    });
  }
  return [...found.filter((one) => one.tone === 'bad'), ...found.filter((one) => one.tone !== 'bad')];
}
