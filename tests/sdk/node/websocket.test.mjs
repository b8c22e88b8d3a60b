// Responses over WebSocket: `ResponsesWS`, one connection for several turns.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { all, callsOf, client, outputFor, rejected, sdk, weather, withKey } from './helpers.mjs';

const { ResponsesWS } = await import(`${process.env.SDK_PACKAGE ?? 'openai'}/resources/responses/ws`);

const ENDS = ['response.completed', 'response.incomplete', 'response.failed', 'error'];

/** A connection; `turn` makes a response and returns its events. */
async function connected(run, api = client) {
  const socket = new ResponsesWS(api);
  const raised = [];
  socket.on('error', (error) => raised.push(error));
  const messages = socket.stream();
  const turn = async (request) => {
    socket.send({ type: 'response.create', model: 'scripted', ...request });
    const events = [];
    for (;;) {
      const { value: message, done } = await messages.next();
      assert.ok(!done, 'the connection stays open');
      if (message.type === 'error' && message.error.error) return [message.error.error];
      if (message.type === 'error') throw message.error;
      if (message.type !== 'message') continue;
      events.push(message.message);
      if (ENDS.includes(message.message.type)) return events;
    }
  };
  try {
    return await run(turn);
  } finally {
    socket.close();
  }
}

const responseOf = (events) => events.at(-1).response;
const textOf = (response) => response.output.at(-1).content[0].text;

test('turns have the events of a stream', () =>
  connected(async (turn) => {
    const streamed = await all(await client.responses.create({ model: 'scripted', input: 'hi', stream: true }));
    for (const words of ['hi', 'ho']) {
      const events = await turn({ input: words });
      assert.deepEqual(events.map((event) => event.type), streamed.map((event) => event.type));
      assert.equal(textOf(responseOf(events)), `You said: ${words}`);
    }
  }));

test('what is not stored is continued on its connection only', () =>
  connected(async (turn) => {
    const first = responseOf(await turn({ input: 'hi', store: false }));
    assert.equal((await rejected(client.responses.retrieve(first.id))).status, 404);
    const next = { input: 'ho', store: false, previous_response_id: first.id, model: 'mirror' };
    const [refused] = await connected((other) => other(next));
    assert.equal(refused.error.code, 'previous_response_not_found');
    assert.match(textOf(responseOf(await turn(next))), /You said: hi/);
  }));

test('a function is called and answered', () =>
  connected(async (turn) => {
    const asked = responseOf(await turn({ input: 'The weather in Paris?', tools: [weather], store: false }));
    const output = [outputFor(callsOf(asked)[0])];
    const answered = await turn({ input: output, tools: [weather], store: false, previous_response_id: asked.id });
    assert.equal(textOf(responseOf(answered)), 'The tools said: sunny');
  }));

test('an error ends its turn and not the connection', () =>
  connected(async (turn) => {
    const [refused] = await turn({ input: 'hi', background: true });
    assert.deepEqual([refused.type, refused.status, refused.error.param], ['error', 400, 'background']);
    assert.equal(textOf(responseOf(await turn({ input: 'hi' }))), 'You said: hi');
  }));

test('a connection needs a key', async () => {
  const error = await rejected(connected((turn) => turn({ input: 'hi' }), withKey('wrong')));
  assert.ok(error instanceof sdk.OpenAIError, error);
  assert.match(error.message, /401/);
});
