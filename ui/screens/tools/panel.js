// One tool: what it says of itself, a form for its arguments, and what it answered.

import { explain, FAULTS, renderError } from '../../errors.js';
import { reveal, shown } from '../../json-text.js';
import { announce } from '../../lib/announce.js';
import { el, replace } from '../../lib/dom.js';
import { counted, duration } from '../../lib/format.js';
import { effects } from '../../next-step.js';
import { schemaForm } from '../../schema-form.js';
import { button, copyButton, pre, state } from '../parts.js';

/** @typedef {Record<string, any>} Json */

/**
 * @param {Json} tool
 * @param {string} server its label, or '' for the gateway
 * @param {{api: import('../../lib/api.js').Api, navigate: (hash: string) => void}} context
 */
export function toolPanel(tool, server, { api, navigate }) {
  const form = schemaForm(tool.parameters, { name: `Arguments of ${tool.name}` });
  const fresh = el('input', { type: 'checkbox' });
  const result = el('div', { class: 'stack' });
  const go = button('Run', () => void run(), 'primary');
  let running = false;
  async function run() {
    const { text, faults } = form.readForm();
    if (faults.length > 0 || running) return;
    running = true;
    go.setAttribute('aria-disabled', 'true');
    replace(result, el('p', { class: 'state busy', text: 'Running …' }));
    const begun = performance.now();
    try {
      // As text: numbers arrive digit for digit as they were typed.
      const body = { arguments: text, ...(fresh.checked && { cache: 'bypass' }) };
      const answer = await api.post(address(tool.name, server), body);
      replace(result, resultView(answer, performance.now() - begun));
      announce(answer.is_error ? 'The tool failed.' : 'The tool has answered.');
    } catch (error) {
      replace(result, renderError(error, { title: 'Not run', onRetry: run }));
    }
    running = false;
    go.removeAttribute('aria-disabled');
  }
  const inTry = () => navigate(`#/try?${new URLSearchParams({ tool: tool.name, ...(server && { server }) })}`);
  return el('article', { class: 'card stack', 'aria-label': tool.name, on: { keydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void run(); } } },
    el('h2', { tabindex: -1 }, el('code', { text: reveal(tool.name) })),
    el('p', { class: 'message', text: reveal(tool.description || 'The tool has no description.') }),
    facts(tool),
    form.root,
    el('div', { class: 'row' }, go, el('label', { class: 'check' }, fresh, 'Without the cache'), button('Use in Try', inTry, 'quiet')),
    result,
    el('details', null, el('summary', { text: 'Definition' }), pre('Definition', shown(tool))));
}

/** @param {string} name @param {string} server */
function address(name, server) {
  return `v1/tools/${encodeURIComponent(name)}/execute${server ? `?server_label=${encodeURIComponent(server)}` : ''}`;
}

/** @param {Json} tool */
function facts(tool) {
  const badges = [...(Array.isArray(tool.tags) ? tool.tags : []), tool.async && 'may go on after its call', tool.requires_auth && 'needs credentials', tool.version && `version ${tool.version}`].filter(Boolean);
  return el('p', { class: 'row small' }, el('span', { class: 'muted', text: `${effects(tool.annotations)[0]} Run by ${reveal(String(tool.executor))}.` }), badges.map((text) => el('span', { class: 'badge', text: reveal(String(text)) })));
}

/** @param {Json} answer a `tool.result` @param {number} waited */
function resultView(answer, waited) {
  const meta = answer.meta ?? {};
  const notes = [meta.cached && 'from the cache', meta.attempts > 1 && counted(meta.attempts, 'attempt'), meta.fallback_from && `instead of ${meta.fallback_from}, which failed`, meta.skipped && 'skipped'].filter(Boolean);
  const { fault, next } = explain({ code: answer.code });
  return el('section', { class: 'stack result', 'aria-label': 'Result' },
    el('div', { class: 'row' }, answer.is_error ? state('bad', 'failed') : state('ok', 'answered'), el('span', { class: 'muted', text: [`in ${duration(meta.duration_ms ?? waited)}`, ...notes].join(', ') }), answer.code ? el('code', { text: answer.code }) : null),
    meta.truncated ? el('p', { class: 'notice warn', text: 'Shortened: the result was longer than tools.results.max_bytes. A model could read the rest with read_tool_output.' }) : null,
    answer.is_error && fault !== 'tool' ? el('p', { class: 'notice bad', text: `${FAULTS[fault]}: ${next}` }) : null,
    el('div', { class: 'row spread' }, el('h3', { text: answer.is_error ? 'Error, as the model reads it' : 'Output, as the model reads it' }), copyButton(() => String(answer.output))),
    answer.output === '' ? el('p', { class: 'muted', text: 'An empty text.' }) : pre('Output', shown(answer.output)),
    answer.for_user ? el('div', { class: 'stack' }, el('h3', { text: 'For the user' }), pre('For the user', shown(answer.for_user))) : null,
    answer.citations?.length > 0 ? el('div', { class: 'stack' }, el('h3', { text: 'Sources' }), el('ul', null, answer.citations.map((/** @type {Json} */ source) => el('li', { text: reveal(`${source.title}: ${source.url}`) })))) : null);
}
