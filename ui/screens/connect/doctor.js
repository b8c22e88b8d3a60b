// What `antwort doctor --json` found about a model server: a file that is read in the page, and sent nowhere.

import { parseJson, reveal } from '../../json-text.js';
import { el, replace } from '../../lib/dom.js';
import { gateway } from '../../lib/api.js';
import { button, codeBlock, state } from '../parts.js';

/** @typedef {Record<string, any>} Json */
/** @typedef {import('../parts.js').Look} Look */

const MAX_BYTES = 4 * 1024 * 1024;
const MAX_FINDINGS = 500;
/** @type {Record<string, Look>} */
const LOOKS = { yes: 'ok', no: 'bad', ignored: 'warn', unstable: 'warn', unknown: 'off' };
/** @type {Record<string, [Look, string]>} */
const VERDICTS = { works: ['ok', 'works'], works_with_gaps: ['warn', 'works, with gaps'], does_not_work: ['bad', 'does not work'] };

/** The last report, while the page is open. @type {Json | null} */
let report = null;

export function doctorReport() {
  const place = el('div', { class: 'stack' });
  const fault = el('p', { class: 'fault', role: 'alert' });
  const file = el('input', { type: 'file', accept: '.json,application/json', class: 'visually-hidden', tabindex: -1, 'aria-label': 'Report of doctor', on: { change: () => void read() } });
  async function read() {
    const [chosen] = file.files ?? [];
    file.value = '';
    if (!chosen) return;
    const { value, error } = chosen.size > MAX_BYTES ? { value: null, error: 'The file is larger than 4 MiB.' } : parseJson(await chosen.text());
    const wrong = error ?? (isReport(value) ? null : 'This is no report of antwort doctor --json.');
    fault.textContent = wrong ?? '';
    if (wrong !== null) return;
    report = /** @type {Json} */ (value);
    replace(place, ...view(report));
  }
  if (report) replace(place, ...view(report));
  const upstream = 'http://127.0.0.1:11434/v1';
  return el('div', { class: 'stack' },
    el('p', { class: 'hint', text: 'antwort doctor asks a model server what it can do, and what it only pretends to. Run it where the server can be reached:' }),
    codeBlock(`antwort doctor ${upstream} --json > doctor.json`, 'Command'),
    el('div', { class: 'row' }, button('Open a report', () => file.click()), el('span', { class: 'hint', text: `Read in this page; not sent to ${gateway().host} or elsewhere.` })), file, fault, place);
}

/** @param {unknown} value */
function isReport(value) {
  const of = /** @type {Json | null} */ (value);
  return typeof of === 'object' && of !== null && of.object === 'doctor.report' && Array.isArray(of.findings);
}

/** @param {Json} report */
function view(report) {
  const [look, words] = Object.hasOwn(VERDICTS, report.verdict) ? VERDICTS[report.verdict] : /** @type {[Look, string]} */ (['off', String(report.verdict)]);
  /** @type {[string, unknown][]} */
  const facts = [['Server', report.url], ['Model', report.model], ['Nearest preset', report.preset], ['Asked at', report.at], ['Tokens', report.tokens && `${report.tokens.input} in, ${report.tokens.output} out`]];
  const findings = report.findings.slice(0, MAX_FINDINGS).filter((/** @type {unknown} */ one) => typeof one === 'object' && one !== null);
  return [
    el('div', { class: 'row' }, el('h3', { text: 'The model server' }), state(look, reveal(words))),
    el('dl', { class: 'facts' }, facts.filter(([, value]) => value).flatMap(([term, value]) => [el('dt', { text: term }), el('dd', { text: text(value) })])),
    el('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'Findings' }, el('table', null,
      el('caption', { class: 'visually-hidden', text: 'What doctor found' }),
      el('thead', null, el('tr', null, ['Question', 'Answer', 'Evidence'].map((name) => el('th', { scope: 'col', text: name })))),
      el('tbody', null, findings.map((/** @type {Json} */ one) => el('tr', null, el('th', { scope: 'row', text: text(one.question ?? one.id) }), el('td', null, state(LOOKS[one.answer] ?? 'off', text(one.answer))), el('td', { class: 'small', text: text(one.evidence) })))))),
    report.config ? el('div', { class: 'stack' }, el('h3', { text: 'Configuration, as the difference to the preset' }), codeBlock(text(report.config), 'Configuration')) : null,
  ];
}

/** @param {unknown} value */
const text = (value) => reveal(typeof value === 'string' ? value : (JSON.stringify(value) ?? '')).slice(0, 20_000);
