// The panel of a selected row: exact times, and what went in and came out.

import { renderError } from '../errors.js';
import { el, replace } from '../lib/dom.js';
import { cost, duration, exact } from '../lib/format.js';
import { stateMark } from '../lib/icons.js';
import { renderItem, textBlock } from './items.js';
import { belonging } from './trace.js';

/** @typedef {[string, string | Node | null | undefined | false]} Fact one without a value is left out */

/** @param {HTMLElement} root @param {TracedRun} run @param {Lane} lane @param {() => void} onClose */
export function renderDetails(root, { response, trace }, lane, onClose) {
  const owned = belonging(response.output ?? [], trace);
  const turn = trace.turns[lane.turn];
  const call = turn?.calls[lane.call];
  const content = call ? ofCall(call, owned, trace) : turn ? ofTurn(turn, owned.turns[lane.turn], trace) : [facts([['Ends', when(trace.started_at + lane.at + (lane.ms ?? 0), trace)], ['Error', response.error?.code], ['Message', response.error?.message]])];
  replace(
    root,
    el('div', { class: 'row spread' }, el('h2', { text: lane.label }), el('button', { type: 'button', class: 'quiet', 'aria-label': 'Close the details', text: 'Close', on: { click: onClose } })),
    stateMark(lane.state),
    call ? null : el('p', { class: 'muted', text: lane.caption }),
    ...content,
  );
}

/** @param {Fact[]} list */
const facts = (list) => el('dl', { class: 'facts' }, list.filter(([, value]) => value).flatMap(([name, value]) => [el('dt', { text: name }), el('dd', null, value)]));

/** `+1.2 s 04:00:00.123 UTC`. @param {number | null} at @param {Trace} trace */
const when = (at, trace) => at !== null && el('span', null, `+${duration(at - trace.started_at)} `, el('span', { class: 'muted small', text: exact(at).slice(11) }));

/** @param {Turn | Call} of @param {Trace} trace */
const attempts = (of, trace) => `${of.attempts}${(of.retried_at ?? []).map((at) => `, again at +${duration(at - trace.started_at)}`).join('')}`;

/** @param {Call} call @param {Belonging} owned @param {Trace} trace */
function ofCall(call, owned, trace) {
  const item = owned.items.get(call.call_id);
  const result = owned.outputs.get(item?.call_id)?.output ?? item?.output;
  const text = (/** @type {string} */ title, /** @type {any} */ value) => (value ? [el('h3', { text: title }), textBlock(typeof value === 'string' ? value : JSON.stringify(value), title)] : []);
  return [
    call.outcome === 'failed' ? renderError({ ...item?.error, code: call.error ?? item?.error?.code }, { title: 'Failed' }) : null,
    facts([
      ['Run by', call.executor], ['Begins', when(call.started_at, trace)], ['Ends', when(call.ended_at, trace)], ['Time', duration(call.ended_at && call.ended_at - call.started_at)], ['Attempts', attempts(call, trace)],
      ['Cached', call.cached && 'no call was made: the result is an earlier one'],
      ['Fallback', call.fallback && `made in place of ${call.fallback}, which failed`],
      ['Truncated', call.truncated && 'the model got only a part of the result'],
      ['Call', el('code', { text: call.call_id })],
    ]),
    ...(item ? text('Arguments', item.arguments ?? item.input ?? item.action) : [el('p', { class: 'muted', text: 'The response has no item of this call: its arguments and result are not known here.' })]),
    ...text('Result', result),
  ];
}

/** @param {Turn} turn @param {Json[]} items @param {Trace} trace */
function ofTurn(turn, items, trace) {
  const reasoning = turn.usage?.output_tokens_details?.reasoning_tokens;
  return [
    facts([
      ['Model', turn.model], ['Provider', turn.provider], ['Sent', when(turn.sent_at, trace)], ['First byte', when(turn.first_byte_at, trace)], ['First token', when(turn.first_token_at, trace)], ['Ends', when(turn.ended_at, trace)],
      ['Attempts', attempts(turn, trace)], ['Reasoning', reasoning ? `${reasoning} of the tokens out` : null],
      ['Cost', !trace.watched && (turn.cost_usd === null ? 'not known: no price, or no usage' : cost(turn.cost_usd))],
    ]),
    items.length > 0 ? el('h3', { text: 'What the model wrote' }) : null,
    ...items.map(renderItem),
  ];
}
