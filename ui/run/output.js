// The items of a response that may still grow: only those that changed are drawn again.

import { el, replace } from '../lib/dom.js';
import { renderItem } from './items.js';
import { isCall } from './trace.js';

// Beyond so many calls those that succeeded are left out at first: the answer is what one looks for.
const MANY = 10;

/**
 * @param {{label?: string}} [options]
 * @returns {{root: HTMLElement, show: (response: any) => void}}
 */
export function createOutput({ label = 'Output' } = {}) {
  const list = el('div', { class: 'output', 'aria-label': label, role: 'group' });
  const more = el('button', { type: 'button', class: 'small', hidden: true, on: { click: () => showCalls(list.classList.contains('few')) } });
  const root = el('div', { class: 'stack' }, more, list);
  let calls = 0;
  /** @type {string[]} */
  let drawn = [];

  /** @param {boolean} all */
  function showCalls(all) {
    list.classList.toggle('few', !all);
    more.textContent = all ? 'Hide the calls that succeeded' : `Show all ${calls} calls`;
  }

  return {
    root,
    show(response) {
      const items = response?.output ?? [];
      calls = items.filter(isCall).length;
      if (more.hidden && calls > MANY) showCalls(false);
      more.hidden = calls <= MANY;
      if (items.length === 0) {
        drawn = [];
        replace(list, el('p', { class: 'muted', text: 'No output yet.' }));
        return;
      }
      if (drawn.length === 0) replace(list);
      const signatures = items.map((/** @type {any} */ item) => JSON.stringify(item));
      items.forEach((/** @type {any} */ item, /** @type {number} */ index) => {
        if (drawn[index] === signatures[index]) return;
        const made = renderItem(item);
        const old = list.children[index];
        if (old) old.replaceWith(made);
        else list.append(made);
      });
      while (list.children.length > items.length) list.lastElementChild?.remove();
      drawn = signatures;
    },
  };
}
