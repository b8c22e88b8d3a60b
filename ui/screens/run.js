// One run: its chain, what it asks for, its replay.

import { ApiError, followerOf, linkTo, pathOf, recall, startFollowing } from '../lib/api.js';
import { addShortcuts, announce, button, el, icon, moment, number, openDialog, pre, replace, short, shown, stateMark } from '../lib/dom.js';
import { renderError, renderInput, renderNextStep } from '../next-step.js';
import { foldAll, isRunning, reconstruct } from '../protocol.js';
import { continuedWords, stateOf, statusWords, totals, waitBetween, waitsFor } from '../run/account.js';
import { createPicture, timeOf } from '../run/picture.js';
import { createOutput, createRunView, renderGiven, textBlock } from '../run/view.js';

/** @type {Of['watch']} */
export function watch(root, { api, path = 'v1/responses', body, headers, onBegin, onEnd }) {
  let follower = startFollowing({ api, path, body, headers });
  /** @type {any} */
  let latest = null;
  let end = showRun(body);

  /** @type {Of['continueWith']} */
  async function continueWith(request) {
    const streamed = { ...request, stream: true };
    const next = startFollowing({ api, path, body: streamed, headers });
    // What is refused is shown where it was sent; only a run takes the place of this one.
    await next.known;
    end();
    follower = next;
    end = showRun(streamed);
    // What had the focus is gone.
    /** @type {HTMLElement} */ (root.firstElementChild).focus();
  }

  /** @type {Of['showRun']} */
  function showRun(request) {
    const state = el('div', { class: 'row live-state', tabindex: -1 });
    const panel = createRunPanel({ api, request, onContinue: continueWith });
    replace(root, state, panel.root);
    onBegin?.();
    void follower.ended.then((progress) => onEnd?.(progress));
    const leave = follower.subscribe((progress) => {
      latest = progress.response;
      showState(state, progress);
      panel.progress(progress);
    });
    return () => {
      leave();
      panel.stop();
    };
  }

  /** By its id its output stays, and the stream tells its end; what is not stored hangs on this connection. */
  async function stop() {
    try {
      if (!latest?.id || latest.store === false) throw new Error('There is no id to cancel it by.');
      await api.post(`${pathOf(latest.id)}/cancel`);
    } catch {
      follower.stop();
    }
  }

  return { stop, leave: () => end() };
}

/** @type {Of['showState']} */
function showState(root, { response, error }) {
  const state = error ? statusWords('failed') : stateOf(response);
  if (root.dataset.state === state.word + response.id) return;
  root.dataset.state = state.word + response.id;
  announce(`Run: ${state.word}`);
  replace(root, stateMark(state), response.id && response.store !== false ? el('a', { href: linkTo(response.id), text: 'Open the run' }) : null);
}

/** @type {Of['createRunPanel']} */
function createRunPanel({ api, request = null, onContinue }) {
  const view = createRunView();
  const [errors, inputs, next] = [el('div', { class: 'stack' }), el('div', { class: 'stack' }), el('div', { class: 'stack' })];
  view.above.append(errors, inputs, next);
  /** @type {ReturnType<typeof renderChain> | null} */
  let chained = null;
  let finished = false;
  let inputShown = false;
  let asked = 0;
  /** @type {unknown} */
  let shownError = null;

  /** @type {Of['chain']} */
  function chain(run) {
    if (run.response.id) chained ??= renderChain(view.earlier, { api, run });
    chained?.show(run);
  }

  /** @type {Of['loadInput']} */
  function loadInput(response) {
    if (inputShown || !response.id) return;
    inputShown = true;
    // Without it the rest is shown all the same.
    void renderInputOf(view.input, response, api).catch(() => {});
  }

  /** @type {Of['showError']} */
  function showError(error) {
    if (error === shownError) return;
    shownError = error;
    const stopped = error instanceof ApiError && error.code === 'aborted';
    replace(errors, stopped ? el('p', { class: 'notice warn', text: 'Not watched any longer. A run that hung on this connection was cancelled.' }) : error ? renderError(error) : null);
  }

  /** @type {Of['finish']} */
  function finish(response) {
    if (finished) return;
    finished = true;
    if (inputs.contains(document.activeElement)) view.root.focus();
    replace(inputs);
    const by = response.answered_by;
    replace(next, by ? el('p', { class: 'notice ok' }, 'Answered by ', el('a', { href: linkTo(by), text: 'the run after it' })) : renderNextStep(response, onContinue, { api, request }));
  }

  return {
    root: view.root,
    show(run) {
      view.show(run);
      chain(run);
      showError(run.response.error);
      finish(run.response);
      loadInput(run.response);
    },
    progress(progress) {
      const { response, trace, now, over, error } = progress;
      view.show({ response, trace, now });
      chain({ response, trace });
      showError(error ?? response.error ?? null);
      inputs.append(...progress.inputs.slice(asked).map((event) => renderInput(event, response.id, { api })));
      asked = progress.inputs.length;
      if (over && response.id) finish(response);
      if (over && trace && !trace.watched) loadInput(response);
    },
    stop() {
      chained?.stop();
      view.stop();
    },
  };
}

/** @type {Of['renderInputOf']} */
async function renderInputOf(root, response, api) {
  const read = (id = '', more = '', query = {}) => api.get(pathOf(id) + more, query);
  const { data, has_more: more } = await read(response.id, '/input_items', { order: 'asc', limit: 100 });
  const before = response.previous_response_id;
  const asked = before && data.some((/** @type {any} */ item) => !item.role) ? (await read(before).catch(() => null))?.output : null;
  if (data.length === 0) return;
  root.hidden = false;
  replace(root, el('h2', { text: 'Input' }), el('div', { class: 'output' }, data.map((/** @type {any} */ item) => renderGiven(item, asked ?? response.output)), more ? el('p', { class: 'muted', text: 'and more' }) : null));
}

/** @type {Of['renderChain']} */
function renderChain(root, { api, run }) {
  /** @type {(() => void)[]} */
  const ends = [];
  /** @type {(() => void)[]} */
  const waits = [];
  const stopper = new AbortController();
  const read = (path = '') => api.get(path, {}, { signal: stopper.signal });
  replace(root);
  const id = run.response.previous_response_id;
  if (id) addEarlier(id, run);

  /** @type {Of['addEarlier']} */
  function addEarlier(earlier, later) {
    const body = el('div', { class: 'chain-body', hidden: true });
    const head = el('span', { class: 'chain-head row' }, 'Earlier response ', el('code', { text: short(earlier) }));
    const button = el('button', { class: 'chain-row', 'aria-expanded': 'false', on: { click: () => void toggle() } }, el('span', { class: 'twisty' }, icon('open')), icon('chain'), head);
    const wait = el('div', { class: 'chain-wait', hidden: true });
    root.prepend(el('div', { class: 'chain-link' }, button, body, wait));
    let drawn = false;
    // At once: without it nobody knows how long the wait was.
    /** @type {Promise<Run> | null} */
    let loading = load();
    // Deleted, or not for this key: the row says so when it is opened.
    loading.catch(() => {});

    async function load() {
      const response = await read(pathOf(earlier));
      replace(head, stateMark(continuedWords(response)), el('code', { text: short(earlier) }), el('span', { class: 'muted small', text: `${moment(response.created_at * 1000)} · ${totals(response, null)}` }));
      const loaded = { response, trace: await read(`${pathOf(earlier)}/trace`).catch(() => null) };
      const showWait = () => {
        const words = waitBetween(loaded, later);
        wait.hidden = !words;
        replace(wait, icon('waits'), words);
      };
      waits.push(showWait);
      showWait();
      return loaded;
    }
    async function toggle() {
      const open = body.hidden;
      body.hidden = !open;
      button.setAttribute('aria-expanded', String(open));
      if (open && !drawn) await draw();
    }
    async function draw() {
      drawn = true;
      replace(body, el('p', { class: 'muted', text: 'Loading …' }));
      try {
        const run = await (loading ??= load());
        ends.push(drawEarlier(body, run));
        const before = run.response.previous_response_id;
        if (before) addEarlier(before, run);
      } catch (error) {
        drawn = false;
        loading = null;
        replace(body, renderError(error));
      }
    }
  }

  return {
    show({ trace }) {
      if (trace === run.trace) return;
      run.trace = trace;
      for (const showWait of waits) showWait();
    },
    stop() {
      stopper.abort();
      for (const end of ends) end();
    },
  };
}

/** @type {Of['drawEarlier']} */
function drawEarlier(body, { response, trace }) {
  const link = el('a', { href: linkTo(response.id), text: 'Open this run' });
  if (!trace) {
    replace(body, el('p', { class: 'muted', text: 'No times are known of this run. ' }, link));
    return () => {};
  }
  const said = el('p', { class: 'muted small', role: 'status' });
  const picture = createPicture({ label: `Timeline of ${response.id}`, onSelect: (lane) => (said.textContent = [lane.label, lane.state.word, lane.ms === null ? '' : timeOf(lane), lane.caption].filter(Boolean).join(' · ')) });
  replace(body, picture.root, el('div', { class: 'row spread' }, said, link));
  picture.show({ trace, response, continued: true });
  return () => picture.stop();
}

// --- the screen, and the replay ---

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
        root.parentElement?.focus({ preventScroll: true });
      } else if (next.seq !== route.seq) {
        shownRun.moveTo(next.seq);
      }
      route = next;
    },
    unmount: () => shownRun.stop(),
  };
}

/** @type {Of['openRun']} */
function openRun(root, { api, navigate, store }, route) {
  const id = route.id ?? '';
  const path = pathOf(id);
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
  const does = { api, path, list: store.get('runs'), onReplay: null };
  renderHead(head, { id }, does);

  /** @type {Of['continueWith']} */
  async function continueWith(request) {
    const follower = startFollowing({ api, path: 'v1/responses', body: { ...request, stream: true } });
    navigate(linkTo(await follower.known));
  }

  async function load() {
    const ongoing = followerOf(id);
    if (ongoing) return follow(ongoing, false);
    const response = await api.get(path, {}, { signal: stopper.signal });
    if (isRunning(response)) return follow(startFollowing({ api, path }), true);
    const [trace] = await Promise.all([api.get(`${path}/trace`, {}, { signal: stopper.signal }).catch(() => null), findAnswer(response)]);
    show(response, trace);
  }

  /** What was answered before must not be asked again. @type {Of['findAnswer']} */
  async function findAnswer(response) {
    if (!waitsFor(response)) return;
    const { data } = await api.get('v1/responses', { view: 'summary', order: 'asc', after: id, limit: 100 }, { signal: stopper.signal }).catch(() => ({ data: [] }));
    const next = data.find((/** @type {any} */ one) => one.previous_response_id === id);
    // Not enumerable: it is no part of the response as JSON.
    if (next) Object.defineProperty(response, 'answered_by', { value: next.id });
  }

  /** @type {Of['follow']} */
  function follow(follower, own) {
    replace(body, panel.root);
    let status = '';
    ends.push(follower.subscribe((progress) => {
      panel.progress(progress);
      if (progress.response.status === status) return;
      status = progress.response.status;
      renderHead(head, { ...progress.response, id }, does);
    }));
    if (own) ends.push(() => follower.stop());
    void follower.ended.then(({ response, trace }) => {
      if (!stopper.signal.aborted && response.id) ready(response, trace);
    });
  }

  /** @type {Of['show']} */
  function show(response, trace) {
    replace(body, panel.root);
    panel.show({ response, trace });
    ready(response, trace);
  }

  /** @type {Of['ready']} */
  function ready(response, trace) {
    const made = createReplay({ api, response, kept: trace?.has_events !== false, onMove: (seq) => navigate(`${linkTo(id)}/seq/${seq}`, { replace: true }) });
    replay = made;
    ends.push(() => made.stop());
    renderHead(head, response, { ...does, onReplay: begin });
    announce(`Run: ${stateOf(response).word}`);
    if (asked !== null) void moveTo(asked);
  }

  /** @type {Of['moveTo']} */
  async function moveTo(seq) {
    asked = seq;
    if (!replay || seq === null) return;
    openReplay(replay);
    await replay.moveTo(seq).catch(() => {});
    replay.root.scrollIntoView({ block: 'nearest' });
  }

  /** @type {Of['openReplay']} */
  function openReplay(made) {
    if (!made.root.isConnected) replace(replayRoot, made.root);
  }

  /** From the first event, which the address says, too. */
  function begin() {
    navigate(`${linkTo(id)}/seq/0`, { replace: true });
  }

  /** @type {Of['step']} */
  function step(by) {
    if (!replay) return;
    if (!replay.root.isConnected && by > 0) return begin();
    openReplay(replay);
    void replay.step(by).catch(() => {});
  }

  ends.push(addShortcuts([
    { key: '.', help: 'Replay: next event', run: () => step(1) },
    { key: ',', help: 'Replay: event before', run: () => step(-1) },
    { key: '↑ ↓ j k', help: 'In the timeline: the row before or after' },
    { key: '← →', help: 'In the timeline: collapse or expand the turn' },
    { key: 'Home End', help: 'In the timeline: the first or last row' },
    { key: 't', help: 'Focus the timeline', run: () => /** @type {HTMLElement | null} */ (root.querySelector('[role=tree] [tabindex="0"]'))?.focus() },
    { key: 'u', help: 'Back to the runs', run: () => navigate(store.get('runs')) },
  ]));
  load().catch((error) => {
    if (!stopper.signal.aborted) replace(body, el('h2', { class: 'visually-hidden', text: 'Error' }), renderError(error));
  });
  return { stop: () => ends.forEach((end) => end()), moveTo: (/** @type {number | null} */ seq) => void moveTo(seq) };
}

/** @type {Of['renderHead']} */
function renderHead(root, response, { api, path, list, onReplay }) {
  const said = el('span', { role: 'status', class: 'muted small' });
  const cancel = button('Cancel the run', () => void api.post(`${path}/cancel`).catch((error) => (said.textContent = error.message)), 'danger');
  const meta = response.model ? [response.model, response.agent ? `agent ${response.agent}` : '', `begun ${moment(response.created_at * 1000)}`, response.background ? 'in the background' : '', response.conversation ? `in ${response.conversation.id}` : ''] : [];
  replace(
    root,
    el('div', { class: 'row' },
      el('a', { href: list, text: 'Runs' }), el('span', { class: 'muted', 'aria-hidden': 'true', text: '/' }),
      el('h1', null, 'Run ', el('code', { text: response.id })),
      response.status ? stateMark(stateOf(response)) : null),
    el('div', { class: 'row' },
      el('span', { class: 'muted', text: meta.filter(Boolean).join(' · ') }), el('span', { class: 'grow' }), said,
      isRunning(response) ? cancel : null,
      onReplay ? [button('Replay', onReplay), button('JSON', () => openDialog('The response as JSON', textBlock(JSON.stringify(response), 'JSON')))] : null),
  );
}

/** @type {Record<EventStream['source'], [string, string, string]>} tone, word, explanation */
const SOURCES = {
  log: ['ok', 'Exact', 'These are the events as they were sent, from the gateway’s event log.'],
  watched: ['ok', 'Exact', 'These are the events as this page received them.'],
  reconstructed: ['warn', 'Reconstructed', 'No events were kept of this run. These are made from its items: their order is true, the pieces of text and their numbers are not.'],
};

/** @type {Of['createReplay']} */
function createReplay({ api, response, kept, onMove }) {
  const root = el('section', { class: 'card replay stack', 'aria-label': 'Replay' });
  const stopper = new AbortController();
  /** @type {Promise<ReturnType<typeof drawStream>> | null} */
  let loading = null;

  const load = () => (loading ??= open());

  async function open() {
    replace(root, el('h2', { text: 'Replay' }), el('p', { class: 'muted', text: 'Loading the events …' }));
    try {
      const stream = await readStream(api, response, kept, stopper.signal);
      return drawStream(root, stream, onMove);
    } catch (error) {
      loading = null;
      replace(root, el('h2', { text: 'Replay' }), renderError(error));
      throw error;
    }
  }

  return {
    root,
    moveTo: async (seq) => (await load()).moveTo(seq),
    step: async (by) => (await load()).step(by),
    stop: () => stopper.abort(),
  };
}

/** @type {Of['readStream']} */
async function readStream(api, response, kept, signal) {
  const watched = recall(response.id);
  if (watched) return { events: watched, source: 'watched' };
  if (!kept) return { events: reconstruct(response), source: 'reconstructed' };
  /** @type {any[]} */
  const events = [];
  try {
    await api.stream(pathOf(response.id), { query: { stream: true }, signal, onEvent: (event) => events.push(event) });
    return { events, source: 'log' };
  } catch (error) {
    // 400: no log was kept; 410: it is kept no more.
    if (!(error instanceof ApiError) || (error.status !== 400 && error.status !== 410)) throw error;
    return { events: reconstruct(response), source: 'reconstructed' };
  }
}

/** @type {Of['drawStream']} */
function drawStream(root, { events, source }, onMove) {
  const last = events.length - 1;
  let at = last;
  const output = createOutput('The response as it was');
  const state = el('span', { class: 'row' });
  const raw = pre('The event', '');
  const kind = el('h3', { class: 'mono' });
  const place = el('span', { class: 'muted small number' });
  const slider = el('input', { type: 'range', min: 0, max: last, step: 1, value: last, 'aria-label': 'Event', on: { input: () => go(Number(slider.value), true) } });
  const step = (text = '', label = '', by = 0) => el('button', { class: 'small', text, 'aria-label': label, title: label, on: { click: () => go(at + by, true) } });
  const [tone, word, words] = SOURCES[source];

  /** @type {Of['go']} */
  function go(index, told) {
    at = Math.max(0, Math.min(last, index));
    const event = events[at];
    const folded = foldAll(events, at + 1);
    slider.value = String(at);
    slider.setAttribute('aria-valuetext', `event ${event.sequence_number ?? at} of ${last}: ${event.type}`);
    place.textContent = `event ${number(event.sequence_number ?? at)} of ${number(last)}`;
    kind.textContent = event.type;
    raw.textContent = shown(event);
    replace(state, stateMark(statusWords(folded.status)));
    output.show(folded);
    if (told) onMove(event.sequence_number ?? at);
  }

  replace(
    root,
    el('div', { class: 'row' }, el('h2', { text: 'Replay' }), el('span', { class: `badge ${tone}`, text: word }), el('span', { class: 'muted small', text: words })),
    el('div', { class: 'row replay-bar' }, step('‹', 'Event before (,)', -1), slider, step('›', 'Next event (.)', 1), place),
    el('div', { class: 'replay-columns' },
      el('div', { class: 'stack' }, el('div', { class: 'row' }, el('h3', { text: 'The response at this event' }), state), output.root),
      el('div', { class: 'stack' }, kind, raw)),
  );
  if (events.length === 0) replace(root, el('h2', { text: 'Replay' }), el('p', { class: 'muted', text: 'The event log is empty.' }));
  else go(last, false);
  return {
    step(by = 0) {
      if (events.length > 0) go(at + by, true);
    },
    moveTo(seq = 0) {
      const index = events.findIndex((event, position) => (event.sequence_number ?? position) >= seq);
      if (events.length > 0) go(index < 0 ? last : index, false);
    },
  };
}
