// The shell of the page: header, navigation, key, theme, and the router that mounts one screen at a time.

import { createApi, gateway } from './lib/api.js';
import { addShortcuts, announce, el, openDialog, replace, showHelp, startKeys } from './lib/dom.js';
import { LISTS } from './screens/lists.js';
import * as runScreen from './screens/run.js';
import * as tryScreen from './screens/try.js';

/** @type {Record<string, Page.Screen>} */
const SCREENS = { ...LISTS, try: tryScreen, run: runScreen };
const LINKS = [
  ['try', 'Try', '1'],
  ['runs', 'Runs', '2'],
  ['tools', 'Tools', '3'],
  ['connect', 'Connect', '4'],
];

const store = createStore({ theme: 'system', denied: null, key: 0, runs: '#/runs' });
const api = createApi({ onDenied: (error) => store.set('denied', error) });
const main = /** @type {HTMLElement} */ (document.getElementById('main'));

/** @type {{name: string, screen: Page.Mounted} | null} */
let mounted = null;

/** @type {Of['parseRoute']} */
function parseRoute(hash) {
  const [path = '', search = ''] = hash.replace(/^#\/?/, '').split('?');
  const [screen = '', id = '', kind = '', seq = ''] = path.split('/');
  return {
    screen: screen === 'runs' && id ? 'run' : screen in SCREENS ? screen : 'try',
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
  replace(main, root);
  mounted = { name: route.screen, screen: screen.mount(root, { api, store, navigate, route }) };
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
  const theme = el('button', { class: 'quiet', on: { click: nextTheme } });
  const key = el('button', { class: 'quiet key', on: { click: askForKey } });
  const label = () => {
    theme.textContent = { system: 'Theme: system', light: 'Theme: light', dark: 'Theme: dark' }[/** @type {'system'} */ (store.get('theme'))];
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

/** The key is kept until the page is closed or reloaded, and nowhere but in memory. */
function askForKey() {
  const input = el('input', { type: 'password', id: 'key', autocomplete: 'off', spellcheck: 'false' });
  const use = () => {
    api.setKey(input.value);
    store.set('denied', null);
    store.set('key', store.get('key') + 1);
    dialog.close();
  };
  const button = el('button', { class: 'primary', text: 'Use', on: { click: use } });
  input.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') use();
  });
  const dialog = openDialog(
    'API key',
    el('p', { text: `Sent to ${gateway().host} only, and forgotten when this page is closed or reloaded.` }),
    el('div', { class: 'row' }, el('label', { for: 'key', text: 'Key' }), input, button),
  );
  input.focus();
}

renderHeader();
startKeys();
addShortcuts(LINKS.map(([name, title, key]) => ({ key, help: `Go to ${title}`, run: () => navigate(`#/${name}`) })));
addEventListener('hashchange', show);
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
