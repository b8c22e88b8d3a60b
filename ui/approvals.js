// Cards for calls that a person has to approve. They show exactly what will be called; nothing can be edited, and nothing is
// approved for later.

import { approvalItem, definitionIn, mayNeedToken } from './continuation.js';
import { indented, shown } from './json-text.js';
import { el, replace } from './lib/dom.js';
import { icon } from './lib/icons.js';

/** @typedef {Record<string, any>} Json */
/** @typedef {import('./lib/api.js').Api} Api */
/** What a card has to say: the item to send, or what is missing. @typedef {{item: Json | null, token?: [string, string]}} Decision */
/** @typedef {{root: HTMLElement, read: () => Decision}} Card */

let ids = 0;

/**
 * @param {Json} request the `mcp_approval_request`
 * @param {Json} response that it is an item of
 * @param {{api: Api, hasRequest: boolean, onChange: () => void}} options
 * @returns {Card}
 */
export function approvalCard(request, response, { api, hasRequest, onChange }) {
  const id = `approval-${(ids += 1)}`;
  const [label, name] = [String(request.server_label ?? ''), String(request.name ?? '')];
  /** @type {boolean | null} */
  let decided = null;
  const reason = el('input', { type: 'text', id: `${id}-reason`, maxlength: 2000, autocomplete: 'off', on: { input: onChange } });
  const why = el('div', { class: 'field', hidden: true }, el('label', { for: `${id}-reason`, text: 'Reason, which the model reads (optional)' }), reason);
  const radio = (/** @type {boolean} */ approve, /** @type {string} */ text) =>
    el('label', { class: 'check' }, el('input', { type: 'radio', name: id, on: {
      change: () => { decided = approve; why.hidden = approve; onChange(); },
    } }), text);
  const token = !hasRequest && mayNeedToken(response, label) ? tokenField(id, label) : null;
  const root = el('section', { class: 'card approval', 'aria-label': `Approval: ${name} of ${label}` },
    el('h2', { class: 'row card-head' }, el('span', { class: 'state warn' }, icon('waits'), 'Approval needed')),
    el('dl', { class: 'facts' },
      el('dt', { text: 'Server' }), el('dd', null, el('strong', { text: shown(label) }), serverAddress(response, label)),
      el('dt', { text: 'Tool' }), el('dd', null, el('code', { text: shown(name) })),
      el('dt', { text: 'Asked' }), el('dd', { text: asked(response) })),
    el('div', { class: 'field' }, el('span', { class: 'caption', text: 'Arguments, as they will be sent' }), argumentsView(request.arguments)),
    definitionView(response, label, name, api),
    token?.root ?? null,
    el('fieldset', { class: 'decision' }, el('legend', { class: 'visually-hidden', text: `Decision on ${name}` }), radio(true, 'Approve this call'), radio(false, 'Deny'), why));
  return {
    root,
    read: () => ({
      item: decided === null ? null : approvalItem(request.id, { approve: decided, reason: reason.value }),
      token: token && token.input.value ? [label, token.input.value] : undefined,
    }),
  };
}

/** Arguments as JSON; never an empty box. @param {unknown} text */
export function argumentsView(text) {
  const json = typeof text === 'string' ? text : JSON.stringify(text ?? {});
  if (/^\s*(\{\s*\})?\s*$/u.test(json)) return el('p', { class: 'muted', text: 'None: it is called without arguments.' });
  return el('pre', { tabindex: 0, 'aria-label': 'Arguments', text: indented(json) });
}

/** @param {Json} response @param {string} label */
function serverAddress(response, label) {
  const tools = Array.isArray(response.tools) ? response.tools : [];
  const url = tools.find((tool) => tool?.type === 'mcp' && tool.server_label === label)?.server_url;
  return el('span', { class: 'muted', text: url ? ` at ${shown(String(url))}` : ' (configured by the operator)' });
}

/** @param {Json} response */
function asked(response) {
  const at = Number(response.completed_at ?? response.created_at);
  const when = Number.isFinite(at) && at > 0 ? new Date(at * 1000).toLocaleString('en-GB') : 'with this response';
  return `${when}. It can be answered for a day, unless the operator has set another time.`;
}

/** @param {string} id @param {string} label */
function tokenField(id, label) {
  const input = el('input', { type: 'text', class: 'secret', id: `${id}-token`, autocomplete: 'off', spellcheck: 'false' });
  const hint = el('p', { class: 'hint', id: `${id}-hint`, text: 'The one that the first request had. An approval holds for the same credentials only.' });
  input.setAttribute('aria-describedby', `${id}-hint`);
  return { input, root: el('div', { class: 'field' }, el('label', { for: `${id}-token`, text: `Token for ${label}, if it needs one` }), hint, input) };
}

/**
 * What the server says of its tool.
 * @param {Json} response
 * @param {string} label
 * @param {string} name
 * @param {Api} api
 */
function definitionView(response, label, name, api) {
  const inside = el('div', { class: 'stack' });
  const [effect, head] = [el('p', { class: 'effect' }), el('p', { class: 'says' })];
  const view = el('details', null, el('summary', { text: 'Definition of the tool' }), inside);
  const draw = (/** @type {Json} */ tool) => {
    head.textContent = tool.description ? `The server says: ${shown(String(tool.description))}` : 'The server does not describe it.';
    effect.textContent = effects(tool.annotations);
    effect.classList.toggle('alarm', isDestructive(tool.annotations));
    replace(inside, el('pre', { tabindex: 0, 'aria-label': 'Schema of the arguments', text: shown(tool.input_schema ?? tool.parameters ?? {}) }));
  };
  const known = definitionIn(response, label, name);
  if (known) draw(known);
  else {
    head.textContent = 'Its definition is not part of this response.';
    view.addEventListener('toggle', () => void fetchDefinition(api, label, name, draw, (text) => replace(inside, el('p', { text }))), { once: true });
  }
  return el('div', { class: 'stack tight' }, head, effect, view);
}

/**
 * @param {Api} api
 * @param {string} label
 * @param {string} name
 * @param {(tool: Json) => void} draw
 * @param {(text: string) => void} say
 */
async function fetchDefinition(api, label, name, draw, say) {
  say('Asking the gateway …');
  try {
    const { data } = await api.get('v1/tools', { server_label: label });
    const tool = data.find((/** @type {Json} */ one) => one.name === name);
    if (tool) draw(tool);
    else say('The server does not list this tool now.');
  } catch (error) {
    say(`The gateway does not show it: ${error instanceof Error ? error.message : error}`);
  }
}

/** In the words of MCP or of the gateway. @param {Json | null | undefined} annotations */
export const isDestructive = (annotations) => (annotations?.readOnlyHint ?? annotations?.read_only) !== true && (annotations?.destructiveHint ?? annotations?.destructive) === true;

/** @param {Json | null | undefined} annotations */
export function effects(annotations) {
  if (isDestructive(annotations)) return 'Declared as destructive: it may change or delete things.';
  const readOnly = annotations?.readOnlyHint ?? annotations?.read_only;
  if (readOnly === true) return 'Declared as read-only.';
  return readOnly === false ? 'Declared as changing things, but not as destructive.' : 'What it may change is not declared.';
}
