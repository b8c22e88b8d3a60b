// npm `ai` with `@ai-sdk/openai`: stricter about the shape of answers than OpenAI's own SDK.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, Output, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';

// It sends item references for what it has seen in earlier steps.
const { responses } = createOpenAI({ baseURL: process.env.SDK_OPEN_URL, apiKey: 'unused' });

const tools = {
  get_weather: tool({
    description: 'The weather in a city.',
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => `rain in ${city}`,
  }),
};
const ask = { prompt: 'weather?', tools, stopWhen: stepCountIs(3), maxRetries: 0 };

test('generateText runs a tool', async () => {
  const result = await generateText({ ...ask, model: responses('scripted') });
  assert.match(result.text, /^The tools said: .*rain in Paris/);
  assert.equal(result.steps.length, 2);
  assert.equal(result.finishReason, 'stop');
  assert.ok(result.usage.totalTokens > 0);
});

test('streamText runs a tool', async () => {
  const result = streamText({ ...ask, model: responses('scripted') });
  let text = '';
  for await (const delta of result.textStream) text += delta;
  assert.match(text, /^The tools said: .*rain in Paris/);
  assert.deepEqual((await result.steps).map((step) => step.finishReason), ['tool-calls', 'stop']);
});

test('reasoning is shown', async () => {
  const providerOptions = { openai: { reasoningSummary: 'auto' } };
  const result = streamText({ model: responses('thinker'), prompt: 'hi', maxRetries: 0, providerOptions });
  assert.equal(await result.text, 'You said: hi');
});

test('an object', async () => {
  const output = Output.object({ schema: z.object({ title: z.string() }) });
  const result = await generateText({ model: responses('scripted'), prompt: 'plan', output, maxRetries: 0 });
  assert.deepEqual(result.output, { title: 'Paris' });
});

test('an upstream failure keeps its status', async () => {
  await assert.rejects(
    generateText({ model: responses('err-429'), prompt: 'hi', maxRetries: 0 }),
    (error) => error.statusCode === 429 && error.data.error.code === 'rate_limit_exceeded',
  );
});
