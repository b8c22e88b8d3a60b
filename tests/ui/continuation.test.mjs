// What a response waits for, and the request that goes on with it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findDefinition } from '../../ui/next-step.js';
import { approvalItem, continuation, definitionIn, obstacle, openApprovals, openCalls, outputItem } from '../../ui/protocol.js';

const approval = { type: 'mcp_approval_request', id: 'mcpr_1', server_label: 'ops', name: 'deploy', arguments: '{}' };
const call = { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'thermometer', arguments: '{"room":"kitchen"}' };
const response = (more = {}) => ({ id: 'resp_1', object: 'response', status: 'completed', model: 'm', store: true, output: [approval], tools: [], ...more });

test('open approvals and calls are found, in both dialects, and only when the response has ended', () => {
  assert.deepEqual(openApprovals(response()), [approval]);
  assert.equal(openApprovals(response({ output: [{ ...approval, type: 'antwort:mcp_approval_request' }] })).length, 1);
  assert.deepEqual(openApprovals(response({ status: 'in_progress' })), []);
  // The model was interrupted, and asked again.
  assert.deepEqual(openApprovals(response({ output: [{ ...approval, status: 'incomplete' }] })), []);
  assert.deepEqual(openCalls(response({ output: [{ ...call, status: 'incomplete' }] })), []);
  assert.deepEqual(openCalls(response({ status: 'requires_action', output: [call, approval] })), [call]);
  assert.deepEqual(openCalls(response({ output: [call, { type: 'function_call_output', call_id: 'call_1', output: '' }] })), []);
  assert.deepEqual(openCalls(response({ status: 'failed', output: [call] })), []);
  for (const output of [undefined, null, 'x', [null, 3]]) assert.deepEqual(openCalls(response({ output })), []);
});

test('calls that are hidden are not the client\'s, by their names', () => {
  const tools = [{ type: 'namespace', name: 'home', tools: [{ type: 'function', name: 'thermometer' }] }];
  const output = [call, { ...call, call_id: 'call_2', name: 'calculate' }];
  assert.deepEqual(openCalls(response({ output, tools, antwort: { stream_visibility: 'hidden' } })), [call]);
});

test('a request that is known is sent again, with its credentials and without what was forced', () => {
  const tools = [{ type: 'mcp', server_label: 'ops', server_url: 'https://ops.example/mcp', authorization: 'secret' }];
  const request = { model: 'm', input: 'Deploy.', instructions: 'Be brief.', tools, tool_choice: 'required', previous_response_id: 'resp_0', antwort: { tool_progress: true } };
  assert.deepEqual(continuation(response(), [approvalItem('mcpr_1', true)], request), {
    model: 'm', instructions: 'Be brief.', tools, antwort: { tool_progress: true }, previous_response_id: 'resp_1',
    input: [{ type: 'mcp_approval_response', approval_request_id: 'mcpr_1', approve: true }],
  });
});

test('without it, the response says what is to be repeated', () => {
  const tools = [{ type: 'mcp', server_label: 'ops', server_url: 'https://ops.example/mcp', headers: null, allowed_tools: null, require_approval: 'always', server_description: null }];
  const echo = response({ tools, instructions: 'Be brief.', temperature: 0.5, top_p: 1, metadata: {}, tool_choice: 'auto', text: { format: { type: 'text' } }, reasoning: { effort: null }, antwort: { turns: 2, limits: { max_turns: 3 } } });
  assert.deepEqual(continuation(echo, []), {
    model: 'm', instructions: 'Be brief.', temperature: 0.5, antwort: { limits: { max_turns: 3 } }, previous_response_id: 'resp_1', input: [],
    tools: [{ type: 'mcp', server_label: 'ops', server_url: 'https://ops.example/mcp', require_approval: 'always' }],
  });
});

test('a conversation goes on by itself, and a response that was not stored by its items', () => {
  assert.deepEqual(continuation(response({ conversation: { id: 'conv_1' } }), []), { model: 'm', conversation: { id: 'conv_1' }, input: [] });
  const unstored = response({ store: false });
  const request = { model: 'm', store: false, input: 'Deploy.' };
  assert.deepEqual(continuation(unstored, [], request).input, [{ role: 'user', content: 'Deploy.' }, approval]);
  assert.match(String(obstacle(unstored, null)), /not stored/);
  assert.equal(obstacle(unstored, request), null);
});

test('items: a reason only with a denial, an error as the model reads errors', () => {
  assert.deepEqual(approvalItem('a', false, ' no '), { type: 'mcp_approval_response', approval_request_id: 'a', approve: false, reason: 'no' });
  assert.deepEqual(approvalItem('a', true, 'no'), { type: 'mcp_approval_response', approval_request_id: 'a', approve: true });
  assert.deepEqual(outputItem(call, { output: '22' }), { type: 'function_call_output', call_id: 'call_1', output: '22' });
  assert.deepEqual(outputItem({ ...call, type: 'antwort:custom_tool_call' }, { error: 'broken' }), { type: 'custom_tool_call_output', call_id: 'call_1', output: 'Error: broken' });
});

test('the definition is the newest that the response lists', () => {
  const list = (description, label = 'ops') => ({ type: 'mcp_list_tools', server_label: label, tools: [{ name: 'deploy', description, input_schema: {} }] });
  const output = [list('old'), list('other', 'desk'), list('new'), { type: 'mcp_list_tools', server_label: 'ops', tools: null }];
  assert.equal(definitionIn(response({ output }), 'ops', 'deploy').description, 'new');
  assert.equal(definitionIn(response(), 'ops', 'deploy'), undefined);
});

/** A gateway of these answers, by path; `asked` are the paths in their order. */
function gatewayOf(answers) {
  const asked = [];
  const get = async (path, query) => {
    asked.push(path);
    const answer = answers(path, query);
    if (!answer) throw new Error('not found');
    return answer;
  };
  return { get, asked };
}

const listed = (description) => ({ type: 'mcp_list_tools', server_label: 'ops', tools: [{ name: 'deploy', description }] });
const called = (of) => ({ response: response(of), label: 'ops', name: 'deploy' });

test('a definition is found in the nearest response of the chain that lists it', async () => {
  const { get, asked } = gatewayOf((path) => {
    const number = Number(path.match(/^v1\/responses\/resp_(\d+)$/)?.[1]);
    const output = { 7: [listed('newer')], 3: [listed('older')] }[number] ?? [];
    return { id: `resp_${number}`, output, previous_response_id: `resp_${number - 1}` };
  });
  assert.equal((await findDefinition(called({ id: 'resp_9', previous_response_id: 'resp_8' }), get)).description, 'newer');
  assert.deepEqual(asked, ['v1/responses/resp_8', 'v1/responses/resp_7']);
});

test('what the response or its request lists is not asked for', async () => {
  const { get, asked } = gatewayOf(() => null);
  const own = { ...called({ output: [listed('own'), approval], previous_response_id: 'resp_0' }), request: { input: [listed('sent')] } };
  assert.equal((await findDefinition(own, get)).description, 'own');
  const sent = { ...called({ store: false }), request: { input: [listed('sent')] } };
  assert.equal((await findDefinition(sent, get)).description, 'sent');
  assert.deepEqual(asked, []);
});

test('the begin of a chain may have been sent the list, and a conversation has it in its items', async () => {
  const sent = gatewayOf((path) => ({ 'v1/responses/resp_0': { id: 'resp_0', output: [] }, 'v1/responses/resp_0/input_items': { data: [listed('sent')] } })[path]);
  assert.equal((await findDefinition(called({ previous_response_id: 'resp_0' }), sent.get)).description, 'sent');
  const pages = { '': { data: [approval], has_more: true, last_id: 'a' }, a: { data: [listed('newer'), listed('older')], has_more: true, last_id: 'b' } };
  const conversed = gatewayOf((path, query) => (path === 'v1/conversations/conv_1/items' ? pages[query.after ?? ''] : null));
  assert.equal((await findDefinition(called({ conversation: { id: 'conv_1' } }), conversed.get)).description, 'newer');
  assert.equal(conversed.asked.length, 2);
});

test('a chain without end is not followed without end, and then the server is asked', async () => {
  const { get, asked } = gatewayOf((path, query) => {
    if (path === 'v1/tools') return query.server_label === 'ops' ? { data: [{ name: 'deploy', description: 'of now' }] } : null;
    return { id: path.split('/').at(-1), output: [], previous_response_id: `resp_${asked.length}` };
  });
  assert.equal((await findDefinition(called({ previous_response_id: 'resp_x' }), get)).description, 'of now');
  assert.equal(asked.length, 21);
});

test('where nothing can be read, nothing is known', async () => {
  const { get, asked } = gatewayOf(() => null);
  assert.equal(await findDefinition(called({ previous_response_id: 'resp_0' }), get), undefined);
  assert.deepEqual(asked, ['v1/responses/resp_0', 'v1/tools']);
});

test('the definition of a tool of a server that the request brought is not that of another server', async () => {
  const { get, asked } = gatewayOf((path) => (path === 'v1/tools' ? { data: [{ name: 'deploy', description: 'of another', annotations: { readOnlyHint: true } }] } : null));
  const brought = { type: 'mcp', server_label: 'ops', server_url: 'https://mcp.example/ops' };
  assert.equal(await findDefinition(called({ previous_response_id: 'resp_0', tools: [brought] }), get), undefined);
  assert.deepEqual(asked, ['v1/responses/resp_0']);
  const configured = { type: 'mcp', server_label: 'ops' };
  assert.equal((await findDefinition(called({ previous_response_id: 'resp_0', tools: [configured] }), get)).description, 'of another');
});
