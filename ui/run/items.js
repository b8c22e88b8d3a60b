// Items of a response, as text; those of one that still grows are drawn again only where they changed.

import { reveal, shown } from '../json-text.js';
import { el, replace } from '../lib/dom.js';
import { icon, stateMark } from '../lib/icons.js';
import { isCall, nameOf, plainType, texts } from './trace.js';
import { statusWords } from './words.js';

// Beyond so many calls those that succeeded are left out at first: the answer is what one looks for.
const MANY = 10;

/** A text as it is, JSON indented. @param {string} text @param {string} label for those who hear the page */
export const textBlock = (text, label) => el('pre', { tabindex: 0, role: 'group', 'aria-label': label, text: text === '' ? '(empty)' : shown(text) });

/** @param {any} item @returns {HTMLElement} */
export function renderItem(item) {
  const type = plainType(item);
  const said = (/** @type {string} */ text) => el('div', { class: 'said', dir: 'auto', text: reveal(text) });
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

/** A call with its first words; the rest when it is opened. @param {any} item */
function call(item) {
  const own = item.arguments ?? item.input ?? (item.action ? JSON.stringify(item.action) : '');
  const state = statusWords(item.status === 'calling' ? 'in_progress' : (item.status ?? 'completed'));
  const text = (/** @type {string} */ title, /** @type {string} */ value) => (value ? [el('span', { class: 'muted small', text: title }), textBlock(value, title)] : []);
  return el('section', { class: `item item-call ${state.tone === 'ok' ? 'went-well' : ''}` }, el('details', null,
    el('summary', null, el('span', { class: 'twisty', 'aria-hidden': 'true' }, icon('open')), el('span', { class: `state ${state.tone}` }, icon(state.icon), el('span', { class: 'visually-hidden', text: state.word })), el('span', { class: 'called', text: reveal(nameOf(item)) }), el('code', { text: reveal(own.slice(0, 120), false) })),
    text('Arguments', own || '{}'), text('Result', item.output), text('Error', item.error ? JSON.stringify(item.error) : '')));
}

/** @param {string} kind @param {string} title @param {any} item @param {...(Node | null)} content */
function block(kind, title, item, ...content) {
  const state = item.status && item.status !== 'completed' ? statusWords(item.status) : null;
  return el('section', { class: `item item-${kind}` },
    el('div', { class: 'item-head' }, title, state ? stateMark(state) : null),
    ...content);
}

/** @param {string} label @returns {{root: HTMLElement, show: (response: any) => void}} */
export function createOutput(label) {
  const list = el('div', { class: 'output', 'aria-label': label, role: 'group' });
  const more = el('button', { type: 'button', class: 'small output-more', hidden: true, on: { click: () => showCalls(list.classList.contains('few')) } });
  /** @type {string[]} */
  let drawn = [];
  let calls = 0;

  /** @param {boolean} all */
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
      items.forEach((/** @type {any} */ item, /** @type {number} */ index) => {
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
