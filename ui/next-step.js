// What a person has to do: about an error, and for a response that waits.

import { schemaForm } from './forms.js';
import { ApiError, pathOf } from './lib/api.js';
import { announce, button, counted, el, field, icon, indented, parseJson, pre, replace, reveal, shown } from './lib/dom.js';
import { approvalItem, continuation, definitionIn, obstacle, openApprovals, openCalls, outputItem } from './protocol.js';

/** @type {Record<Cause, string>} */
export const FAULTS = {
  request: 'The request', key: 'The API key', configuration: 'The gateway’s configuration', gateway: 'The gateway', model: 'The model server', tool: 'A tool',
  limit: 'A limit that was set', connection: 'The connection', unknown: 'Not known',
};

const LATER = 'Wait, then send it again.';
const CORRECT = 'Correct what the message names, and send it again.';
const SERVER = 'Check that the server is running (screen Tools), its address and its credentials.';

/** The first that fits counts. @type {[RegExp, Cause, string][]} */
const RULES = [
  [/^un(supported|known)_parameter$/, 'request', 'Leave the field out: it is not served.'],
  [/^(model|agent|tool)_not_found$/, 'request', 'Choose another name: this one is not served, or not to this key.'],
  [/^context_length_exceeded$/, 'request', 'Shorten the input, or set truncation to auto.'],
  [/_too_large$/, 'request', 'Ask for less, or send less.'],
  [/response_not_|^not_found$|^unknown_url$|^gone$/, 'request', 'It does not exist, was deleted, has expired, or belongs to another key.'],
  [/_in_progress$|^conversation_locked$|^conflict$/, 'request', LATER],
  [/^approval_required$/, 'request', 'Use it in Try: there a person can approve the call.'],
  [/^input_|^approval_/, 'request', 'Reload the run: nothing waits for this answer any more, or it asks for another one.'],
  [/^invalid_api_key$/, 'key', 'Enter a valid API key of this gateway.'],
  [/^insufficient_scope$/, 'key', 'Use a key with the scope that the message names.'],
  [/_not_allowed$|^invalid_host$|^duplicate_header$|^access_denied$|^run_unreadable$|^websocket_/, 'configuration', 'The operator has to allow this in the configuration; the message says what.'],
  [/^upstream_(auth|proxy)_error$/, 'configuration', 'The operator has to correct the key of the model server, or the proxy.'],
  [/^unknown_price$/, 'configuration', 'Configure a price of this model, or set no limit of cost.'],
  [/^upstream_(unreachable|connect_timeout)$/, 'model', 'Check that it is running, and its address in the configuration.'],
  [/^upstream_.*timeout$/, 'model', 'It is slow. Send it again later, or raise the provider’s timeouts.'],
  [/^upstream_(?!rejected)|^compaction_failed$/, 'model', 'Send it again, or look into the log of the model server.'],
  [/^rate_limit/, 'model', LATER],
  [/^insufficient_quota$/, 'model', 'The quota is used up: waiting does not help.'],
  [/^(tool_choice_not_satisfied|model_error|invalid_arguments|invalid_structured_output)$/, 'model', 'The model did not keep to tools or schema. Try a better one, or require less.'],
  [/content/, 'model', 'A filter stopped the answer. Ask in other words.'],
  [/^max_identical_calls$/, 'limit', 'The model repeats one call: see what the tool answers.'],
  [/^max_|^run_timeout$|^deadline$|^tool_call_limit$/, 'limit', 'It is the limit of the request, the agent or the configuration: a request may change it, up to engine.ceilings. See in the run why it needs so much.'],
  [/^outcome_unknown$/, 'tool', 'Check at the tool whether the call had an effect.'],
  [/^mcp_server_|^tools_not_refreshed$|^tool_unavailable$/, 'tool', SERVER],
  [/^tool_timeout$/, 'tool', 'Try it alone (screen Tools), or raise its timeout.'],
  [/^tool_|^mcp_|^http_error$|^invalid_result$|^callback_/, 'tool', 'Try it alone with these arguments (screen Tools).'],
  [/^server_(restarted|shutting_down)$|^run_attempts_exhausted$/, 'gateway', 'It was stopped meanwhile. Send it again.'],
  [/^server_(is_overloaded|starting)$|^request_timeout$/, 'gateway', LATER],
  [/^storage_/, 'gateway', 'The operator has to look at its database.'],
  [/^internal_error$/, 'gateway', 'Give the request id to the operator, who finds it in the log.'],
  [/^connection_failed$/, 'connection', 'Check that the gateway is running.'],
  [/^(aborted|cancelled)$/, 'connection', 'It was stopped on purpose.'],
  [/^(invalid|unsupported|missing|mutually|array|string|object|integer|decimal|item|method|idempotency|stream|event|upstream_rejected)_|_not_cancellable$|response_deleted/, 'request', CORRECT],
];

/** @type {Record<string, [Cause, string]>} */
const TYPES = {
  invalid_request_error: ['request', CORRECT], permission_error: ['key', 'Use a key that may do this.'], conflict: ['request', LATER], timeout: ['connection', LATER],
  external_connector_error: ['tool', SERVER], server_error: ['gateway', 'Send it again, or give the request id to the operator.'], service_unavailable_error: ['gateway', LATER],
};

/** @type {Of['explain']} */
export function explain({ code, type, status }) {
  const [fault, next] = ruleOf(code) ?? (Object.hasOwn(TYPES, type) ? TYPES[type] : (ruleOf(type) ?? byStatus(status)));
  return { fault, next };
}

/** @type {Of['ruleOf']} */
function ruleOf(code) {
  const rule = RULES.find(([pattern]) => pattern.test(code));
  return rule && [rule[1], rule[2]];
}

/** @type {Of['byStatus']} */
function byStatus(status) {
  if (status === 401 || status === 403) return TYPES.permission_error;
  if (status === 502 || status === 504) return ['connection', 'Check that the gateway is running: what is before it got no answer.'];
  return status >= 400 && status < 500 ? TYPES.invalid_request_error : ['unknown', 'Read the message; the request id finds it in the gateway’s log.'];
}

const MAX_WAIT = 86_400;

/** @type {Of['words']} */
const words = (value) => (typeof value === 'string' || typeof value === 'number' ? reveal(String(value)).slice(0, 4000) : '');

/** @type {Of['renderError']} */
export function renderError(error, { onRetry, title = 'Error' } = {}) {
  const of = Object(error) === error ? error : { message: error };
  // The shell asks for it.
  if (of instanceof ApiError && of.status === 401) return el('p', { class: 'notice', text: 'Without a key of this gateway nothing can be shown here.' });
  const content = Array.isArray(of.content) ? of.content.map((/** @type {any} */ part) => part?.text ?? '').join('\n') : '';
  const { fault, next } = explain(of);
  const [name, status] = [words(of.code ?? of.type), words(of.status || '')];
  /** @type {[string, string][]} */
  const rows = [['Cause', FAULTS[fault]], ['Next', next], ['Field', words(of.param)], ['Code', name && status ? `${name} (HTTP ${status})` : name || status], ['Request id', words(of.requestId ?? of.request_id)]];
  const facts = rows.filter(([, value]) => value).map(([term, value], i) => [el('dt', { text: term }), el('dd', null, i < 2 ? value : el('code', { text: value }))]);
  const wait = Math.min(Number(of.retryAfter) || 0, MAX_WAIT);
  return el('section', { class: 'card error-card', role: 'group', 'aria-label': title },
    el('h2', { class: 'state bad card-head' }, icon('failed'), title),
    el('p', { class: 'message', text: words(of.message) || words(content) || shown(error) }),
    el('dl', { class: 'facts' }, facts.flat()), wait > 0 || onRetry ? retry(wait, onRetry) : null);
}

/** @type {Of['retry']} */
function retry(seconds, onRetry) {
  const until = Date.now() + seconds * 1000;
  const clock = el('span', { class: 'countdown' });
  const again = onRetry ? button('Try again', () => until <= Date.now() && onRetry()) : null;
  const row = el('div', { class: 'row' }, again, clock);
  countDown(until, row, (left) => {
    clock.textContent = left > 0 ? `The server asks to wait: ${clockText(left)}` : seconds > 0 ? 'It may be tried again now.' : '';
    again?.setAttribute('aria-disabled', String(left > 0));
    if (left <= 0 && seconds > 0) announce('It may be tried again now.');
  });
  return row;
}

/** @type {Of['countDown']} */
function countDown(until, shown, tell) {
  const tick = () => {
    const left = Math.max(0, Math.ceil((until - Date.now()) / 1000));
    tell(left);
    if (left > 0) setTimeout(() => shown.isConnected && tick(), 500);
  };
  // It is not on the page yet.
  queueMicrotask(tick);
}

/** `4:05` or `12 s` */
function clockText(seconds = 0) {
  if (seconds < 60) return `${seconds} s`;
  const [hours, minutes, rest] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60].map((part) => String(part).padStart(2, '0'));
  return hours === '00' ? `${Number(minutes)}:${rest}` : `${Number(hours)}:${minutes}:${rest}`;
}

/** How long what has just come does not take clicks. */
const INERT_MS = 1000;
let ids = 0;

/** @type {Of['renderNextStep']} */
export function renderNextStep(response, onContinue, { api, request }) {
  const [approvals, calls] = [openApprovals(response), openCalls(response)];
  const count = approvals.length + calls.length;
  const blocked = obstacle(response, request);
  if (count === 0 || blocked) return count > 0 ? el('p', { class: 'notice warn', text: `${counted(count, 'answer')} missing. ${blocked}` }) : null;
  const root = el('section', { class: 'next-step stack', 'aria-label': 'What the response waits for' });
  const ready = inert(root, update);
  /** Each is read once, for all cards. @type {Map<string, Promise<any>>} */
  const reads = new Map();
  /** @type {Page.Api['get']} */
  const get = (path, query) => {
    const key = path + JSON.stringify(query);
    if (!reads.has(key)) reads.set(key, api.get(path, query));
    return /** @type {Promise<any>} */ (reads.get(key));
  };
  const decisions = approvals.map((item) => approvalCard(item, response, { get, update, request }));
  const cards = [...decisions, ...calls.map(callCard)];
  const submit = button('', () => void send(), 'primary');
  const failure = el('div');
  let sending = false;

  function update() {
    const made = decisions.map((card) => card.read());
    submit.setAttribute('aria-disabled', String(!ready() || sending || made.includes(null)));
    const [yes, no] = [true, false].map((wanted) => made.filter((item) => item?.approve === wanted).length);
    const parts = [yes > 0 && `${yes} approved`, no > 0 && `${no} denied`, calls.length > 0 && counted(calls.length, 'output')].filter(Boolean);
    submit.textContent = made.includes(null) ? `Approve or deny ${made.length > 1 ? `all ${made.length}` : 'it'} first` : `Send: ${parts.join(', ')}`;
  }
  async function send() {
    if (submit.getAttribute('aria-disabled') === 'true') return;
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
  replace(root, ...cards.map((card) => card.root), el('div', null, submit), failure);
  update();
  announce(`The response waits for ${counted(count, 'answer')}.`);
  return root;
}

/** What was drawn takes no click that was meant for what was there before. @type {Of['inert']} */
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

/** @type {Of['card']} */
function card(label, what, name, ...inside) {
  const head = el('h2', { class: 'row card-head' }, el('span', { class: 'state warn' }, icon('waits'), what), el('code', { text: shown(String(name)) }));
  return el('section', { class: 'card asks', 'aria-label': label }, head, ...inside);
}

/** @type {Of['choices']} */
function choices(legend, options, choose) {
  const name = `choice-${(ids += 1)}`;
  return el('fieldset', { class: 'decision' }, el('legend', { class: 'visually-hidden', text: legend }), options.map(([value, words]) => el('label', { class: 'check' },
    el('input', { type: 'radio', name, value, on: { change: () => choose(value) } }), words)));
}

/** @type {Of['addressOf']} */
const addressOf = (response, label) => response.tools?.find?.((/** @type {any} */ tool) => tool?.server_label === label)?.server_url;

/** @type {Of['approvalCard']} */
function approvalCard({ id, server_label: label, name, arguments: text }, response, { get, update, request }) {
  let decided = '';
  const reason = el('input', { type: 'text', autocomplete: 'off' });
  const why = field('Reason, which the model reads (optional)', reason);
  why.hidden = true;
  const decide = choices(`Decision on ${name}`, [['yes', 'Approve this call'], ['no', 'Deny']], (value) => {
    decided = value;
    why.hidden = value === 'yes';
    update();
  });
  const address = addressOf(response, label);
  const at = new Date((response.completed_at ?? response.created_at) * 1000).toLocaleString('en-GB');
  const root = card(`Approval: ${name} of ${label}`, 'Approval needed', name,
    el('dl', { class: 'facts' },
      el('dt', { text: 'Server' }), el('dd', { text: shown(`${label}${address ? ` at ${address}` : ', configured by the operator'}`) }),
      el('dt', { text: 'Asked' }), el('dd', { text: `${at}. From then on it can be answered for the gateway’s mcp.approvals.expires_after, which is 24 h unless the operator has set another time.` })),
    argumentsView(text), definitionView({ response, request, label, name }, get),
    address && !request ? el('p', { class: 'hint', text: 'If the request had a token for this server, answer from where it was sent: no response shows it.' }) : null, decide, why);
  root.classList.add('approval');
  return { root, read: () => (decided ? approvalItem(id, decided === 'yes', reason.value) : null) };
}

/** @type {Of['argumentsView']} */
function argumentsView(text) {
  const json = typeof text === 'string' ? text : JSON.stringify(text ?? {});
  if (/^\s*(\{\s*\})?\s*$/u.test(json)) return el('p', { class: 'muted', text: 'It is called without arguments.' });
  return el('div', { class: 'field' }, el('span', { class: 'hint', text: 'Arguments, as they are sent' }), pre('Arguments', indented(json)));
}

/** @type {Of['definitionView']} */
function definitionView(of, get) {
  const inside = pre('Schema of the arguments', '');
  const [says, effect] = [el('p', { class: 'message', text: 'Its definition is looked up …' }), el('p')];
  const view = el('details', { hidden: true }, el('summary', { text: 'Definition of the tool' }), inside);
  void findDefinition(of, get).then((tool) => {
    view.hidden = !tool;
    says.textContent = !tool ? 'Its definition was not found.' : tool.description ? `The server says: ${shown(String(tool.description))}` : 'The server does not describe it.';
    [effect.textContent, effect.className] = tool ? effects(tool.annotations) : ['It may change or delete things.', 'alarm'];
    inside.textContent = shown(tool?.input_schema ?? tool?.parameters ?? {});
  });
  return el('div', { class: 'stack tight' }, says, effect, view);
}

/** Responses, or pages of a conversation. */
const FAR = 20;

/** @type {Of['findDefinition']} */
export async function findDefinition({ response, request, label, name }, get) {
  /** @type {Page.Api['get']} */
  const read = (path, query) => get(path, query).catch(() => ({}));
  const among = (/** @type {unknown} */ output) => definitionIn({ output }, label, name);
  let found = definitionIn(response, label, name) ?? among(request?.input);
  /** @type {Json} */
  let at = response;
  let after;
  for (let left = FAR; !found && at.id && left > 0; left -= 1) {
    const { id, previous_response_id: before, conversation } = at;
    if (before) {
      at = await read(pathOf(before));
      found = among(at.output);
      continue;
    }
    // A client may have sent what was before.
    const { data, has_more: more, last_id: last } = await read(conversation ? `v1/conversations/${encodeURIComponent(conversation.id)}/items` : `${pathOf(id)}/input_items`, { order: 'desc', limit: 100, after });
    found = among(data?.toReversed());
    if (!more) break;
    after = last;
  }
  // Now another server may have the label.
  if (found || addressOf(response, label)) return found;
  return (await read('v1/tools', { server_label: label === 'antwort' ? '' : label })).data?.find((/** @type {Json} */ one) => one.name === name);
}

/** @type {Of['effects']} */
export function effects(annotations) {
  if (annotations?.readOnlyHint ?? annotations?.read_only) return ['Declared as read-only.', ''];
  if (annotations?.destructiveHint) return ['Declared as destructive: it may change or delete things.', 'alarm'];
  if ((annotations?.destructiveHint ?? annotations?.destructive) === false) return ['Declared as changing things, but not as destructive.', ''];
  // The gateway takes what nothing is declared of for destructive.
  return ['It may change or delete things: it is not declared as read-only.', ''];
}

/** What was answered to a function before: the next call of it begins with that. @type {Map<string, string>} */
const before = new Map();

/** @type {Of['outcomeForm']} */
function outcomeForm(call) {
  let kind = 'text';
  const fault = el('p', { class: 'fault', role: 'alert' });
  const box = el('textarea', { class: 'code', rows: 4, spellcheck: 'false', value: before.get(call.name) ?? '' });
  const kinds = choices(`Outcome of ${call.name}`, [['text', 'Output'], ['json', 'Output as JSON'], ['error', 'Error']], (value) => (kind = value));
  /** @type {HTMLInputElement} */ (kinds.querySelector('input')).checked = true;
  const root = card(`Call of ${call.name}`, 'The client runs', call.namespace ? `${call.namespace}.${call.name}` : call.name,
    argumentsView(call.arguments ?? call.input), kinds, field('What the function returned, or why it failed', box), fault);
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

/** @type {Of['callCard']} */
function callCard(call) {
  const { root, read } = outcomeForm(call);
  return { root, read: () => { const answer = read(); return answer && outputItem(call, answer); } };
}

/** @type {Of['renderInput']} */
export function renderInput(event, responseId, { api }) {
  const root = el('section', { class: 'stack', 'aria-label': event.elicitation ? `Question of ${event.name}` : `Call of ${event.name}` });
  const [failure, clock, buttons] = [el('div'), el('span', { class: 'muted' }), el('div', { class: 'row' })];
  const ready = inert(root, () => buttons.querySelectorAll('button').forEach((each) => each.removeAttribute('aria-disabled')));
  let sending = false;
  async function send(/** @type {Json | null} */ answer) {
    if (!answer || sending || !ready()) return;
    sending = true;
    try {
      await api.post(`${pathOf(responseId)}/inputs`, { call_id: event.call_id, ...answer });
      announce('Answered.');
      const answered = el('p', { class: 'notice ok', tabindex: -1, text: `Answered: ${reveal(String(event.name))} goes on.` });
      replace(root, answered);
      answered.focus();
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

/** @type {Of['questionForm']} */
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
