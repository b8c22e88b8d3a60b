// The API key, and what it may do: asked with requests that change nothing, and only when the button is pressed.

import { el, replace } from '../../lib/dom.js';
import { field, state } from '../parts.js';

/** What is asked, and what it shows. @type {[string, string, string][]} */
const PROBES = [
  ['v1/models', 'models:read', 'list models'],
  ['v1/responses?limit=1', 'responses:read', 'read runs'],
  ['v1/tools', 'tools:read', 'list tools'],
  ['v1/agents', 'agents:read', 'list agents'],
  ['v1/mcp/servers', 'mcp:admin', 'see the health of MCP servers'],
];

/**
 * @param {import('../../lib/api.js').Api} api
 * @param {import('../../lib/store.js').Store} store
 */
export function keySection(api, store) {
  const input = el('input', { type: 'text', class: 'secret', autocomplete: 'off', spellcheck: 'false', on: { keydown: (event) => { if (event.key === 'Enter') use(); } } });
  const answers = el('div');
  // The screen is made anew with another key.
  const use = () => {
    api.setKey(input.value);
    store.set('denied', null);
    store.set('key', store.get('key') + 1);
  };
  const forget = () => {
    input.value = '';
    use();
  };
  const check = el('button', { type: 'button', text: 'What may it do?', on: { click: () => void probe(api, answers) } });
  const now = api.hasKey() ? state('ok', 'a key is used') : state('off', 'no key is used');
  return el('div', { class: 'stack' }, now,
    field('API key', input, 'Kept in the memory of this page, sent to this gateway only, and forgotten when the page is closed or reloaded.'),
    el('div', { class: 'row' }, el('button', { type: 'button', class: 'primary', text: 'Use this key', on: { click: use } }), api.hasKey() ? el('button', { type: 'button', text: 'Forget it', on: { click: forget } }) : null, check),
    answers);
}

/** @param {import('../../lib/api.js').Api} api @param {HTMLElement} place */
async function probe(api, place) {
  replace(place, el('p', { class: 'muted', text: 'Asking …' }));
  const rows = await Promise.all(PROBES.map(async ([path, scope, words]) => {
    const [address, search] = path.split('?');
    const error = await api.get(address, Object.fromEntries(new URLSearchParams(search))).then(() => null, (failed) => failed);
    return el('tr', null, el('th', { scope: 'row', text: words }), el('td', null, el('code', { text: scope })), el('td', null, verdict(error)));
  }));
  replace(place,
    el('div', { class: 'scroll' }, el('table', null, el('caption', { class: 'visually-hidden', text: 'What this key may do' }), el('thead', null, el('tr', null, ['To', 'Scope', 'Answer'].map((text) => el('th', { scope: 'col', text })))), el('tbody', null, rows))),
    el('p', { class: 'hint', text: 'Scopes that create or delete something are not tried: responses:create, responses:delete, tools:execute, tools:admin, data:admin.' }));
}

/** @param {any} error */
function verdict(error) {
  if (error === null) return state('ok', 'allowed');
  if (error.status === 401) return state('bad', 'a valid key is needed');
  if (error.status === 403) return state('bad', 'refused');
  return state('warn', error.message);
}
