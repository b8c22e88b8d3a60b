// Small parts that the screens Try, Tools and Connect share.

import { announce, el, icon, replace } from '../lib/dom.js';

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
