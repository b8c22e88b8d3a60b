// Items of a response as text, and the details of a row of the picture; what still grows is drawn again only where it changed.

import { renderError } from '../errors.js';
import { reveal, shown } from '../json-text.js';
import { el, icon, replace, stateMark } from '../lib/dom.js';
import { cost, duration, exact } from '../lib/format.js';
import { belonging, isCall, nameOf, plainType, texts } from './trace.js';
import { statusWords } from './words.js';
import { facts, pre } from '../screens/parts.js';

// Beyond so many calls those that succeeded are left out at first: the answer is what one looks for.
const MANY = 10;

/** A text as it is, JSON indented. @type {Of.items['textBlock']} */
export const textBlock = (text, label) => pre(label, text === '' ? '(empty)' : shown(text));

/** @type {Of.items['renderItem']} */
export function renderItem(item) {
  const type = plainType(item);
  const said = (text = '') => el('div', { class: 'said', dir: 'auto', text: reveal(text) });
  if (type === 'message') return block('message', 'Answer', item, said(texts(item.content).join('\n')));
  if (type === 'user_message') return block('message', `${item.name} to the user`, item, said(item.text ?? ''));
  if (type === 'reasoning') {
    const words = texts([...(item.summary ?? []), ...(item.content ?? [])]).join('\n');
    return block('reasoning', `Reasoning${words ? '' : item.encrypted_content ? ', sealed' : ', not shown'}`, item, words ? said(words) : null);
  }
  if (isCall(item)) return call(item);
  if (type === 'mcp_approval_request') return block('call', `Asks for approval: ${item.name} of ${item.server_label}`, item, textBlock(item.arguments ?? '', 'Arguments'));
  if (/_output$/.test(type)) return block('call', `Result of ${item.name ?? item.call_id}`, item, textBlock(typeof item.output === 'string' ? item.output : JSON.stringify(item.output), 'Result'));
  const title = type === 'mcp_list_tools' ? `Tools of ${item.server_label}: ${(item.tools ?? []).length}` : type;
  return block('other', '', {}, el('details', null, el('summary', { text: title }), textBlock(type === 'mcp_list_tools' ? item.tools.map((/** @type {any} */ tool) => tool.name).join('\n') : JSON.stringify(item), title)));
}

/** A call with its first words; the rest when it is opened. @type {Of.items['call']} */
function call(item) {
  const own = item.arguments ?? item.input ?? (item.action ? JSON.stringify(item.action) : '');
  const state = statusWords(item.status === 'calling' ? 'in_progress' : (item.status ?? 'completed'));
  const text = (title = '', value = '') => (value ? [el('span', { class: 'muted small', text: title }), textBlock(value, title)] : []);
  return el('section', { class: `item item-call ${state.tone === 'ok' ? 'went-well' : ''}` }, el('details', null,
    el('summary', null, el('span', { class: 'twisty', 'aria-hidden': 'true' }, icon('open')), el('span', { class: `state ${state.tone}` }, icon(state.icon), el('span', { class: 'visually-hidden', text: state.word })), el('span', { class: 'called', text: reveal(nameOf(item)) }), el('code', { text: reveal(own.slice(0, 120), false) })),
    text('Arguments', own || '{}'), text('Result', item.output), text('Error', item.error ? JSON.stringify(item.error) : '')));
}

/** @type {Of.items['block']} */
function block(kind, title, item, ...content) {
  const state = item.status && item.status !== 'completed' ? statusWords(item.status) : null;
  return el('section', { class: `item item-${kind}` },
    el('div', { class: 'item-head' }, title, state ? stateMark(state) : null),
    ...content);
}

/** @type {Of.items['createOutput']} */
export function createOutput(label) {
  const list = el('div', { class: 'output', 'aria-label': label, role: 'group' });
  const more = el('button', { class: 'small output-more', hidden: true, on: { click: () => showCalls(list.classList.contains('few')) } });
  /** @type {string[]} */
  let drawn = [];
  let calls = 0;

  /** @type {Of.items['showCalls']} */
  function showCalls(all) {
    list.classList.toggle('few', !all);
    more.textContent = all ? 'Hide the calls that succeeded' : `Show all ${calls} calls`;
  }

  return {
    root: el('div', { class: 'stack' }, more, list),
    show(response) {
      const items = response.output ?? [];
      calls = items.filter(isCall).length;
      if (more.hidden && calls > MANY) showCalls(false);
      more.hidden = calls <= MANY;
      if (drawn.length === 0 || items.length === 0) replace(list, items.length === 0 ? el('p', { class: 'muted', text: 'No output yet.' }) : null);
      const signatures = items.map((/** @type {any} */ item) => JSON.stringify(item));
      items.forEach((/** @type {any} */ item, index = 0) => {
        if (drawn[index] === signatures[index]) return;
        const old = list.children[index];
        if (old) old.replaceWith(renderItem(item));
        else list.append(renderItem(item));
      });
      while (items.length > 0 && list.children.length > items.length) list.lastElementChild?.remove();
      drawn = signatures;
    },
  };
}

/** @typedef {[string, string | Node | null | undefined | false]} Fact one without a value is left out */

/** @type {Of.items['renderDetails']} */
export function renderDetails(root, { response, trace }, lane, onClose) {
  const owned = belonging(response.output ?? [], trace);
  const turn = trace.turns[lane.turn];
  const call = turn?.calls[lane.call];
  const content = call ? ofCall(call, owned, trace) : turn ? ofTurn(turn, owned.turns[lane.turn], trace) : [known([['Ends', when(trace.started_at + lane.at + (lane.ms ?? 0), trace)], ['Error', response.error?.code], ['Message', response.error?.message]])];
  replace(
    root,
    el('div', { class: 'row spread' }, el('h2', { text: lane.label }), el('button', { class: 'quiet', 'aria-label': 'Close the details', text: 'Close', on: { click: onClose } })),
    stateMark(lane.state),
    call ? null : el('p', { class: 'muted', text: lane.caption }),
    ...content,
  );
}

/** Facts without a value are left out. @param {Fact[]} list */
const known = (list) => facts(list.filter(([, value]) => value));

/** `+1.2 s 04:00:00.123 UTC`. @type {Of.items['when']} */
const when = (at, trace) => at !== null && el('span', null, `+${duration(at - trace.started_at)} `, el('span', { class: 'muted small', text: exact(at).slice(11) }));

/** @type {Of.items['attempts']} */
const attempts = (of, trace) => `${of.attempts}${(of.retried_at ?? []).map((at) => `, again at +${duration(at - trace.started_at)}`).join('')}`;

/** @type {Of.items['ofCall']} */
function ofCall(call, owned, trace) {
  const item = owned.items.get(call.call_id);
  const result = owned.outputs.get(item?.call_id)?.output ?? item?.output;
  const text = (title = '', /** @type {any} */ value) => (value ? [el('h3', { text: title }), textBlock(typeof value === 'string' ? value : JSON.stringify(value), title)] : []);
  return [
    call.outcome === 'failed' ? renderError({ ...item?.error, code: call.error ?? item?.error?.code }, { title: 'Failed' }) : null,
    known([
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

/** @type {Of.items['ofTurn']} */
function ofTurn(turn, items, trace) {
  const reasoning = turn.usage?.output_tokens_details?.reasoning_tokens;
  return [
    known([
      ['Model', turn.model], ['Provider', turn.provider], ['Sent', when(turn.sent_at, trace)], ['First byte', when(turn.first_byte_at, trace)], ['First token', when(turn.first_token_at, trace)], ['Ends', when(turn.ended_at, trace)],
      ['Attempts', attempts(turn, trace)], ['Reasoning', reasoning ? `${reasoning} of the tokens out` : null],
      ['Cost', !trace.watched && (turn.cost_usd === null ? 'not known: no price, or no usage' : cost(turn.cost_usd))],
    ]),
    items.length > 0 ? el('h3', { text: 'What the model wrote' }) : null,
    ...items.map(renderItem),
  ];
}
