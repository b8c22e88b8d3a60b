// An error as a person needs it: what happened, whose fault it is, what to do next, and when to try again.

import { reveal, shown } from './json-text.js';
import { announce, el, icon } from './lib/dom.js';

/** @type {Record<Cause, string>} */
export const FAULTS = {
  request: 'The request', key: 'The API key', configuration: 'The gateway’s configuration', gateway: 'The gateway', model: 'The model server', tool: 'A tool',
  limit: 'A limit that was set', connection: 'The connection', unknown: 'Not known',
};

const LATER = 'Wait, then send it again.';
const CORRECT = 'Correct what the message names, and send it again.';
const SERVER = 'Check that the server is running (screen Tools), its address and its credentials.';

/** Whose fault the codes are, and what to do; the first that fits counts. @type {[RegExp, Cause, string][]} */
const RULES = [
  [/^un(supported|known)_parameter$/, 'request', 'Leave the field out: it is not served.'],
  [/^(model|agent|tool)_not_found$/, 'request', 'Choose another name: this one is not served, or not to this key.'],
  [/^context_length_exceeded$/, 'request', 'Shorten the input, or set truncation to auto.'],
  [/_too_large$/, 'request', 'Ask for less, or send less.'],
  [/response_not_|^not_found$|^unknown_url$|^gone$/, 'request', 'It does not exist, was deleted, has expired, or belongs to another key.'],
  [/_in_progress$|^conversation_locked$|^conflict$/, 'request', LATER],
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
  [/^max_|^run_timeout$|^deadline$|^tool_call_limit$/, 'limit', 'Raise this limit, or see in the run why it needs so much.'],
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
  [/^(invalid|unsupported|missing|mutually|array|string|object|integer|decimal|item|method|idempotency|stream|event|upstream_rejected)_|_not_cancellable$/, 'request', CORRECT],
];

/** @type {Record<string, [Cause, string]>} */
const TYPES = {
  invalid_request_error: ['request', CORRECT], permission_error: ['key', 'Use a key that may do this.'], conflict: ['request', LATER], timeout: ['connection', LATER],
  external_connector_error: ['tool', SERVER], server_error: ['gateway', 'Send it again, or give the request id to the operator.'], service_unavailable_error: ['gateway', LATER],
};

/** Whose fault it is, and what to do. @param {any} error of a request, a response or a call; or the `code` that ended a run */
export function explain({ code, type, status }) {
  const [fault, next] = ruleOf(code) ?? (Object.hasOwn(TYPES, type) ? TYPES[type] : (ruleOf(type) ?? byStatus(status)));
  return { fault, next };
}

/** @type {Errors['ruleOf']} */
function ruleOf(code) {
  const rule = RULES.find(([pattern]) => pattern.test(code));
  return rule && [rule[1], rule[2]];
}

/** @type {Errors['byStatus']} */
function byStatus(status) {
  if (status === 401 || status === 403) return TYPES.permission_error;
  if (status === 502 || status === 504) return ['connection', 'Check that the gateway is running: what is before it got no answer.'];
  return status >= 400 && status < 500 ? TYPES.invalid_request_error : ['unknown', 'Read the message; the request id finds it in the gateway’s log.'];
}

const MAX_WAIT = 86_400;

/** @param {unknown} value */
const words = (value) => (typeof value === 'string' || typeof value === 'number' ? reveal(String(value)).slice(0, 4000) : '');

/** A card; what there is of an output stays beside it. @type {Errors['renderError']} */
export function renderError(error, { onRetry, title = 'Error' } = {}) {
  const of = Object(error) === error ? error : { message: error };
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

/** Counts down, for as long as it is on the page. @type {Errors['retry']} */
function retry(seconds, onRetry) {
  const until = Date.now() + seconds * 1000;
  const clock = el('span', { class: 'countdown' });
  const button = onRetry ? el('button', { text: 'Try again', on: { click: () => until <= Date.now() && onRetry() } }) : null;
  const row = el('div', { class: 'row' }, button, clock);
  countDown(until, row, (left) => {
    clock.textContent = left > 0 ? `The server asks to wait: ${clockText(left)}` : seconds > 0 ? 'It may be tried again now.' : '';
    button?.setAttribute('aria-disabled', String(left > 0));
    if (left <= 0 && seconds > 0) announce('It may be tried again now.');
  });
  return row;
}

/** Tells the seconds that are left, as long as something is on the page. @type {Errors['countDown']} */
export function countDown(until, shown, tell) {
  const tick = () => {
    const left = Math.max(0, Math.ceil((until - Date.now()) / 1000));
    tell(left);
    if (left > 0) setTimeout(() => shown.isConnected && tick(), 500);
  };
  // It is not on the page yet.
  queueMicrotask(tick);
}

/** @param {number} seconds as `4:05` or `12 s` */
export function clockText(seconds) {
  if (seconds < 60) return `${seconds} s`;
  const [hours, minutes, rest] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60].map((part) => String(part).padStart(2, '0'));
  return hours === '00' ? `${Number(minutes)}:${rest}` : `${Number(hours)}:${minutes}:${rest}`;
}
