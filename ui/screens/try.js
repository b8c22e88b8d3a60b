// Try: a request is put together on the left, and its run is seen on the right.

import { el, replace } from '../lib/dom.js';
import { addShortcuts } from '../lib/keys.js';
import { openApprovals, openCalls } from '../request.js';
import { watch } from '../run/live.js';
import { button, tabs } from './parts.js';
import { createDraft, jsonEditor, programs, requestForm } from './request-form.js';

export const title = 'Try';

const draft = createDraft();

/** @type {Page.Screen['mount']} */
export function mount(root, { api, route }) {
  const ended = new AbortController();
  const tool = route.query.get('tool');
  // The link of a tool's form.
  if (tool) draft.body = { ...draft.body, tools: [route.query.get('server') ? { type: 'mcp', server_label: route.query.get('server'), allowed_tools: [tool] } : { type: `antwort:${tool}` }] };
  const place = el('div', { class: 'stack' }, el('div', { class: 'empty' }, el('h2', { text: 'The run appears here' }), el('p', { class: 'muted', text: 'Send a request, and watch what the model and the tools do, and for how long.' })));
  const run = runner(api, place);
  const json = jsonEditor(draft);
  const views = tabs('Request as', [{ name: 'Form', panel: requestForm(draft, api, ended.signal) }, { name: 'JSON', panel: json.root }, ...programs(draft)]);
  const send = () => {
    if (draft.fault === null) return run.start();
    views.show('JSON');
    json.focus();
  };
  const forgetKeys = addShortcuts([{ key: 'Ctrl+Enter', help: 'Send the request', run: send }]);
  replace(root, el('div', { class: 'try' },
    el('section', { class: 'card stack', 'aria-label': 'Request' },
      el('div', { class: 'row spread' }, el('h1', { text: title }), button('New request', () => draft.set({ model: draft.body.model, input: '' }), 'quiet small')), views.list, views.panels,
      el('div', { class: 'row send-bar' }, button('Send', send, 'primary'), run.stop, el('span', { class: 'hint' }, el('kbd', { text: 'Ctrl' }), ' ', el('kbd', { text: 'Enter' })))),
    el('section', { class: 'try-run', 'aria-label': 'Run' }, place)));
  return {
    unmount() {
      ended.abort();
      forgetKeys();
      run.leave();
      draft.forget();
    },
  };
}

/** Runs one request at a time. @type {TryScreen['runner']} */
function runner(api, place) {
  /** @type {ReturnType<typeof watch> | null} */
  let live = null;
  const stop = button('Stop', () => void live?.stop());
  stop.hidden = true;
  function start() {
    live?.leave();
    const [request, run, behind] = [draft.body, el('div'), el('div')];
    replace(place, run, behind);
    live = watch(run, {
      api,
      body: { stream: true, ...draft.files.expand(request) },
      onBegin() {
        stop.hidden = false;
        replace(behind);
      },
      onEnd({ response }) {
        if (!run.isConnected) return;
        stop.hidden = true;
        const open = openApprovals(response).length + openCalls(response).length > 0;
        if (!open && response.store !== false && /^(completed|incomplete)$/u.test(response.status)) replace(behind, button('Reply to this', () => reply(request, response.id)));
      },
    });
    // On a narrow screen the run is below the form.
    if (place.getBoundingClientRect().top > innerHeight / 2) place.scrollIntoView({ block: 'start' });
  }
  return { start, stop, leave: () => live?.leave() };
}

/** @type {TryScreen['reply']} */
function reply(request, id) {
  draft.set({ ...request, input: '', previous_response_id: id });
  /** @type {HTMLElement | null} */ (document.querySelector('.request-form textarea'))?.focus();
}
