// Values as text for people: JSON, numbers, times.

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

const PLURAL = new Intl.PluralRules('en');

/** `1 call`, `2 calls`. @type {Of.format['counted']} */
export function counted(count, noun, plural = `${noun}s`) {
  return `${number(count)} ${PLURAL.select(count) === 'one' ? noun : plural}`;
}

/** A length of time in at most two units: `840 ms`, `3.2 s`, `2 min 5 s`, `3 h`. @type {Of.format['duration']} */
export function duration(ms) {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return '–';
  if (ms < 0) return `−${duration(-ms)}`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 9_950) return `${trim((ms / 1000).toFixed(1))} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return pair(seconds, 60, 'min', 1, 's');
  if (seconds < 86_400) return pair(seconds, 3600, 'h', 60, 'min');
  return pair(seconds, 86_400, 'd', 3600, 'h');
}

/** @type {Of.format['pair']} */
function pair(seconds, big, bigName, small, smallName) {
  const rounded = Math.round(seconds / small) * small;
  const rest = (rounded % big) / small;
  const first = `${Math.floor(rounded / big)} ${bigName}`;
  return rest === 0 ? first : `${first} ${rest} ${smallName}`;
}

/** @type {Of.format['trim']} */
const trim = (decimal) => decimal.replace(/\.0+$/, '');

/** @type {Of.format['number']} */
export function number(value) {
  return value.toLocaleString('en-US');
}

/** `950`, `12.3k`, `1.2M`. @type {Of.format['tokens']} */
export function tokens(count) {
  if (count === null || count === undefined) return '–';
  if (count < 10_000) return number(count);
  if (count < 999_500) return `${trim((count / 1000).toFixed(count < 99_950 ? 1 : 0))}k`;
  return `${trim((count / 1_000_000).toFixed(1))}M`;
}

/** US dollars, with as many digits as small amounts need; a dash where there is no price. @type {Of.format['cost']} */
export function cost(usd) {
  if (usd === null || usd === undefined) return '–';
  if (usd === 0) return '$0';
  if (usd < 0.000_001) return '< $0.000001';
  if (usd < 0.01) return `$${usd.toFixed(6).replace(/0+$/, '')}`;
  return `$${usd.toFixed(usd < 1 ? 3 : 2)}`;
}

/** Tokens a second. @type {Of.format['rate']} */
export function rate(count, ms) {
  if (!count || !ms || ms <= 0) return null;
  const perSecond = (count * 1000) / ms;
  return `${perSecond < 10 ? trim(perSecond.toFixed(1)) : number(Math.round(perSecond))} tokens/s`;
}

/** A moment of today as `14:03:22`, of another day with its date. @type {Of.format['moment']} */
export function moment(ms, now = Date.now()) {
  if (ms === null || ms === undefined) return '–';
  const date = new Date(ms);
  const time = date.toLocaleTimeString('en-GB');
  if (date.toDateString() === new Date(now).toDateString()) return time;
  return `${date.toLocaleDateString('en-GB', { day: 'numeric', month: 'short', year: 'numeric' })} ${time}`;
}

/** A moment to the millisecond, with its date. @type {Of.format['exact']} */
export function exact(ms) {
  if (ms === null || ms === undefined) return '–';
  return new Date(ms).toISOString().replace('T', ' ').replace('Z', ' UTC');
}

/** How long ago, in one unit. @type {Of.format['ago']} */
export function ago(ms, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - ms) / 1000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

/** An id, short enough for a row. @type {Of.format['short']} */
export const short = (id) => (id.length > 22 ? `${id.slice(0, 9)}…${id.slice(-8)}` : id);
