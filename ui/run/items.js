// Items of a response, as text.

import { reveal, shown } from '../json-text.js';
import { el } from '../lib/dom.js';
import { icon } from '../lib/icons.js';
import { isCall, nameOf, plainType, texts } from './trace.js';
import { statusWords } from './words.js';

/**
 * A text as it is; JSON indented.
 * @param {string} text
 * @param {string} label for those who hear the page
 */
export function textBlock(text, label) {
  return el('pre', { tabindex: 0, role: 'group', 'aria-label': label, text: text === '' ? '(empty)' : shown(text) });
}

/**
 * @param {any} item
 * @returns {HTMLElement}
 */
export function renderItem(item) {
  const type = plainType(item);
  if (type === 'message') return block('message', 'Answer', item, el('div', { class: 'said', dir: 'auto', text: reveal(texts(item.content).join('\n')) }));
  if (type === 'reasoning') return reasoning(item);
  if (isCall(item)) return call(item);
  if (type === 'mcp_approval_request') return block('call', `Asks for approval: ${item.name} of ${item.server_label}`, item, textBlock(item.arguments ?? '', 'Arguments'));
  if (type === 'mcp_list_tools') return folded(`Tools of ${item.server_label}: ${(item.tools ?? []).length}`, item, (item.tools ?? []).map((/** @type {any} */ tool) => tool.name).join('\n'));
  if (/_output$/.test(type)) return block('call', `Result of ${item.name ?? item.call_id}`, item, textBlock(typeof item.output === 'string' ? item.output : JSON.stringify(item.output), 'Result'));
  if (type === 'user_message') return block('message', `${item.name} to the user`, item, el('div', { class: 'said', dir: 'auto', text: reveal(item.text ?? '') }));
  return folded(type || 'Item', item, JSON.stringify(item));
}

/** @param {any} item */
function reasoning(item) {
  const words = texts([...(item.summary ?? []), ...(item.content ?? [])]).join('\n');
  if (!words) return block('reasoning', item.encrypted_content ? 'Reasoning, sealed' : 'Reasoning, not shown', item);
  return block('reasoning', 'Reasoning', item, el('div', { class: 'said', dir: 'auto', text: reveal(words) }));
}

/** A call with its first words; the rest when it is opened. @param {any} item */
function call(item) {
  const own = item.arguments ?? item.input ?? (item.action ? JSON.stringify(item.action) : '');
  const error = errorText(item.error);
  const state = statusWords(item.status === 'calling' ? 'in_progress' : (item.status ?? 'completed'));
  return el('section', { class: `item item-call ${state.tone === 'ok' ? 'went-well' : ''}` }, el('details', null,
    el('summary', null, el('span', { class: 'twisty', 'aria-hidden': 'true' }, icon('closed')), el('span', { class: `state ${state.tone}` }, icon(state.icon), el('span', { class: 'visually-hidden', text: state.word })), el('span', { class: 'called', text: reveal(nameOf(item)) }), el('code', { text: reveal(own.slice(0, 120), false) })),
    el('span', { class: 'muted small', text: 'Arguments' }), textBlock(own, 'Arguments'),
    item.output ? el('span', { class: 'muted small', text: 'Result' }) : null, item.output ? textBlock(item.output, 'Result') : null,
    error ? el('span', { class: 'muted small', text: 'Error' }) : null, error ? textBlock(error, 'Error') : null));
}

/** The words of a call's error, in any of its forms. @param {any} error @returns {string} */
export function errorText(error) {
  if (!error) return '';
  if (typeof error === 'string') return error;
  if (error.message) return String(error.message);
  const content = Array.isArray(error.content) ? error.content.map((/** @type {any} */ part) => part?.text ?? '').join('\n') : '';
  return content || JSON.stringify(error);
}

/**
 * @param {string} kind
 * @param {string} title
 * @param {any} item
 * @param {...(Node | null)} content
 */
function block(kind, title, item, ...content) {
  const state = item.status && item.status !== 'completed' ? statusWords(item.status === 'calling' ? 'in_progress' : item.status) : null;
  return el('section', { class: `item item-${kind}` },
    el('div', { class: 'item-head' }, title, state ? el('span', { class: `state ${state.tone}` }, icon(state.icon), state.word) : null),
    ...content);
}

/**
 * @param {string} title
 * @param {any} item
 * @param {string} text
 */
function folded(title, item, text) {
  return block('other', '', { ...item, status: null }, el('details', null, el('summary', { text: title }), textBlock(text, title)));
}
