// What a response waits for: calls that a person has to approve, calls that the client has to run, and questions of tools. Cards show
// exactly what will be called; nothing is edited, and nothing is approved for later.

import { clockText, countDown, renderError } from './errors.js';
import { schemaForm } from './forms.js';
import { indented, parseJson, reveal, shown } from './json-text.js';
import { announce, el, icon, replace } from './lib/dom.js';
import { counted } from './lib/format.js';
import { approvalItem, continuation, definitionIn, obstacle, openApprovals, openCalls, outputItem } from './request.js';

/** How long what has just come does not take clicks. */
const INERT_MS = 1000;
let ids = 0;

/** The cards of a response that has ended, or null if it waits for nobody. All are answered together, by one button. @type {Steps['renderNextStep']} */
export function renderNextStep(response, onContinue, { api, request }) {
  const [approvals, calls] = [openApprovals(response), openCalls(response)];
  const count = approvals.length + calls.length;
  const blocked = obstacle(response, request);
  if (count === 0 || blocked) return count > 0 ? el('p', { class: 'notice warn', text: `${counted(count, 'answer')} missing. ${blocked}` }) : null;
  const root = el('section', { class: 'next-step stack', 'aria-label': 'What the response waits for' });
  const ready = inert(root, update);
  const decisions = approvals.map((item) => approvalCard(item, response, { api, update, known: Boolean(request) }));
  const cards = [...decisions, ...calls.map(callCard)];
  const button = el('button', { class: 'primary', on: { click: () => void send() } });
  const failure = el('div');
  let sending = false;

  function update() {
    const made = decisions.map((card) => card.read());
    button.setAttribute('aria-disabled', String(!ready() || sending || made.includes(null)));
    const [yes, no] = [true, false].map((wanted) => made.filter((item) => item?.approve === wanted).length);
    const parts = [yes > 0 && `${yes} approved`, no > 0 && `${no} denied`, calls.length > 0 && counted(calls.length, 'output')].filter(Boolean);
    button.textContent = made.includes(null) ? `Approve or deny ${made.length > 1 ? `all ${made.length}` : 'it'} first` : `Send: ${parts.join(', ')}`;
  }
  async function send() {
    if (button.getAttribute('aria-disabled') === 'true') return;
    const items = cards.map((card) => card.read());
    if (items.includes(null)) return;
    sending = true;
    update();
    replace(failure);
    try {
      await onContinue(continuation(response, /** @type {Json[]} */ (items), request));
    } catch (error) {
      replace(failure, renderError(error));
    }
    sending = false;
    update();
  }
  replace(root, ...cards.map((card) => card.root), el('div', null, button), failure);
  update();
  announce(`The response waits for ${counted(count, 'answer')}.`);
  return root;
}

/** Whether what was drawn takes clicks: not before it has been seen for a second, so that it takes none that was meant for what was there before. @type {Steps['inert']} */
function inert(root, onReady) {
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

/** @type {Steps['card']} */
function card(label, what, name, ...inside) {
  const head = el('h2', { class: 'row card-head' }, el('span', { class: 'state warn' }, icon('waits'), what), el('code', { text: shown(String(name)) }));
  return el('section', { class: 'card asks', 'aria-label': label }, head, ...inside);
}

/** @type {Steps['choices']} */
function choices(legend, options, choose) {
  const name = `choice-${(ids += 1)}`;
  return el('fieldset', { class: 'decision' }, el('legend', { class: 'visually-hidden', text: legend }), options.map(([value, words]) => el('label', { class: 'check' },
    el('input', { type: 'radio', name, value, on: { change: () => choose(value) } }), words)));
}

/** @type {Steps['labelled']} */
function labelled(label, input, ...more) {
  input.id ||= `answer-${(ids += 1)}`;
  return el('div', { class: 'field' }, el('label', { for: input.id, text: label }), input, ...more);
}

/** @type {Steps['approvalCard']} */
function approvalCard({ id, server_label: label, name, arguments: text }, response, { api, update, known }) {
  let decided = '';
  const reason = el('input', { type: 'text', autocomplete: 'off' });
  const why = labelled('Reason, which the model reads (optional)', reason);
  why.hidden = true;
  const decide = choices(`Decision on ${name}`, [['yes', 'Approve this call'], ['no', 'Deny']], (value) => {
    decided = value;
    why.hidden = value === 'yes';
    update();
  });
  const address = response.tools?.find?.((/** @type {any} */ tool) => tool?.server_label === label)?.server_url;
  const at = new Date((response.completed_at ?? response.created_at) * 1000).toLocaleString('en-GB');
  const root = card(`Approval: ${name} of ${label}`, 'Approval needed', name,
    el('dl', { class: 'facts' },
      el('dt', { text: 'Server' }), el('dd', { text: shown(`${label}${address ? ` at ${address}` : ', configured by the operator'}`) }),
      el('dt', { text: 'Asked' }), el('dd', { text: `${at}. It can be answered for a day, unless the operator has set another time.` })),
    argumentsView(text), definitionView(response, label, name, api),
    address && !known ? el('p', { class: 'hint', text: 'If the request had a token for this server, answer from where it was sent: no response shows it.' }) : null, decide, why);
  root.classList.add('approval');
  return { root, read: () => (decided ? approvalItem(id, decided === 'yes', reason.value) : null) };
}

/** Arguments as JSON; never an empty box. @param {unknown} text */
function argumentsView(text) {
  const json = typeof text === 'string' ? text : JSON.stringify(text ?? {});
  if (/^\s*(\{\s*\})?\s*$/u.test(json)) return el('p', { class: 'muted', text: 'It is called without arguments.' });
  return el('div', { class: 'field' }, el('span', { class: 'hint', text: 'Arguments, as they are sent' }), el('pre', { tabindex: 0, role: 'group', 'aria-label': 'Arguments', text: indented(json) }));
}

/** What the server says of its tool. @type {Steps['definitionView']} */
function definitionView(response, label, name, api) {
  const inside = el('pre', { tabindex: 0, role: 'group', 'aria-label': 'Schema of the arguments' });
  const [effect, says] = [el('p'), el('p', { class: 'message', text: 'Its definition is not part of this response.' })];
  const view = el('details', null, el('summary', { text: 'Definition of the tool' }), inside);
  const draw = (/** @type {Json} */ tool) => {
    says.textContent = tool.description ? `The server says: ${shown(String(tool.description))}` : 'The server does not describe it.';
    [effect.textContent, effect.className] = effects(tool.annotations);
    inside.textContent = shown(tool.input_schema ?? tool.parameters ?? {});
  };
  const known = definitionIn(response, label, name);
  if (known) draw(known);
  else view.addEventListener('toggle', () => void api.get('v1/tools', { server_label: label }).then(({ data }) => {
    draw(data.find((/** @type {Json} */ one) => one.name === name));
  }).catch((error) => (inside.textContent = `It cannot be shown: ${error.message}`)), { once: true });
  return el('div', { class: 'stack tight' }, says, effect, view);
}

/** What a tool may do, in words, and how that looks. @type {Steps['effects']} */
export function effects(annotations) {
  const readOnly = annotations?.readOnlyHint ?? annotations?.read_only;
  if (readOnly === true) return ['Declared as read-only.', ''];
  if (annotations?.destructiveHint ?? annotations?.destructive) return ['Declared as destructive: it may change or delete things.', 'alarm'];
  return [readOnly === false ? 'Declared as changing things, but not as destructive.' : 'What it may change is not declared.', ''];
}

/** What was answered to a function before: the next call of it begins with that. @type {Map<string, string>} */
const before = new Map();

/** The outcome of a call that the client has to run; here a person plays the client. @param {Json} call */
function outcomeForm(call) {
  let kind = 'text';
  const fault = el('p', { class: 'fault', role: 'alert' });
  const box = el('textarea', { class: 'code', rows: 4, spellcheck: 'false', value: before.get(call.name) ?? '' });
  const kinds = choices(`Outcome of ${call.name}`, [['text', 'Output'], ['json', 'Output as JSON'], ['error', 'Error']], (value) => (kind = value));
  /** @type {HTMLInputElement} */ (kinds.querySelector('input')).checked = true;
  const root = card(`Call of ${call.name}`, 'The client runs', call.namespace ? `${call.namespace}.${call.name}` : call.name,
    argumentsView(call.arguments ?? call.input), kinds, labelled('What the function returned, or why it failed', box, fault));
  return {
    root,
    read() {
      const wrong = kind === 'json' ? parseJson(box.value).error : kind === 'error' && box.value.trim() === '' ? 'Say what went wrong.' : null;
      fault.textContent = wrong ?? '';
      box.setAttribute('aria-invalid', String(wrong !== null));
      if (wrong !== null) box.focus();
      else if (kind !== 'error') before.set(call.name, box.value);
      return wrong !== null ? null : kind === 'error' ? { error: box.value } : { output: box.value };
    },
  };
}

/** @type {Steps['callCard']} */
function callCard(call) {
  const { root, read } = outcomeForm(call);
  return { root, read: () => { const answer = read(); return answer && outputItem(call, answer); } };
}

/** What a running response asks for: it waits, and goes on in the same stream. @type {Steps['renderInput']} */
export function renderInput(event, responseId, { api }) {
  const root = el('section', { class: 'stack', 'aria-label': event.elicitation ? `Question of ${event.name}` : `Call of ${event.name}` });
  const [failure, clock, buttons] = [el('div'), el('span', { class: 'muted' }), el('div', { class: 'row' })];
  const ready = inert(root, () => buttons.querySelectorAll('button').forEach((button) => button.removeAttribute('aria-disabled')));
  let sending = false;
  /** @param {Json | null} answer */
  async function send(answer) {
    if (!answer || sending || !ready()) return;
    sending = true;
    try {
      await api.post(`v1/responses/${encodeURIComponent(responseId)}/inputs`, { call_id: event.call_id, ...answer });
      announce('Answered.');
      replace(root, el('p', { class: 'notice ok', text: `Answered: ${reveal(String(event.name))} goes on.` }));
    } catch (error) {
      replace(failure, renderError(error));
    }
    sending = false;
  }
  const asked = event.elicitation ? questionForm(event) : outcomeForm(event);
  const answers = { Send: asked.read, ...(event.elicitation && { Decline: () => ({ output: { action: 'decline' } }), Cancel: () => ({ output: { action: 'cancel' } }) }) };
  buttons.append(...Object.entries(answers).map(([text, answer]) => el('button', { class: text === 'Send' ? 'primary' : '', text, 'aria-disabled': true, on: { click: () => void send(answer()) } })), clock);
  asked.root.append(buttons);
  replace(root, asked.root, failure);
  countDown(event.expires_at * 1000, root, (left) => (clock.textContent = left > 0 ? `waits for ${clockText(left)} more` : 'too late: the response goes on without the answer'));
  return root;
}

/** @type {Steps['questionForm']} */
function questionForm({ name, namespace, elicitation: { mode, message, url, requested_schema: schema } }) {
  const who = namespace ? `${name} of ${namespace}` : String(name);
  const says = el('p', { class: 'message', text: reveal(String(message ?? '').trim()) || 'The server has not said what it asks for.' });
  const warning = el('p', { class: 'hint', text: 'The answer goes to the server of the tool. Do not enter passwords.' });
  if (mode === 'url') {
    const note = el('p', { text: 'It wants you to open this address. It comes from the server: copy and open it only if you trust both. Sending says that you agree.' });
    return { root: card(who, 'A tool asks', who, says, note, el('code', { text: reveal(String(url)) })), read: () => ({ output: { action: 'accept' } }) };
  }
  const form = schemaForm(schema, { name: `Answer to ${who}` });
  return {
    root: card(who, 'A tool asks', who, says, warning, form.root),
    read() {
      const { value, faults } = form.readForm();
      return faults.length > 0 ? null : { output: { action: 'accept', content: value } };
    },
  };
}
