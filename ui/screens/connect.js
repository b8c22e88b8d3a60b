// Connect: is the gateway ready, what may this key do, what is the model server like, and how is a client set up.

import { renderError } from '../errors.js';
import { asObject } from '../forms.js';
import { parseJson, reveal } from '../json-text.js';
import { gateway } from '../lib/api.js';
import { el, replace } from '../lib/dom.js';
import { counted } from '../lib/format.js';
import { recipes } from '../request.js';
import { button, codeBlock, copyButton, facts, field, fill, state } from './parts.js';

export const title = 'Connect';

/** @type {Page.Screen['mount']} */
export function mount(root, { api, store }) {
  const section = (/** @type {string} */ name, /** @type {HTMLElement[]} */ ...content) => el('section', { class: 'card stack', 'aria-label': name }, el('h2', { text: name }), ...content);
  const ready = el('div', { class: 'stack' });
  const readiness = () => fill(ready, askReadiness, (health) => readyView(health, readiness), (error) => renderError(error, { onRetry: readiness }));
  replace(root, el('h1', { text: title }), el('div', { class: 'connect' },
    el('div', { class: 'stack' }, section('Readiness', ready), section('API key', ...keyForm(api, store)), section('What doctor found', ...doctor())),
    el('div', { class: 'stack' }, section('Clients', ...clients(api)), section('The API', reference(api)))));
  void readiness();
  return {};
}

/** An answer of 503 has a body, too, that says what is missing. @returns {Promise<Json>} */
async function askReadiness() {
  const reply = await fetch(new URL('readyz?verbose', gateway()), { credentials: 'omit', cache: 'no-store' });
  if (reply.status !== 200 && reply.status !== 503) throw Object.assign(new Error(`The server answered ${reply.status}.`), { status: reply.status });
  return reply.json();
}

/** @type {ConnectScreen['readyView']} */
function readyView({ status, checks, providers }, again) {
  const look = (/** @type {any} */ value) => state(value === 'ok' ? 'ok' : value === 'draining' ? 'warn' : 'bad', reveal(String(value)));
  const rows = Object.entries(providers ?? {}).map(([name, value]) => /** @type {[string, any]} */ ([`Provider ${name}`, look(value)]));
  return [el('div', { class: 'row spread' }, status === 'ok' ? state('ok', 'ready') : look(status), button('Look again', again, 'quiet small')), facts([['Store', look(checks?.store)], ...rows])];
}

/** What is asked to see what a key may do: nothing is changed by it. */
const PROBES = [['v1/models', 'models:read'], ['v1/responses?limit=1', 'responses:read'], ['v1/tools', 'tools:read'], ['v1/agents', 'agents:read'], ['v1/mcp/servers', 'mcp:admin']];

/** @type {ConnectScreen['keyForm']} */
function keyForm(api, store) {
  const input = el('input', { type: 'text', class: 'secret', autocomplete: 'off', spellcheck: 'false', on: { keydown: (event) => event.key === 'Enter' && use(input.value) } });
  const answers = el('div');
  // The screen is made anew with another key.
  const use = (/** @type {string} */ key) => {
    api.setKey(key);
    store.set('denied', null);
    store.set('key', store.get('key') + 1);
  };
  const probe = () => fill(answers, () => Promise.all(PROBES.map(([path]) => api.get(path).then(() => state('ok', 'allowed'), ({ status, message }) => state('bad', status === 401 ? 'a key is needed' : status === 403 ? 'refused' : message)))),
    (verdicts) => [facts(verdicts.map((verdict, i) => [PROBES[i][1], verdict])), el('p', { class: 'hint', text: 'Scopes that create, run or delete something are not tried.' })], renderError);
  return [api.hasKey() ? state('ok', 'a key is used') : state('off', 'no key is used'),
    field('API key', input, 'Kept in the memory of this page, sent to this gateway only, and forgotten when the page is closed or reloaded.'),
    el('div', { class: 'row' }, button('Use this key', () => use(input.value), 'primary'), api.hasKey() ? button('Forget it', () => use('')) : null, button('What may it do?', probe)), answers];
}

/** @type {Record<string, Look>} */
const LOOKS = { yes: 'ok', works: 'ok', no: 'bad', does_not_work: 'bad', ignored: 'warn', unstable: 'warn', works_with_gaps: 'warn' };
/** The last report, while the page is open. @type {Json | null} */
let report = null;

/** What `antwort doctor --json` found about a model server: a file that is read in the page, and sent nowhere. */
function doctor() {
  const place = el('div', { class: 'stack' }, report ? reportView(report) : null);
  const fault = el('p', { class: 'fault', role: 'alert' });
  const file = el('input', { type: 'file', accept: '.json', class: 'visually-hidden', tabindex: -1, 'aria-label': 'Report of doctor', on: { change: () => void read() } });
  async function read() {
    const { value, error } = parseJson(await file.files?.[0]?.slice(0, 4_000_000).text() ?? '');
    const fits = value?.object === 'doctor.report' && Array.isArray(value.findings);
    fault.textContent = error ?? (fits ? '' : 'This is no report of antwort doctor --json.');
    if (fits) replace(place, ...reportView((report = value)));
    file.value = '';
  }
  return [el('p', { class: 'hint', text: 'antwort doctor asks a model server what it can do, and what it only pretends to. Run it where the server can be reached:' }),
    codeBlock('Command', 'antwort doctor http://127.0.0.1:11434/v1 --json > doctor.json'),
    el('div', { class: 'row' }, button('Open a report', () => file.click()), el('span', { class: 'hint', text: 'Read in this page, and sent nowhere.' })), file, fault, place];
}

/** @param {Json} report */
function reportView({ verdict, findings, config, tokens, ...about }) {
  const text = (/** @type {unknown} */ value) => reveal(typeof value === 'string' ? value : (JSON.stringify(value) ?? '')).slice(0, 20_000);
  const look = (/** @type {any} */ value) => state(LOOKS[value] ?? 'off', text(value).replaceAll('_', ' '));
  return [
    facts([['Verdict', look(verdict)], ...['url', 'model', 'preset', 'at'].filter((name) => about[name]).map((name) => /** @type {[string, any]} */ ([name, text(about[name])])), ['tokens', `${text(tokens?.input)} in, ${text(tokens?.output)} out`]]),
    el('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'Findings' }, el('table', null,
      el('thead', null, el('tr', null, ['Question', 'Answer', 'Evidence'].map((name) => el('th', { scope: 'col', text: name })))),
      el('tbody', null, findings.slice(0, 500).map(asObject).map((/** @type {Json} */ one) => el('tr', null, el('th', { scope: 'row', text: text(one.question ?? one.id) }), el('td', null, look(one.answer)), el('td', { class: 'small', text: text(one.evidence) })))))),
    ...(config ? [el('h3', { text: 'Configuration' }), codeBlock('Configuration', text(config))] : []),
  ];
}

/** Recipes with this gateway's address and a model. @param {Page.Api} api */
function clients(api) {
  const base = new URL('v1', gateway()).href;
  const place = el('div', { class: 'stack' });
  const model = el('input', { type: 'text', value: 'my-model', autocomplete: 'off', spellcheck: 'false', on: { input: draw } });
  const choice = el('select', { on: { change: draw } }, recipes(base, '').map(({ name }, i) => el('option', { value: i, text: name })));
  function draw() {
    const { note, text, name } = recipes(base, model.value)[Number(choice.value)];
    replace(place, note ? el('p', { class: 'hint', text: note }) : null, codeBlock(name, text));
  }
  draw();
  void api.get('v1/models').then(({ data }) => {
    if (model.value === 'my-model' && data.length > 0) model.value = String(data[0].id);
    draw();
  }, () => undefined);
  return [el('div', { class: 'row' }, el('code', { class: 'address', text: base }), copyButton(() => base)), el('div', { class: 'pairs' }, field('Model', model), field('Client', choice)), place];
}

/** The API, as the gateway describes it: operations by their tag. It is fetched when it is asked for. @param {Page.Api} api */
function reference(api) {
  const links = ['json', 'yaml'].map((type) => el('a', { href: `../openapi.${type}`, text: `openapi.${type}` }));
  const place = el('div', { class: 'stack' }, el('div', { class: 'row' }, button('Show the operations', () => void load()), links));
  const load = () => fill(place, () => api.get('openapi.json'), operations, (error) => renderError(error, { onRetry: load }));
  return place;
}

/** @param {Json} document */
function operations(document) {
  /** @type {Map<string, HTMLElement[]>} */
  const byTag = new Map();
  for (const [path, item] of Object.entries(asObject(document.paths))) {
    for (const [method, of] of Object.entries(asObject(item)).filter(([name]) => name !== 'parameters')) {
      const tag = String(of.tags?.[0] ?? 'other');
      byTag.set(tag, [...(byTag.get(tag) ?? []), operation(method, path, of, item.parameters ?? [])]);
    }
  }
  const about = new Map((document.tags ?? []).map((/** @type {Json} */ tag) => [tag.name, tag.description]));
  return [...byTag].map(([tag, all]) => el('details', null, el('summary', null, el('strong', { text: tag }), el('span', { class: 'muted', text: ` ${about.get(tag) ?? ''} ${counted(all.length, 'operation')}` })), all));
}

/** @type {ConnectScreen['operation']} */
function operation(method, path, of, shared) {
  const last = (/** @type {any} */ reference) => String(reference ?? '').split('/').at(-1);
  const schema = (/** @type {any} */ part) => Object.values(asObject(part?.content)).map((media) => last(media.schema?.$ref)).join(' ');
  const parameters = [...shared, ...(of.parameters ?? [])].map((one) => one.name ?? last(one.$ref)).join(', ');
  const answers = Object.entries(asObject(of.responses)).map(([status, answer]) => `${status} ${schema(answer)}`).join(', ');
  return el('details', { class: 'inset' },
    el('summary', null, el('span', { class: 'method', text: method.toUpperCase() }), el('code', { text: path }), el('span', { class: 'muted', text: ` ${of.summary ?? ''}` })),
    el('div', { class: 'stack inset' }, prose(of.description), facts([['parameters', parameters || '–'], ['body', schema(of.requestBody) || '–'], ['answers', answers]])));
}

/** Words between backticks are code. @param {unknown} text */
const prose = (text) => el('div', { class: 'message' }, String(text ?? '').trim().replace(/([^\n])\n(?!\n|[-*])/gu, '$1 ').split('`').map((part, i) => (i % 2 ? el('code', { text: part }) : part)));
