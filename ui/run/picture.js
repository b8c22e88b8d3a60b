// Draws the layout of a run as rows of a tree, with the keys that the ARIA authoring practices give a tree.

import { captionPlace, layout } from './layout.js';
import { el, icon, replace } from '../lib/dom.js';
import { counted, duration, moment } from '../lib/format.js';

const NARROW = 640;
/** What the columns of names and times take, as the style sheet has them. */
const COLUMNS = 236 + 76;
const PADDING = 20;
/** Beyond so many calls the turns begin collapsed. */
const MANY_CALLS = 60;

/** @type {Of.picture['createPicture']} */
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
    // Beneath all rows: grid lines, waits, the moment of a limit. Above them: what is not to scale.
    replace(under, drawn.axis.ticks.map((tick) => place('grid', tick.x)), drawn.bands.map((band) => place('band', band.x, band.w)), drawn.stops.map((x) => place('stop', Math.min(x, plot - 1))));
    replace(over, drawn.gaps.map((gap) => place('gap', gap.x, gap.w)));
    sync(tree, groups.flatMap((group, index) => {
      const collapsed = isCollapsed(group);
      const head = rowOf(group.lane, [1, index + 1, groups.length], plot, collapsed ? group.calls : []);
      if (group.calls.length > 0) head.setAttribute('aria-expanded', String(!collapsed));
      return [head, ...(collapsed ? [] : group.calls.map((lane, number) => rowOf(lane, [2, number + 1, group.calls.length], plot)))];
    }));
    onLayout?.(drawn);
  }

  /** @type {Of.picture['rowOf']} */
  function rowOf(lane, [level, position, size], plot, folded = []) {
    const row = rows.get(lane.id) ?? el('div', { role: 'treeitem', data: { id: lane.id } });
    rows.set(lane.id, row);
    fillRow(row, lane, plot, folded);
    const first = selected === null && level === 1 && position === 1;
    const attributes = { 'aria-level': level, 'aria-posinset': position, 'aria-setsize': size, 'aria-selected': lane.id === selected, tabindex: first || lane.id === selected ? 0 : -1 };
    for (const [name, value] of Object.entries(attributes)) row.setAttribute(name, String(value));
    row.removeAttribute('aria-expanded');
    return row;
  }

  /** @type {Of.picture['select']} */
  function select(id, focus = false) {
    const group = groups.find((one) => one.calls.some((lane) => lane.id === id));
    if (group && isCollapsed(group)) chosen.set(group.id, false);
    selected = id;
    draw();
    if (id && focus) rows.get(id)?.focus();
    const lane = groups.flatMap((one) => [one.lane, ...one.calls]).find((one) => one.id === id);
    if (lane) onSelect(lane);
  }

  /** @type {Of.picture['toggle']} */
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

/** @type {Of.picture['treeKeys']} */
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

/** Puts rows in place without moving those that stay, so that the focus stays, too. @type {Of.picture['sync']} */
function sync(tree, wanted) {
  const keep = new Set(wanted);
  for (const child of [...tree.children]) if (!keep.has(/** @type {HTMLElement} */ (child))) child.remove();
  wanted.forEach((row, index) => {
    if (tree.children[index] !== row) tree.insertBefore(row, tree.children[index] ?? null);
  });
}

/** @type {Of.picture['fillRow']} */
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
    el('div', { class: 'lane-time', text: lane.ms === null ? '…' : duration(lane.ms) }),
  );
}

/** Something that lies in a plot. @type {Of.picture['place']} */
const place = (look, x, w, text = '') => el('span', { class: look, text, style: w === undefined ? { left: `${x}px` } : { left: `${x}px`, width: `${Math.max(1, w)}px` } });

/** @type {Of.picture['plotOf']} */
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

/** @type {Of.picture['drawAxis']} */
function drawAxis(axis, drawn, trace) {
  replace(axis,
    el('div', { class: 'lane-name muted small', text: `from ${moment(trace.started_at)}${trace.watched ? ', by this page’s clock' : ''}` }),
    el('div', { class: 'lane-plot' }, drawn.axis.ticks.map((tick) => place(tick.last ? 'tick last' : 'tick', tick.x, undefined, tick.label)), drawn.gaps.map((gap) => place('cut', gap.x, gap.w, gap.words))),
    el('div', { class: 'lane-time muted small', text: 'time' }));
}
