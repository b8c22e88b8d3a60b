// Connect: is the gateway ready, what may this key do, what is the model server like, and how is a client set up.

import { renderError } from '../errors.js';
import { reveal } from '../json-text.js';
import { gateway } from '../lib/api.js';
import { el, replace } from '../lib/dom.js';
import { recipes } from '../recipes.js';
import { apiReference } from './connect/api-reference.js';
import { doctorReport } from './connect/doctor.js';
import { keySection } from './connect/key.js';
import { codeBlock, copyButton, field, fill, state } from './parts.js';

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
    el('div', { class: 'row spread' }, overall, el('button', { type: 'button', class: 'quiet small', text: 'Look again', on: { click: again } })),
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

