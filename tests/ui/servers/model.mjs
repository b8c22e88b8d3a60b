// Chat completions by script: the turn is the one that the conversation has come to, so that answers depend on nothing else.

import { setTimeout as sleep } from 'node:timers/promises';

export function models(scripts) {
  const data = scripts.models().map((id) => ({ id, object: 'model', created: 1_760_000_000, owned_by: 'script' }));
  return { object: 'list', data };
}

export async function answer(scripts, request, _, response) {
  const turn = scripts.turn(request);
  const failure = scripts.failure(turn, request);
  if (failure) return fail(response, failure);
  if (turn.waits) await sleep(turn.waits);
  if (turn.gate === 'sent') await scripts.gates.wait(request.model, response);
  if (request.stream) return stream(scripts, turn, request, response);
  response.writeHead(200, { 'content-type': 'application/json' });
  const choice = { index: 0, message: message(turn), finish_reason: finish(turn) };
  response.end(JSON.stringify({ ...head(request), object: 'chat.completion', choices: [choice], usage: usage(turn) }));
}

function fail(response, { status, message, headers }) {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify({ error: { message: message ?? 'scripted failure', type: 'server_error', param: null, code: null } }));
}

async function stream(scripts, turn, request, response) {
  const event = (fields) => {
    response.write(`data: ${JSON.stringify({ ...head(request), object: 'chat.completion.chunk', ...fields })}\n\n`);
  };
  const choice = (delta, finish_reason = null) => event({ choices: [{ index: 0, delta, finish_reason }] });
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.flushHeaders();
  choice({ role: 'assistant', content: '' });
  if (turn.first_token) await sleep(turn.first_token);
  if (turn.gate === 'first_token') await scripts.gates.wait(request.model, response);
  let sent = 0;
  for (const delta of deltas(turn)) {
    if (turn.gate_after === sent) await scripts.gates.wait(request.model, response);
    if (response.destroyed) return;
    choice(delta);
    sent += 1;
    if (turn.pace) await sleep(turn.pace);
  }
  // What was written still arrives.
  if (turn.cut) return response.socket.end();
  choice({}, finish(turn));
  event({ choices: [], usage: usage(turn) });
  response.end('data: [DONE]\n\n');
}

function* deltas(turn) {
  for (const piece of pieces(turn.reasoning)) yield { reasoning_content: piece };
  for (const piece of pieces(turn.text)) yield { content: piece };
  for (const [index, call] of calls(turn).entries()) {
    yield { tool_calls: [{ index, ...call, function: { name: call.function.name, arguments: '' } }] };
    yield { tool_calls: [{ index, function: { arguments: call.function.arguments } }] };
  }
}

/** Words with the spaces before them; a text without spaces in pieces that a read can hold. */
function pieces(text) {
  return (text ?? '').match(/\s?\S{1,4096}|\s/gu) ?? [];
}

function message(turn) {
  const said = { role: 'assistant', content: turn.text ?? null };
  if (turn.reasoning) said.reasoning_content = turn.reasoning;
  if (turn.calls) said.tool_calls = calls(turn);
  return said;
}

let made = 0;

function calls(turn) {
  return (turn.calls ?? []).map(({ name, arguments: given }) => {
    const text = typeof given === 'string' ? given : JSON.stringify(given ?? {});
    return { id: `call_${(made += 1).toString().padStart(4, '0')}`, type: 'function', function: { name, arguments: text } };
  });
}

function finish(turn) {
  return turn.finish ?? (turn.calls ? 'tool_calls' : 'stop');
}

function usage(turn) {
  const { input = 100, cached = 0, output = 20, reasoning = 0 } = turn.usage ?? {};
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: cached },
    completion_tokens_details: { reasoning_tokens: reasoning },
  };
}

function head(request) {
  return { id: 'chatcmpl-script', created: 1_760_000_000, model: request.model };
}
