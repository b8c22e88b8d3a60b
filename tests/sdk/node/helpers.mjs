// Clients of the two gateways that `scripts/test-sdk` starts, and what several tests need.
//
// The suite is run once for each major version of the SDK that is in use: SDK_PACKAGE says for which.

const name = process.env.SDK_PACKAGE ?? 'openai';
export const sdk = await import(name);
export const { zodTextFormat, zodResponsesFunction } = await import(`${name}/helpers/zod`);
export const { accumulateResponse } = await import(`${name}/lib/responses/ResponseAccumulator`);

if (!process.env.SDK_OPEN_URL) throw new Error('run this by scripts/test-sdk, which starts the gateways');

const settings = { apiKey: 'unused', maxRetries: 0, timeout: 30_000 };

/** Nobody needs a key here; the SDK insists on having one. It does not retry unless a test says so. */
export const client = new sdk.OpenAI({ ...settings, baseURL: process.env.SDK_OPEN_URL });

/** A client of the gateway that asks for keys. */
export const withKey = (apiKey) => new sdk.OpenAI({ ...settings, baseURL: process.env.SDK_KEYED_URL, apiKey });

export const weather = {
  type: 'function',
  name: 'get_weather',
  description: 'The weather in a city.',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  strict: false,
};

/** The chat completion request that the model `mirror` has seen. */
export const reached = (response) => JSON.parse(response.output_text);

export const callsOf = (response) => response.output.filter((item) => item.type === 'function_call');

export const outputFor = (call, output = 'sunny') => ({
  type: 'function_call_output',
  call_id: call.call_id,
  output,
});

/** All that an async iterable yields. */
export async function all(iterable) {
  const items = [];
  for await (const item of iterable) items.push(item);
  return items;
}

/** What a promise is rejected with. */
export async function rejected(promise) {
  return promise.then(
    () => {
      throw new Error('this should have failed');
    },
    (error) => error,
  );
}

export const distinct = (items) => [...new Set(items)];
