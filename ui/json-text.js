// JSON as text for people: indented without being read into numbers, so that what is shown is what is sent, digit for digit.

/**
 * Characters that are not seen, or that change the order in which others are seen. Joiners belong to many scripts and to emoji; beside
 * ASCII they have no use.
 */
const HIDDEN = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\u034f\u115f\u1160\u17b4\u17b5\u2028\u2029\u202f\u205f\u3164\ufe00-\ufe0e\uffa0\ufff0-\ufff8\u{e0000}-\u{e0fff}]|(?<=[\0-\x7f])[\u200c\u200d]|[\u200c\u200d](?=[\0-\x7f])/gu;
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gu;
const MAX_INDENTED = 250_000;

/** Hidden characters as escapes, which mean the same within a JSON string. @param {string} text @param {boolean} [keepLines] */
export function reveal(text, keepLines = true) {
  return text.replace(HIDDEN, (found) => (keepLines && (found === '\n' || found === '\t') ? found : found.replace(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)));
}

/** JSON text, indented: each number and text as it was written. A text that is not JSON stays as it is. @param {string} text */
export function indented(text) {
  if (text.length > MAX_INDENTED || parseJson(text).error !== null) return reveal(text);
  const tokens = text.match(TOKEN) ?? [];
  let [out, depth] = ['', 0];
  const line = () => `\n${'  '.repeat(Math.min(depth, 40))}`;
  tokens.forEach((token, i) => {
    const [opens, closes] = [/^[{[]$/.test(token), /^[}\]]$/.test(token)];
    const empty = (opens && /^[}\]]$/.test(tokens[i + 1])) || (closes && /^[{[]$/.test(tokens[i - 1]));
    if (closes && !empty) {
      depth -= 1;
      out += line();
    }
    out += token === ':' ? ': ' : reveal(token);
    if (opens && !empty) depth += 1;
    if ((opens && !empty) || token === ',') out += line();
  });
  return out;
}

/** A value as text: a text that is JSON is indented, any other is shown as it is. @param {unknown} value @returns {string} */
export function shown(value) {
  if (typeof value === 'string') return /^\s*[[{]/u.test(value) ? indented(value) : reveal(value);
  return reveal(JSON.stringify(value, null, 2) ?? '');
}

/**
 * Reads JSON, and says in words where it is wrong, as far as the browser tells.
 * @param {string} text
 * @returns {{value: any, error: string | null}}
 */
export function parseJson(text) {
  if (text.trim() === '') return { value: undefined, error: 'There is no JSON here.' };
  try {
    return { value: JSON.parse(text), error: null };
  } catch (error) {
    const message = /** @type {Error} */ (error).message.replace(/^JSON\.parse: | is not valid JSON$/gu, '');
    // Browsers that name no place quote what is around it.
    const at = Number(/position (\d+)/u.exec(message)?.[1] ?? Number.NaN);
    const place = Number.isNaN(at) || /line \d/u.test(message) ? '' : ` (line ${text.slice(0, at).split('\n').length})`;
    return { value: undefined, error: `This is not JSON: ${reveal(message).slice(0, 160)}${place}` };
  }
}
