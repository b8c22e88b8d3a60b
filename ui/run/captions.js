// Where the words of a bar go: behind it, before it, or beneath it, so that they never lie on a bar or outside of the picture.

/** The mean width of a character of the captions, in pixels; rather too large. */
const CHARACTER = 6.8;
const DISTANCE = 6;

/**
 * @param {import('./layout.js').Lane} lane
 * @param {number} width of the plot
 * @returns {{side: 'after' | 'before' | 'below', x: number}} `before`: x is the right end of the words
 */
export function captionPlace(lane, width) {
  const word = lane.kind === 'end' ? lane.state.word : '';
  const needed = (lane.caption.length + word.length) * CHARACTER + (word && lane.caption ? 8 : 0) + lane.badges.reduce((sum, badge) => sum + badge.text.length * CHARACTER + 22, 0);
  if (lane.kind !== 'model') {
    if (lane.end + DISTANCE + needed <= width) return { side: 'after', x: lane.end + DISTANCE };
    if (lane.start - DISTANCE - needed >= 0) return { side: 'before', x: lane.start - DISTANCE };
  }
  return { side: 'below', x: Math.max(0, Math.min(lane.start, width - needed)) };
}
