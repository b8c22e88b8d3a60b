// The times of a run as this page sees them: made of the events while they arrive, until the gateway's own account is there. Pure.

import { isCall, nameOf, plainType } from './trace.js';

// Calls of one turn are told one after another. What follows a result at once was made in parallel with it.
const AT_ONCE = 60;

/**
 * @param {number | null} sentAt when the request was sent, null if another page sent it
 * @returns {{push: (event: any, now: number) => void, trace: Trace}} `trace` grows
 */
export function liveTrace(sentAt) {
  let startedAt = sentAt ?? Date.now();
  /** @type {Trace} */
  const trace = { id: '', started_at: startedAt, ended_at: null, turns: [], waits: [], limits: [], watched: true, late: sentAt === null };
  /** @type {Map<number, Call>} calls by the index of their item */
  const calls = new Map();
  let model = '';
  let idleSince = startedAt;

  /** @param {number} now @returns {Turn} */
  function openTurn(now) {
    const last = trace.turns.at(-1);
    if (last && last.ended_at === null) return last;
    /** @type {Turn} */
    const turn = { index: trace.turns.length, provider: null, model, attempts: 1, sent_at: idleSince, first_byte_at: null, first_token_at: now, ended_at: null, usage: null, cost_usd: null, calls: [], spans: [] };
    // The first turn is there from the begin, the others from their first word on.
    trace.turns.push(turn);
    return turn;
  }

  /** @param {Kind} kind @param {number} now */
  function write(kind, now) {
    const turn = openTurn(now);
    turn.first_token_at ??= now;
    const spans = (turn.spans ??= []);
    const last = spans.at(-1);
    if (last && last.kind === kind) last.to = now;
    else spans.push({ kind, from: last?.to ?? turn.first_token_at, to: now });
  }

  /** @param {any} event @param {number} now */
  function begin(event, now) {
    const type = plainType(event.item);
    if (type === 'message') write('text', now);
    else if (type === 'reasoning') write('reasoning', now);
    else if (type === 'mcp_approval_request') write('arguments', now);
    else if (isCall(event.item)) beginCall(event, now);
    const first = trace.turns[0];
    // Approved calls are made before the model is asked.
    if (event.item.approval_request_id && trace.turns.length === 1) Object.assign(first, { attempts: 0, first_token_at: null, spans: [] });
  }

  /** @param {any} event @param {number} now */
  function beginCall(event, now) {
    const last = trace.turns.at(-1);
    const together = last && last.ended_at !== null && last.calls.length > 0 && now - idleSince < AT_ONCE;
    if (!together) write('arguments', now);
    const turn = together ? last : openTurn(now);
    /** @type {Call} */
    const call = { call_id: event.item.call_id ?? event.item.id, name: nameOf(event.item), executor: null, attempts: 1, started_at: together ? (turn.ended_at ?? now) : now, ended_at: null, outcome: null };
    calls.set(event.output_index, call);
    // Calls of the client are not made here.
    if (plainType(event.item) !== 'function_call' && plainType(event.item) !== 'custom_tool_call') turn.calls.push(call);
  }

  /** The arguments are complete, and the call is made. @param {any} event @param {number} now */
  function dispatch(event, now) {
    const call = calls.get(event.output_index);
    const turn = trace.turns.at(-1);
    if (!call || !turn?.calls.includes(call) || turn.ended_at !== null) return;
    write('arguments', now);
    call.started_at = now;
    turn.ended_at = now;
  }

  /** @param {any} event @param {number} now */
  function finish(event, now) {
    idleSince = now;
    const call = calls.get(event.output_index);
    if (!call) return;
    call.ended_at = now;
    call.outcome = event.item.status === 'failed' || event.item.error ? 'failed' : event.item.status === 'incomplete' ? 'cancelled' : 'completed';
    call.error = event.item.error?.code ? String(event.item.error.code) : null;
    const turn = trace.turns.at(-1);
    if (turn && turn.calls.includes(call) && turn.ended_at === null) turn.ended_at = call.started_at;
  }

  /** @param {number} now */
  function end(now) {
    const turn = trace.turns.at(-1);
    if (turn) turn.ended_at ??= now;
    trace.ended_at = now;
  }

  return {
    trace,
    push(event, now) {
      const name = String(event.type).replace(/^(response\.|antwort:)/, '');
      if (event.response) {
        trace.id = event.response.id;
        model = event.response.model ?? model;
        if (trace.turns.length === 0 && trace.late) startedAt = trace.started_at = idleSince = Math.min(now, event.response.created_at * 1000);
        if (trace.turns.length === 0 && name !== 'queued') trace.turns.push({ ...openTurnAt(startedAt), model });
      }
      if (/^(completed|incomplete|failed)$/.test(name) || name === 'error') end(now);
      else if (name === 'output_item.added') begin(event, now);
      else if (name === 'output_item.done') finish(event, now);
      else if (/arguments\.done$|input\.done$/.test(name)) dispatch(event, now);
      else if (/(output_text|refusal)\.delta$/.test(name)) write('text', now);
      else if (/^reasoning.*\.delta$/.test(name)) write('reasoning', now);
      // The arguments of a call that was made in parallel are told when its turn is long over.
      else if (/(arguments|input)\.delta$/.test(name) && trace.turns.at(-1)?.ended_at === null) write('arguments', now);
    },
  };
}

/** @param {number} at @returns {Turn} */
function openTurnAt(at) {
  return { index: 0, provider: null, model: null, attempts: 1, sent_at: at, first_byte_at: null, first_token_at: null, ended_at: null, usage: null, cost_usd: null, calls: [], spans: [] };
}
