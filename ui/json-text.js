// JSON as text for people: indented without being read into numbers, so that what is shown is what is sent, digit for digit.

/** Characters that are not seen, or that change the order in which others are seen. */
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]/gu;

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gu;

/** How much is indented; longer texts are shown as they are. */
const MAX_INDENTED = 1_000_000;

/**
 * Hidden characters as escapes, which mean the same within a JSON string.
 * @param {string} text
 * @param {boolean} [keepLines] line breaks and tabs stay
 */
export function reveal(text, keepLines = true) {
  return text.replace(HIDDEN, (found) => (keepLines && /[\n\t]/u.test(found) ? found : escaped(found)));
}

/** @param {string} text */
function escaped(text) {
  return Array.from({ length: text.length }, (_, i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, '0')}`).join('');
}

/**
 * JSON text, indented; every number and string stays as it was written, apart from hidden characters. A text that is not
 * JSON stays as it is.
 * @param {string} text
 */
export function indented(text) {
  if (text.length > MAX_INDENTED || parseJson(text).error !== null) return reveal(text);
  const tokens = text.match(TOKEN) ?? [];
  let [out, depth] = ['', 0];
  tokens.forEach((token, i) => {
    const next = tokens[i + 1];
    if (token === '{' || token === '[') {
      const empty = next === '}' || next === ']';
      if (!empty) depth += 1;
      out += empty ? token : token + line(depth);
    } else if (token === '}' || token === ']') {
      const empty = tokens[i - 1] === '{' || tokens[i - 1] === '[';
      if (!empty) depth -= 1;
      out += empty ? token : line(depth) + token;
    } else if (token === ',') out += token + line(depth);
    else if (token === ':') out += ': ';
    else out += reveal(token);
  });
  return out;
}

/** @param {number} depth */
function line(depth) {
  return `\n${'  '.repeat(Math.min(depth, 40))}`;
}

/**
 * A value as text: a string that is JSON is indented, any other string is shown as it is.
 * @param {unknown} value
 * @returns {string}
 */
export function shown(value) {
  if (typeof value === 'string') return /^\s*[[{]/u.test(value) ? indented(value) : reveal(value);
  return reveal(JSON.stringify(value, null, 2) ?? '');
}

/**
 * Reads JSON, and says in words where it is wrong.
 * @param {string} text
 * @returns {{value: unknown, error: string | null}}
 */
export function parseJson(text) {
  try {
    return { value: JSON.parse(text), error: null };
  } catch (error) {
    return { value: undefined, error: faultOf(text) ?? (error instanceof Error ? error.message.slice(0, 200) : 'This is not JSON.') };
  }
}

/** What may come next. @typedef {'value' | 'first' | 'key' | 'first key' | 'colon' | 'after'} State */
/** @type {Record<State, string>} */
const WANTED = {
  value: 'a value', first: 'a value or ]', key: 'a name in double quotes', 'first key': 'a name in double quotes or }', colon: 'a colon', after: 'a comma or the end',
};
const SPACE = /[ \t\n\r]*/uy;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"/uy;
const PLAIN = /(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.])/uy;

/**
 * Where a text stops being JSON. Browsers say that differently, or not at all.
 * @param {string} text
 * @returns {string | null}
 */
function faultOf(text) {
  if (text.trim() === '') return 'There is no JSON here.';
  /** @type {string[]} */
  const open = [];
  let [at, state] = [0, /** @type {State} */ ('value')];
  const take = (/** @type {RegExp} */ pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text)?.[0] ?? '';
    at += found.length;
    return found !== '';
  };
  for (;;) {
    take(SPACE);
    const next = text[at];
    if (next === undefined) return state === 'after' && open.length === 0 ? null : 'The JSON ends too early.';
    const closes = state === 'after' || state.startsWith('first');
    if (closes && open.length > 0 && next === open.at(-1) && (state === 'after' || (next === '}') === (state === 'first key'))) {
      [at, state] = [at + 1, 'after'];
      open.pop();
    } else if (state === 'after' && next === ',' && open.length > 0) [at, state] = [at + 1, open.at(-1) === '}' ? 'key' : 'value'];
    else if (state === 'colon' && next === ':') [at, state] = [at + 1, 'value'];
    else if (state.endsWith('key') && take(STRING)) state = 'colon';
    else if (/^(value|first)$/u.test(state) && (next === '{' || next === '[')) {
      open.push(next === '{' ? '}' : ']');
      [at, state] = [at + 1, next === '{' ? 'first key' : 'first'];
    } else if (/^(value|first)$/u.test(state) && (take(STRING) || take(PLAIN))) state = 'after';
    else return complaint(text, at, next === '"' && state !== 'after' && state !== 'colon' ? 'this text is not closed, or has a line break or a wrong escape in it' : `${WANTED[state]} is expected here`);
  }
}

/**
 * @param {string} text
 * @param {number} at
 * @param {string} words
 */
function complaint(text, at, words) {
  const lines = text.slice(0, at).split('\n');
  return `Line ${lines.length}, column ${(lines.at(-1) ?? '').length + 1}: ${words}, at ${reveal(text.slice(at, at + 12).split('\n')[0])}`;
}
