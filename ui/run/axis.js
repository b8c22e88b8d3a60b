// The time axis: where a moment lies, its ticks, and the gaps that are shortened where the reader asked for it.

import { duration } from '../lib/format.js';

/** A shortened gap is this wide, in pixels. */
export const CUT = 56;
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000,
  3_600_000, 7_200_000, 10_800_000, 21_600_000, 43_200_000, 86_400_000, 172_800_000, 432_000_000, 864_000_000];
const TICK_DISTANCE = 84;

/** @param {number} from @param {number} to @param {number} width @param {Interval[]} cuts disjoint, in order @returns {Axis} */
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
  const add = (/** @type {number} */ until, /** @type {boolean} */ cut) => {
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
  const place = (/** @type {number} */ moment) => locate(pieces, moment);
  return { from, to: from + whole, width, pieces, x: place, ticks: ticksOf(pieces, from, shown / Math.max(1, width - cutWidth * cuts.length), width) };
}

/** @param {Piece[]} pieces @param {number} moment */
function locate(pieces, moment) {
  const piece = pieces.find((one) => moment <= one.to) ?? pieces[pieces.length - 1];
  if (!piece) return 0;
  const share = Math.min(1, Math.max(0, (moment - piece.from) / (piece.to - piece.from)));
  return piece.x + share * (piece.end - piece.x);
}

/** @param {Piece[]} pieces @param {number} from @param {number} msPerPixel @param {number} width @returns {Tick[]} */
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

/**
 * The label of the last tick stands before it, where there is no room behind; without a label if it would meet the one before.
 * @param {Tick[]} ticks @param {number} width
 */
function lastInside(ticks, width) {
  const [before, last] = ticks.slice(-2);
  const needs = (/** @type {Tick} */ tick) => tick.label.length * 6.4 + 8;
  if (!last || last.x + needs(last) <= width) return ticks;
  last.last = true;
  if (before.x + needs(before) > last.x - needs(last)) last.label = '';
  return ticks;
}

/** As exact as its step: behind a shortened gap of hours seconds still count. @param {number} offset @param {number} step */
function tickLabel(offset, step) {
  if (offset === 0) return '0';
  if (offset < 1000) return `${offset} ms`;
  if (offset < 60_000) return `${offset / 1000} s`;
  if (step >= 60_000) return duration(offset);
  const seconds = offset / 1000;
  const two = (/** @type {number} */ value) => String(value).padStart(2, '0');
  const rest = two(Math.floor(seconds % 60)) + (step < 1000 ? (seconds % 1).toFixed(step < 100 ? 2 : 1).slice(1) : '');
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes}:${rest}` : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${rest}`;
}

/**
 * The times in which nothing happens, as far as they are long against the rest: what the button shortens.
 * @param {Interval[]} busy @param {number} from @param {number} to @returns {Interval[]}
 */
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
