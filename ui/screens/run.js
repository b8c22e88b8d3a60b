// One run: its picture, what it asks for, and the replay of its stream.

import { renderError } from '../errors.js';
import { announce } from '../lib/announce.js';
import { el, replace } from '../lib/dom.js';
import { moment } from '../lib/format.js';
import { stateMark } from '../lib/icons.js';
import { addShortcuts, openDialog } from '../lib/keys.js';
import { shown } from '../json-text.js';
import { followerOf, startFollowing } from '../run/follow.js';
import { createRunPanel } from '../run/live.js';
import { createReplay } from '../run/replay.js';
import { isRunning, stateOf } from '../run/words.js';

export const title = 'Run';

/** @type {Page.Screen['mount']} */
export function mount(root, context) {
  let route = context.route;
  let shownRun = openRun(root, context, route);
  return {
    update(next) {
      if (next.id !== route.id) {
        shownRun.stop();
        shownRun = openRun(root, context, next);
      } else if (next.seq !== route.seq) {
        shownRun.moveTo(next.seq);
      }
      route = next;
    },
    unmount: () => shownRun.stop(),
  };
}

/** @param {HTMLElement} root @param {Page.Context} context @param {Page.Route} route */
function openRun(root, { api, navigate }, route) {
  const id = route.id ?? '';
  const path = `v1/responses/${encodeURIComponent(id)}`;
  const stopper = new AbortController();
  /** @type {(() => void)[]} */
  const ends = [() => stopper.abort()];
  const head = el('header', { class: 'run-head' });
  const body = el('div', { class: 'stack' }, el('p', { class: 'muted', text: 'Loading …' }));
  const replayRoot = el('div');
  replace(root, head, body, replayRoot);
  /** @type {ReturnType<typeof createReplay> | null} */
  let replay = null;
  let asked = route.seq;
  const panel = createRunPanel({ api, onContinue: continueWith });
  ends.push(() => panel.stop());
  renderHead(head, { id }, { api, path, onReplay: null });

  /** @param {any} request */
  async function continueWith(request) {
    const follower = startFollowing({ api, path: 'v1/responses', body: { ...request, stream: true } });
    navigate(`#/runs/${encodeURIComponent(await follower.known)}`);
  }

  async function load() {
    const ongoing = followerOf(id);
    if (ongoing) return follow(ongoing, false);
    const response = await api.get(path, {}, { signal: stopper.signal });
    if (isRunning(response)) return follow(startFollowing({ api, path }), true);
    show(response, await api.get(`${path}/trace`, {}, { signal: stopper.signal }).catch(() => null));
  }

  /** @param {Follower} follower @param {boolean} own begun by this screen, and of no use without it */
  function follow(follower, own) {
    replace(body, panel.root);
    let status = '';
    ends.push(follower.subscribe((progress) => {
      panel.progress(progress);
      if (progress.response.status === status) return;
      status = progress.response.status;
      renderHead(head, { ...progress.response, id }, { api, path, onReplay: null });
    }));
    if (own) ends.push(() => follower.stop());
    void follower.ended.then(({ response }) => {
      if (!stopper.signal.aborted && response.id) ready(response);
    });
  }

  /** @param {any} response @param {Trace | null} trace */
  function show(response, trace) {
    replace(body, panel.root);
    panel.show({ response, trace });
    ready(response);
  }

  /** The run has ended. @param {any} response */
  function ready(response) {
    const made = createReplay({ api, response, onMove: (seq) => navigate(`#/runs/${encodeURIComponent(id)}/seq/${seq}`, { replace: true }) });
    replay = made;
    ends.push(() => made.stop());
    renderHead(head, response, { api, path, onReplay: begin });
    announce(`Run: ${stateOf(response).word}`);
    if (asked !== null) void moveTo(asked);
  }

  /** @param {number | null} seq */
  async function moveTo(seq) {
    asked = seq;
    if (!replay || seq === null) return;
    openReplay(replay);
    await replay.moveTo(seq).catch(() => {});
    replay.root.scrollIntoView({ block: 'nearest' });
  }

  /** @param {ReturnType<typeof createReplay>} made */
  function openReplay(made) {
    if (!made.root.isConnected) replace(replayRoot, made.root);
  }

  /** From the first event, which the address says, too. */
  function begin() {
    navigate(`#/runs/${encodeURIComponent(id)}/seq/0`, { replace: true });
  }

  /** @param {number} by */
  function step(by) {
    if (!replay) return;
    if (!replay.root.isConnected && by > 0) return begin();
    openReplay(replay);
    void replay.step(by).catch(() => {});
  }

  ends.push(addShortcuts([
    { key: '.', help: 'Replay: next event', run: () => step(1) },
    { key: ',', help: 'Replay: event before', run: () => step(-1) },
    { key: 't', help: 'Focus the timeline', run: () => /** @type {HTMLElement | null} */ (root.querySelector('[role=tree] [tabindex="0"]'))?.focus() },
    { key: 'u', help: 'Back to the runs', run: () => navigate('#/runs') },
  ]));
  load().catch((error) => {
    if (!stopper.signal.aborted) replace(body, el('h2', { class: 'visually-hidden', text: 'Error' }), renderError(error));
  });
  return { stop: () => ends.forEach((end) => end()), moveTo: (/** @type {number | null} */ seq) => void moveTo(seq) };
}

/** @param {HTMLElement} root @param {any} response @param {{api: Page.Api, path: string, onReplay: (() => void) | null}} does */
function renderHead(root, response, { api, path, onReplay }) {
  const said = el('span', { role: 'status', class: 'muted small' });
  const cancel = el('button', { type: 'button', class: 'danger', text: 'Cancel the run', on: { click: () => void api.post(`${path}/cancel`).catch((error) => (said.textContent = error.message)) } });
  const meta = response.model ? [response.model, response.agent ? `agent ${response.agent}` : '', `begun ${moment(response.created_at * 1000)}`, response.background ? 'in the background' : '', response.conversation ? `in ${response.conversation.id}` : ''] : [];
  replace(
    root,
    el('div', { class: 'row' },
      el('a', { href: '#/runs', text: 'Runs' }), el('span', { class: 'muted', 'aria-hidden': 'true', text: '/' }),
      el('h1', null, 'Run ', el('code', { text: response.id })),
      response.status ? stateMark(stateOf(response)) : null),
    el('div', { class: 'row' },
      el('span', { class: 'muted', text: meta.filter(Boolean).join(' · ') }), el('span', { class: 'grow' }), said,
      isRunning(response) ? cancel : null,
      onReplay ? el('button', { type: 'button', text: 'Replay', on: { click: onReplay } }) : null,
      onReplay ? el('button', { type: 'button', text: 'JSON', on: { click: () => showJson(response) } }) : null),
  );
}

/** @param {any} response */
function showJson(response) {
  openDialog('The response as JSON', el('pre', { tabindex: 0, role: 'group', 'aria-label': 'JSON', text: shown(response) }));
}
