// Text, streams, functions, forms and endings.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import {
  all, callsOf, client, distinct, outputFor, reached, sdk, weather, zodResponsesFunction, zodTextFormat,
} from './helpers.mjs';

const TEXT_EVENTS = [
  'response.created',
  'response.in_progress',
  'response.output_item.added',
  'response.content_part.added',
  'response.output_text.delta',
  'response.output_text.done',
  'response.content_part.done',
  'response.output_item.done',
  'response.completed',
];

test('text', async () => {
  const response = await client.responses.create({ model: 'scripted', input: 'hello there' });
  assert.equal(response.output_text, 'You said: hello there');
  assert.equal(response.status, 'completed');
  assert.match(response._request_id, /^req_/);
  assert.equal(response.usage.total_tokens, response.usage.input_tokens + response.usage.output_tokens);
});

test('input tokens', async () => {
  const short = await client.responses.inputTokens.count({ model: 'scripted', input: 'hello there' });
  assert.equal(short.object, 'response.input_tokens');
  assert.ok(short.input_tokens > 0);
  const { data, response } = await client.responses.inputTokens
    .count({ model: 'scripted', input: 'hello there', instructions: 'Answer briefly.', tools: [weather] })
    .withResponse();
  assert.equal(response.headers.get('antwort-token-count'), 'estimate');
  assert.ok(data.input_tokens > short.input_tokens + 20);
});

test('what reaches the model', async () => {
  const response = await client.responses.create({
    model: 'mirror', instructions: 'Be brief.', input: [{ role: 'user', content: 'hi' }], temperature: 0.5,
  });
  const { messages, temperature } = reached(response);
  assert.deepEqual(messages, [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'hi' }]);
  assert.equal(temperature, 0.5);
});

test('raw events', async () => {
  const events = await all(await client.responses.create({ model: 'scripted', input: 'one two', stream: true }));
  assert.deepEqual(distinct(events.map((event) => event.type)), TEXT_EVENTS);
  assert.deepEqual(events.map((event) => event.sequence_number), [...events.keys()]);
  const deltas = events.filter((event) => event.type === 'response.output_text.delta');
  assert.equal(deltas.map((event) => event.delta).join(''), 'You said: one two');
});

test('the SDK accumulates what the last event holds', async () => {
  const stream = client.responses.stream({ model: 'thinker', input: 'one two' });
  const snapshots = [];
  let last;
  stream.on('response.output_text.delta', (event) => snapshots.push(event.snapshot));
  stream.on('event', (event) => (last = event));
  const final = await stream.finalResponse();
  assert.equal(snapshots.at(-1), 'You said: one two');
  assert.equal(final.output_text, 'You said: one two');
  assert.equal(last.type, 'response.completed');
  assert.deepEqual(final.output.map((item) => [item.id, item.type]), last.response.output.map((item) => [item.id, item.type]));
  assert.equal(final.output[0].content[0].text, 'The user wants something. I should repeat it.');
  const stored = await client.responses.retrieve(final.id);
  assert.deepEqual(stored.output, last.response.output);
});

test('reasoning as a summary', async () => {
  const stream = client.responses.stream({ model: 'thinker', input: 'hi', reasoning: { summary: 'auto' } });
  const events = await all(stream);
  const deltas = events.filter((event) => event.type === 'response.reasoning_summary_text.delta');
  assert.equal(deltas.map((event) => event.delta).join(''), 'The user wants something. I should repeat it.');
  assert.equal((await stream.finalResponse()).output[0].summary.length, 1);
});

test('a function, called and answered', async () => {
  const paused = await client.responses.create({ model: 'scripted', input: 'weather?', tools: [weather] });
  assert.equal(paused.status, 'completed');
  const [call] = callsOf(paused);
  assert.deepEqual(JSON.parse(call.arguments), { city: 'Paris' });
  const resumed = await client.responses.create({
    model: 'scripted', previous_response_id: paused.id, input: [outputFor(call)], tools: [weather],
  });
  assert.equal(resumed.status, 'completed');
  assert.equal(resumed.output_text, 'The tools said: sunny');
});

test('parallel functions, streamed', async () => {
  const stream = client.responses.stream({ model: 'scripted', input: 'weather in both?', tools: [weather] });
  const snapshots = {};
  stream.on('response.function_call_arguments.delta', (event) => (snapshots[event.output_index] = event.snapshot));
  const paused = await stream.finalResponse();
  assert.equal(paused.status, 'completed');
  assert.deepEqual(Object.values(snapshots).map((text) => JSON.parse(text).city), ['Paris', 'Oslo']);
  const calls = callsOf(paused);
  const outputs = calls.map((call) => outputFor(call, JSON.parse(call.arguments).city));
  const resumed = client.responses.stream({ model: 'scripted', previous_response_id: paused.id, input: outputs });
  assert.equal((await resumed.finalResponse()).output_text, 'The tools said: Paris; Oslo');
});

test('a function replayed without storing', async () => {
  const input = [{ role: 'user', content: 'weather?' }];
  const paused = await client.responses.create({ model: 'scripted', input, tools: [weather], store: false });
  input.push(...paused.output, ...callsOf(paused).map((call) => outputFor(call, 'fog')));
  const resumed = await client.responses.create({ model: 'scripted', input, tools: [weather], store: false });
  assert.equal(resumed.output_text, 'The tools said: fog');
});

test('a custom tool', async () => {
  const tools = [{ type: 'custom', name: 'run_code' }];
  const paused = await client.responses.stream({ model: 'scripted', input: 'go', tools }).finalResponse();
  const [call] = paused.output;
  assert.deepEqual([call.type, call.name, call.input], ['custom_tool_call', 'run_code', 'Paris']);
  const output = { type: 'custom_tool_call_output', call_id: call.call_id, output: 'done' };
  const resumed = await client.responses.create({ model: 'scripted', previous_response_id: paused.id, input: [output], tools });
  assert.equal(resumed.output_text, 'The tools said: done');
});

test('typed arguments', async () => {
  const parameters = z.object({ start: z.string(), stops: z.number().int() });
  const ask = { model: 'scripted', input: 'go', tools: [zodResponsesFunction({ name: 'route', parameters })] };
  const route = { start: 'Paris', stops: 3 };
  // This SDK parses arguments of `completed` responses only, so it gets that status wherever it is recognised.
  for (const response of [await client.responses.parse(ask), await client.responses.stream(ask).finalResponse()]) {
    assert.equal(response.status, 'completed');
    assert.deepEqual(callsOf(response)[0].parsed_arguments, route);
  }
  // With our default the arguments are there too, and the tool itself can parse them.
  const asOurs = { ...ask, antwort: { client_action_status: 'requires_action' } };
  for (const response of [await client.responses.parse(asOurs), await client.responses.stream(asOurs).finalResponse()]) {
    assert.equal(response.status, 'requires_action');
    assert.deepEqual(ask.tools[0].$parseRaw(callsOf(response)[0].arguments), route);
  }
});

test('the profile', async () => {
  const { response } = await client.responses.create({ model: 'scripted', input: 'hi' }).withResponse();
  assert.equal(response.headers.get('antwort-client-profile'), 'openai-node');
});

test('parse', async () => {
  const Plan = z.object({
    title: z.string(), mood: z.enum(['glad', 'sad']), steps: z.array(z.object({ number: z.number() })), note: z.string().nullable(),
  });
  const plan = { title: 'Paris', mood: 'glad', steps: [{ number: 1.5 }, { number: 1.5 }], note: 'Paris' };
  const ask = { model: 'scripted', input: 'plan', text: { format: zodTextFormat(Plan, 'plan') } };
  assert.deepEqual((await client.responses.parse(ask)).output_parsed, plan);
  assert.deepEqual((await client.responses.stream(ask).finalResponse()).output_parsed, plan);
});

test('an answer in no form fails if the form is strict', async () => {
  const ask = (strict) => {
    const format = { type: 'json_schema', name: 'x', schema: { type: 'object', properties: {}, additionalProperties: false }, strict };
    return client.responses.create({ model: 'unruly', input: 'hi', text: { format } });
  };
  const response = await ask(true);
  assert.equal(response.status, 'failed');
  assert.equal(response.error.code, 'invalid_structured_output');
  const kept = await ask(false);
  assert.deepEqual([kept.status, kept.antwort.structured.valid], ['completed', false]);
});

test('a refusal', async () => {
  const final = await client.responses.stream({ model: 'refuser', input: 'hi' }).finalResponse();
  assert.deepEqual(final.output[0].content.map((part) => [part.type, part.refusal]), [['refusal', 'I cannot help with that.']]);
});

test('an incomplete answer', async () => {
  const stream = client.responses.stream({ model: 'scripted', input: 'word '.repeat(40), max_output_tokens: 16 });
  const final = await stream.finalResponse();
  assert.equal(final.status, 'incomplete');
  assert.equal(final.incomplete_details.reason, 'max_output_tokens');
  assert.equal(final.output[0].status, 'incomplete');
});

for (const model of ['cut', 'failing']) {
  test(`a stream that breaks: ${model}`, async () => {
    const seen = [];
    await assert.rejects(async () => {
      for await (const event of await client.responses.create({ model, input: 'one two three', stream: true })) seen.push(event);
    }, (error) => error instanceof sdk.APIError && !(error instanceof sdk.APIConnectionError) && Boolean(error.code));
    assert.equal((await client.responses.retrieve(seen[0].response.id)).status, 'failed');
    await assert.rejects(client.responses.stream({ model, input: 'one two three' }).finalResponse());
  });
}

test('who stops listening harms nobody', async () => {
  for (let i = 0; i < 5; i++) {
    for await (const _ of await client.responses.create({ model: 'scripted', input: 'word '.repeat(100), stream: true })) break;
  }
  assert.equal((await client.responses.create({ model: 'scripted', input: 'hi' })).output_text, 'You said: hi');
});

test('an image and a file', async () => {
  const image = 'data:image/png;base64,iVBORw0KGgo=';
  const pdf = 'data:application/pdf;base64,JVBERi0xLjQK';
  const content = [
    { type: 'input_text', text: 'what are these?' },
    { type: 'input_image', image_url: image, detail: 'auto' },
    { type: 'input_file', filename: 'a.pdf', file_data: pdf },
  ];
  const response = await client.responses.create({ model: 'mirror', input: [{ role: 'user', content }] });
  const [, seenImage, seenFile] = reached(response).messages[0].content;
  assert.equal(seenImage.image_url.url, image);
  assert.deepEqual(seenFile, { type: 'file', file: { filename: 'a.pdf', file_data: pdf } });
});
