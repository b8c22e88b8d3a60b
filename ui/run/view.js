// A run on the page: summary, picture or table, and beside it the output or the details of what is selected.

import { createOutput, renderDetails } from './items.js';
import { layout } from './layout.js';
import { el, icon, replace, stateMark } from '../lib/dom.js';
import { duration } from '../lib/format.js';
import { createPicture } from './picture.js';
import { button } from '../screens/parts.js';
import { account } from './trace.js';
import { ending, isRunning, PARTS, percent, slowness, totals, troubles } from './words.js';

export function createRunView() {
  const summary = el('section', { class: 'card summary', 'aria-label': 'Summary' });
  const above = el('div', { class: 'stack' });
  const earlier = el('div', { class: 'chain' });
  const tableRoot = el('div', { class: 'run-table-root', hidden: true });
  const details = el('section', { class: 'details stack', 'aria-label': 'Details', hidden: true });
  const output = createOutput('Output');
  const outputRoot = el('section', { class: 'stack', 'aria-label': 'Output' }, el('h2', { text: 'Output' }), output.root);
  const side = el('aside', { class: 'card side', 'aria-label': 'Output and details' }, outputRoot, details);
  /** @type {Run | null} */
  let latest = null;
  /** @type {Run | null} what the picture shows: behind the latest while someone inspects it */
  let drawn = null;
  let following = true;
  let compress = false;
  let asTable = false;
  /** @type {Lane | null} */
  let selected = null;

  const picture = createPicture({ label: 'Timeline of the run', onSelect: selectLane, onLayout: (drawing) => tools.layout(drawing, compress, drawn?.trace ?? null) });
  const missing = el('p', { class: 'muted', hidden: true, text: 'No times are known of this run: the gateway has no trace of it.' });
  const tools = createTools({
    onTable: (table) => { asTable = table; arrange(); },
    onCompress: () => { compress = !compress; draw(); },
    onCollapse: (collapse) => picture.collapseAll(collapse),
    onFollow: () => { closeDetails(); following = true; drawn = latest; draw(); },
  });
  const main = el('section', { class: 'card pictured', 'aria-label': 'Picture' }, tools.root, earlier, missing, picture.root, tableRoot, legend());
  const columns = el('div', { class: 'run-columns' }, main, side);
  const root = el('div', { class: 'run-view' }, summary, above, columns);

  const running = () => latest !== null && (latest.trace ? latest.trace.ended_at === null : isRunning(latest.response));

  /** @type {Of.view['selectLane']} */
  function selectLane(lane) {
    selected = lane;
    if (running() && following) {
      following = false;
      // The account of a live run grows; what is inspected must not.
      drawn = structuredClone(drawn);
    }
    details.hidden = false;
    outputRoot.hidden = true;
    if (drawn?.trace) renderDetails(details, { response: drawn.response, trace: drawn.trace }, lane, closeDetails);
    tools.follow(running(), following);
  }

  function closeDetails() {
    selected = null;
    details.hidden = true;
    outputRoot.hidden = false;
    picture.select(null);
  }

  /** @type {Of.view['reveal']} */
  function reveal(row) {
    asTable = false;
    arrange();
    picture.select(row, true);
  }

  function arrange() {
    const known = drawn?.trace !== null && drawn?.trace !== undefined;
    missing.hidden = known;
    picture.root.hidden = asTable || !known;
    tableRoot.hidden = !asTable || !known;
    if (asTable && drawn?.trace) renderTable(tableRoot, { response: drawn.response, trace: drawn.trace }, reveal);
    tools.table(asTable);
  }

  function draw() {
    if (drawn?.trace) picture.show({ ...drawn, trace: drawn.trace, compress });
    arrange();
    tools.follow(running(), following);
  }

  return {
    root,
    above,
    earlier,
    show(/** @type {Run} */ run) {
      // A request that was refused has no run.
      summary.hidden = columns.hidden = !run.response.id;
      const ended = running() && run.trace !== null && run.trace.ended_at !== null;
      latest = run;
      if (ended) following = true;
      renderSummary(summary, run, reveal);
      output.show(run.response);
      if (following || !running()) drawn = run;
      draw();
      if (selected && !running() && drawn?.trace) picture.select(selected.id);
    },
    stop: () => picture.stop(),
  };
}

/** @type {Of.view['createTools']} */
function createTools(does) {
  const pictured = button('Picture', () => does.onTable(false), 'small');
  const table = button('Table', () => does.onTable(true), 'small');
  const compress = button('', does.onCompress, 'small');
  const expand = button('Expand all', () => does.onCollapse(false), 'small');
  const collapse = button('Collapse all', () => does.onCollapse(true), 'small');
  const follow = button('Follow', does.onFollow, 'small');
  // Until there is something to be shortened or folded.
  compress.hidden = expand.hidden = collapse.hidden = true;
  const note = el('span', { class: 'muted small' });
  compress.hidden = expand.hidden = collapse.hidden = follow.hidden = true;
  const root = el('div', { class: 'row pic-tools' }, el('h2', { text: 'Timeline' }), el('div', { class: 'row switch', role: 'group', 'aria-label': 'Show as' }, pictured, table), compress, expand, collapse, follow, note);
  return {
    root,
    table(asTable = false) {
      pictured.setAttribute('aria-pressed', String(!asTable));
      table.setAttribute('aria-pressed', String(asTable));
    },
    follow(running = false, following = false) {
      follow.hidden = !running;
      follow.textContent = following ? 'Follows' : 'Follow again';
      follow.setAttribute('aria-pressed', String(following));
    },
    layout(/** @type {Layout} */ { shortenable, groups, gaps }, compressed = false, /** @type {Trace | null} */ watched) {
      compress.hidden = shortenable === null;
      compress.textContent = `Shorten waits (${shortenable ?? ''})`;
      compress.setAttribute('aria-pressed', String(compressed));
      expand.hidden = collapse.hidden = groups.filter((group) => group.calls.length > 0).length < 2;
      const words = [gaps.length > 0 ? 'Not to scale: waits are shortened.' : '', watched?.watched ? 'Times are those of this page’s clock.' : '', watched?.late ? 'Opened while it was running: what came before is drawn where this page heard of it.' : ''];
      note.textContent = words.filter(Boolean).join(' ');
    },
  };
}

/** What the colours and patterns mean. */
function legend() {
  const one = (kind = '', text = '') => el('li', null, el('span', { class: `swatch bar-${kind}`, 'aria-hidden': 'true' }), text);
  return el('ul', { class: 'legend', 'aria-label': 'Legend' },
    one('first_byte', 'to first byte'), one('first_token', 'to first token'), one('reasoning', 'reasoning'), one('text', 'text'), one('arguments', 'call arguments'), one('call', 'tool'), one('attempt', 'attempt given up'), one('call-failed', 'failed'),
    el('li', { class: 'muted', text: 'The kinds share a turn by length of text.' }));
}

/** The table that says the same as the picture. @type {Of.view['renderTable']} */
function renderTable(root, { response, trace, now }, onShow) {
  const lanes = layout(trace, response, 1000, { now }).groups.flatMap((group) => [group.lane, ...group.calls]);
  const cell = (look = '', /** @type {import('../lib/dom.js').Child[]} */ ...content) => el('td', { class: look }, content);
  const rowOf = (/** @type {Lane} */ lane) => el('tr', { class: `row-${lane.kind}` },
    el('th', { scope: 'row' }, el('button', { class: 'link', text: lane.label, on: { click: () => onShow(lane.id) } }), ' ', el('span', { class: 'muted small', text: lane.note })),
    cell('', stateMark(lane.state)),
    cell('number', lane.at === 0 ? '0' : duration(lane.at)),
    cell('number', duration(lane.ms)),
    cell('', [lane.caption, ...lane.badges.map((badge) => badge.text)].filter(Boolean).join(' · ')));
  replace(root, el('div', { class: 'scroll', role: 'region', tabindex: 0, 'aria-label': 'The run as a table' }, el('table', { class: 'run-table' },
    el('thead', null, el('tr', null, ['What', 'State', 'Begins', 'Time', 'Remarks'].map((head, index) => el('th', { scope: 'col', class: index === 2 || index === 3 ? 'number' : '', text: head })))),
    el('tbody', null, lanes.map(rowOf)))));
}

// So many troubles are named; the table has the others.
const NAMED = 8;

/** @type {Of.view['renderSummary']} */
export function renderSummary(root, { response, trace, now }, onShow) {
  const line = (/** @type {Finding} */ { text, tone, row }) => el('li', { class: `tone-${tone}` },
    icon({ bad: 'failed', warn: 'limit', ok: 'done', '': 'queued' }[tone]), el('span', { class: 'words', text }), ' ',
    row ? el('button', { class: 'link', text: 'show', 'aria-label': `show in the picture: ${text}`, on: { click: () => onShow(row) } }) : null);
  const why = ending(response, trace, now);
  const found = trace ? troubles(trace) : [];
  const wentWell = trace?.turns.some((turn) => turn.calls.length > 0) && !isRunning(response) && !found.some((one) => one.tone === 'bad');
  replace(
    root,
    el('h2', { class: 'visually-hidden', text: 'Summary' }),
    el('ul', { class: 'findings' },
      line(why), why.advice ? el('li', null, why.advice) : null, el('li', { class: 'muted' }, totals(response, trace)),
      (trace ? slowness(trace, now) : []).map(line), found.slice(0, NAMED).map(line),
      found.length > NAMED ? el('li', { class: 'muted', text: `and ${found.length - NAMED} more: see the table` }) : null,
      wentWell ? el('li', null, icon('done'), 'No tool call failed.') : null),
    trace ? timeBar(trace, now) : null,
  );
}

/** @type {Of.view['timeBar']} */
function timeBar(trace, now) {
  const { total, parts } = account(trace, now);
  const shown = parts.filter((part) => part.ms > 0);
  return el('div', { class: 'time-bar' },
    el('div', { class: 'time-parts', 'aria-hidden': 'true' }, shown.map((part) => el('span', { class: `part-${part.part}`, style: { 'flex-grow': part.ms } }))),
    el('ul', { class: 'time-legend', 'aria-label': 'Where the time went' }, shown.map((part) =>
      el('li', null, el('span', { class: `swatch part-${part.part}`, 'aria-hidden': 'true' }), `${PARTS[part.part][0]} `, el('strong', { text: duration(part.ms) }), el('span', { class: 'muted', text: ` ${percent(part.ms, total)}` })))));
}
