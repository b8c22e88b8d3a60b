// npm `ai` with `@ai-sdk/openai`: stricter about the shape of answers than OpenAI's own SDK.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, Output, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';

// It sends item references for what it has seen in earlier steps.
const provider = createOpenAI({ baseURL: process.env.SDK_OPEN_URL, apiKey: 'unused' });
const { responses } = provider;

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

// Tools of the gateway. This SDK has no way to say `antwort:calculate` or the object `antwort`, and shows calls of MCP servers
// as executed by the provider. With `stream_visibility: hidden` (by a `fetch` of one's own) it would take a call for one of
// the application's, find no such tool, and ask the model again; loops like this one want the default.

// It insists on an address; an empty one is none.
const antwort = provider.tools.mcp({ serverLabel: 'antwort', serverUrl: '' });
const sum = 'calculate {"expression": "2 + 3"}';
const noSum = 'calculate {"expression": "1/0"}';

const mcp = (requireApproval) =>
  provider.tools.mcp({ serverLabel: 'sums', serverUrl: `${process.env.SDK_MCP_URL}/mcp`, requireApproval });
const add = 'add {"a": 2, "b": 3}';

/** The ways to ask. */
const ways = {
  generateText: (request) => generateText({ stopWhen: stepCountIs(3), maxRetries: 0, model: responses('caller'), ...request }),
  streamText: async (request) => {
    const errors = [];
    const onError = ({ error }) => errors.push(error);
    const result = streamText({ stopWhen: stepCountIs(3), maxRetries: 0, model: responses('caller'), onError, ...request });
    await result.consumeStream();
    assert.deepEqual(errors, []);
    const [text, steps, response] = await Promise.all([result.text, result.steps, result.response]);
    return { text, steps, response };
  },
};

for (const [way, ask] of Object.entries(ways)) {
  test(`${way}: a tool of the gateway`, async () => {
    const { text, steps } = await ask({ prompt: sum, tools: { antwort } });
    assert.deepEqual(steps.map((step) => step.finishReason), ['stop'], 'there is nothing to do');
    const [{ toolCalls: [call], toolResults: [result] }] = steps;
    assert.deepEqual([call.toolName, call.input, call.providerExecuted], ['mcp.calculate', { expression: '2 + 3' }, true]);
    assert.deepEqual([result.output.serverLabel, JSON.parse(result.output.output).result], ['antwort', 5]);
    assert.equal(text, `The tools said: ${result.output.output}`);
  });

  test(`${way}: a tool of the gateway fails`, async () => {
    const { text, steps } = await ask({ prompt: noSum, tools: { antwort } });
    assert.deepEqual(steps.map((step) => step.finishReason), ['stop']);
    const { type, content } = steps[0].toolResults[0].output.error;
    assert.equal(type, 'mcp_tool_execution_error');
    assert.equal(text, `The tools said: Error: ${content[0].text}`);
  });

  test(`${way}: a server of the request`, async () => {
    const { text, steps } = await ask({ prompt: add, tools: { sums: mcp('never') } });
    assert.deepEqual(steps.map((step) => step.finishReason), ['stop']);
    const [{ toolCalls: [call], toolResults: [result] }] = steps;
    assert.deepEqual([call.toolName, call.input, call.providerExecuted], ['mcp.add', { a: 2, b: 3 }, true]);
    assert.deepEqual([result.output.serverLabel, result.output.output], ['sums', '5']);
    assert.equal(text, 'The tools said: 5');
  });

  for (const approved of [true, false]) {
    test(`${way}: a call that a person has to allow: ${approved}`, async () => {
      const tools = { sums: mcp('always') };
      const first = await ask({ prompt: add, tools });
      const request = first.steps[0].content.find((part) => part.type === 'tool-approval-request');
      assert.deepEqual([request.toolCall.toolName, request.toolCall.input], ['mcp.add', { a: 2, b: 3 }]);
      const messages = [
        { role: 'user', content: add },
        ...first.response.messages,
        { role: 'tool', content: [{ type: 'tool-approval-response', approvalId: request.approvalId, approved, providerExecuted: true }] },
      ];
      const { text, steps } = await ask({ messages, tools });
      assert.equal(steps.flatMap((step) => step.toolResults).length, approved ? 1 : 0);
      assert.match(text, approved ? /^The tools said: 5$/ : /did not allow/);
    });
  }

  test(`${way}: tools of both in one turn`, async () => {
    const prompt = `${sum}\nget_weather {"city": "Paris"}`;
    const { text, steps } = await ask({ prompt, tools: { antwort, ...tools } });
    assert.deepEqual(steps.map((step) => step.finishReason), ['tool-calls', 'stop']);
    assert.deepEqual(steps[0].toolCalls.map((call) => call.toolName), ['mcp.calculate', 'get_weather']);
    assert.match(text, /^The tools said: \{.*"result":5\}; .*rain in Paris/);
  });

  test(`${way}: web search`, async () => {
    const web_search = provider.tools.webSearch({ filters: { allowedDomains: ['rust-lang.org'] } });
    const { text, steps } = await ask({ prompt: 'web_search {"query": "learn rust"}', tools: { web_search } });
    const [{ toolResults: [result], sources: [source] }] = steps;
    assert.deepEqual([steps.length, result.output.action.query], [1, 'learn rust']);
    assert.deepEqual([source.url, source.title], ['https://doc.rust-lang.org/book/', 'The Book']);
    assert.ok(text.includes(source.url));
  });

  test(`${way}: a web search that fails`, async () => {
    const tools = { web_search: provider.tools.webSearch({}) };
    const { text, steps } = await ask({ prompt: 'web_search {"query": 7}', tools });
    assert.deepEqual(steps.map((step) => step.finishReason), ['stop']);
    assert.deepEqual(steps[0].content.map((part) => part.type), ['tool-call', 'tool-error', 'text']);
    assert.match(text, /^The tools said: Error: /);
  });

  // It names the call by its id. With `store: false` it leaves such calls out, and says so in a warning, wherever they are from.
  for (const store of [true, false]) {
    test(`${way}: a conversation, store: ${store}`, async () => {
      const ofAll = { tools: { antwort }, providerOptions: { openai: { store } } };
      const first = await ask({ prompt: sum, ...ofAll });
      const messages = [{ role: 'user', content: sum }, ...first.response.messages, { role: 'user', content: 'again?' }];
      const { text } = await ask({ model: responses('mirror'), messages, ...ofAll });
      const roles = JSON.parse(text).messages.map((message) => message.role);
      assert.deepEqual(roles, store ? ['user', 'assistant', 'tool', 'assistant', 'user'] : ['user', 'assistant', 'user']);
    });
  }
}

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
