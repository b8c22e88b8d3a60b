// Try: a request is put together on the left, and its run is seen on the right.

import { renderError } from '../errors.js';
import { announce } from '../lib/announce.js';
import { el, replace } from '../lib/dom.js';
import { addShortcuts } from '../lib/keys.js';
import { again, echoed, openApprovals, openCalls } from '../request.js';
import { watch } from '../run/live.js';
import { button, tabs } from './parts.js';
import { jsonEditor, programs } from './try/code.js';
import { Draft } from './try/controls.js';
import { requestForm } from './try/form.js';

/** @typedef {Record<string, any>} Json */
/** @typedef {import('../app.js').Context} Context */

export const title = 'Try';

const draft = new Draft();

/** @type {import('../app.js').Screen['mount']} */
export function mount(root, context) {
  const ended = new AbortController();
  const place = el('div', { class: 'live' }, emptyRun());
  const run = runner(context, place);
  const json = jsonEditor(draft);
  const views = tabs('Request as', [{ name: 'Form', panel: requestForm(draft, context.api, ended.signal) }, { name: 'JSON', panel: json.root }, ...programs(draft)]);
  const send = () => {
    if (draft.fault === null) return void run.start(draft.body, draft.attachments.expand(draft.body));
    views.show('JSON');
    json.complain();
  };
  const bar = el('div', { class: 'row send-bar' }, button('Send', send, 'primary'), run.stopButton, el('span', { class: 'hint' }, el('kbd', { text: 'Ctrl' }), ' ', el('kbd', { text: 'Enter' })));
  const fresh = button('New request', () => draft.set({ input: '', ...(draft.body.model && { model: draft.body.model }) }), 'quiet small');
  replace(root,
    el('div', { class: 'try' },
      el('section', { class: 'card try-request', 'aria-label': 'Request' }, el('div', { class: 'row spread' }, el('h1', { text: title }), fresh), views.list, views.panels, bar),
      el('section', { class: 'try-run', 'aria-label': 'Run' }, place)));
  const forgetKeys = addShortcuts([{ key: 'Ctrl+Enter', help: 'Send the request', run: send }]);
  void prefill(context, context.route.query, place);
  return {
    update: (route) => void prefill(context, route.query, place),
    unmount() {
      ended.abort();
      forgetKeys();
      run.leave();
      draft.forget();
    },
  };
}

function emptyRun() {
  return el('div', { class: 'empty' }, el('h2', { text: 'The run appears here' }), el('p', { class: 'muted', text: 'Send a request, and watch what the model and the tools do, and for how long.' }));
}

/**
 * What links say: `?from=resp_…` is that request again, `?continue=resp_…` goes on behind it, `?tool=…` offers a tool.
 * @param {Context} context
 * @param {URLSearchParams} query
 * @param {HTMLElement} place where it is said that this cannot be done
 */
async function prefill({ api, navigate }, query, place) {
  const [from, after, tool] = [query.get('from'), query.get('continue'), query.get('tool')];
  if (!from && !after && !tool) return;
  if (tool) draft.set({ ...draft.body, tools: [query.get('server') ? { type: 'mcp', server_label: query.get('server'), allowed_tools: [tool] } : { type: `antwort:${tool}` }] });
  try {
    const id = from ?? after;
    if (id) {
      const path = `v1/responses/${encodeURIComponent(id)}`;
      const response = await api.get(path);
      if (after) draft.set({ ...echoed(response), previous_response_id: id, input: '' });
      else draft.set({ ...again(echoed(response), (await api.get(`${path}/input_items`, { order: 'asc', limit: 100 })).data), ...(response.previous_response_id && { previous_response_id: response.previous_response_id }) });
    }
    announce('The request is filled in.');
  } catch (error) {
    replace(place, renderError(error, { title: 'The request cannot be read' }));
  }
  navigate('#/try', { replace: true });
}

/**
 * Runs one request at a time.
 * @param {Context} context
 * @param {HTMLElement} place
 */
function runner({ api }, place) {
  /** @type {ReturnType<typeof watch> | null} */
  let live = null;
  const stopButton = el('button', { type: 'button', text: 'Stop', hidden: true, on: { click: () => void live?.stop() } });

  /** @param {Json} shown as it is edited @param {Json} body as it is sent */
  function start(shown, body) {
    live?.leave();
    live = null;
    const [run, behind] = [el('div'), el('div', { class: 'row' })];
    replace(place, run, behind);
    live = watch(run, {
      api,
      body: { stream: true, ...body },
      onBegin() {
        stopButton.hidden = false;
        replace(behind);
      },
      onEnd({ response }) {
        if (!run.isConnected) return;
        stopButton.hidden = true;
        replace(behind, response.id ? afterwards(response, shown) : null);
      },
    });
    // On a narrow screen the run is below the form.
    if (place.getBoundingClientRect().top > innerHeight / 2) place.scrollIntoView({ block: 'start' });
  }
  return { start, stopButton, leave: () => live?.leave() };
}

/** What can follow. @param {Json} response @param {Json} request */
function afterwards(response, request) {
  const reply = () => {
    draft.set({ ...request, input: '', previous_response_id: response.id });
    /** @type {HTMLElement | null} */ (document.querySelector('.request-form textarea'))?.focus();
  };
  const waits = openApprovals(response).length + openCalls(response).length > 0;
  const stored = !waits && response.store !== false && /^(completed|incomplete)$/u.test(response.status);
  return stored ? button('Reply to this', reply) : null;
}
