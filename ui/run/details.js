// The panel of a selected row: exact times, and what went in and came out.

import { el, replace } from '../lib/dom.js';
import { cost, duration, exact, rate } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { errorText, renderItem, textBlock } from './items.js';
import { belonging } from './trace.js';
import { usageWords } from './layout.js';
import { limitAdvice, limitWords, toolErrorWords } from './words.js';

/** @typedef {[string, string | Node | null | undefined | false]} Fact */

/**
 * @param {HTMLElement} root
 * @param {{response: any, trace: import('./trace.js').Trace}} run
 * @param {import('./layout.js').Lane} lane
 * @param {() => void} onClose
 */
export function renderDetails(root, { response, trace }, lane, onClose) {
  const owned = belonging(response?.output ?? [], trace);
  const turn = trace.turns[lane.turn];
  const content = turn && lane.call >= 0 ? ofCall(turn.calls[lane.call], owned, trace) : turn ? ofTurn(turn, owned.turns[lane.turn] ?? [], trace) : lane.kind === 'wait' ? ofWait(trace.waits[Number(lane.id.replace('wait-', ''))], lane, trace) : ofEnd(response, trace);
  replace(
    root,
    el('div', { class: 'row spread' },
      el('h2', null, lane.label),
      el('button', { type: 'button', class: 'quiet', 'aria-label': 'Close the details', text: 'Close', on: { click: onClose } })),
    lane.kind === 'wait' ? null : el('p', { class: `state ${lane.state.tone}` }, icon(lane.state.icon), lane.state.word),
    ...content,
  );
}

/** @param {Fact[]} list */
export function facts(list) {
  return el('dl', { class: 'facts' }, list.filter(([, value]) => value !== null && value !== undefined && value !== false && value !== '').flatMap(([name, value]) => [el('dt', { text: name }), el('dd', null, value)]));
}

/**
 * `+1.2 s (2026-11-26 04:00:00.123 UTC)`.
 * @param {number | null} at
 * @param {import('./trace.js').Trace} trace
 */
function when(at, trace) {
  if (at === null || at === undefined) return null;
  return el('span', { title: exact(at) }, `+${duration(at - trace.started_at)} `, el('span', { class: 'muted small', text: exact(at).slice(11) }));
}

/**
 * @param {import('./trace.js').Call | undefined} call
 * @param {import('./trace.js').Belonging} owned
 * @param {import('./trace.js').Trace} trace
 */
function ofCall(call, owned, trace) {
  if (!call) return [];
  const item = owned.items.get(call.call_id);
  const result = owned.outputs.get(item?.call_id ?? call.call_id)?.output ?? item?.output;
  const error = item?.error;
  const shown = [];
  if (call.outcome === 'failed') {
    shown.push(el('div', { class: 'notice bad stack' }, el('strong', { text: `Failed: ${toolErrorWords(call.error)}` }), errorText(error) ? textBlock(errorText(error), 'Error') : null));
  }
  return [
    ...shown,
    facts([
      ['Run by', call.executor], ['Begins', when(call.started_at, trace)], ['Ends', when(call.ended_at, trace)],
      ['Time', call.ended_at === null ? null : duration(call.ended_at - call.started_at)],
      ['Attempts', call.attempts > 1 ? `${call.attempts}; again at ${(call.retried_at ?? []).map((at) => `+${duration(at - trace.started_at)}`).join(', ')}` : String(call.attempts)],
      ['Error', call.error ? el('code', { text: call.error }) : null],
      ['Cached', call.cached ? 'yes: no call was made, the result is an earlier one' : null],
      ['Fallback', call.fallback ? `made in place of ${call.fallback}, which failed` : null],
      ['Truncated', call.truncated ? 'yes: the model got only a part of the result' : null],
      ['Call', el('code', { text: call.call_id })],
    ]),
    item ? null : el('p', { class: 'muted', text: 'The response has no item of this call, so its arguments and result are not known here.' }),
    item ? el('h3', { text: 'Arguments' }) : null,
    item ? textBlock(item.arguments ?? item.input ?? JSON.stringify(item.action ?? {}), 'Arguments') : null,
    result !== undefined && result !== null ? el('h3', { text: 'Result' }) : null,
    result !== undefined && result !== null ? textBlock(typeof result === 'string' ? result : JSON.stringify(result), 'Result') : null,
  ];
}

/**
 * @param {import('./trace.js').Turn} turn
 * @param {any[]} items
 * @param {import('./trace.js').Trace} trace
 */
function ofTurn(turn, items, trace) {
  const reasoning = turn.usage?.output_tokens_details?.reasoning_tokens;
  const speed = turn.usage && turn.first_token_at && turn.ended_at ? rate(turn.usage.output_tokens, turn.ended_at - turn.first_token_at) : null;
  const since = (/** @type {number | null} */ at) => (at === null ? null : el('span', null, `${duration(at - turn.sent_at)} after it was sent, `, when(at, trace)));
  return [
    facts([
      ['Model', turn.model], ['Provider', turn.provider], ['Sent', when(turn.sent_at, trace)], ['First byte', since(turn.first_byte_at)], ['First token', since(turn.first_token_at)], ['Ends', since(turn.ended_at)],
      ['Attempts', turn.attempts > 1 ? `${turn.attempts}; again at ${(turn.retried_at ?? []).map((at) => `+${duration(at - trace.started_at)}`).join(', ')}` : String(turn.attempts)],
      ['Tokens', turn.usage ? usageWords(turn.usage) + (reasoning ? ` (${reasoning} reasoning)` : '') : null], ['Speed', speed], ['Cost', trace.watched ? null : turn.cost_usd === null ? 'not known: no price, or no usage' : cost(turn.cost_usd)],
    ]),
    items.length > 0 ? el('h3', { text: 'What the model wrote' }) : null,
    ...items.map((item) => renderItem(item)),
  ];
}

/**
 * @param {import('./trace.js').Wait | undefined} wait
 * @param {import('./layout.js').Lane} lane
 * @param {import('./trace.js').Trace} trace
 */
function ofWait(wait, lane, trace) {
  if (!wait) return [];
  return [el('p', { text: lane.caption }), facts([['Begins', when(wait.from, trace)], ['Ends', when(wait.to, trace)]])];
}

/**
 * @param {any} response
 * @param {import('./trace.js').Trace} trace
 */
function ofEnd(response, trace) {
  const reason = response.incomplete_details?.reason;
  return [
    facts([['Ended', when(trace.ended_at, trace)], ['Reason', reason ? `${limitWords(reason)} (${reason})` : null], ['Next', reason ? limitAdvice(reason) : null], ['Error', response.error?.code ? el('code', { text: response.error.code }) : null], ['Message', response.error?.message]]),
    ...trace.limits.map((limit) => facts([[limit.name, when(limit.at, trace)]])),
  ];
}
