// Runs to look at, made without the page; each function returns the response.

import { env } from './environment.mjs';
import { run, servers, until } from './gateway.mjs';

/** Two turns, two calls at once. */
export const parallel = () => run({ model: 'parallel', tools: servers('desk'), input: 'What are a and b?' });

/** The same, of which the events are kept. */
export async function logged() {
  const { id } = await run({ model: 'parallel', tools: servers('desk'), input: 'What are a and b?', background: true });
  return until(id, ({ status }) => status === 'completed');
}

/** Two turns, of which the second was tried twice. */
export const retried = () => run({ model: 'retry', tools: servers('desk'), input: `Try it, ${unique()}.` });

/** One of the calls of the first turn failed. */
export const failedCall = () => run({ model: 'failing-call', tools: servers('desk'), input: 'Burn it.' });

/** Waits for one approval. */
export const approval = (options) => run({ model: 'approval', tools: servers('ops'), input: 'Deploy the shop.' }, options);

/** Waits for two approvals. */
export const twoApprovals = () => run({ model: 'two-approvals', tools: servers('ops'), input: 'Deploy the shop, and tidy up.' });

/** Stopped by the limit of its agent. */
export const limited = () => run({ agent: 'hurried', input: 'Read all pages.' });

/** Waits for the client's function. */
export const clientCall = () => run({ model: 'client', input: 'How warm is it?', tools: [THERMOMETER] });

export const THERMOMETER = {
  type: 'function',
  name: 'thermometer',
  description: 'Measures the temperature of a room.',
  strict: false,
  parameters: { type: 'object', properties: { room: { type: 'string' } }, required: ['room'] },
};

/** Failed, as the model server did. */
export async function failed() {
  const { id } = await run({ model: 'broken', input: 'Go on.', background: true });
  return until(id, ({ status }) => status === 'failed');
}

/** A chain of three: asked for approval, approved, and asked once more. */
export async function chain() {
  const first = await approval();
  const request = first.output.find(({ type }) => type === 'mcp_approval_request');
  const input = [{ type: 'mcp_approval_response', approval_request_id: request.id, approve: true }];
  const second = await run({ model: 'approval', tools: servers('ops'), previous_response_id: first.id, input });
  return run({ model: 'plain', previous_response_id: second.id, input: 'Thank you.' });
}

/** Still running: it waits behind its third word until the gate of the model's name is released. */
export async function running(model = 'watched') {
  const { id } = await run({ model, input: 'Count.', background: true });
  return until(id, ({ status }) => status === 'in_progress');
}

/** Still running: it waits before each first token until the gate `stepwise` is released. */
export async function stepwise() {
  const { id } = await run({ agent: 'stepwise', input: 'Go step by step.', background: true });
  return until(id, ({ status }) => status === 'in_progress');
}

let made = 0;

function unique() {
  made += 1;
  return `${process.pid}.${made} at ${env.open}`;
}
