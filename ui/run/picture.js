// Draws the layout of a run as rows of a tree. What lies where is decided in `layout.js`.

import { el, replace } from '../lib/dom.js';
import { duration, moment } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { captionPlace } from './captions.js';
import { callsWords, layout } from './layout.js';
import { treeKeys } from './tree-keys.js';

/**
 * @typedef {import('./layout.js').Lane} Lane
 * @typedef {import('./layout.js').Group} Group
 * @typedef {{trace: import('./trace.js').Trace, response: any, now?: number, compress?: boolean, continued?: boolean}} Shown
 * @typedef {object} Picture
 * @property {HTMLElement} root
 * @property {(shown: Shown) => import('./layout.js').Layout | null} show
 * @property {(id: string | null, options?: {focus?: boolean}) => void} select
 * @property {(collapse: boolean) => void} collapseAll
 * @property {() => void} stop
 */

const NARROW = 640;
const NAME_WIDTH = 236;
const TIME_WIDTH = 76;
// Beyond so many calls the turns begin collapsed.
const MANY_CALLS = 60;

/**
 * @param {{label: string, onSelect: (lane: Lane) => void, onLayout?: (layout: import('./layout.js').Layout) => void}} options
 * @returns {Picture}
 */
export function createPicture({ label, onSelect, onLayout }) {
  const axis = el('div', { class: 'pic-axis', 'aria-hidden': 'true' });
  const under = el('div', { class: 'pic-under', 'aria-hidden': 'true' });
  const over = el('div', { class: 'pic-over', 'aria-hidden': 'true' });
  const tree = el('div', { class: 'pic-rows', role: 'tree', 'aria-label': label });
  const root = el('div', { class: 'picture' }, axis, el('div', { class: 'pic-body' }, under, tree, over));
  /** @type {Map<string, HTMLElement>} */
  const rows = new Map();
  /** @type {Map<string, boolean>} what the reader collapsed or expanded */
  const chosen = new Map();
  /** @type {Shown | null} */
  let shown = null;
  /** @type {import('./layout.js').Layout | null} */
  let drawn = null;
  /** @type {string | null} */
  let selected = null;

  const calls = () => (drawn?.groups ?? []).reduce((sum, group) => sum + group.calls.length, 0);
  const isCollapsed = (/** @type {Group} */ group) => group.calls.length > 0 && (chosen.get(group.id) ?? calls() > MANY_CALLS);

  function draw() {
    const width = root.clientWidth;
    if (!shown || width === 0) return null;
    const narrow = width < NARROW;
    root.classList.toggle('narrow', narrow);
    const plot = narrow ? width - 20 : width - NAME_WIDTH - TIME_WIDTH - 20;
    drawn = layout(shown.trace, shown.response, plot, shown);
    drawAxis(axis, drawn, shown.trace);
    drawUnder(under, drawn);
    replace(over, drawn.gaps.map((gap) => area(gap, 'gap')));
    const { groups } = drawn;
    const wanted = groups.flatMap((group, index) => {
      const collapsed = isCollapsed(group);
      const head = rowOf(group.lane, 1, index + 1, groups.length, plot, group, collapsed);
      if (collapsed) return [head];
      return [head, ...group.calls.map((lane, number) => rowOf(lane, 2, number + 1, group.calls.length, plot))];
    });
    sync(tree, wanted);
    if (!wanted.some((row) => row.tabIndex === 0) && wanted[0]) wanted[0].tabIndex = 0;
    onLayout?.(drawn);
    return drawn;
  }

  /**
   * @param {Lane} lane
   * @param {number} level
   * @param {number} position
   * @param {number} size
   * @param {number} plot
   * @param {Group} [group]
   * @param {boolean} [collapsed]
   */
  function rowOf(lane, level, position, size, plot, group, collapsed = false) {
    let row = rows.get(lane.id);
    if (!row) {
      row = el('div', { role: 'treeitem', tabindex: -1, data: { id: lane.id } });
      rows.set(lane.id, row);
    }
    fillRow(row, lane, level, plot, group, collapsed);
    row.setAttribute('aria-posinset', String(position));
    row.setAttribute('aria-setsize', String(size));
    row.setAttribute('aria-selected', String(lane.id === selected));
    row.tabIndex = lane.id === selected ? 0 : -1;
    return row;
  }

  /** @param {string} id */
  const laneOf = (id) => drawn?.groups.flatMap((group) => [group.lane, ...group.calls]).find((lane) => lane.id === id);

  /**
   * @param {string | null} id
   * @param {{focus?: boolean}} [options]
   */
  function select(id, { focus = false } = {}) {
    const group = drawn?.groups.find((one) => one.calls.some((lane) => lane.id === id));
    if (group && isCollapsed(group)) chosen.set(group.id, false);
    selected = id;
    draw();
    if (id && focus) rows.get(id)?.focus();
    const lane = id ? laneOf(id) : undefined;
    if (lane) onSelect(lane);
  }

  /** @param {string} id @param {boolean} collapse */
  function toggle(id, collapse) {
    chosen.set(id, collapse);
    draw();
  }

  tree.addEventListener('click', (event) => {
    const target = /** @type {Element} */ (event.target);
    const id = target.closest('[role=treeitem]')?.getAttribute('data-id');
    if (!id) return;
    const group = drawn?.groups.find((one) => one.id === id);
    if (group && target.closest('.twisty')) toggle(id, !isCollapsed(group));
    select(id, { focus: true });
  });
  tree.addEventListener('keydown', (event) => treeKeys(event, tree, { select: (id) => select(id, { focus: true }), toggle }));

  const observer = new ResizeObserver(() => {
    if (root.clientWidth !== lastWidth) {
      lastWidth = root.clientWidth;
      draw();
    }
  });
  let lastWidth = 0;
  observer.observe(root);
  return {
    root,
    show(next) {
      shown = next;
      return draw();
    },
    select,
    collapseAll(collapse) {
      for (const group of drawn?.groups ?? []) chosen.set(group.id, collapse);
      draw();
    },
    stop: () => observer.disconnect(),
  };
}

/**
 * Puts rows in place without moving those that stay, so that the focus stays, too.
 * @param {HTMLElement} tree
 * @param {HTMLElement[]} wanted
 */
function sync(tree, wanted) {
  const keep = new Set(wanted);
  for (const child of [...tree.children]) if (!keep.has(/** @type {HTMLElement} */ (child))) child.remove();
  wanted.forEach((row, index) => {
    if (tree.children[index] !== row) tree.insertBefore(row, tree.children[index] ?? null);
  });
}

/**
 * @param {HTMLElement} row
 * @param {Lane} lane
 * @param {number} level
 * @param {number} plot
 * @param {Group} [group]
 * @param {boolean} [collapsed]
 */
function fillRow(row, lane, level, plot, group, collapsed = false) {
  const calls = group && group.calls.length > 0;
  row.className = `lane lane-${lane.kind} tone-${lane.state.tone}`;
  row.setAttribute('aria-level', String(level));
  if (calls) row.setAttribute('aria-expanded', String(!collapsed));
  else row.removeAttribute('aria-expanded');
  const overlay = collapsed && group ? group.calls : [];
  const twisty = calls ? el('span', { class: 'twisty', 'aria-hidden': 'true' }, icon(collapsed ? 'closed' : 'open')) : el('span', { class: 'twisty none' });
  const failed = collapsed && group && group.failed > 0 ? el('span', { class: 'lane-failed', text: `${group.failed} failed` }) : null;
  const note = collapsed && group ? callsWords({ ...group, failed: 0 }) : lane.note;
  replace(
    row,
    el('div', { class: 'lane-name' }, twisty, el('span', { class: `lane-icon tone-${lane.state.tone}` }, icon(lane.state.icon), el('span', { class: 'visually-hidden', text: `${lane.state.word}: ` })),
      el('span', { class: 'lane-label', text: lane.label, title: lane.label }), failed, note ? el('span', { class: 'lane-note', text: note, title: note }) : null),
    plotOf(lane, plot, overlay),
    el('div', { class: 'lane-time', text: lane.ms === null ? '…' : duration(lane.ms) }),
  );
}

/**
 * @param {Lane} lane
 * @param {number} width
 * @param {Lane[]} overlay the calls of a collapsed turn
 */
function plotOf(lane, width, overlay) {
  const place = captionPlace(lane, width);
  const bars = lane.bars.map((bar) => el('span', { class: `bar bar-${bar.kind}`, style: { left: `${bar.x}px`, width: `${bar.w}px` } }));
  const thin = overlay.flatMap((call) => call.bars.map((bar) => el('span', { class: `bar over bar-${bar.kind}`, style: { left: `${bar.x}px`, width: `${bar.w}px` } })));
  const marks = lane.marks.map((mark) => el('span', { class: `mark mark-${mark.kind}`, style: { left: `${mark.x}px` } }));
  const end = lane.kind === 'end' ? el('span', { class: `mark mark-end tone-${lane.state.tone}`, style: { left: `${Math.min(lane.start, width - 1)}px` } }) : null;
  /** @type {Record<string, string>} */
  const at = place.side === 'before' ? { right: `${width - place.x}px` } : { left: `${place.x}px`, 'max-width': `${Math.max(80, width - place.x)}px` };
  const caption = el(
    'span',
    { class: `caption ${place.side}`, style: place.side === 'below' ? { 'margin-left': `${place.x}px` } : at },
    lane.kind === 'end' ? el('span', { class: `state ${lane.state.tone}`, text: lane.state.word }) : null,
    lane.caption ? el('span', { class: 'caption-text', text: lane.caption }) : null,
    lane.badges.map((badge) => el('span', { class: `badge ${badge.tone}`, text: badge.text })),
  );
  return el('div', { class: `lane-plot ${place.side === 'below' ? 'two' : ''}` }, el('div', { class: 'track' }, bars, thin, marks, end, place.side === 'below' ? null : caption), place.side === 'below' ? caption : null);
}

/**
 * @param {HTMLElement} axis
 * @param {import('./layout.js').Layout} drawn
 * @param {import('./trace.js').Trace} trace
 */
function drawAxis(axis, drawn, trace) {
  const ticks = drawn.axis.ticks.map((tick) => el('span', { class: tick.last ? 'tick last' : 'tick', style: { left: `${tick.x}px` }, text: tick.label }));
  const cuts = drawn.gaps.map((gap) => el('span', { class: 'cut', style: { left: `${gap.x}px`, width: `${gap.w}px` }, text: gap.words.replace(' not to scale', ''), title: gap.words }));
  replace(axis, el('div', { class: 'lane-name muted small', text: `from ${moment(trace.started_at)}${trace.watched ? ', by this page’s clock' : ''}` }), el('div', { class: 'lane-plot' }, ticks, cuts), el('div', { class: 'lane-time muted small', text: 'time' }));
}

/**
 * What lies beneath all rows: grid lines, waits, the moment of a limit.
 * @param {HTMLElement} under
 * @param {import('./layout.js').Layout} drawn
 */
function drawUnder(under, drawn) {
  replace(
    under,
    drawn.axis.ticks.map((tick) => el('span', { class: 'grid', style: { left: `${tick.x}px` } })),
    drawn.bands.map((band) => area(band, 'band')),
    drawn.stops.map((stop) => el('span', { class: 'stop', style: { left: `${Math.min(stop.x, drawn.axis.width - 1)}px` } })),
  );
}

/**
 * @param {{x: number, w: number}} at
 * @param {string} kind
 */
const area = (at, kind) => el('span', { class: kind, style: { left: `${at.x}px`, width: `${Math.max(1, at.w)}px` } });
