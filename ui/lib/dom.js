// Makes elements, signs, and the parts that the screens share. Text is always set as text: nothing here parses markup, so that a model's or a
// tool's words stay words.

/** @typedef {Node | string | number | null | undefined | false} Child @typedef {{ class?: string, text?: string | number, on?: Record<string, (event: any) => void>, style?: Record<string, string | number>, data?: Record<string, string | number>, [attribute: string]: unknown, }} Props */

const SVG = 'http://www.w3.org/2000/svg';
// Set as properties: their attributes are only the initial state of a control.
const PROPERTIES = new Set(['value', 'checked', 'selected', 'indeterminate']);

/**
 * An HTML element. Props are attributes, besides `class`, `text`, `on` (listeners), `style` (an object) and `data`.
 * An attribute of `true` is set without a value; of `false`, null or undefined not at all (but `aria-*` is written out).
 * @template {keyof HTMLElementTagNameMap} K @param {K} tag @param {Props | null} [props] @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function el(tag, props, ...children) {
  const element = document.createElement(tag);
  // Not one that submits.
  if (element instanceof HTMLButtonElement) element.type = 'button';
  apply(element, props);
  append(element, children);
  return element;
}

/**
 * The same for SVG.
 * @template {keyof SVGElementTagNameMap} K @param {K} tag @param {Props | null} [props] @param {...(Child | Child[])} children
 * @returns {SVGElementTagNameMap[K]}
 */
function svg(tag, props, ...children) {
  const element = document.createElementNS(SVG, tag);
  apply(element, props);
  append(element, children);
  return /** @type {SVGElementTagNameMap[K]} */ (element);
}

/** Puts children in the place of those that a node has. @param {Element} node @param {...(Child | Child[])} children */
export function replace(node, ...children) {
  node.replaceChildren();
  append(node, children);
}

/** @param {Element} node @param {(Child | Child[])[]} children */
function append(node, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
}

/** @param {HTMLElement | SVGElement} element @param {Props | null | undefined} props */
function apply(element, props) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (name === 'text') element.textContent = String(value);
    else if (name === 'class') element.setAttribute('class', String(value));
    else if (name === 'on') listen(element, /** @type {Record<string, (event: any) => void>} */ (value));
    else if (name === 'style') restyle(element, /** @type {Record<string, string | number>} */ (value));
    else if (name === 'data') Object.assign(element.dataset, value);
    else if (PROPERTIES.has(name)) Object.assign(element, { [name]: value });
    else attribute(element, name, value);
  }
}

/** @type {Of.dom['listen']} */
function listen(element, listeners) {
  for (const [type, listener] of Object.entries(listeners)) element.addEventListener(type, listener);
}

/** Through the object model, which the content security policy allows, unlike the attribute. @type {Of.dom['restyle']} */
function restyle(element, style) {
  for (const [name, value] of Object.entries(style)) element.style.setProperty(name, String(value));
}

/** @type {Of.dom['attribute']} */
function attribute(element, name, value) {
  if (value === null || value === undefined) return;
  if (typeof value === 'boolean' && !name.startsWith('aria-')) {
    if (value) element.setAttribute(name, '');
    return;
  }
  if (!harmless(name, String(value))) throw new Error(`the page does not set ${name} to ${value}`);
  element.setAttribute(name, String(value));
}

/** Whether an attribute can neither run a script nor lead to another origin. @type {Of.dom['harmless']} */
function harmless(name, value) {
  if (name.startsWith('on') || name === 'srcdoc' || name === 'style') return false;
  if (name === 'href') return /^(#|\.{1,2}\/)/.test(value);
  if (name === 'src') return /^data:image\/(png|jpeg|gif|webp);/.test(value);
  return true;
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let clearing;

/** @type {Of.dom['announce']} */
export function announce(text) {
  const region = document.getElementById('announcer');
  if (!region) return;
  clearTimeout(clearing);
  // The same words twice are two announcements only if the region was empty in between.
  region.textContent = '';
  requestAnimationFrame(() => (region.textContent = text));
  clearing = setTimeout(() => (region.textContent = ''), 10_000);
}

/** Paths on a grid of 12 by 12; those of `FILLED` are areas, the others lines. @type {Record<string, string>} */
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

/** @type {Of.dom['icon']} */
export function icon(name) {
  const path = svg('path', { d: PATHS[name] ?? PATHS.unknown });
  return svg('svg', { class: `icon icon-${name}`, viewBox: '0 0 12 12', 'aria-hidden': 'true', focusable: 'false' }, path);
}

/** A state: its shape, its word, and only then its colour. @type {Of.dom['stateMark']} */
export const stateMark = (state) => el('span', { class: `state ${state.tone}` }, icon(state.icon), state.word);

let ids = 0;

/** A control with its label. @type {Parts['field']} */
export function field(label, control, hint) {
  control.id ||= `control-${(ids += 1)}`;
  if (hint) control.setAttribute('aria-describedby', `${control.id}-hint`);
  return el('div', { class: 'field' }, el('label', { for: control.id, text: label }), control, hint ? el('p', { class: 'hint', id: `${control.id}-hint`, text: hint }) : null);
}

/** @type {Parts['button']} */
export const button = (text, click, look = '') => el('button', { class: look, text, on: { click } });

/** A text that scrolls by itself. @type {Parts['pre']} */
export const pre = (label, text) => el('pre', { tabindex: 0, role: 'group', 'aria-label': label, text });

/** @param {() => string} text */
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

/** A text to be copied. @type {Parts['codeBlock']} */
export const codeBlock = (label, text) => el('div', { class: 'stack tight' }, pre(label, text), el('div', null, copyButton(() => text)));

/** Tabs, by the pattern of ARIA: arrows move, and the panel follows. @type {Parts['tabs']} */
export function tabs(label, tabs) {
  const id = `tabs-${(ids += 1)}`;
  const buttons = tabs.map(({ name }, i) => el('button', { role: 'tab', id: `${id}-${i}`, 'aria-controls': `${id}-panel-${i}`, text: name, on: { click: () => select(i), keydown: (event) => move(event, i) } }));
  const panels = tabs.map(({ panel }, i) => el('div', { role: 'tabpanel', id: `${id}-panel-${i}`, 'aria-labelledby': `${id}-${i}` }, panel));
  /** @param {number} chosen */
  function select(chosen) {
    buttons.forEach((tab, i) => {
      tab.setAttribute('aria-selected', String(i === chosen));
      tab.tabIndex = i === chosen ? 0 : -1;
      panels[i].hidden = i !== chosen;
    });
    tabs[chosen].onShow?.();
  }
  /** @param {KeyboardEvent} event @param {number} from */
  function move(event, from) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (from + step + tabs.length) % tabs.length;
    select(next);
    buttons[next].focus();
  }
  select(0);
  return { list: el('div', { role: 'tablist', class: 'tabs', 'aria-label': label }, buttons), panels: el('div', null, panels), show: (/** @type {string} */ name) => select(tabs.findIndex((tab) => tab.name === name)) };
}

/** A state by sign and word. @type {Parts['state']} */
export const state = (look, word) => el('span', { class: `state ${look}` }, icon({ ok: 'done', bad: 'failed', warn: 'limit', busy: 'runs', off: 'queued' }[look]), word);

/** Terms with what is known of them. @param {[string, any][]} rows */
export const facts = (rows) => el('dl', { class: 'facts' }, rows.flatMap(([term, value]) => [el('dt', { text: term }), el('dd', null, value instanceof Node ? value : String(value))]));

/**
 * Fills a place with what is loaded, or with why it is not. Of several loads into one place the last counts.
 * @template T @param {HTMLElement} place @param {() => Promise<T>} load
 * @param {(loaded: T) => any} draw a child, or a list of children @param {(error: any) => any} failed
 */
export async function fill(place, load, draw, failed) {
  const turn = String((ids += 1));
  place.dataset.load = turn;
  const children = await load().then(draw).catch(failed);
  if (place.dataset.load === turn) replace(place, ...[children].flat());
}

/** @type {Set<Page.Shortcut[]>} */
const groups = new Set();
// Single characters can get in the way of speech input, so they can be turned off.
let characters = true;

/** @type {Of.keys['addShortcuts']} */
export function addShortcuts(shortcuts) {
  groups.add(shortcuts);
  return () => void groups.delete(shortcuts);
}

/** Listens; once per page. */
export function startKeys() {
  addShortcuts([{ key: '?', help: 'Show this list', run: showHelp }]);
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.isComposing || document.querySelector('dialog[open]')) return;
    const pressed = nameOf(event);
    if (pressed.length === 1 && (!characters || isWriting(event.target))) return;
    // The latest screen goes first.
    const found = [...groups].reverse().flat().find((shortcut) => shortcut.key === pressed);
    if (!found) return;
    event.preventDefault();
    found.run(event);
  });
}

/** @type {Of.keys['nameOf']} */
function nameOf(event) {
  if (event.altKey) return '';
  return (event.ctrlKey || event.metaKey ? 'Ctrl+' : '') + event.key;
}

/** @type {Of.keys['isWriting']} */
function isWriting(target) {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches('input:not([type=range], [type=radio], [type=checkbox]), textarea, select'));
}

/** Opens the list of the shortcuts that work now. */
export function showHelp() {
  const rows = [...groups].flat().map((shortcut) =>
    el('tr', null, el('th', { scope: 'row' }, el('kbd', { text: shortcut.key })), el('td', { text: shortcut.help })),
  );
  const toggle = el('input', {
    type: 'checkbox',
    checked: characters,
    on: { change: () => (characters = toggle.checked) },
  });
  openDialog('Keyboard', el('table', { class: 'keys' }, el('tbody', null, rows)), el('label', { class: 'check' }, toggle, ' Shortcuts of a single character'));
}

/** A modal dialog with a title and a button to close it; gone from the page once closed. @param {string} title @param {...Child} content */
export function openDialog(title, ...content) {
  const dialog = el('dialog', { 'aria-label': title, on: { close: () => dialog.remove() } });
  const close = el('button', { class: 'quiet', text: 'Close', on: { click: () => dialog.close() } });
  replace(dialog, el('div', { class: 'dialog-head' }, el('h2', { text: title }), close), ...content);
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
