// Elements, shared parts of the screens, words of values. Nothing here parses markup.

/** Characters that are not seen, or change the order of others; joiners only beside ASCII. */
const HIDDEN = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\u034f\u115f\u1160\u17b4\u17b5\u2028\u2029\u202f\u205f\u3164\ufe00-\ufe0e\uffa0\ufff0-\ufff8\u{e0000}-\u{e0fff}]|(?<=[\0-\x7f])[\u200c\u200d]|[\u200c\u200d](?=[\0-\x7f])/gu;
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gu;
const MAX_INDENTED = 250_000;

/** @type {Of['reveal']} */
export function reveal(text, keepLines = true) {
  return text.replace(HIDDEN, (found) => (keepLines && (found === '\n' || found === '\t') ? found : found.replace(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)));
}

/** @type {Of['indented']} */
export function indented(text) {
  if (text.length > MAX_INDENTED || parseJson(text).error !== null) return reveal(text);
  const tokens = text.match(TOKEN) ?? [];
  let [out, depth] = ['', 0];
  const line = () => `\n${'  '.repeat(Math.min(depth, 40))}`;
  tokens.forEach((token, i) => {
    const [opens, closes] = [/^[{[]$/.test(token), /^[}\]]$/.test(token)];
    const empty = (opens && /^[}\]]$/.test(tokens[i + 1])) || (closes && /^[{[]$/.test(tokens[i - 1]));
    if (closes && !empty) {
      depth -= 1;
      out += line();
    }
    out += token === ':' ? ': ' : reveal(token);
    if (opens && !empty) depth += 1;
    if ((opens && !empty) || token === ',') out += line();
  });
  return out;
}

/** @type {Of['shown']} */
export function shown(value) {
  if (typeof value === 'string') return /^\s*[[{]/u.test(value) ? indented(value) : reveal(value);
  return reveal(JSON.stringify(value, null, 2) ?? '');
}

/** @type {Of['parseJson']} */
export function parseJson(text) {
  if (text.trim() === '') return { value: undefined, error: 'There is no JSON here.' };
  try {
    return { value: JSON.parse(text), error: null };
  } catch (error) {
    const message = /** @type {Error} */ (error).message.replace(/^JSON\.parse: | is not valid JSON$/gu, '');
    // Browsers that name no place quote what is around it.
    const at = Number(/position (\d+)/u.exec(message)?.[1] ?? Number.NaN);
    const place = Number.isNaN(at) || /line \d/u.test(message) ? '' : ` (line ${text.slice(0, at).split('\n').length})`;
    return { value: undefined, error: `This is not JSON: ${reveal(message).slice(0, 160)}${place}` };
  }
}

// --- numbers and times ---

const PLURAL = new Intl.PluralRules('en');

/** @type {Of['counted']} */
export function counted(count, noun, plural = `${noun}s`) {
  return `${number(count)} ${PLURAL.select(count) === 'one' ? noun : plural}`;
}

/** @type {Of['duration']} */
export function duration(ms) {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return '–';
  if (ms < 0) return `−${duration(-ms)}`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 9_950) return `${trim((ms / 1000).toFixed(1))} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return pair(seconds, 60, 'min', 1, 's');
  if (seconds < 86_400) return pair(seconds, 3600, 'h', 60, 'min');
  return pair(seconds, 86_400, 'd', 3600, 'h');
}

/** @type {Of['pair']} */
function pair(seconds, big, bigName, small, smallName) {
  const rounded = Math.round(seconds / small) * small;
  const rest = (rounded % big) / small;
  const first = `${Math.floor(rounded / big)} ${bigName}`;
  return rest === 0 ? first : `${first} ${rest} ${smallName}`;
}

/** @type {Of['trim']} */
const trim = (decimal) => decimal.replace(/\.0+$/, '');

/** @type {Of['number']} */
export function number(value) {
  return value.toLocaleString('en-US');
}

/** @type {Of['tokens']} */
export function tokens(count) {
  if (count === null || count === undefined) return '–';
  if (count < 10_000) return number(count);
  if (count < 999_500) return `${trim((count / 1000).toFixed(count < 99_950 ? 1 : 0))}k`;
  return `${trim((count / 1_000_000).toFixed(1))}M`;
}

/** @type {Of['cost']} */
export function cost(usd) {
  if (usd === null || usd === undefined) return '–';
  if (usd === 0) return '$0';
  if (usd < 0.000_001) return '< $0.000001';
  if (usd < 0.01) return `$${usd.toFixed(6).replace(/0+$/, '')}`;
  return `$${usd.toFixed(usd < 1 ? 3 : 2)}`;
}

/** @type {Of['rate']} */
export function rate(count, ms) {
  if (!count || !ms || ms <= 0) return null;
  const perSecond = (count * 1000) / ms;
  return `${perSecond < 10 ? trim(perSecond.toFixed(1)) : number(Math.round(perSecond))} tokens/s`;
}

/** @type {Of['moment']} */
export function moment(ms, now = Date.now()) {
  if (ms === null || ms === undefined) return '–';
  const date = new Date(ms);
  const time = date.toLocaleTimeString('en-GB');
  if (date.toDateString() === new Date(now).toDateString()) return time;
  return `${date.toLocaleDateString('en-GB', { day: 'numeric', month: 'short', year: 'numeric' })} ${time}`;
}

/** @type {Of['exact']} */
export function exact(ms) {
  if (ms === null || ms === undefined) return '–';
  return new Date(ms).toISOString().replace('T', ' ').replace('Z', ' UTC');
}

/** @type {Of['ago']} */
export function ago(ms, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - ms) / 1000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

/** @type {Of['short']} */
export const short = (id) => (id.length > 22 ? `${id.slice(0, 9)}…${id.slice(-8)}` : id);

// --- elements and signs ---

// Set as properties: their attributes are only the initial state of a control.
const PROPERTIES = new Set(['value', 'checked', 'selected', 'indeterminate']);

/** @type {Of['el']} */
export function el(tag, props, ...children) {
  const element = document.createElement(tag);
  // Not one that submits.
  if (element instanceof HTMLButtonElement) element.type = 'button';
  apply(element, props);
  append(element, children);
  return element;
}

/** @type {Of['replace']} */
export function replace(node, ...children) {
  node.replaceChildren();
  append(node, children);
}

/** @type {Of['append']} */
function append(node, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
}

/** @type {Of['apply']} */
function apply(element, props) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (name === 'text') element.textContent = String(value);
    else if (name === 'class') element.setAttribute('class', String(value));
    else if (name === 'on') for (const [type, listener] of Object.entries(value)) element.addEventListener(type, listener);
    // Through the object model, which the content security policy allows, unlike the attribute.
    else if (name === 'style') for (const [property, set] of Object.entries(value)) element.style.setProperty(property, String(set));
    else if (name === 'data') Object.assign(element.dataset, value);
    else if (PROPERTIES.has(name)) Object.assign(element, { [name]: value });
    else attribute(element, name, value);
  }
}

/** @type {Of['attribute']} */
function attribute(element, name, value) {
  if (value === null || value === undefined) return;
  const flag = typeof value === 'boolean' && !name.startsWith('aria-');
  if (flag && !value) return;
  if (!harmless(name, String(value))) throw new Error(`the page does not set ${name} to ${value}`);
  element.setAttribute(name, flag ? '' : String(value));
}

/** Whether an attribute can neither run a script nor lead to another origin. @type {Of['harmless']} */
function harmless(name, value) {
  if (name.startsWith('on') || name === 'srcdoc' || name === 'style') return false;
  if (name === 'href') return /^(#|\.{1,2}\/)/.test(value);
  if (name === 'src') return /^data:image\/(png|jpeg|gif|webp);/.test(value);
  return true;
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let clearing;

/** @type {Of['announce']} */
export function announce(text) {
  const region = document.getElementById('announcer');
  if (!region) return;
  clearTimeout(clearing);
  // The same words twice are two announcements only if the region was empty in between.
  region.textContent = '';
  requestAnimationFrame(() => (region.textContent = text));
  clearing = setTimeout(() => (region.textContent = ''), 10_000);
}

/** Paths on a grid of 12 by 12. @type {Record<string, string>} */
const PATHS = {
  done: 'M2.5 6.5 5 9 9.5 3.5',
  failed: 'M3 3 9 9M9 3 3 9',
  limit: 'M4 1.5h4L10.5 4v4L8 10.5H4L1.5 8V4ZM6 3.8v3M6 8.2v.1',
  waits: 'M4.2 2.5v7M7.8 2.5v7',
  runs: 'M4 2.5 9.5 6 4 9.5Z',
  queued: 'M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 0 0 0-9M6 3.7V6l1.7 1.2',
  cancelled: 'M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 0 0 0-9M3 9 9 3',
  unknown: 'M4 4.2C4 2.2 8 2.2 8 4.3C8 5.7 6 5.6 6 7.2M6 9.3v.1',
  model: 'M6 1.2 7.3 4.7 10.8 6 7.3 7.3 6 10.8 4.7 7.3 1.2 6 4.7 4.7Z',
  tool: 'M7.2 4.8 2.5 9.5M6.4 3.2a2.4 2.4 0 0 1 3.2-1.4L8.2 3.3l.6.6 1.4-1.4a2.4 2.4 0 0 1-3.2 3.1Z',
  open: 'M3 4.5 6 7.5 9 4.5',
  chain: 'M3 2v3.5a2 2 0 0 0 2 2h4M7 5.5l2 2-2 2',
};

/** @type {Of['icon']} */
export function icon(name) {
  const [sign, path] = ['svg', 'path'].map((tag) => /** @type {any} */ (document.createElementNS('http://www.w3.org/2000/svg', tag)));
  apply(path, { d: own(PATHS, name, PATHS.unknown) });
  apply(sign, { class: `icon icon-${name}`, viewBox: '0 0 12 12', 'aria-hidden': true });
  sign.append(path);
  return sign;
}

/** @type {Of['stateMark']} */
export const stateMark = (state) => el('span', { class: `state ${state.tone}` }, icon(state.icon), state.word);

// --- parts of the screens ---

let ids = 0;

/** @type {Of['field']} */
export function field(label, control, hint) {
  control.id ||= `control-${(ids += 1)}`;
  if (hint) control.setAttribute('aria-describedby', `${control.id}-hint`);
  return el('div', { class: 'field' }, el('label', { for: control.id, text: label }), control, hint ? el('p', { class: 'hint', id: `${control.id}-hint`, text: hint }) : null);
}

/** @type {Of['own']} */
export const own = (table, key, otherwise) => (Object.hasOwn(table, key) ? table[key] : otherwise);

/** @type {Of['keyField']} */
export function keyField(use) {
  const input = el('input', { type: 'text', class: 'secret', autocomplete: 'off', spellcheck: 'false', on: { keydown: (event) => {
    if (event.key !== 'Enter') return;
    // Else it presses what has the focus next.
    event.preventDefault();
    use(input.value);
  } } });
  return [field('API key', input, 'Kept in the memory of this page, sent to this gateway only, and forgotten when the page is closed or reloaded.'), el('div', { class: 'row' }, button('Use this key', () => use(input.value), 'primary'))];
}

/** Rows that stay are not moved, so that they keep the focus. @type {Of['sync']} */
export function sync(tree, wanted) {
  const keep = new Set(wanted);
  for (const child of [...tree.children]) if (!keep.has(/** @type {HTMLElement} */ (child))) child.remove();
  wanted.forEach((row, index) => {
    if (tree.children[index] !== row) tree.insertBefore(row, tree.children[index] ?? null);
  });
}

/** @type {Of['button']} */
export const button = (text, click, look = '') => el('button', { class: look, text, on: { click } });

/** @type {Of['pre']} */
export const pre = (label, text) => el('pre', { tabindex: 0, role: 'group', 'aria-label': label, text });

/** @type {Of['copyButton']} */
export function copyButton(text) {
  const copy = button('Copy', async () => {
    // Without TLS browsers have no clipboard for pages of other hosts.
    const done = await navigator.clipboard?.writeText(text()).then(() => true, () => false);
    copy.textContent = done ? 'Copied' : 'Select and copy it by hand';
    if (done) announce('Copied.');
    setTimeout(() => (copy.textContent = 'Copy'), 2000);
  }, 'small');
  return copy;
}

/** @type {Of['codeBlock']} */
export const codeBlock = (label, text) => el('div', { class: 'stack tight' }, pre(label, text), el('div', null, copyButton(() => text)));

/** @type {Of['tabs']} */
export function tabs(label, tabs) {
  const id = `tabs-${(ids += 1)}`;
  const buttons = tabs.map(({ name }, i) => el('button', { role: 'tab', id: `${id}-${i}`, 'aria-controls': `${id}-panel-${i}`, text: name, on: { click: () => select(i), keydown: (event) => move(event, i) } }));
  const panels = tabs.map(({ panel }, i) => el('div', { role: 'tabpanel', id: `${id}-panel-${i}`, 'aria-labelledby': `${id}-${i}` }, panel));
  function select(chosen = 0) {
    buttons.forEach((tab, i) => {
      tab.setAttribute('aria-selected', String(i === chosen));
      tab.tabIndex = i === chosen ? 0 : -1;
      panels[i].hidden = i !== chosen;
    });
    tabs[chosen].onShow?.();
  }
  function move(/** @type {KeyboardEvent} */ event, from = 0) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (from + step + tabs.length) % tabs.length;
    select(next);
    buttons[next].focus();
  }
  select(0);
  return { list: el('div', { role: 'tablist', class: 'tabs', 'aria-label': label }, buttons), panels: el('div', null, panels), show: (name) => select(tabs.findIndex((tab) => tab.name === name)) };
}

/** @type {Of['state']} */
export const state = (look, word) => el('span', { class: `state ${look}` }, icon({ ok: 'done', bad: 'failed', warn: 'limit', busy: 'runs', off: 'queued' }[look]), word);

/** @type {Of['facts']} */
export const facts = (rows) => el('dl', { class: 'facts' }, rows.flatMap(([term, value]) => [el('dt', { text: term }), el('dd', null, value instanceof Node ? value : String(value))]));

/** Of several loads into one place the last counts. @type {Of['fill']} */
export async function fill(place, load, draw, failed) {
  const turn = String((ids += 1));
  place.dataset.load = turn;
  const children = await load().then(draw).catch(failed);
  if (place.dataset.load === turn) replace(place, ...[children].flat());
}

// --- keyboard shortcuts, and dialogs ---

/** @type {Set<Page.Shortcut[]>} */
const groups = new Set();
// Single characters can get in the way of speech input, so they can be turned off.
let characters = true;

/** @type {Of['addShortcuts']} */
export function addShortcuts(shortcuts) {
  groups.add(shortcuts);
  return () => void groups.delete(shortcuts);
}

export function startKeys() {
  addShortcuts([{ key: '?', help: 'Show this list', run: showHelp }]);
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.isComposing || document.querySelector('dialog[open]')) return;
    const pressed = keyOf(event);
    if (pressed.length === 1 && (!characters || isWriting(event.target))) return;
    // The latest screen goes first.
    const found = [...groups].reverse().flat().find((shortcut) => shortcut.key === pressed);
    if (!found) return;
    event.preventDefault();
    found.run?.();
  });
}

/** @type {Of['keyOf']} */
function keyOf(event) {
  if (event.altKey) return '';
  return (event.ctrlKey || event.metaKey ? 'Ctrl+' : '') + event.key;
}

/** @type {Of['isWriting']} */
function isWriting(target) {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches('input:not([type=range], [type=radio], [type=checkbox]), textarea, select'));
}

export function showHelp() {
  const rows = [...groups].flat().map(({ key, help }) => el('tr', null, el('th', { scope: 'row' }, el('kbd', { text: key })), el('td', { text: help })));
  const toggle = el('input', { type: 'checkbox', checked: characters, on: { change: () => (characters = toggle.checked) } });
  openDialog('Keyboard', el('table', { class: 'keys' }, el('tbody', null, rows)), el('label', { class: 'check' }, toggle, ' Shortcuts of a single character'));
}

/** @type {Of['openDialog']} */
export function openDialog(title, ...content) {
  const dialog = el('dialog', { 'aria-label': title, on: { close: () => dialog.remove() } });
  replace(dialog, el('div', { class: 'row spread' }, el('h2', { text: title }), button('Close', () => dialog.close(), 'quiet')), ...content);
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
