// Small drawings, so that a state has a shape besides its colour, the same with every font.

import { el, svg } from './dom.js';

/** Paths on a grid of 12 by 12; those of `FILLED` are areas, the others lines. @type {Record<string, string>} */
const PATHS = {
  done: 'M2.5 6.5 5 9 9.5 3.5',
  failed: 'M3 3 9 9M9 3 3 9',
  limit: 'M4 1.5h4L10.5 4v4L8 10.5H4L1.5 8V4ZM6 3.8v3M6 8.2v.1',
  waits: 'M4.2 2.5v7M7.8 2.5v7',
  runs: 'M4 2.5 9.5 6 4 9.5Z',
  queued: 'M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 0 0 0-9M6 3.7V6l1.7 1.2',
  cancelled: 'M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 0 0 0-9M3 9 9 3',
  unknown: 'M4 4.2C4 2.2 8 2.2 8 4.3C8 5.7 6 5.6 6 7.2M6 9.3v.1',
  model: 'M6 1.2 7.3 4.7 10.8 6 7.3 7.3 6 10.8 4.7 7.3 1.2 6 4.7 4.7Z',
  tool: 'M7.2 4.8 2.5 9.5M6.4 3.2a2.4 2.4 0 0 1 3.2-1.4L8.2 3.3l.6.6 1.4-1.4a2.4 2.4 0 0 1-3.2 3.1Z',
  open: 'M3 4.5 6 7.5 9 4.5',
  chain: 'M3 2v3.5a2 2 0 0 0 2 2h4M7 5.5l2 2-2 2',
};

/** @param {keyof typeof PATHS} name @returns {SVGSVGElement} */
export function icon(name) {
  const path = svg('path', { d: PATHS[name] ?? PATHS.unknown });
  return svg('svg', { class: `icon icon-${name}`, viewBox: '0 0 12 12', 'aria-hidden': 'true', focusable: 'false' }, path);
}

/** A state: its shape, its word, and only then its colour. @param {{icon: string, word: string, tone: string}} state */
export const stateMark = (state) => el('span', { class: `state ${state.tone}` }, icon(state.icon), state.word);
