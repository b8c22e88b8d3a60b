// npm @langchain/openai over the Responses API. It calls through npm `openai`, so the gateway takes it for that.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { z } from 'zod';
import { url, watched } from './helpers.mjs';

const { fetch, profiles } = watched();
const model = (name = 'scripted', more = {}) =>
  new ChatOpenAI({ model: name, apiKey: 'unused', maxRetries: 0, useResponsesApi: true, configuration: { baseURL: url, fetch }, ...more });

const get_weather = tool(async ({ city }) => `rain in ${city}`, {
  name: 'get_weather',
  description: 'The weather in a city.',
  schema: z.object({ city: z.string() }),
});

test('text', async () => {
  assert.equal((await model().invoke('hello there')).text, 'You said: hello there');
});

test('a stream', async () => {
  let text = '';
  for await (const chunk of await model().stream('one two')) text += chunk.text;
  assert.equal(text, 'You said: one two');
});

for (const strict of [false, true]) {
  test(`a tool, strict: ${strict}`, async () => {
    const llm = model().bindTools([get_weather], { strict });
    const messages = [new HumanMessage('weather?')];
    const asked = await llm.invoke(messages);
    const [call] = asked.tool_calls;
    assert.deepEqual([call.name, call.args], ['get_weather', { city: 'Paris' }]);
    messages.push(asked, new ToolMessage({ content: await get_weather.invoke(call.args), tool_call_id: call.id }));
    assert.equal((await llm.invoke(messages)).text, 'The tools said: rain in Paris');
  });
}

test('a tool, streamed', async () => {
  let asked;
  for await (const chunk of await model().bindTools([get_weather]).stream('weather?')) asked = asked ? asked.concat(chunk) : chunk;
  assert.deepEqual(asked.tool_calls.map((call) => call.args), [{ city: 'Paris' }]);
});

for (const method of ['jsonSchema', 'functionCalling']) {
  test(`an object by ${method}`, async () => {
    const llm = model().withStructuredOutput(z.object({ title: z.string() }), { method, name: 'plan' });
    assert.deepEqual(await llm.invoke('plan'), { title: 'Paris' });
  });
}

test('reasoning', async () => {
  const answer = await model('thinker', { reasoning: { summary: 'auto' } }).invoke('hi');
  assert.equal(answer.text, 'You said: hi');
});

test('errors', async () => {
  await assert.rejects(model('err-400').invoke('hi'), (error) => error.status === 400);
  await assert.rejects(model('err-429').invoke('hi'), (error) => error.status === 429);
});

test('it is taken for openai-node', () => {
  assert.deepEqual([...new Set(profiles)], ['openai-node']);
});
