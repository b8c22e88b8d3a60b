// A run on the page: summary, picture or table, output or details.

import { button, cost, duration, el, exact, facts, icon, pre, replace, reveal, shown, stateMark } from '../lib/dom.js';
import { renderError } from '../next-step.js';
import { isCall, isRunning, nameOf, plainType } from '../protocol.js';
import { account, belonging, ending, hasShares, PARTS, percent, slowness, statusWords, texts, totals, troubles } from './account.js';
import { createPicture, layout, timeOf } from './picture.js';

export function createRunView() {
  const summary = el('section', { class: 'card summary', 'aria-label': 'Summary' });
  const above = el('div', { class: 'stack' });
  const earlier = el('div', { class: 'chain' });
  const tableRoot = el('div', { class: 'run-table-root', hidden: true });
  const details = el('section', { class: 'details stack', 'aria-label': 'Details', hidden: true });
  const output = createOutput('Output');
  const input = el('section', { class: 'stack', 'aria-label': 'Input', hidden: true });
  const outputRoot = el('section', { class: 'stack', 'aria-label': 'Output' }, el('h2', { text: 'Output' }), output.root);
  const side = el('aside', { class: 'card side stack', 'aria-label': 'Output and details' }, input, outputRoot, details);
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
  const missing = el('p', { class: 'muted', hidden: true });
  const shared = el('li', { class: 'muted', text: 'The kinds share a turn by length of text.' });
  const tools = createTools({
    onTable: (table) => { asTable = table; arrange(); },
    onCompress: () => { compress = !compress; draw(); },
    onCollapse: (collapse) => picture.collapseAll(collapse),
    onFollow: () => { closeDetails(); following = true; drawn = latest; draw(); },
  });
  const main = el('section', { class: 'card pictured', 'aria-label': 'Picture' }, tools.root, earlier, missing, picture.root, tableRoot, legend(shared));
  const columns = el('div', { class: 'run-columns' }, main, side);
  const root = el('div', { class: 'run-view', tabindex: -1 }, summary, above, columns);

  const running = () => latest !== null && (latest.trace ? latest.trace.ended_at === null : isRunning(latest.response));

  /** @type {Of['selectLane']} */
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

  /** @type {Of['showRow']} */
  function showRow(row) {
    asTable = false;
    arrange();
    picture.select(row, true);
  }

  function arrange() {
    const known = drawn?.trace !== null && drawn?.trace !== undefined;
    missing.hidden = known;
    missing.textContent = latest && isRunning(latest.response) ? 'It is in progress; its account comes with its end.' : 'No times are known of this run: the gateway has no trace of it.';
    shared.hidden = drawn?.trace?.watched === true;
    picture.root.hidden = asTable || !known;
    tableRoot.hidden = !asTable || !known;
    if (asTable && drawn?.trace) renderTable(tableRoot, { response: drawn.response, trace: drawn.trace }, showRow);
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
    input,
    earlier,
    show(/** @type {Run} */ run) {
      // A request that was refused has no run.
      summary.hidden = columns.hidden = !run.response.id;
      const ended = running() && run.trace !== null && run.trace.ended_at !== null;
      latest = run;
      if (ended) following = true;
      renderSummary(summary, run, showRow);
      output.show(run.response);
      if (following || !running()) drawn = run;
      draw();
      if (selected && !running() && drawn?.trace) picture.select(selected.id);
    },
    stop: () => picture.stop(),
  };
}

/** @type {Of['createTools']} */
function createTools(does) {
  const pictured = button('Picture', () => does.onTable(false), 'small');
  const table = button('Table', () => does.onTable(true), 'small');
  const compress = button('', does.onCompress, 'small');
  const expand = button('Expand all', () => does.onCollapse(false), 'small');
  const collapse = button('Collapse all', () => does.onCollapse(true), 'small');
  const follow = button('Follow', does.onFollow, 'small');
  const shape = el('div', { class: 'row' }, compress, expand, collapse);
  const note = el('span', { class: 'muted small' });
  compress.hidden = expand.hidden = collapse.hidden = follow.hidden = true;
  const root = el('div', { class: 'row pic-tools' }, el('h2', { text: 'Timeline' }), el('div', { class: 'row switch', role: 'group', 'aria-label': 'Show as' }, pictured, table), shape, follow, note);
  return {
    root,
    table(asTable = false) {
      pictured.setAttribute('aria-pressed', String(!asTable));
      table.setAttribute('aria-pressed', String(asTable));
      shape.hidden = asTable;
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

/** @type {Of['legend']} */
function legend(shared) {
  const one = (kind = '', text = '') => el('li', null, el('span', { class: `swatch bar-${kind}`, 'aria-hidden': 'true' }), text);
  return el('ul', { class: 'legend', 'aria-label': 'Legend' },
    one('first_byte', 'to first byte'), one('first_token', 'to first token'), one('reasoning', 'reasoning'), one('text', 'text'), one('arguments', 'call arguments'), one('call', 'tool'), one('attempt', 'attempt given up'), one('call-failed', 'failed'), one('wait', 'wait'), shared);
}

/** @type {Of['renderTable']} */
function renderTable(root, { response, trace, now }, onShow) {
  const lanes = layout(trace, response, 1000, { now }).groups.flatMap((group) => [group.lane, ...group.calls]);
  const cell = (look = '', /** @type {any[]} */ ...content) => el('td', { class: look }, content);
  const rowOf = (/** @type {Lane} */ lane) => el('tr', { class: `row-${lane.kind}` },
    el('th', { scope: 'row' }, button(lane.label, () => onShow(lane.id), 'link'), ' ', el('span', { class: 'muted small', text: lane.note })),
    cell('', stateMark(lane.state)),
    cell('number', lane.at === 0 ? '0' : duration(lane.at)),
    cell('number', lane.kind === 'end' ? '' : timeOf(lane)),
    cell('', [lane.caption, ...lane.badges.map((badge) => badge.text)].filter(Boolean).join(' · ')));
  replace(root, el('div', { class: 'scroll', role: 'region', tabindex: 0, 'aria-label': 'The run as a table' }, el('table', { class: 'run-table' },
    el('thead', null, el('tr', null, ['What', 'State', 'Begins', 'Time', 'Remarks'].map((head, index) => el('th', { scope: 'col', class: index === 2 || index === 3 ? 'number' : '', text: head })))),
    el('tbody', null, lanes.map(rowOf)))));
}

// So many troubles are named; the table has the others.
const NAMED = 8;

/** @type {Of['renderSummary']} */
function renderSummary(root, { response, trace, now }, onShow) {
  const line = (/** @type {Finding} */ { text, tone, row }) => el('li', { class: `tone-${tone}` },
    icon({ bad: 'failed', warn: 'limit', ok: 'done', '': 'queued' }[tone]), el('span', { class: 'words', text }), ' ',
    row ? el('button', { class: 'link', text: 'show', 'aria-label': `show in the picture: ${text}`, on: { click: () => onShow(row) } }) : null);
  const why = ending(response, trace, now);
  const found = trace ? troubles(trace) : [];
  const calls = trace?.turns.flatMap((turn) => turn.calls) ?? [];
  const wentWell = calls.length > 0 && !isRunning(response) && calls.every((call) => call.outcome === 'completed');
  replace(
    root,
    el('h2', { class: 'visually-hidden', text: 'Summary' }),
    el('ul', { class: 'findings' },
      line(why), why.advice ? el('li', null, why.advice) : null, el('li', { class: 'muted' }, totals(response, trace)),
      (trace ? slowness(trace, now) : []).map(line), found.slice(0, NAMED).map(line),
      found.length > NAMED ? el('li', { class: 'muted', text: `and ${found.length - NAMED} more: see the table` }) : null,
      wentWell ? el('li', null, icon('done'), 'No tool call failed.') : null),
    trace && hasShares(trace) ? timeBar(trace, now) : null,
  );
}

/** @type {Of['timeBar']} */
function timeBar(trace, now) {
  const { total, parts } = account(trace, now);
  const shown = parts.filter((part) => part.ms > 0);
  return el('div', { class: 'time-bar' },
    el('div', { class: 'time-parts', 'aria-hidden': 'true' }, shown.map((part) => el('span', { class: `part-${part.part}`, style: { 'flex-grow': part.ms } }))),
    el('ul', { class: 'time-legend', 'aria-label': 'Where the time went' }, shown.map((part) =>
      el('li', null, el('span', { class: `swatch part-${part.part}`, 'aria-hidden': 'true' }), `${PARTS[part.part][0]} `, el('strong', { text: duration(part.ms) }), el('span', { class: 'muted', text: ` ${percent(part.ms, total)}` })))));
}

// --- items, and the details of a row ---

// Beyond so many, calls that succeeded are left out at first: one looks for the answer.
const MANY = 10;

/** @type {Of['textBlock']} */
export const textBlock = (text, label) => pre(label, text === '' ? '(empty)' : shown(text));

/** @type {Of['renderItem']} */
function renderItem(item, all = []) {
  const type = plainType(item);
  const said = (text = '') => el('div', { class: 'said', dir: 'auto', text: reveal(text) });
  if (type === 'message') return block('message', 'Answer', item, said(texts(item.content).join('\n')));
  if (type === 'user_message') return block('message', `${item.name} to the user`, item, said(item.text ?? ''));
  if (type === 'reasoning') {
    const words = texts([...(item.summary ?? []), ...(item.content ?? [])]).join('\n');
    return block('reasoning', `Reasoning${words ? '' : item.encrypted_content ? ', sealed' : ', not shown'}`, item, words ? said(words) : null);
  }
  if (isCall(item)) return call(item);
  if (type === 'mcp_approval_request') return block('call', `Asks for approval: ${item.name} of ${item.server_label}`, item, textBlock(item.arguments ?? '', 'Arguments'));
  if (/_output$/.test(type)) return block('call', `Result of ${reveal(item.name ?? callOf(all, item.call_id)?.name ?? item.call_id)}`, item, textBlock(typeof item.output === 'string' ? item.output : JSON.stringify(item.output), 'Result'));
  const title = type === 'mcp_list_tools' ? `Tools of ${item.server_label}: ${(item.tools ?? []).length}` : type;
  return block('other', '', {}, el('details', null, el('summary', { text: title }), textBlock(type === 'mcp_list_tools' ? item.tools.map((/** @type {any} */ tool) => tool.name).join('\n') : JSON.stringify(item), title)));
}

/** @type {Of['callOf']} */
const callOf = (items, id) => items.find((one) => one.call_id === id && isCall(one));

/** @type {Of['renderGiven']} */
export function renderGiven(item, asked) {
  const call = item.call_id ? callOf(asked, item.call_id) : asked.find((/** @type {any} */ one) => [one.id, one.approval_request_id].includes(item.approval_request_id));
  const name = reveal(call ? nameOf(call) : item.approval_request_id ?? '');
  if (item.role) return block('message', item.role, {}, el('div', { class: 'said', dir: 'auto', text: reveal(texts(item.content).join('\n')) || '(no text)' }));
  if (item.type !== 'mcp_approval_response') return renderItem(item, asked);
  return block('call', item.approve ? `Approved ${name}` : `Denied ${name}.${item.reason ? ` Reason: ${reveal(item.reason)}` : ''}`, {}, item.approve ? null : el('p', { text: 'The call was not made.' }));
}

/** @type {Of['call']} */
function call(item) {
  const own = item.arguments ?? item.input ?? (item.action ? JSON.stringify(item.action) : '');
  const state = statusWords(item.status === 'calling' ? 'in_progress' : (item.status ?? 'completed'));
  const text = (title = '', value = '') => (value ? [el('span', { class: 'muted small', text: title }), textBlock(value, title)] : []);
  return el('section', { class: `item item-call ${state.tone === 'ok' ? 'went-well' : ''}` }, el('details', null,
    el('summary', null, el('span', { class: 'twisty', 'aria-hidden': 'true' }, icon('open')), el('span', { class: `state ${state.tone}` }, icon(state.icon), el('span', { class: 'visually-hidden', text: state.word })), el('span', { class: 'called', text: reveal(nameOf(item)) }), el('code', { text: reveal(own.slice(0, 120), false) })),
    text('Arguments', own || '{}'), text('Result', item.output), text('Error', item.error ? JSON.stringify(item.error) : '')));
}

/** @type {Of['block']} */
function block(kind, title, item, ...content) {
  const state = item.status && item.status !== 'completed' ? statusWords(item.status) : null;
  return el('section', { class: `item item-${kind}` },
    el('div', { class: 'item-head' }, title, state ? stateMark(state) : null),
    ...content);
}

/** @type {Of['createOutput']} */
export function createOutput(label) {
  const list = el('div', { class: 'output', 'aria-label': label, role: 'group' });
  const more = el('button', { class: 'small output-more', hidden: true, on: { click: () => showCalls(list.classList.contains('few')) } });
  /** @type {string[]} */
  let drawn = [];
  let calls = 0;

  /** @type {Of['showCalls']} */
  function showCalls(all) {
    list.classList.toggle('few', !all);
    more.textContent = all ? 'Hide the calls that succeeded' : `Show all ${calls} calls`;
  }

  return {
    root: el('div', { class: 'stack' }, more, list),
    show(response) {
      const items = response.output ?? [];
      calls = items.filter(isCall).length;
      if (more.hidden && calls > MANY) showCalls(false);
      more.hidden = calls <= MANY;
      if (drawn.length === 0 || items.length === 0) replace(list, items.length === 0 ? el('p', { class: 'muted', text: isRunning(response) ? 'No output is known yet.' : 'No output.' }) : null);
      const signatures = items.map((/** @type {any} */ item) => JSON.stringify(item));
      items.forEach((/** @type {any} */ item, index = 0) => {
        if (drawn[index] === signatures[index]) return;
        const old = list.children[index];
        if (old) old.replaceWith(renderItem(item, items));
        else list.append(renderItem(item, items));
      });
      while (items.length > 0 && list.children.length > items.length) list.lastElementChild?.remove();
      drawn = signatures;
    },
  };
}

/** @type {Of['renderDetails']} */
function renderDetails(root, { response, trace }, lane, onClose) {
  const owned = belonging(response.output ?? [], trace);
  const turn = trace.turns[lane.turn];
  const call = turn?.calls[lane.call];
  const content = call ? ofCall(call, owned, trace) : turn ? ofTurn(turn, owned.turns[lane.turn], trace) : [known([['Ends', when(trace.started_at + lane.at + (lane.kind === 'end' ? 0 : lane.ms ?? 0), trace)], ['Error', response.error?.code], ['Message', response.error?.message]])];
  replace(
    root,
    el('div', { class: 'row spread' }, el('h2', { text: lane.label }), el('button', { class: 'quiet', 'aria-label': 'Close the details', text: 'Close', on: { click: onClose } })),
    stateMark(lane.state),
    call ? null : el('p', { class: 'muted', text: lane.caption }),
    ...content,
  );
}

/** @type {Of['known']} */
const known = (list) => facts(list.filter(([, value]) => value));

/** @type {Of['when']} */
const when = (at, trace) => at !== null && el('span', null, `+${duration(at - trace.started_at)} `, el('span', { class: 'muted small', text: exact(at).slice(11) }));

/** @type {Of['attempts']} */
const attempts = (of, trace) => `${of.attempts}${(of.retried_at ?? []).map((at, index) => `, again at +${duration(at - trace.started_at)}${'retry_reasons' in of && of.retry_reasons?.[index] ? ` (attempt ${index + 1} failed: ${of.retry_reasons[index]})` : ''}`).join('')}`;

/** @type {Of['alone']} */
const alone = (item) => `#/tools?${new URLSearchParams({ server: (item.server_label ?? '').replace(/^antwort$/, ''), tool: nameOf(item), arguments: item.arguments ?? '' })}`;

/** @type {Of['ofCall']} */
function ofCall(call, owned, trace) {
  const item = owned.items.get(call.call_id);
  const result = owned.outputs.get(item?.call_id)?.output ?? item?.output;
  const text = (title = '', /** @type {any} */ value) => (value ? [el('h3', { text: title }), textBlock(typeof value === 'string' ? value : JSON.stringify(value), title)] : []);
  return [
    call.outcome === 'failed' ? renderError({ ...item?.error, code: call.error ?? item?.error?.code }, { title: 'Failed' }) : null,
    call.outcome === 'failed' && item ? el('a', { href: alone(item), text: 'Try it alone with these arguments' }) : null,
    known([
      ['Run by', call.executor], ['Begins', when(call.started_at, trace)], ['Ends', when(call.ended_at, trace)], ['Time', (call.at_most ? 'at most ' : '') + duration(call.ended_at && call.ended_at - call.started_at)], ['Attempts', attempts(call, trace)],
      ['Cached', call.cached && 'no call was made: the result is an earlier one'],
      ['Fallback', call.fallback && `made in place of ${call.fallback}, which failed`],
      ['Truncated', call.truncated && 'the model got only a part of the result'],
      ['Call', el('code', { text: call.call_id })],
    ]),
    ...(item ? text('Arguments', item.arguments ?? item.input ?? item.action) : [el('p', { class: 'muted', text: 'The response has no item of this call: its arguments and result are not known here.' })]),
    ...text('Result', result),
  ];
}

/** @type {Of['ofTurn']} */
function ofTurn(turn, items, trace) {
  const reasoning = turn.usage?.output_tokens_details?.reasoning_tokens;
  return [
    known([
      ['Model', turn.model], ['Provider', turn.provider], ['Sent', when(turn.sent_at, trace)], ['First byte', when(turn.first_byte_at, trace)], ['First token', when(turn.first_token_at, trace)], ['Ends', when(turn.ended_at, trace)],
      ['Attempts', attempts(turn, trace)], ['Reasoning', reasoning ? `${reasoning} of the tokens out` : null],
      ['Cost', !trace.watched && (turn.cost_usd === null ? 'not known: no price, or no usage' : cost(turn.cost_usd))],
    ]),
    items.length > 0 ? el('h3', { text: 'What the model wrote' }) : null,
    ...items.map((item) => renderItem(item, items)),
  ];
}
