// Connect: is the gateway ready, what may this key do, what is the model server like, and how is a client set up.

import { renderError } from '../errors.js';
import { reveal } from '../json-text.js';
import { gateway } from '../lib/api.js';
import { el, replace } from '../lib/dom.js';
import { recipes } from '../snippets.js';
import { apiReference } from './connect/api-reference.js';
import { doctorReport } from './connect/doctor.js';
import { button, codeBlock, copyButton, field, fill, state } from './parts.js';

/** @typedef {Record<string, any>} Json */
/** @typedef {import('../lib/api.js').Api} Api */

export const title = 'Connect';

/** @type {import('../app.js').Screen['mount']} */
export function mount(root, { api, store }) {
  const ready = el('div', { class: 'stack' });
  const readiness = () => fill(ready, askReadiness, (health) => readyView(health, readiness), (error) => renderError(error, { onRetry: readiness }));
  replace(root, el('h1', { text: title }), el('div', { class: 'connect' },
    el('div', { class: 'stack' },
      section('Readiness', ready), section('API key', keySection(api, store)), section('What doctor found', doctorReport())),
    el('div', { class: 'stack' }, section('Clients', clients(api)), section('The API', apiReference(api)))));
  void readiness();
  return {};
}

/** @param {string} name @param {...HTMLElement} content */
function section(name, ...content) {
  return el('section', { class: 'card stack', 'aria-label': name }, el('h2', { text: name }), ...content);
}

/** Also an answer of 503 has a body that says what is missing. @returns {Promise<Json>} */
async function askReadiness() {
  const reply = await fetch(new URL('readyz?verbose', gateway()), { credentials: 'omit', cache: 'no-store' }).catch(() => {
    throw new Error('The gateway does not answer.');
  });
  if (reply.status !== 200 && reply.status !== 503) throw Object.assign(new Error(`The server answered ${reply.status}.`), { status: reply.status });
  return reply.json();
}

/** @type {Record<string, string>} */
const STORE = { full: 'no room for responses', replaced: 'the database was removed or replaced beneath the process', locked: 'another server has it', migrating: 'it is brought to the schema of this version', unavailable: 'cannot be reached' };

/** @param {Json} health @param {() => void} again */
function readyView(health, again) {
  const look = (/** @type {unknown} */ value) => state(value === 'ok' ? 'ok' : 'bad', reveal(String(value === 'ok' ? 'ok' : (STORE[String(value)] ?? value))));
  const overall = { ok: state('ok', 'ready'), draining: state('warn', 'stopping: it takes nothing more'), unavailable: state('bad', 'not ready') }[String(health.status)] ?? state('warn', String(health.status));
  /** @type {[string, unknown][]} */
  const checks = [['Store', health.checks?.store], ...Object.entries(health.providers ?? {}).map(([name, value]) => /** @type {[string, unknown]} */ ([`Provider ${name}`, value]))];
  return [
    el('div', { class: 'row spread' }, overall, button('Look again', again, 'quiet small')),
    el('dl', { class: 'facts' }, checks.filter(([, value]) => value !== undefined).flatMap(([name, value]) => [el('dt', { text: reveal(name) }), el('dd', null, look(value))])),
  ];
}

/** Recipes with this gateway's address and a model. @param {Api} api */
function clients(api) {
  const base = new URL('v1', gateway()).href;
  const place = el('div', { class: 'stack' });
  const model = el('input', { type: 'text', value: 'my-model', list: 'known-models', autocomplete: 'off', spellcheck: 'false', on: { input: () => draw() } });
  const known = el('datalist', { id: 'known-models' });
  let shown = 0;
  function draw() {
    const all = recipes(base, model.value || 'my-model');
    const choice = el('select', { on: { change: () => { shown = Number(choice.value); draw(); choiceFocus(); } } }, all.map(({ name }, i) => el('option', { value: i, text: name })));
    choice.value = String(shown);
    const { note, text, name } = all[shown];
    replace(place, field('Client', choice), note ? el('p', { class: 'hint', text: note }) : null, codeBlock(text, name));
  }
  const choiceFocus = () => place.querySelector('select')?.focus();
  const address = el('div', { class: 'row' }, el('code', { class: 'address', text: base }), copyButton(() => base, 'Copy the address'));
  draw();
  void api.get('v1/models').then(({ data }) => {
    replace(known, data.map((/** @type {Json} */ one) => el('option', { value: String(one.id) })));
    if (model.value !== 'my-model' || data.length === 0) return;
    model.value = String(data[0].id);
    draw();
  }, () => undefined);
  return el('div', { class: 'stack' }, address, el('div', { class: 'pair' }, field('Model', model)), known, place);
}

/** What is asked, and what it shows. @type {[string, string, string][]} */
const PROBES = [
  ['v1/models', 'models:read', 'list models'],
  ['v1/responses?limit=1', 'responses:read', 'read runs'],
  ['v1/tools', 'tools:read', 'list tools'],
  ['v1/agents', 'agents:read', 'list agents'],
  ['v1/mcp/servers', 'mcp:admin', 'see the health of MCP servers'],
];

/**
 * @param {import('../lib/api.js').Api} api
 * @param {import('../lib/store.js').Store} store
 */
function keySection(api, store) {
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
  const check = button('What may it do?', () => void probe(api, answers));
  const now = api.hasKey() ? state('ok', 'a key is used') : state('off', 'no key is used');
  return el('div', { class: 'stack' }, now,
    field('API key', input, 'Kept in the memory of this page, sent to this gateway only, and forgotten when the page is closed or reloaded.'),
    el('div', { class: 'row' }, button('Use this key', use, 'primary'), api.hasKey() ? button('Forget it', forget) : null, check),
    answers);
}

/** @param {import('../lib/api.js').Api} api @param {HTMLElement} place */
async function probe(api, place) {
  replace(place, el('p', { class: 'muted', text: 'Asking …' }));
  const rows = await Promise.all(PROBES.map(async ([path, scope, words]) => {
    const [address, search] = path.split('?');
    const error = await api.get(address, Object.fromEntries(new URLSearchParams(search))).then(() => null, (/** @type {any} */ failed) => failed);
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
