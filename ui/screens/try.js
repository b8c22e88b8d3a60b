// Try: a request on the left, its run on the right.

import { asObject, schemaForm } from '../forms.js';
import { gateway } from '../lib/api.js';
import { addShortcuts, button, copyButton, el, field, parseJson, pre, replace, shown, tabs } from '../lib/dom.js';
import { asSent, attachments, curl, describeTool, getAt, isSameTool, isServer, javascript, openApprovals, openCalls, python, readInput, setAt, withTools, writeInput } from '../protocol.js';
import { watch } from './run.js';

export const title = 'Try';

const draft = createDraft();

/** @type {Page.Screen['mount']} */
export function mount(root, { api, route }) {
  const ended = new AbortController();
  const tool = route.query.get('tool');
  // The link of a tool's form.
  if (tool) draft.body = withTools(draft.body, [route.query.get('server') ? { type: 'mcp', server_label: route.query.get('server'), allowed_tools: [tool] } : { type: `antwort:${tool}` }]);
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

/** @type {Of['runner']} */
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
      body: draft.files.expand(asSent(request)),
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

/** @type {Of['reply']} */
function reply(request, id) {
  draft.set({ ...request, input: '', previous_response_id: id });
  /** @type {HTMLElement | null} */ (document.querySelector('.request-form textarea'))?.focus();
}

const MAX_IMAGE_BYTES = 16 * 1024 * 1024;

/** @returns {Draft} it stays while the page is open, whichever screen is shown */
function createDraft() {
  /** @type {Set<View>} */
  const views = new Set();
  return {
    body: { input: '' },
    fault: null,
    files: attachments(),
    set(body, by) {
      [this.body, this.fault] = [body, null];
      for (const view of views) if (view !== by) view(body);
    },
    watch(view) {
      views.add(view);
      view(this.body);
    },
    forget: () => views.clear(),
  };
}

const count = (title = '') => ({ type: 'integer', title });
const LIMITS = {
  max_output_tokens: count('Output tokens'), max_tool_calls: count('Tool calls'), 'antwort.limits.max_turns': count('Turns'), 'antwort.limits.max_total_tokens': count('Tokens in all'),
  'antwort.limits.max_seconds': { type: 'number', title: 'Seconds' }, 'antwort.limits.max_cost_usd': { type: 'number', title: 'Cost in US dollars' }, 'antwort.limits.max_identical_calls': count('Identical calls'),
};
const OPTIONS = {
  tool_choice: { title: 'Has the model to call a tool?', oneOf: [{ const: 'required', title: 'yes, one' }, { const: 'none', title: 'no, it may not' }] },
  'antwort.stream_visibility': { title: 'Calls of the gateway’s tools', enum: ['full', 'items', 'hidden'] },
  'reasoning.effort': { title: 'Reasoning effort', enum: ['none', 'minimal', 'low', 'medium', 'high', 'xhigh'] },
  temperature: { title: 'Temperature', type: 'number' },
  previous_response_id: { title: 'Continue the response', type: 'string' },
  store: { title: 'Store the response', type: 'boolean' },
  background: { title: 'Run in the background', type: 'boolean' },
  'antwort.client_tools': { title: 'Functions of the client', oneOf: [{ const: 'pause', title: 'end the response' }, { const: 'inline', title: 'are waited for within the run' }] },
  'antwort.elicitation': { title: 'Questions of MCP tools, shown here', type: 'array', items: { enum: ['form', 'url'] } },
};

/** @type {Of['requestForm']} */
function requestForm(draft, api, signal) {
  const text = { type: 'string' };
  const who = section(draft, 'Model and instructions', { model: { ...text, title: 'Model' }, agent: { ...text, title: 'Agent' }, instructions: { ...text, title: 'Instructions', contentMediaType: 'text/plain' } });
  const note = el('p', { class: 'hint' });
  const tools = toolsEditor(draft);
  void offer(draft, api, signal, who, tools.offer, note);
  const details = (title = '', schema = {}) => el('details', null, el('summary', { text: title }), section(draft, title, schema).root);
  return el('div', { class: 'stack request-form' }, inputField(draft), who.root, note, tools.root, details('Limits', LIMITS), details('Options', OPTIONS));
}

/** @type {Of['section']} */
function section(draft, name, properties) {
  /** @type {ReturnType<typeof schemaForm>} */
  let form;
  /** @type {Json} */
  let before = {};
  const root = el('div', { class: 'pairs', on: { input: write, change: write } });
  const read = () => /** @type {Json} */ (form.readForm(true).value ?? {});
  // Only what was changed here: the form may not know what the JSON says.
  function write() {
    const now = read();
    const changed = Object.keys(properties).filter((path) => JSON.stringify(now[path]) !== JSON.stringify(before[path]));
    before = now;
    if (changed.length > 0) draft.set(changed.reduce((body, path) => setAt(body, path, now[path]), draft.body), view);
    // A model that nobody has chosen gives way to that of an agent.
    if (!changed.includes('agent') || !now.agent || draft.body.model !== draft.offered) return;
    const [model] = root.querySelectorAll('select');
    model.value = '';
    before = read();
    draft.set(setAt(draft.body, 'model', undefined), view);
  }
  const view = (/** @type {Json} */ body) => {
    const value = Object.fromEntries(Object.keys(properties).map((path) => [path, getAt(body, path)]));
    form = schemaForm({ type: 'object', properties }, { name, value, bare: true });
    before = read();
    replace(root, form.root);
  };
  draft.watch(view);
  /** A choice of these, and of what the request has. @type {Section['choose']} */
  function choose(path, names) {
    const now = getAt(draft.body, path);
    const all = now === undefined || names.some((one) => one.name === now) ? names : [...names, { name: String(now) }];
    properties = { ...properties, [path]: { ...properties[path], oneOf: all.map(({ name: one, words }) => ({ const: one, title: words ? `${one} – ${words}` : one })) } };
    view(draft.body);
  }
  return { root, choose };
}

/** @type {Of['inputField']} */
function inputField(draft) {
  const text = el('textarea', { rows: 4, placeholder: 'Ask something', on: { input: write } });
  const file = el('input', { type: 'file', accept: 'image/png,image/jpeg,image/gif,image/webp', class: 'visually-hidden', tabindex: -1, 'aria-label': 'Image file', on: { change: attach } });
  const pick = button('Attach an image', () => file.click(), 'small');
  const preview = el('div', { class: 'row' });
  const note = el('p', { class: 'fault', role: 'alert' });
  const input = el('div', { class: 'stack tight' }, field('Input', text), preview, file, note);
  const elsewhere = el('p', { class: 'notice', text: 'The input is more than a text and an image: edit it in the tab JSON.' });
  /** @type {string | null} */
  let image = null;
  function write() {
    draft.set(setAt(draft.body, 'input', writeInput(text.value, image)), view);
  }
  /** @type {(short: string | null) => void} */
  function show(short) {
    image = short;
    const url = draft.files.get(short ?? '') ?? '';
    const drawing = url ? el('img', { src: url, alt: 'The attached image', class: 'thumbnail' }) : el('code', { class: 'small', text: String(short).slice(0, 80) });
    replace(preview, ...(short ? [drawing, button('Remove the image', () => { show(null); write(); }, 'quiet small')] : [pick]));
  }
  function attach() {
    const [chosen] = file.files ?? [];
    const reader = new FileReader();
    reader.onload = () => { show(draft.files.add(chosen.name, String(reader.result))); write(); };
    note.textContent = chosen?.size > MAX_IMAGE_BYTES ? 'The image is larger than 16 MiB.' : '';
    if (chosen && !note.textContent) reader.readAsDataURL(chosen);
    file.value = '';
  }
  const view = (/** @type {Json} */ body) => {
    const read = readInput(body.input);
    [elsewhere.hidden, input.hidden] = [read !== null, read === null];
    if (!read) return;
    text.value = read.text;
    show(read.image);
  };
  draft.watch(view);
  return el('div', null, input, elsewhere);
}

/** @type {Of['toolsEditor']} */
function toolsEditor(draft) {
  const rows = el('ul', { class: 'tool-rows' });
  const choice = el('select', null);
  /** @type {Json[]} */
  let offered = [];
  const adder = field('Add a tool', choice);
  adder.append(button('Add', () => offered[Number(choice.value)] && add(offered[Number(choice.value)].tool)));
  /** @param {(tools: Json[]) => Json[]} change */
  const change = (change) => draft.set(withTools(draft.body, change([draft.body.tools ?? []].flat())));
  const add = (/** @type {Json} */ tool) => change((tools) => [...tools.filter((one) => !isSameTool(one, tool)), tool]);
  /** @param {any} tool @param {number} index */
  function row(tool, index) {
    const [title, kind] = describeTool(tool);
    const policy = ['', 'always', 'never'];
    const approval = el('select', { 'aria-label': `Approval of calls of ${title}`, on: { change: () => change((tools) => tools.map((one, i) => (i === index ? setAt(one, 'require_approval', approval.value || undefined) : one))) } },
      policy.map((value) => el('option', { value, text: `Approval: ${value || 'as configured'}`, selected: value === tool.require_approval })));
    const has = isServer(tool) && typeof (tool.require_approval ?? '') === 'string';
    return el('li', { class: 'row' }, el('code', { text: shown(title) }), el('span', { class: 'muted small grow', text: shown(kind) }), has ? approval : null, button('Remove', () => change((tools) => tools.filter((_, i) => i !== index)), 'quiet small'));
  }
  draft.watch(({ tools }) => replace(rows, [tools ?? []].flat().map(row)));
  const text = (title = '', more = {}) => ({ type: 'string', title, ...more });
  const root = el('fieldset', null, el('legend', { text: 'Tools' }), rows, adder,
    addForm('an MCP server', { server_label: text('Label'), server_url: text('Address', { description: 'Left empty for a server of the configuration' }), authorization: text('Token', { writeOnly: true }), allowed_tools: { type: 'array', items: { type: 'string' }, title: 'Only these tools' } }, 'server_label', (tool) => add({ type: 'mcp', ...tool })),
    addForm('a function of the client', { name: text('Name'), description: text('Description'), parameters: { title: 'Parameters, a JSON Schema', default: { type: 'object', properties: { room: { type: 'string' } } } } }, 'name', (tool) => add({ type: 'function', ...tool })));
  return {
    root,
    offer(offers) {
      offered = offers;
      const groups = [...new Set(offers.map(({ group }) => group))];
      replace(choice, groups.map((group) => el('optgroup', { label: group }, offers.map((one, i) => (one.group === group ? el('option', { value: i, text: one.words }) : null)))));
      adder.hidden = offers.length === 0;
    },
  };
}

/** @type {Of['addForm']} */
function addForm(what, properties, required, add) {
  const make = () => schemaForm({ type: 'object', properties, required: [required] }, { name: `Add ${what}`, bare: true });
  let form = make();
  const place = el('div', null, form.root);
  const done = () => {
    const { value, faults } = form.readForm();
    if (faults.length > 0) return;
    add(value);
    form = make();
    replace(place, form.root);
  };
  return el('details', null, el('summary', { text: `Add ${what}` }), el('div', { class: 'stack inset' }, place, el('div', null, button('Add it', done))));
}

/** @type {Of['offer']} */
async function offer(draft, api, signal, who, offerTools, note) {
  const [models, agents, tools, servers] = await Promise.all(['models', 'agents', 'tools', 'mcp/servers'].map((what) => api.get(`v1/${what}`, {}, { signal }).then(({ data }) => data, (error) => error)));
  if (signal.aborted) return;
  const refused = [models, agents, tools, servers].filter((list) => !Array.isArray(list) && list.status !== 401);
  note.textContent = refused.length > 0 ? `Not everything can be listed: ${refused[0].message}` : '';
  const ids = (/** @type {any} */ list) => (Array.isArray(list) ? list : []).map(({ id, description }) => ({ name: String(id), words: description }));
  // The first model is as good as any; a request without one is refused.
  if (models[0] && draft.body.model === undefined && draft.body.agent === undefined) {
    draft.offered = models[0].id;
    draft.set({ model: draft.offered, ...draft.body });
  }
  if (models.length > 0) who.choose('model', ids(models).map(({ name }) => ({ name })));
  if (agents.length > 0) who.choose('agent', ids(agents));
  const own = [tools].flat().filter(({ name }) => name && !(tools instanceof Error)).map(({ name }) => ({ words: name, group: 'Tools of the gateway', tool: { type: `antwort:${name}` } }));
  const labels = new Set(Array.isArray(servers) ? servers.map(({ server_label: label }) => label).filter(Boolean) : []);
  offerTools([...(own.length > 1 ? [{ words: 'All tools of the gateway', group: 'Tools of the gateway', tool: { type: 'mcp', server_label: 'antwort' } }] : []), ...own,
    ...[...labels].map((label) => ({ words: label, group: 'MCP servers', tool: { type: 'mcp', server_label: label } }))]);
}

/** @type {Of['jsonEditor']} */
function jsonEditor(draft) {
  const fault = el('p', { class: 'fault', role: 'alert' });
  const text = el('textarea', { class: 'code', rows: 22, spellcheck: 'false', on: { input: read } });
  function read() {
    const { value, error } = parseJson(text.value);
    const wrong = error ?? (asObject(value) === value ? null : 'A request is a JSON object: {…}.');
    say(wrong);
    if (wrong === null) draft.set(value, view);
    else draft.fault = wrong;
  }
  /** @type {(wrong: string | null) => void} */
  function say(wrong) {
    fault.textContent = wrong === null ? '' : `${wrong} The form keeps the last version that could be read.`;
    text.setAttribute('aria-invalid', String(wrong !== null));
  }
  const view = (/** @type {Json} */ body) => {
    text.value = JSON.stringify(body, null, 2);
    say(null);
  };
  draft.watch(view);
  const root = field('Request body', text, 'Changes are taken over by the form, and the other way round. Without "stream" it is sent with "stream": true.');
  root.append(fault, el('div', null, copyButton(() => text.value)));
  return { root, focus: () => text.focus() };
}

/** @type {Of['programs']} */
function programs(draft) {
  return Object.entries({ curl, Python: python, JavaScript: javascript }).map(([name, write]) => {
    const text = pre(`The request in ${name}`, '');
    const onShow = () => (text.textContent = write(new URL('v1', gateway()).href, asSent(draft.body)));
    draft.watch(() => text.checkVisibility?.() && onShow());
    const hint = el('p', { class: 'hint', text: 'The key is read from the variable ANTWORT_API_KEY. Of attached files there is only the name.' });
    return { name, panel: el('div', { class: 'stack' }, text, el('div', { class: 'row' }, copyButton(() => text.textContent ?? ''), hint)), onShow };
  });
}
