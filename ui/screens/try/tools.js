// The tools of the request: those that it has, with their policy, and what can be added.

import { parseJson, shown } from '../../json-text.js';
import { el, replace } from '../../lib/dom.js';
import { describeTool, setAt } from '../../request.js';
import { asObject } from '../../schema-fields.js';
import { button, field } from '../parts.js';

/** @typedef {Record<string, any>} Json */
/** @typedef {import('./controls.js').Draft} Draft */
/** @typedef {{words: string, group: string, tool: Json}} Offer */

/** @type {[string | undefined, string][]} */
const APPROVAL = [[undefined, 'Approval: as the gateway decides'], ['always', 'Approval: always'], ['never', 'Approval: never']];

/**
 * @param {Draft} draft
 * @returns {{root: HTMLElement, offer: (offers: Offer[], note: string) => void}}
 */
export function toolsEditor(draft) {
  const rows = el('ul', { class: 'tool-rows' });
  const none = el('p', { class: 'muted', text: 'None: the model just answers.' });
  const add = adder(draft);
  const view = {
    refresh(/** @type {Json} */ body) {
      const tools = Array.isArray(body.tools) ? body.tools : [];
      none.hidden = tools.length > 0;
      replace(rows, tools.map((tool, i) => row(draft, tool, i)));
    },
  };
  draft.watch(view);
  return { root: el('fieldset', null, el('legend', { text: 'Tools' }), none, rows, add.root, serverForm(draft), functionForm(draft)), offer: add.offer };
}

/** @param {Draft} draft @param {(tools: Json[]) => Json[]} change */
function changeTools(draft, change) {
  const tools = change(Array.isArray(draft.body.tools) ? draft.body.tools : []);
  draft.set(setAt(draft.body, 'tools', tools.length > 0 ? tools : undefined));
}

/** @param {Draft} draft @param {Json} tool */
function addTool(draft, tool) {
  const had = Array.isArray(draft.body.tools) && draft.body.tools.some((one) => JSON.stringify(one) === JSON.stringify(tool));
  if (had) return;
  // Questions of MCP tools are shown here, where the request can wait for the answer.
  const asks = tool.type === 'mcp' && tool.server_label !== 'antwort' && draft.body.store !== false && asObject(draft.body.antwort).elicitation === undefined;
  if (asks) draft.body = setAt(draft.body, 'antwort.elicitation', ['form', 'url']);
  changeTools(draft, (tools) => [...tools, tool]);
}

/** @param {Draft} draft @param {unknown} tool @param {number} index */
function row(draft, tool, index) {
  const { title, kind } = describeTool(tool);
  const of = asObject(tool);
  const remove = el('button', { type: 'button', class: 'quiet small', 'aria-label': `Remove ${title}`, text: 'Remove', on: { click: () => changeTools(draft, (tools) => tools.filter((_, i) => i !== index)) } });
  return el('li', { class: 'row' }, el('code', { text: shown(title) }), el('span', { class: 'muted small grow', text: shown(kind) }), of.type === 'mcp' && of.server_label !== 'antwort' ? approval(draft, of, index, title) : null, remove);
}

/** @param {Draft} draft @param {Json} tool @param {number} index @param {string} title */
function approval(draft, tool, index, title) {
  const known = APPROVAL.findIndex(([value]) => value === (tool.require_approval ?? undefined));
  const select = el('select', { class: 'small', 'aria-label': `Approval of calls of ${title}`, on: { change: () => changeTools(draft, (tools) => tools.map((one, i) => (i === index ? setAt(one, 'require_approval', APPROVAL[Number(select.value)][0]) : one))) } },
    APPROVAL.map(([, words], i) => el('option', { value: i, text: words })), known < 0 ? el('option', { value: 'custom', disabled: true, text: 'Approval: as the JSON says' }) : null);
  select.value = known < 0 ? 'custom' : String(known);
  return select;
}

/** @param {Draft} draft */
function adder(draft) {
  /** @type {Offer[]} */
  let offered = [];
  const note = el('p', { class: 'hint' });
  const select = el('select', { class: 'grow' });
  const add = () => {
    const offer = offered[Number(select.value)];
    if (offer) addTool(draft, offer.tool);
  };
  const root = field('Add a tool', select);
  const line = el('div', { class: 'row' });
  select.replaceWith(line);
  replace(line, select, button('Add', add));
  root.append(note);
  return {
    root,
    /** @param {Offer[]} offers @param {string} why */
    offer(offers, why) {
      offered = offers;
      note.textContent = why;
      const groups = [...new Set(offers.map(({ group }) => group))];
      replace(select, groups.map((group) => el('optgroup', { label: group }, offers.map((offer, i) => (offer.group === group ? el('option', { value: i, text: offer.words }) : null)))));
      root.hidden = offers.length === 0 && why === '';
    },
  };
}

/** A server that the request brings. @param {Draft} draft */
function serverForm(draft) {
  const label = el('input', { type: 'text', autocomplete: 'off', pattern: '[A-Za-z0-9_-]{1,64}' });
  const url = el('input', { type: 'url', autocomplete: 'off', placeholder: 'https://mcp.example.com/mcp' });
  const token = el('input', { type: 'text', class: 'secret', autocomplete: 'off', spellcheck: 'false' });
  const only = el('input', { type: 'text', autocomplete: 'off', placeholder: 'search, read' });
  const fault = el('p', { class: 'fault', role: 'alert' });
  const add = () => {
    const wrong = !/^[\w-]{1,64}$/u.test(label.value) ? 'The label has 1 to 64 letters, digits, _ or -.' : url.value !== '' && !URL.canParse(url.value) ? 'The address is no URL.' : '';
    fault.textContent = wrong;
    if (wrong) return;
    const names = only.value.split(',').map((name) => name.trim()).filter(Boolean);
    addTool(draft, { type: 'mcp', server_label: label.value, ...(url.value && { server_url: url.value }), ...(token.value && { authorization: token.value }), ...(names.length > 0 && { allowed_tools: names }) });
    for (const input of [label, url, token, only]) input.value = '';
  };
  return el('details', null, el('summary', { text: 'Add an MCP server' }), el('div', { class: 'stack inset' },
    field('Label', label), field('Address', url, 'Left empty for a server of the configuration.'), field('Token', token, 'Sent to the server with each call; it appears in the JSON.'), field('Only these tools', only, 'Names, with commas; empty for all.'),
    el('div', { class: 'row' }, button('Add the server', add), fault)));
}

/** A function that the client runs. @param {Draft} draft */
function functionForm(draft) {
  const name = el('input', { type: 'text', autocomplete: 'off', placeholder: 'thermometer' });
  const description = el('input', { type: 'text', autocomplete: 'off' });
  const parameters = el('textarea', { class: 'code', rows: 5, spellcheck: 'false', value: '{\n  "type": "object",\n  "properties": {\n    "room": { "type": "string" }\n  }\n}' });
  const fault = el('p', { class: 'fault', role: 'alert' });
  const add = () => {
    const { value, error } = parseJson(parameters.value);
    fault.textContent = name.value === '' ? 'The function needs a name.' : (error ?? '');
    if (fault.textContent) return;
    addTool(draft, { type: 'function', name: name.value, ...(description.value && { description: description.value }), parameters: value });
    [name.value, description.value] = ['', ''];
  };
  return el('details', null, el('summary', { text: 'Add a function of the client' }), el('div', { class: 'stack inset' },
    el('p', { class: 'hint', text: 'The model may call it; the response then asks for its output, here on this page.' }),
    field('Name', name), field('Description', description), field('Parameters, a JSON Schema', parameters),
    el('div', { class: 'row' }, button('Add the function', add), fault)));
}
