// The shell of the page: header, key, theme, and the router.

import { createApi } from './lib/api.js';
import { addShortcuts, announce, button, el, keyField, openDialog, replace, showHelp, startKeys } from './lib/dom.js';
import { LISTS } from './screens/lists.js';
import * as runScreen from './screens/run.js';
import * as tryScreen from './screens/try.js';

/** @type {Record<string, Page.Screen>} */
const SCREENS = { ...LISTS, try: tryScreen, run: runScreen, unknown: { title: 'Not found', mount: mountUnknown } };
const LINKS = [
  ['try', 'Try', '1'],
  ['runs', 'Runs', '2'],
  ['tools', 'Tools', '3'],
  ['connect', 'Connect', '4'],
];

const store = createStore({ theme: 'system', denied: null, key: 0, runs: '#/runs' });
const api = createApi({ onDenied: (error) => store.set('denied', error) });
const main = /** @type {HTMLElement} */ (document.getElementById('main'));
const gate = el('div');

/** @type {{name: string, screen: Page.Mounted} | null} */
let mounted = null;

/** @type {Of['parseRoute']} */
function parseRoute(hash) {
  const [path = '', search = ''] = hash.replace(/^#\/?/, '').split('?');
  const [screen = '', id = '', kind = '', seq = ''] = path.split('/');
  return {
    screen: screen === 'runs' && id ? 'run' : screen === '' ? 'try' : LINKS.some(([name]) => name === screen) ? screen : 'unknown',
    id: id ? decoded(id) : null,
    seq: kind === 'seq' && /^\d+$/.test(seq) ? Number(seq) : null,
    query: new URLSearchParams(search),
  };
}

/** What is no address stays as it is: nothing has such an id. */
function decoded(text = '') {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @type {Of['navigate']} */
function navigate(hash, options = {}) {
  if (!options.replace) {
    location.hash = hash;
    return;
  }
  history.replaceState(null, '', hash);
  show();
}

/** @param {HTMLElement} root */
function mountUnknown(root) {
  replace(root, el('h1', { text: 'Not found' }), el('p', null, 'This page has nothing at this address. ', el('a', { href: '#/runs', text: 'Go to the runs' })));
  return {};
}

function show() {
  const route = parseRoute(location.hash);
  if (mounted?.name === route.screen && mounted.screen.update) {
    mounted.screen.update(route);
    return;
  }
  const first = mounted === null;
  mounted?.screen.unmount?.();
  const screen = SCREENS[route.screen];
  const root = el('div', { class: `screen screen-${route.screen}` });
  // Connect has a form of its own.
  replace(main, route.screen !== 'connect' && gate, root);
  mounted = { name: route.screen, screen: screen.mount(root, { api, store, navigate, route, useKey }) };
  document.title = `${screen.title} · antwort`;
  for (const link of document.querySelectorAll('#header nav a')) {
    const current = link.getAttribute('href') === `#/${route.screen === 'run' ? 'runs' : route.screen}`;
    if (current) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (first) return;
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
  announce(screen.title);
}

function renderHeader() {
  const header = /** @type {HTMLElement} */ (document.getElementById('header'));
  const theme = button('', nextTheme, 'quiet');
  const key = button('', askForKey, 'quiet');
  const label = () => {
    theme.textContent = `Theme: ${store.get('theme')}`;
    key.textContent = api.hasKey() ? 'Key: set' : 'Key: none';
    key.classList.toggle('wanted', store.get('denied') !== null);
  };
  store.subscribe(['theme', 'key', 'denied'], label);
  label();
  const links = LINKS.map(([name, title]) => el('a', { href: `#/${name}`, text: title }));
  const help = el('button', { class: 'quiet', 'aria-label': 'Keyboard shortcuts', text: '?', on: { click: showHelp } });
  replace(
    header,
    el('span', { class: 'brand', text: 'antwort' }),
    el('nav', { 'aria-label': 'Screens' }, links),
    el('div', { class: 'tools' }, key, theme, help),
  );
}

function nextTheme() {
  const next = { system: 'light', light: 'dark', dark: 'system' }[/** @type {'system'} */ (store.get('theme'))];
  if (next === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  store.set('theme', next);
}

function useKey(key = '') {
  // It gives the focus back; then the screen takes it.
  document.querySelector('dialog')?.close();
  api.setKey(key);
  store.set('denied', null);
  store.set('key', store.get('key') + 1);
}

function askForKey() {
  openDialog('API key', ...keyField(useKey)).querySelector('input')?.focus();
}

function askInPage() {
  if (store.get('denied') && gate.firstChild) return;
  const words = api.hasKey() ? 'The gateway does not accept this key.' : 'The gateway asks for an API key.';
  replace(gate, store.get('denied') && el('section', { class: 'card stack', 'aria-label': 'Key wanted' }, el('strong', { text: words }), ...keyField(useKey)));
  if (gate.firstChild) announce(words);
}

renderHeader();
startKeys();
addShortcuts(LINKS.map(([name, title, key]) => ({ key, help: `Go to ${title}`, run: () => navigate(`#/${name}`) })));
addEventListener('hashchange', show);
// Its address is that of no screen.
document.querySelector('.skip')?.addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
store.subscribe(['denied'], askInPage);
// Another key may see other things: the screen is made anew.
store.subscribe(['key'], () => {
  mounted?.screen.unmount?.();
  mounted = { name: '', screen: {} };
  show();
});
show();

/** @type {Of['createStore']} */
function createStore(initial) {
  const values = new Map(Object.entries(initial));
  /** @type {Set<{keys: string[], told: (changed: string) => void}>} */
  const subscribers = new Set();
  return {
    get: (key) => values.get(key),
    set(key, value) {
      if (values.get(key) === value) return;
      values.set(key, value);
      for (const subscriber of [...subscribers]) {
        if (subscriber.keys.includes(key)) subscriber.told(key);
      }
    },
    subscribe(keys, told) {
      const subscriber = { keys, told };
      subscribers.add(subscriber);
      return () => void subscribers.delete(subscriber);
    },
  };
}
