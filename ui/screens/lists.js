// The screens Runs, Tools and Connect.

import { asObject, schemaForm } from '../forms.js';
import { gateway, linkTo } from '../lib/api.js';
import { addShortcuts, ago, announce, button, codeBlock, copyButton, cost, counted, duration, el, exact, facts, field, fill, icon, keyField, own, parseJson, pre, replace, reveal, short, shown, state, stateMark, sync, tokens } from '../lib/dom.js';
import { effects, explain, FAULTS, renderError } from '../next-step.js';
import { isRunning, recipes } from '../protocol.js';
import { limitWords, STATUSES, statusWords } from '../run/account.js';

/** @type {Record<string, Page.Screen>} */
export const LISTS = {
  runs: { title: 'Runs', mount: mountRuns }, tools: { title: 'Tools', mount: mountTools }, connect: { title: 'Connect', mount: mountConnect },
};

const PAGE = 25;
// Milliseconds between two looks: while something happens, when nothing does, at most behind failures.
const [SOON, SELDOM, LATE] = [2000, 10_000, 60_000];

/** @type {Page.Screen['mount']} */
function mountRuns(root, { api, navigate, route, store }) {
  const ended = new AbortController();
  const stopper = { current: new AbortController() };
  const list = el('div', { 'aria-live': 'off' });
  const pager = el('nav', { class: 'row', 'aria-label': 'Pages' });
  const note = el('p', { class: 'hint' });
  const draw = createList(list);
  let query = route.query;
  let wait = SOON;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const filters = createFilters((changed) => navigate(`#/runs${queryText({ ...changed, after: '' })}`), () => void load());
  replace(root, el('div', { class: 'row spread' }, el('h1', { text: 'Runs' }), filters.root), note, list, pager);

  /** `again`: nobody asked for it, so what is shown stays if it cannot be loaded. */
  async function load(again = false) {
    clearTimeout(timer);
    stopper.current.abort();
    const { signal } = (stopper.current = new AbortController());
    if (!again) {
      filters.show(query);
      // A run leads back to what was shown.
      store.set('runs', `#/runs${query.size > 0 ? `?${query}` : ''}`);
      list.setAttribute('aria-busy', 'true');
    }
    try {
      const page = await api.get('v1/responses', { view: 'summary', limit: PAGE, status: query.get('status'), model: query.get('model'), after: query.get('after') }, { signal });
      if (signal.aborted) return;
      const [changed, runs] = [draw(page.data, query), page.data.some(isRunning)];
      if (!pager.contains(document.activeElement) || !again) renderPager(pager, page, query);
      if (!again) announce(counted(page.data.length, 'run'));
      note.textContent = '';
      wait = changed || runs ? SOON : Math.min(wait * 1.3, SELDOM);
      // Behind the first page nothing new appears.
      if (runs || !query.get('after')) follow();
    } catch (error) {
      if (signal.aborted) return;
      const { message, status, retryAfter } = /** @type {any} */ (error);
      if (again && status !== 401 && status !== 403) {
        note.textContent = `Not up to date: ${reveal(message)}`;
        wait = Math.min(Math.max(wait * 2, (retryAfter ?? 0) * 1000), LATE);
        return follow();
      }
      replace(list, el('h2', { class: 'visually-hidden', text: 'Error' }), renderError(error, { onRetry: () => void load() }));
      replace(pager);
    } finally {
      list.removeAttribute('aria-busy');
    }
  }
  /** Who does not look at it needs no news. */
  function follow() {
    timer = setTimeout(() => document.hidden || void load(true), wait);
  }
  document.addEventListener('visibilitychange', () => document.hidden || void load(true), { signal: ended.signal });

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
      ended.abort();
      clearTimeout(timer);
      stopper.current.abort();
      end();
    },
  };
}

/** @type {Of['queryText']} */
function queryText(of) {
  const set = new URLSearchParams(Object.entries(of).filter(([, value]) => value));
  return set.size > 0 ? `?${set}` : '';
}

/** @type {Of['createFilters']} */
function createFilters(onChange, onReload) {
  const told = () => onChange({ status: status.value, model: model.value.trim() });
  const status = el('select', { id: 'filter-status', on: { change: told } }, el('option', { value: '', text: 'Any' }), STATUSES.map((one) => el('option', { value: one, text: statusWords(one).word })));
  const model = el('input', { id: 'filter-model', type: 'text', size: 18, autocomplete: 'off', spellcheck: 'false', placeholder: 'any', on: { change: told } });
  return {
    root: el('div', { class: 'row filters' },
      el('label', { for: 'filter-status', text: 'Status' }), status, el('label', { for: 'filter-model', text: 'Model' }), model,
      button('Reload', onReload)),
    show(/** @type {URLSearchParams} */ query) {
      status.value = query.get('status') ?? '';
      model.value = query.get('model') ?? '';
    },
  };
}

/** @type {Of['createList']} */
function createList(root) {
  const heads = ['State', 'Run', 'Model', 'Steps', 'Tokens', 'Cost', 'Time', 'Begun'];
  const body = el('tbody', { role: 'rowgroup' });
  const table = el('div', { class: 'card flush' }, el('table', { class: 'runs', role: 'table' },
    el('thead', { role: 'rowgroup' }, el('tr', { role: 'row' }, heads.map((head, index) => el('th', { scope: 'col', role: 'columnheader', class: index > 2 ? 'number' : '', text: head })))), body));
  /** A run that has not changed keeps its row. @type {Map<string, HTMLElement>} */
  let before = new Map();
  return (runs, query) => {
    const filtered = query.get('status') || query.get('model') || query.get('after');
    const rows = new Map(runs.map((run) => {
      const continued = runs.some((one) => one.previous_response_id === run.id);
      const key = JSON.stringify([run, continued]);
      const row = before.get(key) ?? rowOf(run, continued);
      replace(/** @type {Element} */ (row.lastElementChild), el('span', { title: exact(run.created_at * 1000), text: ago(run.created_at * 1000) }));
      return [key, row];
    }));
    const changed = rows.size !== before.size || [...rows.keys()].some((key) => !before.has(key));
    before = rows;
    const focused = body.contains(document.activeElement) ? document.activeElement?.getAttribute('href') : null;
    sync(body, [...rows.values()]);
    if (runs.length === 0) root.querySelector('.empty :focus') || replace(root, el('div', { class: 'card empty' }, filtered ? el('p', null, 'No run fits. ', el('a', { href: '#/runs', text: 'Show all' })) : el('p', null, 'No runs yet. ', el('a', { href: '#/try', text: 'Try one' }), '; only responses that are stored are listed.')));
    else if (!table.isConnected) replace(root, table);
    if (focused && !body.contains(document.activeElement)) /** @type {HTMLElement | null} */ (body.querySelector(`a.run[href="${CSS.escape(focused)}"]`))?.focus();
    return changed;
  };
}

/** @type {Of['rowOf']} */
function rowOf(run, continued) {
  const asks = run.status === 'requires_action' || (run.status === 'completed' && run.open_approvals > 0);
  const state = statusWords(!asks ? run.status : continued ? 'answered' : run.open_approvals > 0 ? 'approval' : run.status);
  const steps = [run.calls && counted(run.calls, 'call'), run.failed_calls && `${run.failed_calls} failed`, run.retries && counted(run.retries, 'retry', 'retries')].filter(Boolean);
  const why = run.error?.code ?? (run.incomplete_details ? run.incomplete_details.reason : null);
  const usage = run.usage;
  const cached = usage?.input_tokens_details?.cached_tokens;
  const cell = (name = '', /** @type {any[]} */ ...content) => el('td', { role: 'cell', class: name }, ...content);
  const link = el('a', { class: 'run', href: linkTo(run.id) }, el('code', { text: short(run.id) }));
  return el('tr', { role: 'row', on: { click: (event) => { if (!(/** @type {Element} */ (event.target).closest('a'))) link.click(); } } },
    cell('run-state', stateMark(state), why ? el('div', { class: 'small muted why', title: limitWords(why), text: why }) : null),
    cell('run-what', link, run.background ? el('span', { class: 'badge', text: 'background' }) : null, chainOf(run), el('div', { class: 'run-text', text: reveal(run.text ?? '') || '–' })),
    cell('run-model', run.model, run.agent ? el('div', { class: 'small muted', text: `agent ${run.agent}` }) : null),
    cell('number', run.turns === null ? '–' : counted(run.turns, 'turn'), steps.map((text) => el('div', { class: `small ${text.endsWith('failed') ? 'lane-failed' : 'muted'}`, text }))),
    cell('number', usage ? `${tokens(usage.input_tokens)} → ${tokens(usage.output_tokens)}` : '–', cached ? el('div', { class: 'small muted', text: `${tokens(cached)} cached` }) : null),
    cell('number', cost(run.cost_usd)),
    cell('number', run.duration_ms === null || run.duration_ms === undefined ? '–' : duration(run.duration_ms)),
    cell('number'));
}

/** @type {Of['chainOf']} */
function chainOf(run) {
  if (run.conversation) return el('span', { class: 'chain-of small muted', title: 'The conversation it belongs to' }, icon('chain'), short(run.conversation.id));
  if (!run.previous_response_id) return null;
  return el('a', { class: 'chain-of small', href: linkTo(run.previous_response_id), title: 'The response before it' }, icon('chain'), `after ${short(run.previous_response_id)}`);
}

/** @type {Of['renderPager']} */
function renderPager(root, page, query) {
  const of = { status: query.get('status') ?? '', model: query.get('model') ?? '' };
  replace(root,
    query.get('after') ? el('a', { class: 'button', href: `#/runs${queryText(of)}`, text: 'Newest' }) : null,
    page.has_more ? el('a', { class: 'button', rel: 'next', href: `#/runs${queryText({ ...of, after: page.last_id })}`, text: 'Older' }) : null);
}

// --- Tools ---

/** @type {Page.Screen['mount']} */
function mountTools(root, { api, navigate, route }) {
  const [servers, catalogue] = [el('div', { class: 'stack' }), el('div', { class: 'stack' })];
  const panel = el('div');
  const clear = () => replace(panel, el('div', { class: 'empty' }, el('h2', { text: 'Choose a tool' }), el('p', { class: 'muted', text: 'Its form appears here, and runs it without a model.' })));
  // The label of an MCP server, or '' for the gateway's own tools.
  let source = route.query.get('server') ?? '';
  // The link of a call leads to the form of its tool, filled with its arguments.
  let wanted = route.query.get('tool');
  const press = (/** @type {HTMLElement} */ list, name = '') => {
    for (const each of list.querySelectorAll('button[value]')) each.setAttribute('aria-pressed', String(/** @type {HTMLButtonElement} */ (each).value === name));
  };
  /** @type {Of['entry']} */
  const entry = (value, choose, ...inside) => el('button', { class: 'entry', value, on: { click: () => choose(value) } }, ...inside);
  const about = (/** @type {unknown} */ text) => el('span', { class: 'muted small clamp', text: reveal(String(text || 'no description')) });
  const open = (label = '') => {
    if (label !== source) clear();
    source = label;
    press(servers, label);
    void loadTools().then(refresh);
    catalogue.parentElement?.scrollIntoView({ block: 'nearest' });
  };
  function loadTools() {
    return fill(catalogue, () => api.get('v1/tools', { server_label: source }), ({ data }) => {
      const choose = (name = '', /** @type {Json | undefined} */ value = undefined) => {
        press(catalogue, name);
        replace(panel, toolPanel(data.find((/** @type {Json} */ tool) => tool.name === name), source, { api, navigate, refresh, value }));
        panel.scrollIntoView({ block: 'nearest' });
        panel.querySelector('h2')?.focus();
      };
      const rows = data.map((/** @type {Json} */ tool) => el('li', null, entry(tool.name, choose, el('code', { text: reveal(tool.name) }), about(tool.description))));
      const filter = el('input', { type: 'search', 'aria-label': 'Find a tool', placeholder: 'Find a tool', on: { input: () => rows.forEach((/** @type {HTMLElement} */ row) => (row.hidden = !row.textContent?.toLowerCase().includes(filter.value.toLowerCase()))) } });
      const linked = wanted;
      wanted = null;
      // Once the rows are there.
      if (data.some((/** @type {Json} */ tool) => tool.name === linked)) setTimeout(() => choose(String(linked), parseJson(route.query.get('arguments') ?? '').value));
      return [rows.length > 9 ? filter : null, el('p', { class: 'muted small', text: rows.length > 0 ? counted(rows.length, 'tool') : 'None that this key may use.' }), el('ul', { class: 'tool-list' }, rows)];
    }, (error) => renderError(error, { onRetry: loadTools }));
  }
  const gateways = () => entry('', open, el('strong', { text: 'The gateway’s own' }), about('built in, or of the configuration'));
  let seen = false;
  /** @type {any} */
  let focused = null;
  /** What a server does changes its state. */
  const refresh = () => void (seen && loadServers());
  /** Asks each server for its tools, which tells how it is. */
  const check = (/** @type {string[]} */ labels) => Promise.allSettled(labels.map((label) => api.get('v1/tools', { server_label: label }))).then(loadServers);
  /** @returns {Promise<void>} */
  const loadServers = () => fill(servers, () => api.get('v1/mcp/servers'), ({ data }) => {
    const all = /** @type {Json[]} */ (data);
    [seen, focused] = [true, servers.contains(document.activeElement) ? document.activeElement : null];
    const labels = [...new Set(all.map((one) => one.server_label))].filter((label) => label !== null);
    return [gateways(), el('div', { class: 'row spread' }, el('h2', { text: 'MCP servers' }), button('Look again', () => check(labels), 'quiet small')),
      ...labels.map((label) => serverCard(all.filter((one) => one.server_label === label), (first, look) => entry(label, open, el('span', { class: 'row spread' }, el('strong', { text: label }), look), about(first.description)))),
      labels.length === 0 ? el('p', { class: 'muted', text: 'None is configured.' }) : null];
  }, (error) => [gateways(), ...withoutHealth(error, open, loadServers)]).then(() => {
    press(servers, source);
    // What had the focus was drawn anew.
    if (focused && !focused.isConnected) [...servers.querySelectorAll('button')].find((each) => each.value === focused.value && each.className === focused.className)?.focus();
  });

  replace(root, el('h1', { text: 'Tools' }), el('div', { class: 'tools-screen' },
    el('section', { 'aria-label': 'Servers' }, servers), el('section', { class: 'card', 'aria-label': 'Catalogue' }, catalogue), el('section', { 'aria-label': 'Tool' }, panel)));
  clear();
  void loadServers();
  void loadTools().then(refresh);
  return {};
}

/** @type {Of['withoutHealth']} */
function withoutHealth(error, open, again) {
  if (error.status !== 403) return [renderError(error, { onRetry: again })];
  const label = el('input', { type: 'text', autocomplete: 'off', on: { keydown: (event) => event.key === 'Enter' && show() } });
  const show = () => label.value.trim() && open(label.value.trim());
  return [el('p', { class: 'notice', text: 'Which MCP servers there are, and how they do, this key may not see: it lacks the scope mcp:admin, which the operator can add to it. The tools of one can still be listed by its label, with the scope tools:read.' }),
    field('Label of an MCP server', label), el('div', null, button('Show its tools', show))];
}

/** @type {Record<string, [Look, string]>} */
const HEALTH = { connected: ['ok', 'connected'], idle: ['off', 'idle'], unused: ['off', 'not checked yet'], failing: ['bad', 'failing'] };

/** @type {Of['serverCard']} */
function serverCard(sessions, head) {
  const worst = ['failing', 'connected'].map((wanted) => sessions.find((one) => one.state === wanted)).find(Boolean) ?? sessions[0];
  return el('div', { class: 'server-card' }, head(worst, state(...(HEALTH[worst.state] ?? ['warn', worst.state]))),
    worst.last_error ? el('p', { class: 'fault', text: reveal(worst.last_error) }) : null,
    el('details', { class: 'small' }, el('summary', { text: 'Details' }), ...sessions.map((one) => facts([
      ['Address', reveal(one.endpoint)], ['Tenant', one.tenant ?? 'nobody yet'], ['Speaks', reveal([one.server, one.transport, one.protocol_version].filter(Boolean).join(', ') || 'not connected')],
      ['Calls', `${one.calls}, ${one.errors} failed on their way${one.mean_latency_ms === null ? '' : `, ${duration(one.mean_latency_ms)} each`}`],
      ...one.left_out.map((/** @type {Json} */ tool) => ['Left out', reveal(`${tool.name}: ${tool.reason}`)]),
    ]))));
}

/** @type {Of['toolPanel']} */
function toolPanel(tool, server, { api, navigate, refresh, value }) {
  const form = schemaForm(tool.parameters, { name: `Arguments of ${tool.name}`, value });
  const inTry = `#/try?${new URLSearchParams({ tool: tool.name, server })}`;
  const fresh = el('input', { type: 'checkbox' });
  const result = el('div', { class: 'stack' });
  const go = button('Run', () => void run(), 'primary');
  async function run() {
    const { text, faults } = form.readForm();
    if (faults.length > 0 || go.getAttribute('aria-disabled') === 'true') return;
    go.setAttribute('aria-disabled', 'true');
    replace(result, state('busy', 'Running …'));
    try {
      // As text: numbers arrive digit for digit as they were typed.
      const address = `v1/tools/${encodeURIComponent(tool.name)}/execute${server ? `?server_label=${encodeURIComponent(server)}` : ''}`;
      const answer = await api.post(address, { arguments: text, ...(fresh.checked && { cache: 'bypass' }) });
      replace(result, ...resultView(answer));
      announce(answer.is_error ? 'The tool failed.' : 'The tool has answered.');
    } catch (error) {
      const asks = /** @type {any} */ (error).code === 'approval_required';
      replace(result, renderError(error, { title: 'Not run', onRetry: asks ? undefined : run }), asks ? el('a', { href: inTry, text: 'Use it in Try' }) : null);
    }
    go.setAttribute('aria-disabled', 'false');
    if (server) refresh();
  }
  return el('article', { class: 'card stack', 'aria-label': tool.name },
    el('h2', { tabindex: -1 }, el('code', { text: reveal(tool.name) })),
    el('p', { class: 'message', text: reveal(tool.description || 'The tool has no description.') }),
    el('p', { class: 'muted small', text: `${effects(tool.annotations)[0]} Run by ${reveal(String(tool.executor))}.${tool.async ? ' Its work may go on after its call.' : ''}` }),
    form.root,
    el('div', { class: 'row' }, go, el('label', { class: 'check' }, fresh, 'Without the cache'), button('Use in Try', () => navigate(inTry), 'quiet')),
    result, el('details', null, el('summary', { text: 'Definition' }), pre('Definition', shown(tool))));
}

/** @type {Of['resultView']} */
function resultView({ is_error: failed, code, meta, output, for_user: forUser }) {
  const notes = [`in ${duration(meta.duration_ms)}`, meta.cached && 'from the cache', meta.attempts > 1 && counted(meta.attempts, 'attempt'), meta.fallback_from && `instead of ${meta.fallback_from}, which failed`, code].filter(Boolean);
  const { fault, next } = explain({ code });
  return [
    el('div', { class: 'row result' }, failed ? state('bad', 'failed') : state('ok', 'answered'), el('span', { class: 'muted', text: notes.join(', ') })),
    meta.truncated ? el('p', { class: 'notice warn', text: 'Shortened: the result was longer than tools.results.max_bytes.' }) : null,
    failed && fault !== 'tool' ? el('p', { class: 'notice bad', text: `${FAULTS[fault]}: ${next}` }) : null,
    el('div', { class: 'row spread' }, el('h3', { text: 'As the model reads it' }), copyButton(() => String(output))), pre('Output', shown(output) || '(an empty text)'),
    ...(forUser ? [el('h3', { text: 'For the user' }), pre('For the user', shown(forUser))] : []),
  ];
}

// --- Connect ---

/** @type {Page.Screen['mount']} */
function mountConnect(root, { api, useKey }) {
  const section = (name = '', /** @type {HTMLElement[]} */ ...content) => el('section', { class: 'card stack', 'aria-label': name }, el('h2', { text: name }), ...content);
  const ready = el('div', { class: 'stack' });
  const readiness = () => fill(ready, askReadiness, (health) => readyView(health, readiness), (error) => renderError(error, { onRetry: readiness }));
  replace(root, el('h1', { text: 'Connect' }), el('div', { class: 'connect' },
    el('div', { class: 'stack' }, section('Readiness', ready), section('API key', ...keyForm(api, useKey)), section('What doctor found', ...doctor())),
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

/** @type {Of['readyView']} */
function readyView({ status, checks, providers }, again) {
  const look = (/** @type {any} */ value) => state(value === 'ok' ? 'ok' : value === 'draining' ? 'warn' : 'bad', reveal(String(value)));
  const rows = Object.entries(providers ?? {}).map(([name, value]) => /** @type {[string, any]} */ ([`Provider ${name}`, look(value)]));
  return [el('div', { class: 'row spread' }, status === 'ok' ? state('ok', 'ready') : look(status), button('Look again', again, 'quiet small')), facts([['Store', look(checks?.store)], ...rows])];
}

/** Nothing is changed by them. */
const PROBES = [['v1/models', 'models:read'], ['v1/responses?limit=1', 'responses:read'], ['v1/tools', 'tools:read'], ['v1/agents', 'agents:read'], ['v1/mcp/servers', 'mcp:admin']];

/** @type {Of['keyForm']} */
function keyForm(api, useKey) {
  const answers = el('div');
  const probe = () => fill(answers, () => Promise.all(PROBES.map(([path]) => api.get(path).then(() => state('ok', 'allowed'), ({ status, message }) => state('bad', status === 401 ? 'a key is needed' : status === 403 ? 'refused' : message)))),
    (verdicts) => [facts(verdicts.map((verdict, i) => [PROBES[i][1], verdict])), el('p', { class: 'hint', text: 'Scopes that create, run or delete something are not tried.' })], renderError);
  return [api.hasKey() ? state('ok', 'a key is used') : state('off', 'no key is used'), ...keyField(useKey),
    el('div', { class: 'row' }, api.hasKey() ? button('Forget it', () => useKey('')) : null, button('What may it do?', probe)), answers];
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

/** @type {Of['reportView']} */
function reportView({ verdict, findings, config, tokens, ...about }) {
  const text = (/** @type {unknown} */ value) => reveal(typeof value === 'string' ? value : (JSON.stringify(value) ?? '')).slice(0, 20_000);
  const look = (/** @type {any} */ value) => state(own(LOOKS, value, 'off'), text(value).replaceAll('_', ' '));
  return [
    facts([['Verdict', look(verdict)], ...['url', 'model', 'preset', 'at'].filter((name) => about[name]).map((name) => /** @type {[string, any]} */ ([name, text(about[name])])), ['tokens', `${text(tokens?.input)} in, ${text(tokens?.output)} out`]]),
    el('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'Findings' }, el('table', null,
      el('thead', null, el('tr', null, ['Question', 'Answer', 'Evidence'].map((name) => el('th', { scope: 'col', text: name })))),
      el('tbody', null, findings.slice(0, 500).map(asObject).map((/** @type {Json} */ one) => el('tr', null, el('th', { scope: 'row' }, prose(text(one.question ?? one.id))), el('td', null, look(one.answer)), el('td', { class: 'small', text: text(one.evidence) })))))),
    ...(config ? [el('h3', { text: 'Configuration' }), codeBlock('Configuration', text(config))] : []),
  ];
}

/** @type {Of['clients']} */
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

/** @type {Of['reference']} */
function reference(api) {
  const links = ['json', 'yaml'].map((type) => el('a', { href: `../openapi.${type}`, text: `openapi.${type}` }));
  const place = el('div', { class: 'stack' }, el('div', { class: 'row' }, button('Show the operations', () => void load()), links));
  const load = () => fill(place, () => api.get('openapi.json'), operations, (error) => renderError(error, { onRetry: load }));
  return place;
}

/** @type {Of['operations']} */
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

/** @type {Of['operation']} */
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
