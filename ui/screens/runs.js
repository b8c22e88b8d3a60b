// The list of runs: one request a page, the state and the cost of each at a glance.

import { renderError } from '../errors.js';
import { reveal } from '../json-text.js';
import { announce, el, icon, replace, stateMark } from '../lib/dom.js';
import { ago, cost, counted, duration, exact, tokens } from '../lib/format.js';
import { addShortcuts } from '../lib/keys.js';
import { STATUSES, limitWords, statusWords } from '../run/words.js';

export const title = 'Runs';

const PAGE = 25;

/** @type {Page.Screen['mount']} */
export function mount(root, { api, navigate, route }) {
  const stopper = { current: new AbortController() };
  const list = el('div', { 'aria-live': 'off' });
  const pager = el('nav', { class: 'row', 'aria-label': 'Pages' });
  let query = route.query;
  const filters = createFilters((changed) => navigate(`#/runs${queryText({ ...changed, after: '' })}`), () => void load());
  replace(root, el('div', { class: 'row spread' }, el('h1', { text: 'Runs' }), filters.root), list, pager);

  async function load() {
    stopper.current.abort();
    const { signal } = (stopper.current = new AbortController());
    filters.show(query);
    list.setAttribute('aria-busy', 'true');
    try {
      const page = await api.get('v1/responses', { view: 'summary', limit: PAGE, status: query.get('status'), model: query.get('model'), after: query.get('after') }, { signal });
      renderList(list, page.data, query);
      renderPager(pager, page, query);
      announce(counted(page.data.length, 'run'));
    } catch (error) {
      if (signal.aborted) return;
      replace(list, el('h2', { class: 'visually-hidden', text: 'Error' }), renderError(error, { onRetry: () => void load() }));
      replace(pager);
    } finally {
      list.removeAttribute('aria-busy');
    }
  }

  const rows = () => /** @type {HTMLElement[]} */ ([...list.querySelectorAll('tbody a.run')]);
  const move = (by = 0) => {
    const all = rows();
    const at = all.findIndex((row) => row === document.activeElement);
    all[Math.max(0, Math.min(all.length - 1, at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by))]?.focus();
  };
  const end = addShortcuts([
    { key: 'j', help: 'Next run; Enter opens it', run: () => move(1) },
    { key: 'k', help: 'Run before', run: () => move(-1) },
    { key: 'r', help: 'Load the list again', run: () => void load() },
    { key: 'n', help: 'Next page', run: () => /** @type {HTMLElement | null} */ (pager.querySelector('[rel=next]'))?.click() },
  ]);
  void load();
  return {
    update(next) {
      query = next.query;
      void load();
    },
    unmount() {
      stopper.current.abort();
      end();
    },
  };
}

/** @type {Of.runs_screen['queryText']} */
function queryText(of) {
  const set = new URLSearchParams(Object.entries(of).filter(([, value]) => value));
  return set.size > 0 ? `?${set}` : '';
}

/** @type {Of.runs_screen['createFilters']} */
function createFilters(onChange, onReload) {
  const told = () => onChange({ status: status.value, model: model.value.trim() });
  const status = el('select', { id: 'filter-status', on: { change: told } }, el('option', { value: '', text: 'Any' }), STATUSES.map((one) => el('option', { value: one, text: statusWords(one).word })));
  const model = el('input', { id: 'filter-model', type: 'text', size: 18, autocomplete: 'off', spellcheck: 'false', placeholder: 'any', on: { change: told } });
  return {
    root: el('div', { class: 'row filters' },
      el('label', { for: 'filter-status', text: 'Status' }), status, el('label', { for: 'filter-model', text: 'Model' }), model,
      el('button', { text: 'Reload', on: { click: onReload } })),
    show(/** @type {URLSearchParams} */ query) {
      status.value = query.get('status') ?? '';
      model.value = query.get('model') ?? '';
    },
  };
}

/** @type {Of.runs_screen['renderList']} */
function renderList(root, runs, query) {
  if (runs.length === 0) {
    const filtered = query.get('status') || query.get('model') || query.get('after');
    replace(root, el('div', { class: 'card empty' }, filtered ? el('p', null, 'No run fits. ', el('a', { href: '#/runs', text: 'Show all' })) : el('p', null, 'No runs yet. ', el('a', { href: '#/try', text: 'Try one' }), '; only responses that are stored are listed.')));
    return;
  }
  const heads = ['State', 'Run', 'Model', 'Steps', 'Tokens', 'Cost', 'Time', 'Begun'];
  replace(root, el('div', { class: 'card flush' },
    el('table', { class: 'runs', role: 'table' },
      el('thead', { role: 'rowgroup' }, el('tr', { role: 'row' }, heads.map((head, index) => el('th', { scope: 'col', role: 'columnheader', class: index > 2 ? 'number' : '', text: head })))),
      el('tbody', { role: 'rowgroup' }, runs.map(rowOf)))));
}

/** @type {Of.runs_screen['rowOf']} */
function rowOf(run) {
  const state = statusWords(run.status);
  const why = run.error?.code ?? (run.incomplete_details ? run.incomplete_details.reason : null);
  const usage = run.usage;
  const cached = usage?.input_tokens_details?.cached_tokens;
  const cell = (name = '', /** @type {any[]} */ ...content) => el('td', { role: 'cell', class: name }, ...content);
  const link = el('a', { class: 'run', href: `#/runs/${encodeURIComponent(run.id)}` }, el('code', { text: short(run.id) }));
  return el('tr', { role: 'row', on: { click: (event) => { if (!(/** @type {Element} */ (event.target).closest('a'))) link.click(); } } },
    cell('run-state', stateMark(state), why ? el('div', { class: 'small muted why', title: limitWords(why), text: why }) : null),
    cell('run-what', link, run.background ? el('span', { class: 'badge', text: 'background' }) : null, chainOf(run), el('div', { class: 'run-text', text: reveal(run.text ?? '') || '–' })),
    cell('run-model', run.model, run.agent ? el('div', { class: 'small muted', text: `agent ${run.agent}` }) : null),
    cell('number', run.turns === null ? '–' : counted(run.turns, 'turn'), run.calls ? el('div', { class: 'small muted', text: counted(run.calls, 'call') }) : null),
    cell('number', usage ? `${tokens(usage.input_tokens)} → ${tokens(usage.output_tokens)}` : '–', cached ? el('div', { class: 'small muted', text: `${tokens(cached)} cached` }) : null),
    cell('number', cost(run.cost_usd)),
    cell('number', run.duration_ms === null || run.duration_ms === undefined ? '–' : duration(run.duration_ms)),
    cell('number', el('span', { title: exact(run.created_at * 1000), text: ago(run.created_at * 1000) })));
}

/** @type {Of.runs_screen['chainOf']} */
function chainOf(run) {
  if (run.conversation) return el('span', { class: 'chain-of small muted', title: 'The conversation it belongs to' }, icon('chain'), short(run.conversation.id));
  if (!run.previous_response_id) return null;
  return el('a', { class: 'chain-of small', href: `#/runs/${encodeURIComponent(run.previous_response_id)}`, title: 'The response before it' }, icon('chain'), `after ${short(run.previous_response_id)}`);
}

/** @type {Of.runs_screen['short']} */
const short = (id) => (id.length > 22 ? `${id.slice(0, 9)}…${id.slice(-8)}` : id);

/** @type {Of.runs_screen['renderPager']} */
function renderPager(root, page, query) {
  const of = { status: query.get('status') ?? '', model: query.get('model') ?? '' };
  replace(root,
    query.get('after') ? el('a', { class: 'button', href: `#/runs${queryText(of)}`, text: 'Newest' }) : null,
    page.has_more ? el('a', { class: 'button', rel: 'next', href: `#/runs${queryText({ ...of, after: page.last_id })}`, text: 'Older' }) : null);
}
