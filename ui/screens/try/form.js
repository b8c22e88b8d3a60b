// The form of a request: who answers, what is asked, with which tools and limits.

import { el, replace } from '../../lib/dom.js';
import { readInput, setAt, writeInput } from '../../request.js';
import { button, field } from '../parts.js';
import { checkField, nameField, numberField, selectField, textField } from './controls.js';
import { toolsEditor } from './tools.js';

/** @typedef {Record<string, any>} Json */
/** @typedef {import('./controls.js').Draft} Draft */
/** @typedef {import('../../lib/api.js').Api} Api */

const MAX_IMAGE_BYTES = 16 * 1024 * 1024;

/** @param {Draft} draft @param {Api} api @param {AbortSignal} signal */
export function requestForm(draft, api, signal) {
  const model = nameField(draft, 'model', 'Model', 'not set');
  const agent = nameField(draft, 'agent', 'Agent', 'none');
  const tools = toolsEditor(draft);
  void offerModels(draft, api, model.offer, signal);
  void offerAgents(api, agent.offer, agent.root, signal);
  void offerTools(api, tools.offer, signal);
  return el('div', { class: 'stack request-form' },
    inputField(draft),
    el('div', { class: 'pair' }, model.root, agent.root),
    textField(draft, 'instructions', 'Instructions', { rows: 2, placeholder: 'Be brief.' }),
    tools.root, limits(draft), options(draft));
}

/** @param {Draft} draft */
function inputField(draft) {
  const text = el('textarea', { rows: 4, placeholder: 'Ask something', on: { input: () => write() } });
  const file = el('input', { type: 'file', accept: 'image/png,image/jpeg,image/gif,image/webp', class: 'visually-hidden', tabindex: -1, 'aria-label': 'Image file', on: { change: () => void attach() } });
  const pick = button('Attach an image', () => file.click(), 'small');
  const preview = el('div', { class: 'row' });
  const note = el('p', { class: 'fault', role: 'alert' });
  const elsewhere = el('p', { class: 'notice', text: 'The input has more than a text and an image: edit it in the tab JSON.' });
  /** @type {string | null} */
  let image = null;
  const write = () => draft.set(setAt(draft.body, 'input', writeInput(text.value, image)), view);

  async function attach() {
    const [chosen] = file.files ?? [];
    file.value = '';
    if (!chosen) return;
    note.textContent = chosen.size > MAX_IMAGE_BYTES ? 'The image is larger than 16 MiB.' : '';
    if (note.textContent) return;
    image = draft.attachments.add(chosen.name, await dataUrl(chosen));
    write();
    draw();
  }
  function draw() {
    const url = image && (draft.attachments.get(image) ?? image);
    const shows = url && /^data:image\/(png|jpeg|gif|webp);/u.test(url);
    const remove = button('Remove the image', () => { image = null; write(); draw(); pick.focus(); }, 'quiet small');
    replace(preview, ...(image ? [shows ? el('img', { src: url, alt: 'The attached image', class: 'thumbnail' }) : el('code', { class: 'small', text: image.slice(0, 80) }), remove] : [pick]));
  }
  const input = field('Input', text);
  const view = {
    refresh(/** @type {Json} */ body) {
      const read = readInput(body.input);
      elsewhere.hidden = read !== null;
      input.hidden = read === null;
      preview.hidden = read === null;
      if (!read) return;
      [text.value, image] = [read.text, read.image];
      draw();
    },
  };
  draft.watch(view);
  return el('div', { class: 'stack tight' }, input, elsewhere, preview, file, note);
}

/** @param {File} file @returns {Promise<string>} */
function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

/** @param {Draft} draft */
function limits(draft) {
  return el('details', null, el('summary', { text: 'Limits' }), el('div', { class: 'pair inset' },
    numberField(draft, 'max_output_tokens', 'Output tokens'),
    numberField(draft, 'max_tool_calls', 'Tool calls'),
    numberField(draft, 'antwort.limits.max_turns', 'Turns', { hint: 'Calls of the model' }),
    numberField(draft, 'antwort.limits.max_seconds', 'Seconds', { min: 0, step: 'any' }),
    numberField(draft, 'antwort.limits.max_total_tokens', 'Tokens in all'),
    numberField(draft, 'antwort.limits.max_cost_usd', 'Cost in US dollars', { min: 0, step: 'any', hint: 'Needs prices in the configuration' }),
    numberField(draft, 'antwort.limits.max_identical_calls', 'Identical calls')));
}

/** @param {Draft} draft */
function options(draft) {
  return el('details', null, el('summary', { text: 'Options' }), el('div', { class: 'stack inset' },
    el('div', { class: 'pair' },
      selectField(draft, 'tool_choice', 'Must the model call a tool?', [[undefined, 'it decides'], ['required', 'yes, one'], ['none', 'no, it may not']]),
      selectField(draft, 'antwort.stream_visibility', 'Calls of the gateway’s tools', [[undefined, 'as configured'], ['full', 'shown with arguments and events'], ['items', 'shown when they are done'], ['hidden', 'hidden']]),
      selectField(draft, 'reasoning.effort', 'Reasoning effort', [[undefined, 'not set'], ...['none', 'minimal', 'low', 'medium', 'high', 'xhigh'].map((word) => /** @type {[string, string]} */ ([word, word]))]),
      numberField(draft, 'temperature', 'Temperature', { min: 0, step: 'any' })),
    textField(draft, 'previous_response_id', 'Continue the response', { placeholder: 'resp_…' }),
    checkField(draft, 'store', 'Store the response', { checked: undefined, unchecked: false, byDefault: true }),
    checkField(draft, 'background', 'Run in the background: it goes on without this page', { checked: true }),
    checkField(draft, 'antwort.elicitation', 'Show questions of MCP tools here', { checked: ['form', 'url'] }),
    checkField(draft, 'antwort.client_tools', 'Wait within the run for functions of the client', { checked: 'inline' }),
    checkField(draft, 'antwort.tool_progress', 'Stream the progress of tools', { checked: true })));
}

/** Why something cannot be offered, in one sentence. @param {any} error @param {string} what @param {string} scope */
function whyNot(error, what, scope) {
  if (error.status === 401) return 'Enter an API key first: button “Key”.';
  return error.status === 403 ? `This key may not list ${what} (scope ${scope}): enter a name.` : `The ${what} cannot be listed: ${error.message}`;
}

/** @typedef {(names: {name: string, words?: string}[], note?: string) => void} OfferNames */

/** @param {Draft} draft @param {Api} api @param {OfferNames} offer @param {AbortSignal} signal */
async function offerModels(draft, api, offer, signal) {
  try {
    const { data } = await api.get('v1/models', {}, { signal });
    const names = data.map((/** @type {Json} */ model) => ({ name: String(model.id) }));
    // The first model is as good as any; a request without one is refused.
    if (names.length > 0 && draft.body.model === undefined && draft.body.agent === undefined) draft.set({ model: names[0].name, ...draft.body });
    offer(names, names.length === 0 ? 'No provider has told its models: enter a name.' : '');
  } catch (error) {
    if (!signal.aborted) offer([], whyNot(error, 'models', 'models:read'));
  }
}

/** @param {Api} api @param {OfferNames} offer @param {HTMLElement} root @param {AbortSignal} signal */
async function offerAgents(api, offer, root, signal) {
  try {
    const { data } = await api.get('v1/agents', {}, { signal });
    offer(data.map((/** @type {Json} */ agent) => ({ name: String(agent.id), words: agent.description ?? undefined })));
    root.hidden = data.length === 0;
  } catch (error) {
    if (signal.aborted) return;
    offer([], whyNot(error, 'agents', 'agents:read'));
    root.hidden = /** @type {any} */ (error).status === 401;
  }
}

/** @param {Api} api @param {(offers: import('./tools.js').Offer[], note: string) => void} offer @param {AbortSignal} signal */
async function offerTools(api, offer, signal) {
  const all = [
    api.get('v1/tools', {}, { signal }).then(({ data }) => [
      ...(data.length > 1 ? [{ words: 'All tools of the gateway', group: 'Tools of the gateway', tool: { type: 'mcp', server_label: 'antwort' } }] : []),
      ...data.map((/** @type {Json} */ tool) => ({ words: tool.name, group: 'Tools of the gateway', tool: { type: `antwort:${tool.name}` } })),
    ]),
    api.get('v1/mcp/servers', {}, { signal }).then(({ data }) => {
      const labels = new Set(data.map((/** @type {Json} */ server) => server.server_label).filter(Boolean));
      return [...labels].map((label) => ({ words: String(label), group: 'MCP servers of the configuration', tool: { type: 'mcp', server_label: label } }));
    }),
  ];
  const [own, servers] = await Promise.allSettled(all);
  if (signal.aborted) return;
  const notes = [own.status === 'rejected' && whyNot(own.reason, 'tools', 'tools:read'), servers.status === 'rejected' && servers.reason.status !== 401 && 'MCP servers cannot be listed with this key (scope mcp:admin): add one by its label.'];
  offer([own, servers].flatMap((part) => (part.status === 'fulfilled' ? part.value : [])), notes.filter(Boolean).join(' '));
}
