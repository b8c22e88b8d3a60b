// Small parts that the screens Try, Tools and Connect share.

import { announce } from '../lib/announce.js';
import { el, replace } from '../lib/dom.js';
import { icon } from '../lib/icons.js';

/** @typedef {import('../lib/dom.js').Child} Child */

let ids = 0;

/**
 * A control with its label.
 * @template {HTMLElement} C
 * @param {string} label
 * @param {C} control
 * @param {string} [hint]
 * @returns {HTMLDivElement}
 */
export function field(label, control, hint) {
  control.id ||= `control-${(ids += 1)}`;
  if (!hint) return el('div', { class: 'field' }, el('label', { for: control.id, text: label }), control);
  control.setAttribute('aria-describedby', `${control.id}-hint`);
  return el('div', { class: 'field' }, el('label', { for: control.id, text: label }), control, el('p', { class: 'hint', id: `${control.id}-hint`, text: hint }));
}

/** @param {string} text @param {() => void} click @param {string} [look] */
export const button = (text, click, look = '') => el('button', { type: 'button', class: look, text, on: { click } });

/** A text that scrolls by itself. @param {string} label for screen readers @param {string} text */
export const pre = (label, text) => el('pre', { tabindex: 0, role: 'group', 'aria-label': label, text });

/** @param {() => string} text @param {string} [label] */
export function copyButton(text, label = 'Copy') {
  const copy = button(label, async () => {
    // Without TLS browsers have no clipboard for pages of other hosts.
    const done = await navigator.clipboard?.writeText(text()).then(() => true, () => false);
    copy.textContent = done ? 'Copied' : 'Select and copy it by hand';
    if (done) announce('Copied.');
    setTimeout(() => (copy.textContent = label), 2000);
  }, 'small');
  return copy;
}

/** A text to be copied. @param {string} text @param {string} label for screen readers */
export function codeBlock(text, label) {
  return el('div', { class: 'code-block' }, pre(label, text), copyButton(() => text));
}

/**
 * Tabs, by the pattern of ARIA: arrows move, and the panel follows.
 * @param {string} label
 * @param {{name: string, panel: HTMLElement, onShow?: () => void}[]} tabs
 * @returns {{list: HTMLElement, panels: HTMLElement, show: (name: string) => void}}
 */
export function tabs(label, tabs) {
  const id = `tabs-${(ids += 1)}`;
  const buttons = tabs.map(({ name }, i) => el('button', { type: 'button', role: 'tab', id: `${id}-tab-${i}`, 'aria-controls': `${id}-panel-${i}`, text: name, on: { click: () => select(i), keydown: (event) => move(event, i) } }));
  const panels = tabs.map(({ panel }, i) => el('div', { role: 'tabpanel', id: `${id}-panel-${i}`, 'aria-labelledby': `${id}-tab-${i}` }, panel));
  /** @param {number} chosen */
  function select(chosen) {
    buttons.forEach((button, i) => {
      button.setAttribute('aria-selected', String(i === chosen));
      button.tabIndex = i === chosen ? 0 : -1;
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
  return { list: el('div', { role: 'tablist', class: 'tabs', 'aria-label': label }, buttons), panels: el('div', null, panels), show: (name) => select(tabs.findIndex((tab) => tab.name === name)) };
}

/** @typedef {'ok' | 'bad' | 'warn' | 'busy' | 'off'} Look */

/** A state by sign and word. @param {Look} look @param {string} word */
export function state(look, word) {
  return el('span', { class: `state ${look}` }, icon({ ok: 'done', bad: 'failed', warn: 'limit', busy: 'runs', off: 'queued' }[look]), word);
}

/**
 * Fills a place with what is loaded, or with why it is not. Of several loads into one place the last counts.
 * @template T
 * @param {HTMLElement} place
 * @param {() => Promise<T>} load
 * @param {(loaded: T) => Child[] | Child} draw
 * @param {(error: any) => Child[] | Child} failed
 */
export async function fill(place, load, draw, failed) {
  const turn = String((ids += 1));
  place.dataset.load = turn;
  place.setAttribute('aria-busy', 'true');
  let children;
  try {
    children = draw(await load());
  } catch (error) {
    children = failed(error);
  }
  if (place.dataset.load !== turn) return;
  place.setAttribute('aria-busy', 'false');
  replace(place, ...(Array.isArray(children) ? children : [children]));
}
