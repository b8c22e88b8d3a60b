// The streams that were watched in this page, so that they can be replayed event by event. In memory only, and bounded.

/** @typedef {{events: any[], times: number[], size: number}} Watched */

const MAX_CHARACTERS = 8_000_000;
/** @type {Map<string, Watched>} the oldest first */
const watched = new Map();

/**
 * Keeps an event of a stream that is being watched.
 * @param {string} id of the response
 * @param {any} event
 * @param {number} now
 */
export function remember(id, event, now) {
  const stream = watched.get(id) ?? { events: [], times: [], size: 0 };
  stream.events.push(event);
  stream.times.push(now);
  stream.size += 120 + String(event.delta ?? '').length + (event.response ? JSON.stringify(event.response).length : 0) + (event.item ? JSON.stringify(event.item).length : 0);
  watched.delete(id);
  watched.set(id, stream);
  let all = [...watched.values()].reduce((sum, one) => sum + one.size, 0);
  for (const [oldest, one] of watched) {
    if (all <= MAX_CHARACTERS) break;
    watched.delete(oldest);
    all -= one.size;
  }
}

/**
 * A stream, if it was watched from its first event to its last.
 * @param {string} id
 * @returns {Watched | null}
 */
export function recall(id) {
  const stream = watched.get(id);
  if (!stream || stream.events.length === 0) return null;
  const whole = stream.events.every((event, index) => event.sequence_number === index) && isLast(stream.events[stream.events.length - 1]);
  return whole ? stream : null;
}

/** @param {any} event */
export const isLast = (event) => /^response\.(completed|incomplete|failed)$/.test(event.type);
