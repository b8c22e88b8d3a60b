// npm @openai/agents. It calls through npm `openai`, so the gateway takes it for that; it works with either status.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Agent, handoff, OpenAIResponsesModel, Runner, setTracingDisabled, tool } from '@openai/agents';
import OpenAI from 'openai';
import { z } from 'zod';
import { url, watched } from './helpers.mjs';

setTracingDisabled(true);

const { fetch, profiles } = watched();
const client = new OpenAI({ baseURL: url, apiKey: 'unused', maxRetries: 0, fetch });
const model = (name = 'scripted') => new OpenAIResponsesModel(client, name);

const get_weather = tool({
  name: 'get_weather',
  description: 'The weather in a city.',
  parameters: z.object({ city: z.string() }),
  execute: async ({ city }) => `rain in ${city}`,
});

const run = (agent, input, options) => new Runner().run(agent, input, options);
const agent = (more = {}) => new Agent({ name: 'helper', instructions: 'Help.', model: model(), ...more });

test('text', async () => {
  assert.equal((await run(agent(), 'hello there')).finalOutput, 'You said: hello there');
});

test('instructions', async () => {
  const { finalOutput } = await run(agent({ model: model('mirror') }), 'hi');
  assert.equal(JSON.parse(finalOutput).messages[0].content, 'Help.');
});

test('a stream', async () => {
  const result = await run(agent(), 'one two', { stream: true });
  let text = '';
  for await (const delta of result.toTextStream()) text += delta;
  await result.completed;
  assert.equal(text, 'You said: one two');
});

for (const stream of [false, true]) {
  for (const status of [undefined, 'requires_action']) {
    test(`a tool, stream: ${stream}, status: ${status ?? 'of the profile'}`, async () => {
      const modelSettings = { providerData: { antwort: status && { client_action_status: status } } };
      const result = await run(agent({ tools: [get_weather], modelSettings }), 'weather?', { stream });
      if (stream) await result.completed;
      assert.equal(result.finalOutput, 'The tools said: rain in Paris');
      const paused = await client.responses.retrieve(result.rawResponses[0].responseId);
      assert.equal(paused.status, status ?? 'completed');
    });
  }
}

test('parallel tools', async () => {
  const { finalOutput } = await run(agent({ tools: [get_weather] }), 'weather in both?');
  assert.equal(finalOutput, 'The tools said: rain in Paris; rain in Oslo');
});

test('an output type', async () => {
  const outputType = z.object({ title: z.string() });
  assert.deepEqual((await run(agent({ outputType }), 'plan')).finalOutput, { title: 'Paris' });
});

test('a conversation by its items', async () => {
  const first = await run(agent(), 'one');
  const input = [...first.history, { role: 'user', content: 'two' }];
  const { finalOutput } = await run(agent({ model: model('mirror') }), input);
  assert.deepEqual(JSON.parse(finalOutput).messages.slice(1).map((message) => message.content), ['one', 'You said: one', 'two']);
});

test('a conversation by its id', async () => {
  const first = await run(agent({ tools: [get_weather] }), 'weather?');
  const options = { previousResponseId: first.lastResponseId };
  const { finalOutput } = await run(agent({ model: model('mirror') }), 'two', options);
  const roles = JSON.parse(finalOutput).messages.map((message) => message.role);
  assert.deepEqual(roles, ['system', 'user', 'assistant', 'tool', 'assistant', 'user']);
});

test('a handoff', async () => {
  const expert = agent({ name: 'expert' });
  const result = await run(agent({ handoffs: [handoff(expert)] }), 'help');
  assert.equal(result.lastAgent.name, 'expert');
});

test('reasoning', async () => {
  const modelSettings = { reasoning: { summary: 'auto' } };
  const { finalOutput } = await run(agent({ model: model('thinker'), modelSettings }), 'hi');
  assert.equal(finalOutput, 'You said: hi');
});

test('errors', async () => {
  for (const [name, error] of [['err-400', OpenAI.BadRequestError], ['err-404', OpenAI.NotFoundError], ['err-429', OpenAI.RateLimitError]]) {
    await assert.rejects(run(agent({ model: model(name) }), 'hi'), error);
  }
});

test('it is taken for openai-node', () => {
  assert.deepEqual([...new Set(profiles)], ['openai-node']);
});
