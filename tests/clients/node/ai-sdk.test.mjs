// npm `ai` with `@ai-sdk/openai`, the major version after the one in tests/sdk. It sends nothing that the gateway looks for.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, Output, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';
import { url, watched } from './helpers.mjs';

const { fetch, profiles } = watched();
const provider = createOpenAI({ baseURL: url, apiKey: 'unused', fetch });
const model = (name = 'scripted') => provider.responses(name);

const tools = {
  get_weather: tool({
    description: 'The weather in a city.',
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => `rain in ${city}`,
  }),
};
const ask = (more) => ({ model: model(), maxRetries: 0, stopWhen: stepCountIs(3), ...more });

async function streamed(request) {
  const errors = [];
  const result = streamText({ ...request, onError: ({ error }) => errors.push(error) });
  await result.consumeStream();
  assert.deepEqual(errors, []);
  const [text, steps, finishReason, output] = await Promise.all([
    result.text, result.steps, result.finishReason, request.output ? result.output : undefined,
  ]);
  return { text, steps, finishReason, output };
}

for (const [way, run] of Object.entries({ generateText, streamText: streamed })) {
  test(`${way}: text`, async () => {
    const { text, finishReason } = await run(ask({ prompt: 'hello there' }));
    assert.deepEqual([text, finishReason], ['You said: hello there', 'stop']);
  });

  test(`${way}: a tool`, async () => {
    const { text, steps } = await run(ask({ prompt: 'weather?', tools }));
    assert.match(text, /^The tools said: .*rain in Paris/);
    assert.deepEqual(steps.map((step) => step.finishReason), ['tool-calls', 'stop']);
  });

  test(`${way}: a tool without storing`, async () => {
    const providerOptions = { openai: { store: false } };
    const { text } = await run(ask({ prompt: 'weather?', tools, providerOptions }));
    assert.match(text, /^The tools said: .*rain in Paris/);
  });

  test(`${way}: an object`, async () => {
    const output = Output.object({ schema: z.object({ title: z.string() }) });
    assert.deepEqual((await run(ask({ prompt: 'plan', output }))).output, { title: 'Paris' });
  });

  test(`${way}: reasoning`, async () => {
    const providerOptions = { openai: { reasoningSummary: 'auto' } };
    const { text } = await run(ask({ model: model('thinker'), prompt: 'hi', providerOptions }));
    assert.equal(text, 'You said: hi');
  });

  test(`${way}: an answer that was cut`, async () => {
    const { finishReason } = await run(ask({ prompt: 'word '.repeat(40), maxOutputTokens: 16 }));
    assert.equal(finishReason, 'length');
  });
}

test('a conversation by its id', async () => {
  const first = await generateText(ask({ prompt: 'one' }));
  const providerOptions = { openai: { previousResponseId: first.providerMetadata.openai.responseId } };
  const { text } = await generateText(ask({ model: model('mirror'), prompt: 'two', providerOptions }));
  assert.deepEqual(JSON.parse(text).messages.map((message) => message.content), ['one', 'You said: one', 'two']);
});

test('an upstream failure keeps its status', async () => {
  await assert.rejects(generateText(ask({ model: model('err-429'), prompt: 'hi' })), (error) => error.statusCode === 429);
});

test('it has no profile', () => {
  assert.deepEqual([...new Set(profiles)], [null]);
});
