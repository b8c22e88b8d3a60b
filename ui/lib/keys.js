// Keyboard shortcuts, and the dialog that lists them.

import { el, replace } from './dom.js';

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

/** A modal dialog with a title and a button to close it; gone from the page once closed. @param {string} title @param {...import('./dom.js').Child} content */
export function openDialog(title, ...content) {
  const dialog = el('dialog', { 'aria-label': title, on: { close: () => dialog.remove() } });
  const close = el('button', { class: 'quiet', text: 'Close', on: { click: () => dialog.close() } });
  replace(dialog, el('div', { class: 'dialog-head' }, el('h2', { text: title }), close), ...content);
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
