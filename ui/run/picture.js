// The picture of a run: where everything lies (pure), and its drawing.

import { cost, counted, duration, el, icon, moment, rate, replace, reveal, sync, tokens } from '../lib/dom.js';
import {
  account, attemptWords, belonging, callId, continuedWords, endOfCall, lastMoment, limitWords, outcomeWords,
  stateOf, statusWords, turnTitle, waitWords, written,
} from './account.js';

/** @type {Of['layout']} */
export function layout(trace, response, width, { compress, now = 0, continued } = {}) {
  const over = trace.ended_at !== null;
  const until = over ? lastMoment(trace) : Math.max(lastMoment(trace), now);
  const busy = account(trace, until).pieces.filter(({ part }) => part !== 'waits' && part !== 'other');
  const idle = idleTimes(busy, trace.started_at, until);
  const axis = makeAxis(trace.started_at, until, width, compress ? idle : []);
  const items = belonging(response.output ?? [], trace).turns;
  const turns = trace.turns.flatMap((turn, index) => turnGroups(trace, turn, index, items[index], axis, over, response.status));
  const waits = trace.waits.map((wait, index) => waitLane(wait, index, axis, over));
  return {
    axis,
    groups: [...inOrder(turns, waits.map((lane) => groupOf(lane)), trace), ...(over ? [groupOf(endLane(trace, response, axis, continued === true))] : [])],
    bands: waits.map((lane) => ({ x: lane.start, w: lane.end - lane.start, words: lane.caption })),
    gaps: axis.pieces.filter((piece) => piece.cut).map((piece) => ({ x: piece.x, w: piece.end - piece.x, words: duration(piece.to - piece.from) })),
    shortenable: idle.length > 0 ? duration(idle.reduce((sum, gap) => sum + gap.to - gap.from, 0)) : null,
    stops: trace.limits.map((limit) => axis.x(limit.at)),
  };
}

/** @type {Of['groupOf']} */
const groupOf = (lane, calls = []) => ({ id: lane.id, lane, calls, failed: calls.filter((call) => call.state.tone === 'bad').length });

/** @type {Of['inOrder']} */
function inOrder(turns, waits, trace) {
  const behind = trace.waits.map((wait) => trace.turns.findLastIndex((turn) => turn.sent_at <= wait.from));
  const at = (turn = 0) => waits.filter((_, index) => behind[index] === turn);
  const isLast = (index = 0) => turns[index + 1]?.lane.turn !== turns[index].lane.turn;
  return [...at(-1), ...turns.flatMap((group, index) => [group, ...(isLast(index) ? at(group.lane.turn) : [])])];
}

/** @type {Of['turnGroups']} */
function turnGroups(trace, turn, index, items, axis, over, status) {
  const calls = turn.calls.map((call, number) => callLane(call, callId(turn, number), axis, over, { turn: index, call: number }));
  if (turn.attempts === 0) return calls.map((call) => groupOf(call));
  const lane = { ...modelLane(trace, turn, items, axis), label: turnTitle(trace, turn), turn: index };
  // What ended a run that failed or was cancelled while the model wrote is its last turn.
  if (/failed|cancelled/.test(status) && calls.length === 0 && index === trace.turns.length - 1) lane.state = statusWords(status);
  return [groupOf(lane, calls)];
}

/** @type {Of['laneOf']} */
function laneOf(axis, from, to, more) {
  return { label: '', note: '', bars: [], marks: [], caption: '', badges: [], at: from - axis.from, start: axis.x(from), end: axis.x(to), ms: to - from, turn: -1, call: -1, ...more };
}

/** @type {Of['modelLane']} */
function modelLane(trace, turn, items, axis) {
  const over = trace.ended_at !== null;
  const end = turn.ended_at ?? axis.to;
  const token = Math.min(turn.first_token_at ?? end, end);
  const byte = Math.min(turn.first_byte_at ?? (trace.watched ? turn.sent_at : token), token);
  const begins = beginsOf(turn);
  const last = begins.at(-1) ?? turn.sent_at;
  // Of a run that was opened late nobody here saw the begin.
  const seen = !trace.late || turn.index > 0;
  const before = [...begins.slice(1).flatMap((to, attempt) => bar(axis, begins[attempt], to, 'attempt')), ...bar(axis, last, byte, 'first_byte'), ...bar(axis, byte, token, 'first_token')];
  const bars = [...(seen ? before : []), ...writing(turn, items, token, end, axis)];
  const marks = retries(turn, axis);
  if (turn.first_token_at && seen) marks.push({ x: axis.x(token), kind: 'first-token' });
  // A turn in which the model never said anything has failed, if the run is over.
  const mute = over && turn.first_token_at === null && turn.first_byte_at === null;
  return laneOf(axis, turn.sent_at, end, {
    id: `turn-${turn.index}`, kind: 'model', note: turn.model ?? '', state: statusWords(turn.ended_at === null && !over ? 'in_progress' : mute ? 'failed' : 'completed'),
    bars: bars.length > 0 ? bars : thin(axis, turn.sent_at, 'first_byte'), marks, caption: modelCaption(turn, seen), badges: badgesOf(turn), ms: turn.ended_at && end - turn.sent_at,
  });
}

/** @type {Of['modelCaption']} */
function modelCaption(turn, seen) {
  const { sent_at, first_token_at: token, ended_at: end, usage, cost_usd: price, retry_reasons: reasons } = turn;
  const begins = beginsOf(turn);
  const cached = usage?.input_tokens_details?.cached_tokens;
  return [
    token && seen && `first token ${duration(token - sent_at)}`,
    usage && `${tokens(usage.input_tokens)} in${cached ? ` (${tokens(cached)} cached)` : ''} → ${tokens(usage.output_tokens)} out`,
    usage && token && end && rate(usage.output_tokens, end - token),
    price !== null && cost(price),
    reasons?.map((reason, index) => `attempt ${index + 1} failed: ${reason}, ${duration(begins[index + 1] - begins[index])} lost`).join(', '),
  ].filter(Boolean).join(' · ');
}

/** @type {Of['beginsOf']} */
const beginsOf = (turn) => [turn.sent_at, ...(turn.retried_at ?? [])];

/** @type {Of['writing']} */
function writing(turn, items, from, to, axis) {
  if (!turn.first_token_at) return [];
  if (turn.spans?.length) return turn.spans.flatMap((span, index, all) => bar(axis, span.from, index === all.length - 1 ? to : span.to, span.kind));
  const parts = written(items);
  const whole = parts.reduce((sum, part) => sum + part.length, 0);
  if (whole === 0) return bar(axis, from, to, 'text');
  let at = from;
  return parts.flatMap((part) => bar(axis, at, (at += ((to - from) * part.length) / whole), part.kind));
}

/** @type {Of['callLane']} */
function callLane(call, id, axis, over, place) {
  const end = endOfCall(call, axis.to);
  const state = outcomeWords(call, over);
  const kind = { failed: 'call-failed', cancelled: 'call-off', unknown: 'call-off', async: 'call-off', completed: 'call' }[call.outcome ?? 'completed'];
  const begins = [call.started_at, ...(call.retried_at ?? [])];
  const bars = begins.flatMap((at, attempt) => bar(axis, at, begins[attempt + 1] ?? end, attempt < begins.length - 1 ? 'attempt' : kind));
  const words = { failed: `failed${call.error ? `: ${call.error}` : ''}`, completed: (call.at_most ? 'at most ' : '') + duration(end - call.started_at) };
  return laneOf(axis, call.started_at, end, {
    id, kind: 'call', label: reveal(call.name), note: call.executor ?? '', state, bars: bars.length > 0 ? bars : thin(axis, call.started_at, kind), marks: retries(call, axis),
    caption: words[/** @type {'failed'} */ (call.outcome)] ?? state.word.toLowerCase(), badges: badgesOf(call), ms: call.ended_at && end - call.started_at, atMost: call.at_most, ...place,
  });
}

/** @type {Of['retries']} */
const retries = (of, axis) => (of.retried_at ?? []).map((at) => ({ x: axis.x(at), kind: 'retry' }));

/** @type {Of['badgesOf']} */
function badgesOf(of) {
  const call = 'call_id' in of ? of : null;
  const attempts = attemptWords(of);
  /** @type {(Badge | false | null | undefined | '')[]} */
  const badges = [attempts && { text: attempts, tone: 'warn' }, call?.cached && { text: 'cached', tone: '' }, call?.fallback && { text: `fallback for ${reveal(call.fallback)}`, tone: 'warn' }, call?.truncated && { text: 'truncated', tone: 'warn' }];
  return badges.filter((badge) => typeof badge === 'object' && badge !== null);
}

/** @type {Of['waitLane']} */
function waitLane(wait, index, axis, over) {
  const to = wait.to ?? axis.to;
  const ms = wait.to === null && !over ? null : to - wait.from;
  const bars = bar(axis, wait.from, to, 'wait');
  return laneOf(axis, wait.from, to, {
    id: `wait-${index}`, kind: 'wait', label: wait.kind === 'queue' ? 'In the queue' : wait.kind === 'mcp_list_tools' ? 'Listing tools' : 'Wait', state: { icon: 'waits', word: 'Wait', tone: 'warn' },
    bars: bars.length > 0 ? bars : thin(axis, wait.from, 'wait'), caption: waitWords(wait.kind, ms), ms,
  });
}

/** @type {Of['endLane']} */
function endLane(trace, response, axis, continued) {
  const at = trace.ended_at ?? axis.to;
  const reason = response.incomplete_details?.reason;
  const caption = reason ? `${limitWords(reason)} (${reason})` : response.error ? `error ${response.error.code}` : '';
  return laneOf(axis, at, at, { id: 'end', kind: 'end', label: 'End', state: (continued ? continuedWords : stateOf)(response), caption, ms: at - trace.started_at });
}

/** @type {Of['bar']} */
function bar(axis, from, to, kind) {
  if (to <= from) return [];
  const x = Math.min(axis.x(from), axis.width - 2);
  return [{ x, w: Math.max(2, axis.x(to) - x), kind }];
}

/** @type {Of['thin']} */
const thin = (axis, at, kind) => [{ x: Math.min(axis.x(at), axis.width - 3), w: 3, kind }];

/** Of the captions, in pixels; rather too large. */
const CHARACTER = 6.8;
const DISTANCE = 6;

/** @type {Of['captionPlace']} */
export function captionPlace(lane, width) {
  const words = [lane.caption, lane.kind === 'end' ? ` ${lane.state.word}` : '', ...lane.badges.map((badge) => `${badge.text}   `)];
  const needed = words.join('').length * CHARACTER;
  if (lane.kind !== 'model') {
    if (lane.end + DISTANCE + needed <= width) return { side: 'after', x: lane.end + DISTANCE };
    if (lane.start - DISTANCE - needed >= 0) return { side: 'before', x: lane.start - DISTANCE };
  }
  return { side: 'below', x: Math.max(0, Math.min(lane.start, width - needed)) };
}

/** Pixels. */
const CUT = 56;
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000,
  3_600_000, 7_200_000, 10_800_000, 21_600_000, 43_200_000, 86_400_000, 172_800_000, 432_000_000, 864_000_000];
const TICK_DISTANCE = 84;

/** @type {Of['makeAxis']} */
export function makeAxis(from, to, width, cuts = []) {
  const whole = Math.max(1, to - from);
  const shown = whole - cuts.reduce((sum, cut) => sum + cut.to - cut.from, 0);
  // Cuts never take more than half of the width.
  const cutWidth = Math.min(CUT, width / 2 / Math.max(1, cuts.length));
  const perMs = (width - cutWidth * cuts.length) / Math.max(1, shown);
  /** @type {Piece[]} */
  const pieces = [];
  let at = from;
  let x = 0;
  const add = (until = 0, cut = false) => {
    if (until <= at) return;
    const end = x + (cut ? cutWidth : (until - at) * perMs);
    pieces.push({ from: at, to: until, x, end, cut });
    at = until;
    x = end;
  };
  for (const cut of cuts) {
    add(cut.from, false);
    add(cut.to, true);
  }
  add(from + whole, false);
  const place = (moment = 0) => locate(pieces, moment);
  return { from, to: from + whole, width, pieces, x: place, ticks: ticksOf(pieces, from, shown / Math.max(1, width - cutWidth * cuts.length), width) };
}

/** @type {Of['locate']} */
function locate(pieces, moment) {
  const piece = pieces.find((one) => moment <= one.to) ?? pieces[pieces.length - 1];
  if (!piece) return 0;
  const share = Math.min(1, Math.max(0, (moment - piece.from) / (piece.to - piece.from)));
  return piece.x + share * (piece.end - piece.x);
}

/** @type {Of['ticksOf']} */
function ticksOf(pieces, from, msPerPixel, width) {
  const step = STEPS.find((one) => one / msPerPixel >= TICK_DISTANCE) ?? STEPS[STEPS.length - 1];
  /** @type {Tick[]} */
  const ticks = [];
  for (const piece of pieces.filter((one) => !one.cut)) {
    const first = Math.ceil((piece.from - from) / step) * step;
    for (let offset = first; offset <= piece.to - from; offset += step) {
      const x = locate(pieces, from + offset);
      if (x - (ticks.at(-1)?.x ?? -TICK_DISTANCE) < TICK_DISTANCE * 0.75) continue;
      ticks.push({ x, label: tickLabel(offset, step), last: false });
    }
  }
  return lastInside(ticks, width);
}

/** @type {Of['lastInside']} */
function lastInside(ticks, width) {
  const [before, last] = ticks.slice(-2);
  const needs = (/** @type {Tick} */ tick) => tick.label.length * 6.4 + 8;
  if (!last || last.x + needs(last) <= width) return ticks;
  last.last = true;
  if (before.x + needs(before) > last.x - needs(last)) last.label = '';
  return ticks;
}

/** @type {Of['tickLabel']} */
function tickLabel(offset, step) {
  if (offset === 0) return '0';
  if (offset < 1000) return `${offset} ms`;
  if (offset < 60_000) return `${offset / 1000} s`;
  if (step >= 60_000) return duration(offset);
  const seconds = offset / 1000;
  const two = (value = 0) => String(value).padStart(2, '0');
  const rest = two(Math.floor(seconds % 60)) + (step < 1000 ? (seconds % 1).toFixed(step < 100 ? 2 : 1).slice(1) : '');
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes}:${rest}` : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${rest}`;
}

/** @type {Of['idleTimes']} */
export function idleTimes(busy, from, to) {
  const sorted = [...busy].sort((a, b) => a.from - b.from);
  /** @type {Interval[]} */
  const idle = [];
  let at = from;
  for (const interval of sorted) {
    if (interval.from > at) idle.push({ from: at, to: interval.from });
    at = Math.max(at, interval.to);
  }
  if (to > at) idle.push({ from: at, to });
  const work = to - from - idle.reduce((sum, gap) => sum + gap.to - gap.from, 0);
  return idle.filter((gap) => gap.to - gap.from > Math.max(1000, work / 2));
}

// --- its drawing ---

const NARROW = 640;
/** The columns of names and times, as in the style sheet. */
const COLUMNS = 236 + 76;
const PADDING = 20;
const MANY_CALLS = 60;

/** @type {Of['createPicture']} */
export function createPicture({ label, onSelect, onLayout }) {
  const layer = (name = '') => el('div', { class: `pic-${name}`, 'aria-hidden': 'true' });
  const [axis, under, over] = [layer('axis'), layer('under'), layer('over')];
  const tree = el('div', { class: 'pic-rows', role: 'tree', 'aria-label': label });
  const root = el('div', { class: 'picture' }, axis, el('div', { class: 'pic-body' }, under, tree, over));
  /** @type {Map<string, HTMLElement>} */
  const rows = new Map();
  /** What the reader collapsed (true) or expanded. @type {Map<string, boolean>} */
  const chosen = new Map();
  /** @type {TracedRun & LayoutOptions | null} */
  let shown = null;
  /** @type {Group[]} */
  let groups = [];
  /** @type {string | null} */
  let selected = null;
  let drawnWidth = 0;
  /** The row that Tab leads to. @type {string | null | undefined} */
  let entry;

  const isCollapsed = (/** @type {Group} */ group) => group.calls.length > 0 && (chosen.get(group.id) ?? groups.reduce((sum, one) => sum + one.calls.length, 0) > MANY_CALLS);

  function draw() {
    const width = (drawnWidth = root.clientWidth);
    if (!shown || width === 0) return;
    const narrow = width < NARROW;
    root.classList.toggle('narrow', narrow);
    const plot = width - PADDING - (narrow ? 0 : COLUMNS);
    const drawn = layout(shown.trace, shown.response, plot, shown);
    groups = drawn.groups;
    drawAxis(axis, drawn, shown.trace);
    replace(under, drawn.axis.ticks.map((tick) => place('grid', tick.x)), drawn.bands.map((band) => place('band', band.x, band.w)), drawn.stops.map((x) => place('stop', Math.min(x, plot - 1))));
    const holder = groups.find((group) => group.id === selected || group.calls.some(({ id }) => id === selected));
    // A turn that is collapsed stands for its calls.
    entry = !holder ? groups[0]?.id : isCollapsed(holder) ? holder.id : selected;
    replace(over, drawn.gaps.map((gap) => place('gap', gap.x, gap.w)));
    sync(tree, groups.flatMap((group, index) => {
      const collapsed = isCollapsed(group);
      const head = treeRow(group.lane, [1, index + 1, groups.length], plot, collapsed ? group.calls : []);
      if (group.calls.length > 0) head.setAttribute('aria-expanded', String(!collapsed));
      return [head, ...(collapsed ? [] : group.calls.map((lane, number) => treeRow(lane, [2, number + 1, group.calls.length], plot)))];
    }));
    onLayout?.(drawn);
  }

  /** @type {Of['treeRow']} */
  function treeRow(lane, [level, position, size], plot, folded = []) {
    const row = rows.get(lane.id) ?? el('div', { role: 'treeitem', data: { id: lane.id } });
    rows.set(lane.id, row);
    fillRow(row, lane, plot, folded);
    const attributes = { 'aria-level': level, 'aria-posinset': position, 'aria-setsize': size, 'aria-selected': lane.id === selected, tabindex: lane.id === entry ? 0 : -1 };
    for (const [name, value] of Object.entries(attributes)) row.setAttribute(name, String(value));
    row.removeAttribute('aria-expanded');
    return row;
  }

  /** @type {Of['select']} */
  function select(id, focus = false) {
    const group = groups.find((one) => one.calls.some((lane) => lane.id === id));
    if (group && isCollapsed(group)) chosen.set(group.id, false);
    selected = id;
    draw();
    if (id && focus) rows.get(id)?.focus();
    const lane = groups.flatMap((one) => [one.lane, ...one.calls]).find((one) => one.id === id);
    if (lane) onSelect(lane);
  }

  /** @type {Of['toggle']} */
  function toggle(id, collapse) {
    chosen.set(id, collapse);
    draw();
  }

  tree.addEventListener('click', (event) => {
    const target = /** @type {Element} */ (event.target);
    const id = target.closest('[role=treeitem]')?.getAttribute('data-id');
    const group = groups.find((one) => one.id === id);
    if (group && target.closest('.twisty')) toggle(group.id, !isCollapsed(group));
    if (id) select(id, true);
  });
  // A live row is drawn anew between press and release, which is then no click.
  tree.addEventListener('pointerup', (event) => {
    const id = /** @type {Element} */ (event.target).closest('[role=treeitem]')?.getAttribute('data-id');
    if (id && event.button === 0) select(id, true);
  });
  tree.addEventListener('keydown', (event) => treeKeys(event, tree, (id) => select(id, true), toggle));
  const observer = new ResizeObserver(() => root.clientWidth !== drawnWidth && draw());
  observer.observe(root);
  return {
    root,
    show(next) {
      shown = next;
      draw();
    },
    select,
    collapseAll(collapse) {
      for (const group of groups) chosen.set(group.id, collapse);
      draw();
    },
    stop: () => observer.disconnect(),
  };
}

/** @type {Of['treeKeys']} */
function treeKeys(event, tree, select, toggle) {
  const rows = /** @type {HTMLElement[]} */ ([...tree.children]);
  const at = rows.indexOf(/** @type {HTMLElement} */ (event.target));
  if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
  const id = rows[at].dataset.id ?? '';
  const go = (index = 0) => select(rows[Math.max(0, Math.min(rows.length - 1, index))].dataset.id ?? '');
  const expanded = rows[at].getAttribute('aria-expanded');
  const parent = rows.findLastIndex((row, index) => index <= at && row.getAttribute('aria-level') === '1');
  /** @type {Record<string, () => void>} */
  const keys = {
    ArrowDown: () => go(at + 1), j: () => go(at + 1), ArrowUp: () => go(at - 1), k: () => go(at - 1), Home: () => go(0), End: () => go(rows.length - 1), Enter: () => go(at), ' ': () => go(at),
    ArrowRight: () => (expanded === 'false' ? toggle(id, false) : expanded === 'true' ? go(at + 1) : undefined),
    ArrowLeft: () => (expanded === 'true' ? toggle(id, true) : go(parent)),
  };
  if (!Object.hasOwn(keys, event.key)) return;
  event.preventDefault();
  keys[event.key]();
}

/** @type {Of['fillRow']} */
function fillRow(row, lane, plot, folded) {
  const { state } = lane;
  const isTurn = lane.kind === 'model';
  const failed = folded.filter((call) => call.state.tone === 'bad').length;
  const note = folded.length > 0 ? counted(folded.length, 'call') : lane.note;
  row.className = `lane lane-${lane.kind}${state.tone === 'bad' ? ' tone-bad' : ''}`;
  replace(
    row,
    el('div', { class: 'lane-name' },
      isTurn ? el('span', { class: 'twisty', 'aria-hidden': 'true' }, icon('open')) : null,
      el('span', { class: `lane-icon tone-${state.tone}` }, icon(state.icon), el('span', { class: 'visually-hidden', text: `${state.word}: ` })),
      el('span', { class: 'lane-label', text: lane.label, title: lane.label }), failed > 0 ? el('span', { class: 'lane-failed', text: `${failed} failed` }) : null, el('span', { class: 'lane-note', text: note, title: note })),
    plotOf(lane, plot, folded),
    el('div', { class: 'lane-time', text: lane.ms === null ? '…' : timeOf(lane) }),
  );
}

/** @type {Of['timeOf']} */
export const timeOf = (lane) => (lane.atMost ? '≤ ' : '') + duration(lane.ms);

/** @type {Of['place']} */
const place = (look, x, w, text = '') => el('span', { class: look, text, style: w === undefined ? { left: `${x}px` } : { left: `${x}px`, width: `${Math.max(1, w)}px` } });

/** @type {Of['plotOf']} */
function plotOf(lane, width, folded) {
  const { side, x } = captionPlace(lane, width);
  const style = { [side === 'below' ? 'margin-left' : side === 'after' ? 'left' : 'right']: `${side === 'before' ? width - x : x}px` };
  const caption = el('span', { class: `caption ${side}`, style },
    lane.kind === 'end' ? lane.state.word : null,
    lane.caption ? el('span', { class: 'caption-text', text: lane.caption }) : null,
    lane.badges.map((badge) => el('span', { class: `badge ${badge.tone}`, text: badge.text })));
  const track = el('div', { class: 'track' },
    lane.bars.map((bar) => place(`bar bar-${bar.kind}`, bar.x, bar.w)),
    folded.flatMap((call) => call.bars.map((bar) => place(`bar over bar-${bar.kind}`, bar.x, bar.w))),
    lane.marks.map((mark) => place(`mark mark-${mark.kind}`, mark.x)),
    lane.kind === 'end' ? place(`mark mark-end tone-${lane.state.tone}`, Math.min(lane.start, width - 1)) : null,
    side === 'below' ? null : caption);
  return el('div', { class: 'lane-plot' }, track, side === 'below' ? caption : null);
}

/** @type {Of['drawAxis']} */
function drawAxis(axis, drawn, trace) {
  replace(axis,
    el('div', { class: 'lane-name muted small', text: `from ${moment(trace.started_at)}${trace.watched ? ', by this page’s clock' : ''}` }),
    el('div', { class: 'lane-plot' }, drawn.axis.ticks.map((tick) => place(tick.last ? 'tick last' : 'tick', tick.x, undefined, tick.label)), drawn.gaps.map((gap) => place('cut', gap.x, gap.w, gap.words))),
    el('div', { class: 'lane-time muted small', text: 'time' }));
}
