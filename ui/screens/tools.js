// Tools: what the gateway and its MCP servers offer, how the servers do, and a form to run each tool without a model.

import { explain, FAULTS, renderError } from '../errors.js';
import { schemaForm } from '../forms.js';
import { reveal, shown } from '../json-text.js';
import { announce, el, replace } from '../lib/dom.js';
import { counted, duration } from '../lib/format.js';
import { effects } from '../next-step.js';
import { button, copyButton, facts, fill, pre, state } from './parts.js';

export const title = 'Tools';

/** @type {Page.Screen['mount']} */
export function mount(root, { api, navigate, route }) {
  const [servers, catalogue] = [el('div', { class: 'stack' }), el('div', { class: 'stack' })];
  const panel = el('div', null, el('div', { class: 'empty' }, el('h2', { text: 'Choose a tool' }), el('p', { class: 'muted', text: 'Its form appears here, and runs it without a model.' })));
  // The label of an MCP server, or '' for the gateway's own tools.
  let source = route.query.get('server') ?? '';
  const press = (/** @type {HTMLElement} */ list, /** @type {string} */ name) => {
    for (const each of list.querySelectorAll('button[value]')) each.setAttribute('aria-pressed', String(/** @type {HTMLButtonElement} */ (each).value === name));
  };
  /** A row of a list to choose from. @param {string} value @param {(value: string) => void} choose @param {...any} inside */
  const entry = (value, choose, ...inside) => el('button', { class: 'entry', value, on: { click: () => choose(value) } }, ...inside);
  const about = (/** @type {unknown} */ text) => el('span', { class: 'muted small clamp', text: reveal(String(text || 'no description')) });
  const open = (/** @type {string} */ label) => {
    source = label;
    press(servers, label);
    void loadTools();
    catalogue.parentElement?.scrollIntoView({ block: 'nearest' });
  };
  function loadTools() {
    return fill(catalogue, () => api.get('v1/tools', { server_label: source }), ({ data }) => {
      const choose = (/** @type {string} */ name) => {
        press(catalogue, name);
        replace(panel, toolPanel(data.find((/** @type {Json} */ tool) => tool.name === name), source, { api, navigate }));
        panel.scrollIntoView({ block: 'nearest' });
        panel.querySelector('h2')?.focus();
      };
      const rows = data.map((/** @type {Json} */ tool) => el('li', null, entry(tool.name, choose, el('code', { text: reveal(tool.name) }), about(tool.description))));
      const filter = el('input', { type: 'search', 'aria-label': 'Find a tool', placeholder: 'Find a tool', on: { input: () => rows.forEach((/** @type {HTMLElement} */ row) => (row.hidden = !row.textContent?.toLowerCase().includes(filter.value.toLowerCase()))) } });
      return [rows.length > 9 ? filter : null, el('p', { class: 'muted small', text: rows.length > 0 ? counted(rows.length, 'tool') : 'None that this key may use.' }), el('ul', { class: 'tool-list' }, rows)];
    }, (error) => renderError(error, { onRetry: loadTools }));
  }
  const own = () => entry('', open, el('strong', { text: 'The gateway’s own' }), about('built in, or of the configuration'));
  /** @returns {Promise<void>} */
  const loadServers = () => fill(servers, () => api.get('v1/mcp/servers'), ({ data }) => {
    const all = /** @type {Json[]} */ (data);
    const labels = [...new Set(all.map((one) => one.server_label))].filter((label) => label !== null);
    return [own(), el('div', { class: 'row spread' }, el('h2', { text: 'MCP servers' }), button('Look again', loadServers, 'quiet small')),
      ...labels.map((label) => serverCard(all.filter((one) => one.server_label === label), (first, look) => entry(label, open, el('span', { class: 'row spread' }, el('strong', { text: label }), look), about(first.description)))),
      labels.length === 0 ? el('p', { class: 'muted', text: 'None is configured.' }) : null];
  }, (error) => [own(), ...withoutHealth(error, open, loadServers)]).then(() => press(servers, source));

  replace(root, el('h1', { text: title }), el('div', { class: 'tools-screen' },
    el('section', { 'aria-label': 'Servers' }, servers), el('section', { class: 'card', 'aria-label': 'Catalogue' }, catalogue), el('section', { 'aria-label': 'Tool' }, panel)));
  void loadServers();
  void loadTools();
  return {};
}

/** A server can be named where its health may not be seen. @type {ToolsScreen['withoutHealth']} */
function withoutHealth(error, open, again) {
  if (error.status !== 403) return [error.status === 401 ? el('p', { class: 'notice', text: 'The gateway asks for a key.' }) : renderError(error, { onRetry: again })];
  const label = el('input', { type: 'text', autocomplete: 'off', 'aria-label': 'Label of an MCP server', placeholder: 'label' });
  return [el('p', { class: 'notice', text: 'This key has not the scope mcp:admin, so MCP servers are not shown. The tools of one can still be listed by its label, with the scope tools:read.' }),
    el('div', { class: 'row' }, label, button('Show its tools', () => label.value && open(label.value)))];
}

/** @type {Record<string, [Look, string]>} */
const HEALTH = { connected: ['ok', 'connected'], idle: ['off', 'idle'], unused: ['off', 'not used yet'], failing: ['bad', 'failing'] };

/** @type {ToolsScreen['serverCard']} */
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

/** @type {ToolsScreen['toolPanel']} */
function toolPanel(tool, server, { api, navigate }) {
  const form = schemaForm(tool.parameters, { name: `Arguments of ${tool.name}` });
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
      replace(result, renderError(error, { title: 'Not run', onRetry: run }));
    }
    go.setAttribute('aria-disabled', 'false');
  }
  return el('article', { class: 'card stack', 'aria-label': tool.name },
    el('h2', { tabindex: -1 }, el('code', { text: reveal(tool.name) })),
    el('p', { class: 'message', text: reveal(tool.description || 'The tool has no description.') }),
    el('p', { class: 'muted small', text: `${effects(tool.annotations)[0]} Run by ${reveal(String(tool.executor))}.${tool.async ? ' Its work may go on after its call.' : ''}` }),
    form.root,
    el('div', { class: 'row' }, go, el('label', { class: 'check' }, fresh, 'Without the cache'), button('Use in Try', () => navigate(`#/try?${new URLSearchParams({ tool: tool.name, server })}`), 'quiet')),
    result, el('details', null, el('summary', { text: 'Definition' }), pre('Definition', shown(tool))));
}

/** @param {Json} answer a `tool.result` */
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
