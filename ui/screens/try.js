import { el, replace } from '../lib/dom.js';

export const title = 'Try';

/** @type {import('../app.js').Screen['mount']} */
export function mount(root) {
  replace(root, el('h1', { text: title }));
  return {};
}
