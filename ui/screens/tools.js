// Tools: what the gateway and its MCP servers offer, how the servers do, and a form to run each tool without a model.

import { renderError } from '../errors.js';
import { reveal } from '../json-text.js';
import { el, replace } from '../lib/dom.js';
import { counted, duration } from '../lib/format.js';
import { button, fill, state } from './parts.js';
import { toolPanel } from './tools/panel.js';

/** @typedef {Record<string, any>} Json */
/** @typedef {import('../lib/api.js').Api} Api */

export const title = 'Tools';

/** The gateway's own tools are of this source. */
const OWN = '';

/** @type {import('../app.js').Screen['mount']} */
export function mount(root, { api, navigate, route }) {
  const servers = el('div', { class: 'stack' });
  const catalogue = el('div', { class: 'stack' });
  const panel = el('div', { class: 'tool-place' }, el('div', { class: 'empty' }, el('h2', { text: 'Choose a tool' }), el('p', { class: 'muted', text: 'Its form appears here, and runs it without a model.' })));
  let source = route.query.get('server') ?? OWN;
  const filter = el('input', { type: 'search', 'aria-label': 'Find a tool by name or description', placeholder: 'Find a tool', on: { input: () => draw() } });
  /** @type {Json[]} */
  let tools = [];

  /** @param {string} label of a server, or the gateway's own */
  function open(label) {
    source = label;
    markSource();
    void loadTools();
    catalogue.parentElement?.scrollIntoView({ block: 'nearest' });
  }
  function markSource() {
    for (const button of servers.querySelectorAll('[data-server]')) button.setAttribute('aria-pressed', String(/** @type {HTMLElement} */ (button).dataset.server === source));
  }
  function loadTools() {
    tools = [];
    return fill(catalogue, () => api.get('v1/tools', { server_label: source }), ({ data }) => {
      tools = data;
      return list();
    }, (error) => renderError(error, { onRetry: loadTools }));
  }
  const draw = () => tools.length > 0 && replace(catalogue, ...list());
  /** @param {Json} tool */
  function choose(tool) {
    for (const button of catalogue.querySelectorAll('.tool')) button.setAttribute('aria-pressed', String(/** @type {HTMLElement} */ (button).dataset.tool === tool.name));
    replace(panel, toolPanel(tool, source, { api, navigate }));
    panel.scrollIntoView({ block: 'nearest' });
    /** @type {HTMLElement | null} */ (panel.querySelector('h2'))?.focus();
  }
  function list() {
    const words = filter.value.trim().toLowerCase();
    const found = tools.filter((tool) => `${tool.name} ${tool.description}`.toLowerCase().includes(words));
    if (tools.length === 0) return [el('p', { class: 'muted', text: source === OWN ? 'The gateway has no tools of its own that this key may use.' : 'The server lists no tools that may be used.' })];
    return [el('p', { class: 'muted small', text: counted(found.length, 'tool') }), el('ul', { class: 'tool-list' }, found.map((tool) => el('li', null, toolButton(tool, choose))))];
  }

  replace(root, el('h1', { text: title }), el('div', { class: 'tools-screen' },
    el('section', { class: 'stack', 'aria-label': 'Servers' }, servers),
    el('section', { class: 'card stack', 'aria-label': 'Catalogue' }, filter, catalogue),
    el('section', { 'aria-label': 'Tool' }, panel)));
  /** @returns {Promise<void>} */
  const loadServers = () => fill(servers, () => api.get('v1/mcp/servers'), ({ data }) => serverCards(data, open, loadServers), (error) => [ownButton(open), el('h2', { text: 'MCP servers' }), ...withoutHealth(error, open, loadServers)]).then(markSource);
  void loadServers();
  void loadTools();
  return {};
}

/** @param {(label: string) => void} open */
function ownButton(open) {
  return el('button', { type: 'button', class: 'server', data: { server: OWN }, on: { click: () => open(OWN) } }, el('strong', { text: 'The gateway’s own' }), el('span', { class: 'muted small', text: 'built in, or of the configuration' }));
}

/**
 * Without the scope for the health of servers a server can be named.
 * @param {any} error
 * @param {(label: string) => void} open
 * @param {() => void} again
 */
function withoutHealth(error, open, again) {
  if (error.status !== 403 && error.status !== 401) return [renderError(error, { onRetry: again })];
  const label = el('input', { type: 'text', autocomplete: 'off', 'aria-label': 'Label of an MCP server', placeholder: 'label' });
  const show = () => label.value && open(label.value);
  const why = error.status === 401 ? 'The gateway asks for a key.' : 'This key has not the scope mcp:admin, so the health of the servers is not shown. A server’s tools can still be listed by its label, with the scope tools:read.';
  return [el('p', { class: 'notice', text: why }), el('div', { class: 'row' }, label, button('Show its tools', show))];
}

/** @param {Json[]} sessions @param {(label: string) => void} open @param {() => void} again */
function serverCards(sessions, open, again) {
  const labels = new Map(sessions.filter(({ server_label: label }) => label !== null).map((server) => [server.server_label, sessions.filter((one) => one.server_label === server.server_label)]));
  const brought = sessions.filter(({ server_label: label }) => label === null);
  return [
    ownButton(open),
    el('div', { class: 'row spread' }, el('h2', { text: 'MCP servers' }), button('Look again', again, 'quiet small')),
    labels.size === 0 ? el('p', { class: 'muted', text: 'None is configured.' }) : null,
    ...[...labels].map(([label, all]) => serverCard(label, all, open)),
    brought.length > 0 ? el('details', null, el('summary', { text: counted(brought.length, 'server of requests', 'servers of requests') }), ...brought.map((session) => el('div', { class: 'server-facts' }, sessionFacts(session)))) : null,
  ];
}

/** @param {string} label @param {Json[]} sessions @param {(label: string) => void} open */
function serverCard(label, sessions, open) {
  const worst = sessions.find(({ state: now }) => now === 'failing') ?? sessions.find(({ state: now }) => now === 'connected') ?? sessions[0];
  const head = el('button', { type: 'button', class: 'server', data: { server: label }, on: { click: () => open(label) } },
    el('span', { class: 'row spread' }, el('strong', { text: label }), health(worst.state)), worst.description ? el('span', { class: 'muted small', text: reveal(worst.description) }) : null);
  return el('div', { class: 'server-card' }, head,
    worst.last_error ? el('p', { class: 'fault small', text: reveal(worst.last_error) }) : null,
    el('details', { class: 'small' }, el('summary', { text: 'Details' }), ...sessions.map((session) => el('div', { class: 'server-facts' }, sessionFacts(session)))));
}

/** @param {string} now */
function health(now) {
  /** @type {Record<string, [import('./parts.js').Look, string]>} */
  const looks = { connected: ['ok', 'connected'], idle: ['off', 'idle'], unused: ['off', 'not used yet'], failing: ['bad', 'failing'] };
  const [look, word] = looks[now] ?? ['warn', now];
  return state(look, word);
}

/** @param {Json} session */
function sessionFacts(session) {
  const latency = session.mean_latency_ms === null ? '' : `, ${duration(session.mean_latency_ms)} each`;
  /** @type {[string, string][]} */
  const facts = [
    ['State', session.state], ['Address', session.endpoint], ['Tenant', session.tenant ?? 'nobody yet'],
    ['Speaks', [session.transport, session.protocol_version].filter(Boolean).join(', ') || 'not connected'], ['Program', session.server ?? 'not known'],
    ['Calls', `${counted(session.calls, 'call')}${latency}, ${session.errors} failed on their way, ${session.in_flight} under way`],
    ...session.left_out.map((/** @type {Json} */ tool) => /** @type {[string, string]} */ (['Left out', `${tool.name}: ${tool.reason}`])),
  ];
  return el('dl', { class: 'facts' }, facts.flatMap(([term, value]) => [el('dt', { text: term }), el('dd', { text: reveal(String(value)) })]));
}

/** @param {Json} tool @param {(tool: Json) => void} choose */
function toolButton(tool, choose) {
  return el('button', { type: 'button', class: 'tool', data: { tool: tool.name }, on: { click: () => choose(tool) } }, el('code', { text: reveal(tool.name) }), el('span', { class: 'muted small clamp', text: reveal(tool.description || 'no description') }));
}
