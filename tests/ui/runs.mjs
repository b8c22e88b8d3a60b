// Runs as the gateway tells of them: what the tests of the picture are about.

export const START = Date.UTC(2026, 10, 26, 4, 0, 0);

/** @param {number} input @param {number} output @param {number} [cached] */
export const usage = (input, output, cached = 0) => ({
  input_tokens: input, input_tokens_details: { cached_tokens: cached }, output_tokens: output,
  output_tokens_details: { reasoning_tokens: 0 }, total_tokens: input + output,
});

/**
 * A turn, with times in milliseconds from the begin of the run.
 * @param {number} index
 * @param {[number, number | null, number | null, number | null]} times sent, first byte, first token, end
 * @param {Record<string, any>} [more]
 */
export function turn(index, [sent, byte, token, end], more = {}) {
  const at = (/** @type {number | null} */ ms) => (ms === null ? null : START + ms);
  return {
    index, provider: 'main', model: 'gpt-oss-120b', attempts: 1, retried_at: [], sent_at: START + sent, first_byte_at: at(byte),
    first_token_at: at(token), ended_at: at(end), usage: end === null ? null : usage(1200, 86, 800), cost_usd: end === null ? null : 0.0012, calls: [], ...more,
  };
}

/**
 * @param {string} name
 * @param {number} from
 * @param {number | null} to
 * @param {Record<string, any>} [more]
 */
export function call(name, from, to, more = {}) {
  return {
    call_id: `mcp_${name}_${from}`, name, executor: 'builtin', attempts: 1, retried_at: [], started_at: START + from, ended_at: to === null ? null : START + to,
    outcome: to === null ? null : 'completed', error: null, cached: false, fallback: null, truncated: false, ...more,
  };
}

/**
 * @param {string} id
 * @param {number | null} end
 * @param {any[]} turns
 * @param {Record<string, any>} [more]
 */
export function trace(id, end, turns, more = {}) {
  return { object: 'response.trace', id, started_at: START, ended_at: end === null ? null : START + end, turns, waits: [], limits: [], ...more };
}

/** @param {any} call @param {Record<string, any>} [more] */
export const item = (call, more = {}) => ({
  id: call.call_id, type: 'mcp_call', server_label: 'antwort', name: call.name, arguments: '{"city":"Oslo"}',
  status: call.outcome === 'failed' ? 'failed' : 'completed', output: call.outcome === 'failed' ? null : '{"celsius":4}', error: null, ...more,
});

export const message = (text = 'It is 4 degrees in Oslo.') => ({
  id: 'msg_1', type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text, annotations: [], logprobs: [] }],
});

export const reasoning = (text = 'The user wants the weather. I call two tools.') => ({ id: 'rs_1', type: 'reasoning', summary: [{ type: 'summary_text', text }], content: [] });

/** @param {string} id @param {any[]} output @param {Record<string, any>} [more] */
export function response(id, output, more = {}) {
  return {
    id, object: 'response', created_at: START / 1000, completed_at: START / 1000 + 9, status: 'completed', background: false, error: null, incomplete_details: null,
    model: 'gpt-oss-120b', previous_response_id: null, conversation: null, output, usage: usage(2400, 172, 1600), metadata: {}, tools: [], store: true, antwort: { turns: 2 }, ...more,
  };
}

/** Two turns; three calls in parallel, of which one was retried and one failed. */
export function twoTurns() {
  const weather = call('get_weather', 1450, 2310);
  const stock = call('get_stock_price', 1450, 4800, { executor: 'mcp:market', attempts: 3, retried_at: [START + 2500, START + 3600] });
  const docs = call('search_documents', 1450, 6450, { executor: 'mcp:library', outcome: 'failed', error: 'tool_timeout' });
  const cached = call('datetime', 1460, 1463, { cached: true });
  const calls = [weather, stock, docs, cached];
  return {
    trace: trace('resp_two', 8700, [turn(0, [12, 410, 690, 1440], { calls }), turn(1, [6462, 7000, 7100, 8690], { attempts: 2, retried_at: [START + 6800], cost_usd: 0.0009 })]),
    response: response('resp_two', [reasoning(), ...calls.map((one) => item(one, one === docs ? { error: { type: 'mcp_tool_execution_error', content: [{ type: 'text', text: 'The call took more than 5 s.' }] } } : {})), message()]),
  };
}

/** A callback that came three hours later. */
export function longWait() {
  const job = call('render_video', 900, 10_800_900, { executor: 'http:studio', outcome: 'completed' });
  return {
    trace: trace('resp_wait', 10_803_000, [turn(0, [10, 300, 420, 890], { calls: [job] }), turn(1, [10_800_920, 10_801_300, 10_801_500, 10_802_990])], { waits: [{ kind: 'callback', from: START + 1200, to: START + 10_800_900 }] }),
    response: response('resp_wait', [item(job), message('The video is ready.')]),
  };
}

/** Stopped by the limit of turns; the model made the same call again and again. */
export function stopped() {
  const turns = [0, 1, 2].map((index) => turn(index, [index * 2000 + 10, index * 2000 + 300, index * 2000 + 350, index * 2000 + 900], { calls: [call('search', index * 2000 + 910, index * 2000 + 1980)] }));
  return {
    trace: trace('resp_stop', 6000, turns, { limits: [{ name: 'max_turns', at: START + 5990 }] }),
    response: response('resp_stop', turns.map((one) => item(one.calls[0])), { status: 'incomplete', completed_at: null, incomplete_details: { reason: 'max_turns' }, antwort: { limits: { max_turns: 3 }, turns: 3 } }),
  };
}

/**
 * The same run, some time before.
 * @param {any} of
 * @param {number} ms
 */
const earlier = (of, ms) => JSON.parse(JSON.stringify(of), (key, value) => (/_at$/.test(key) && typeof value === 'number' ? value - ms : value));

/** Asks for approval; and what followed three hours later. */
export function approval() {
  const ask = { id: 'mcpr_1', type: 'mcp_approval_request', server_label: 'mail', name: 'send_mail', arguments: '{"to":"all@example.com","subject":"Party"}' };
  const send = call('send_mail', 20, 640, { executor: 'mcp:mail' });
  return {
    asked: { trace: earlier(trace('resp_ask', 2100, [turn(0, [10, 600, 700, 2090])]), 10_800_000), response: response('resp_ask', [reasoning(), ask], { created_at: START / 1000 - 10_800, completed_at: START / 1000 - 10_798 }) },
    done: { trace: trace('resp_sent', 2900, [turn(0, [15, null, null, null], { attempts: 0, calls: [send] }), turn(1, [650, 1200, 1300, 2890])]), response: response('resp_sent', [item(send, { approval_request_id: 'mcpr_1' }), message('The mail is sent.')], { previous_response_id: 'resp_ask' }) },
  };
}

/** A slow list of tools, a turn with a call, a summary of the conversation, the answer. */
export function compacted() {
  const search = call('search', 2000, 2500);
  const turns = [turn(0, [910, 1200, 1300, 1990], { calls: [search] }), turn(1, [2510, 2800, 2900, 4000], { is_compaction: true, model: 'small' }), turn(2, [4010, 4300, 4400, 5000])];
  return {
    trace: trace('resp_compacted', 5010, turns, { waits: [{ kind: 'mcp_list_tools', from: START + 1, to: START + 901 }] }),
    response: response('resp_compacted', [item(search), { id: 'cmp_1', type: 'compaction', encrypted_content: 'x'.repeat(400) }, message()]),
  };
}

/** Two hundred calls in five turns. */
export function huge() {
  const turns = Array.from({ length: 5 }, (_, index) => {
    const begin = index * 12_000;
    const calls = Array.from({ length: 40 }, (_, number) => {
      const from = begin + 2000 + Math.floor(number / 8) * 1800;
      const failed = (index * 40 + number) % 37 === 5;
      return call(`fetch_page_${number}`, from, from + 300 + ((number * 137) % 1400), failed ? { outcome: 'failed', error: 'tool_unavailable' } : {});
    });
    return turn(index, [begin + 10, begin + 800, begin + 900, begin + 1990], { calls });
  });
  turns.push(turn(5, [60_010, 61_000, 61_200, 66_000]));
  return { trace: trace('resp_huge', 66_010, turns), response: response('resp_huge', [...turns.flatMap((one) => one.calls.map((made) => item(made))), message('Done.')]) };
}

/** The model server did not answer. */
export function broken() {
  return {
    trace: trace('resp_broken', 32_000, [turn(0, [10, null, null, 31_990], { attempts: 3, retried_at: [START + 10_100, START + 20_900], usage: null, cost_usd: null })]),
    response: response('resp_broken', [], { status: 'failed', completed_at: null, usage: null, error: { code: 'upstream_first_byte_timeout', type: 'server_error', message: 'The provider sent no first byte within 10 s.', param: null } }),
  };
}

/** Still going on: the model is done, one of two calls is not. */
export function going() {
  const calls = [call('quick', 900, 1300), call('slow', 900, null)];
  return {
    trace: trace('resp_going', null, [turn(0, [10, 300, 420, 890], { calls })]),
    response: response('resp_going', [item(calls[0]), item(calls[1], { status: 'in_progress', output: null })], { status: 'in_progress', completed_at: null, usage: null, antwort: undefined }),
  };
}
