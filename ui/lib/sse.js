// Decodes server-sent events (the HTML standard's `text/event-stream`).

/** @typedef {{event: string, data: string, id: string | null}} Frame */

/**
 * @param {(frame: Frame) => void} onFrame called for each event that has data
 * @returns {{push: (text: string) => void}} takes the stream piece by piece, cut anywhere
 */
export function sseDecoder(onFrame) {
  let rest = '';
  let begun = false;
  let event = '';
  /** @type {string[]} */
  let data = [];
  /** @type {string | null} */
  let id = null;

  function line(/** @type {string} */ text) {
    if (text === '') {
      if (data.length > 0) onFrame({ event: event || 'message', data: data.join('\n'), id });
      event = '';
      data = [];
      return;
    }
    const colon = text.indexOf(':');
    const field = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? '' : text.slice(colon + 1).replace(/^ /, '');
    if (field === 'data') data.push(value);
    else if (field === 'event') event = value;
    else if (field === 'id') id = value;
  }

  return {
    push(text) {
      if (text === '') return;
      rest += begun ? text : text.replace(/^\uFEFF/, '');
      begun = true;
      // A carriage return at the end may be half of a line break.
      const complete = rest.endsWith('\r') ? rest.length - 1 : rest.length;
      const lines = rest.slice(0, complete).split(/\r\n|\n|\r/);
      rest = (lines.pop() ?? '') + rest.slice(complete);
      lines.forEach(line);
    },
  };
}
