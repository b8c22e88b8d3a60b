// What a response waits for, in one place: calls that a person has to approve, and calls that the client has to run. All are
// answered together, by one button. Cards show exactly what will be called; nothing is edited, and nothing is approved for later.

import { renderError } from './errors.js';
import { indented, parseJson, shown } from './json-text.js';
import { announce } from './lib/announce.js';
import { el, replace } from './lib/dom.js';
import { counted } from './lib/format.js';
import { icon } from './lib/icons.js';
import { approvalItem, continuation, definitionIn, mayNeedToken, obstacle, openApprovals, openCalls, outputItem } from './request.js';

/** @typedef {Record<string, any>} Json */
/** @typedef {import('./lib/api.js').Api} Api */
/** A card; `read` gives the item to send, or none, and what is missing is marked. @typedef {{root: HTMLElement, read: () => Json | null, token?: () => [string, string]}} Card */

/** How long what has just come does not take clicks. */
const INERT_MS = 1000;
let ids = 0;

/**
 * The cards of a response, or null if it waits for nobody.
 * @param {Json} response that has ended
 * @param {(body: Json) => void | Promise<unknown>} onContinue sends the request that goes on; what it throws is shown
 * @param {{api: Api, request?: Json | null}} options the request that the response is of, if it is known
 * @returns {HTMLElement | null}
 */
export function renderNextStep(response, onContinue, { api, request }) {
  const [approvals, calls] = [openApprovals(response), openCalls(response)];
  const count = approvals.length + calls.length;
  const blocked = count > 0 && obstacle(response, request);
  if (count === 0 || blocked) return blocked ? el('p', { class: 'notice warn', text: `${counted(count, 'answer')} missing. ${blocked}` }) : null;
  const root = el('section', { class: 'next-step stack', 'aria-label': 'What the response waits for' });
  const ready = inert(root, () => update());
  const decisions = approvals.map((item) => approvalCard(item, response, { api, hasRequest: Boolean(request), onChange: () => update() }));
  const cards = [...decisions, ...calls.map(callCard)];
  const button = el('button', { type: 'button', class: 'primary', on: { click: () => void send() } });
  const failure = el('div');
  let sending = false;

  function update() {
    const made = decisions.map((card) => card.read());
    button.setAttribute('aria-disabled', String(!ready() || sending || made.includes(null)));
    button.textContent = buttonText(made, calls.length);
  }
  async function send() {
    if (button.getAttribute('aria-disabled') === 'true') return;
    const items = cards.map((card) => card.read());
    if (items.includes(null)) return;
    const tokens = decisions.flatMap((card) => (card.token ? [card.token()] : []));
    sending = true;
    update();
    replace(failure);
    try {
      await onContinue(continuation(response, /** @type {Json[]} */ (items), { request, credentials: new Map(tokens) }));
      announce('Sent.');
    } catch (error) {
      replace(failure, renderError(error));
    }
    sending = false;
    update();
  }
  replace(root, ...cards.map((card) => card.root), el('div', { class: 'row' }, button), failure);
  update();
  announce(`The response waits for ${counted(count, 'answer')}.`);
  return root;
}

/** @param {(Json | null)[]} decisions @param {number} calls */
function buttonText(decisions, calls) {
  const [yes, no] = [true, false].map((wanted) => decisions.filter((item) => item?.approve === wanted).length);
  if (yes + no < decisions.length) return `Approve or deny ${decisions.length > 1 ? `all ${decisions.length}` : 'it'} first`;
  return `Send: ${[yes > 0 && `${yes} approved`, no > 0 && `${no} denied`, calls > 0 && counted(calls, 'output')].filter(Boolean).join(', ')}`;
}

/**
 * Whether what was drawn may be sent: not before it has been seen for a second, so that it does not take a click that was meant
 * for what was there before.
 * @param {HTMLElement} root
 * @param {() => void} onReady
 * @returns {() => boolean}
 */
export function inert(root, onReady) {
  let ready = false;
  const observer = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    setTimeout(() => {
      ready = true;
      onReady();
    }, INERT_MS);
  });
  observer.observe(root);
  return () => ready;
}

/** @param {string} what @param {string} name */
export const cardHead = (what, name) => el('h2', { class: 'row card-head' }, el('span', { class: 'state warn' }, icon('waits'), what), el('code', { text: shown(name) }));

/** Radio buttons in a row. @param {string} legend @param {[string, string][]} options value and words @param {(value: string) => void} choose @param {string} [chosen] */
function choices(legend, options, choose, chosen) {
  const name = `choice-${(ids += 1)}`;
  return el('fieldset', { class: 'decision' }, el('legend', { class: 'visually-hidden', text: legend }), options.map(([value, words]) =>
    el('label', { class: 'check' }, el('input', { type: 'radio', name, checked: value === chosen, on: { change: () => choose(value) } }), words)));
}

/**
 * @param {Json} request the `mcp_approval_request`
 * @param {Json} response that it is an item of
 * @param {{api: Api, hasRequest: boolean, onChange: () => void}} options
 * @returns {Card}
 */
function approvalCard(request, response, { api, hasRequest, onChange }) {
  const id = `approval-${(ids += 1)}`;
  const [label, name] = [String(request.server_label ?? ''), String(request.name ?? '')];
  let decided = '';
  const reason = el('input', { type: 'text', id: `${id}-reason`, maxlength: 2000, autocomplete: 'off' });
  const why = el('div', { class: 'field', hidden: true }, el('label', { for: reason.id, text: 'Reason, which the model reads (optional)' }), reason);
  const decide = choices(`Decision on ${name}`, [['yes', 'Approve this call'], ['no', 'Deny']], (value) => {
    decided = value;
    why.hidden = value === 'yes';
    onChange();
  });
  const token = el('input', { type: 'text', class: 'secret', id: `${id}-token`, autocomplete: 'off', spellcheck: 'false' });
  const needsToken = !hasRequest && mayNeedToken(response, label);
  const address = response.tools?.find?.((/** @type {any} */ tool) => tool?.server_label === label)?.server_url;
  const at = new Date((response.completed_at ?? response.created_at) * 1000).toLocaleString('en-GB');
  const root = el('section', { class: 'card approval', 'aria-label': `Approval: ${name} of ${label}` },
    cardHead('Approval needed', name),
    el('dl', { class: 'facts' },
      el('dt', { text: 'Server' }), el('dd', null, el('strong', { text: shown(label) }), el('span', { class: 'muted', text: address ? ` at ${shown(String(address))}` : ' (configured by the operator)' })),
      el('dt', { text: 'Asked' }), el('dd', { text: `${at}. It can be answered for a day, unless the operator has set another time.` })),
    el('div', { class: 'field' }, el('span', { class: 'caption', text: 'Arguments, as they will be sent' }), argumentsView(request.arguments)),
    definitionView(response, label, name, api),
    needsToken ? el('div', { class: 'field' }, el('label', { for: token.id, text: `Token for ${label}, if it needs one: the same as in the first request` }), token) : null,
    decide, why);
  return {
    root,
    read: () => (decided === '' ? null : approvalItem(request.id, { approve: decided === 'yes', reason: reason.value })),
    token: needsToken ? () => [label, token.value] : undefined,
  };
}

/** Arguments as JSON; never an empty box. @param {unknown} text */
function argumentsView(text) {
  const json = typeof text === 'string' ? text : JSON.stringify(text ?? {});
  if (/^\s*(\{\s*\})?\s*$/u.test(json)) return el('p', { class: 'muted', text: 'None: it is called without arguments.' });
  return el('pre', { tabindex: 0, role: 'group', 'aria-label': 'Arguments', text: indented(json) });
}

/** What the server says of its tool. @param {Json} response @param {string} label @param {string} name @param {Api} api */
function definitionView(response, label, name, api) {
  const inside = el('div');
  const [effect, says] = [el('p'), el('p', { class: 'message' })];
  const view = el('details', null, el('summary', { text: 'Definition of the tool' }), inside);
  const draw = (/** @type {Json} */ tool) => {
    says.textContent = tool.description ? `The server says: ${shown(String(tool.description))}` : 'The server does not describe it.';
    [effect.textContent, effect.className] = effects(tool.annotations);
    replace(inside, el('pre', { tabindex: 0, role: 'group', 'aria-label': 'Schema of the arguments', text: shown(tool.input_schema ?? tool.parameters ?? {}) }));
  };
  async function ask() {
    try {
      const { data } = await api.get('v1/tools', { server_label: label });
      const tool = data.find((/** @type {Json} */ one) => one.name === name);
      if (!tool) throw new Error('The server does not list this tool now.');
      draw(tool);
    } catch (error) {
      inside.textContent = `It cannot be shown: ${/** @type {Error} */ (error).message}`;
    }
  }
  const known = definitionIn(response, label, name);
  if (known) draw(known);
  else {
    says.textContent = 'Its definition is not part of this response.';
    view.addEventListener('toggle', () => void ask(), { once: true });
  }
  return el('div', { class: 'stack tight' }, says, effect, view);
}

/** What a tool may do, in words, and how that looks. @param {any} annotations of MCP or of the gateway @returns {[string, string]} */
export function effects(annotations) {
  const readOnly = annotations?.readOnlyHint ?? annotations?.read_only;
  const destructive = annotations?.destructiveHint ?? annotations?.destructive;
  if (readOnly === true) return ['Declared as read-only.', ''];
  if (destructive === true) return ['Declared as destructive: it may change or delete things.', 'alarm'];
  return [readOnly === false ? 'Declared as changing things, but not as destructive.' : 'What it may change is not declared.', ''];
}

/** What was answered to a function before: the next call of it begins with that. @type {Map<string, string>} */
const before = new Map();

/**
 * The outcome of a call that the client has to run; here a person plays the client.
 * @param {Json} call with `name`, `call_id`, and `arguments` or `input`
 * @returns {{root: HTMLElement, read: () => {output: string} | {error: string} | null}} `read` marks what is wrong, if it returns none
 */
export function outcomeForm(call) {
  const id = `call-${(ids += 1)}`;
  let kind = 'text';
  const fault = el('p', { class: 'fault', id: `${id}-fault`, role: 'alert' });
  const box = el('textarea', { id, class: 'code', rows: 4, spellcheck: 'false', 'aria-describedby': fault.id, value: before.get(call.name) ?? '' });
  const label = el('label', { for: id, text: 'What the function returned' });
  /** @param {string} wrong */
  function complain(wrong) {
    fault.textContent = wrong;
    box.setAttribute('aria-invalid', String(wrong !== ''));
    if (wrong) box.focus();
  }
  const kinds = choices(`Outcome of ${call.name}`, [['text', 'Output'], ['json', 'Output as JSON'], ['error', 'Error']], (value) => {
    kind = value;
    label.textContent = value === 'error' ? 'Why it failed, for the model' : 'What the function returned';
    complain('');
  }, kind);
  const root = el('section', { class: 'card call', 'aria-label': `Call of ${call.name}` },
    cardHead('The client runs', call.namespace ? `${call.namespace}.${call.name}` : String(call.name)),
    el('div', { class: 'field' }, el('span', { class: 'caption', text: 'Arguments' }), argumentsView(call.arguments ?? call.input)),
    kinds, el('div', { class: 'field' }, label, box, fault));
  return {
    root,
    read() {
      const wrong = kind === 'json' ? parseJson(box.value).error : kind === 'error' && box.value.trim() === '' ? 'Say what went wrong.' : null;
      complain(wrong ?? '');
      if (wrong !== null) return null;
      if (kind === 'error') return { error: box.value };
      before.set(call.name, box.value);
      return { output: box.value };
    },
  };
}

/** The same, as an item of the next request. @param {Json} call @returns {Card} */
function callCard(call) {
  const { root, read } = outcomeForm(call);
  return {
    root,
    read() {
      const answer = read();
      return answer && outputItem(call, answer);
    },
  };
}
