// What the models say, by name, and the tools of the MCP servers.

const OPEN = { type: 'object', properties: {} };
const city = { type: 'string', description: 'A city' };

/** @type {Record<string, object[]>} */
export const MODELS = {
  plain: [{ text: 'Hello, I am a script.' }],
  // Two turns, the first with two calls at once.
  parallel: [
    { reasoning: 'Both numbers are needed.', text: 'I look both up.', calls: [call('lookup', { key: 'a' }), call('lookup', { key: 'b' })] },
    { text: 'The first is 1 and the second is 2.' },
  ],
  // The first attempt of the second turn fails.
  retry: [{ calls: [call('lookup', { key: 'a' })] }, { fail: [{ status: 503 }], text: 'It worked at the second attempt.' }],
  'failing-call': [
    { calls: [call('lookup', { key: 'a' }), call('burn', { why: 'to see it fail' })] },
    { text: 'One of the tools failed.' },
  ],
  approval: [{ text: 'I ask first.', calls: [call('deploy', { service: 'shop', version: 7 })] }, { text: 'Deployed, if you said so.' }],
  'two-approvals': [
    { calls: [call('deploy', { service: 'shop', version: 7 }), call('erase', { table: 'orders' })] },
    { text: 'Both are settled.' },
  ],
  client: [{ calls: [call('thermometer', { room: 'kitchen' })] }, { text: 'It is as warm as you say.' }],
  asking: [{ calls: [call('order', {})] }, { text: 'Ordered.' }],
  // Held until a test lets it go on: before the first token, and behind the third word.
  slow: [{ gate: 'first_token', text: 'It took a while.' }],
  watched: [{ gate_after: 3, text: 'One two three and, when it may, four five six.' }],
  // The same behind a gate of its own: files of tests run beside each other.
  listed: [{ gate_after: 3, text: 'One two three and, when it may, four five six.' }],
  // Held before the first token of both turns.
  stepwise: [
    { gate: 'first_token', calls: [call('lookup', { key: 'a' })] },
    { gate: 'first_token', text: 'All steps are done.' },
  ],
  endless: [1, 2, 3, 4].map((n) => ({ calls: [call('lookup', { key: `page ${n}` })] })),
  limited: [{ fail: [{ status: 429, message: 'Too many requests', headers: { 'retry-after': '30' } }], always: true }],
  broken: [{ fail: [{ status: 500, message: 'The model server is on fire' }], always: true }],
  cut: [{ text: 'This answer ends in the middle of', cut: true }],
  // The pictures of the documents: as slow as a model is.
  'qwen3-32b': [
    {
      waits: 180,
      first_token: 420,
      pace: 22,
      usage: { input: 1480, cached: 1024, output: 96, reasoning: 31 },
      reasoning: 'Trains, the weather at both ends and a hotel: the first three can be looked up at once.',
      text: 'I look up the trains and the weather.',
      calls: [
        call('search_trains', { from: 'Oslo', to: 'Bergen', date: '2026-12-05' }),
        call('get_weather', { city: 'Oslo' }),
        call('get_weather', { city: 'Bergen' }),
      ],
    },
    {
      fail: [{ status: 503, message: 'The model is loading' }],
      waits: 120,
      first_token: 260,
      pace: 20,
      usage: { input: 1912, cached: 1576, output: 58 },
      text: 'The 08:25 train arrives in time, and Bergen is dry. Now a hotel near the station.',
      calls: [call('find_hotel', { city: 'Bergen', nights: 1, near: 'station' }), call('price_alert', { hotel: 'Bryggen' })],
    },
    {
      waits: 90,
      first_token: 240,
      pace: 20,
      usage: { input: 2210, cached: 1912, output: 64 },
      text: 'Hotel Bryggen has a room for 1290 kr. I can book the train as soon as you agree.',
      calls: [call('book_train', { train: 'RE 61', date: '2026-12-05', departs: '08:25', seats: 2, price_nok: 998 })],
    },
    {
      waits: 110,
      first_token: 230,
      pace: 24,
      usage: { input: 2384, cached: 2210, output: 41 },
      text: 'Booked: RE 61 on 5 December, 08:25 from Oslo S, two seats, coach 5. Hotel Bryggen is a walk of six minutes from the station.',
    },
  ],
};

// The same journey, of which nothing has to be paid.
MODELS['qwen3-14b'] = [
  ...MODELS['qwen3-32b'].slice(0, 2),
  {
    waits: 90,
    first_token: 240,
    pace: 20,
    usage: { input: 2210, cached: 1912, output: 64 },
    text: 'Take the 08:25 from Oslo S, it arrives at 15:02. Hotel Bryggen has a room for 1290 kr, six minutes from the station.',
  },
];

/** @type {Record<string, object[]>} */
export const TOOLS = {
  desk: [
    {
      name: 'lookup',
      description: 'Looks a value up by its key.',
      inputSchema: object({ key: { type: 'string' } }),
      annotations: { readOnlyHint: true },
    },
    {
      name: 'burn',
      description: 'Always fails.',
      inputSchema: object({ why: { type: 'string' } }),
      error: 'it burned: the fuse is gone',
      annotations: { readOnlyHint: true },
    },
    { name: 'held', description: 'Answers when a test says so.', inputSchema: OPEN, gate: 'held', annotations: { readOnlyHint: true } },
  ],
  ops: [
    {
      name: 'deploy',
      description: 'Deploys a version of a service to production.',
      inputSchema: object({ service: { type: 'string' }, version: { type: 'integer' } }),
      annotations: { destructiveHint: true },
    },
    {
      name: 'erase',
      description: 'Erases a table.',
      inputSchema: object({ table: { type: 'string' } }),
      annotations: { destructiveHint: true },
    },
  ],
  shop: [
    {
      name: 'order',
      description: 'Orders a shirt.',
      inputSchema: OPEN,
      annotations: { readOnlyHint: true },
      asks: { message: 'Which size?', requestedSchema: object({ size: { type: 'string', enum: ['S', 'M', 'L'] } }) },
    },
  ],
  forms: [
    {
      name: 'everything',
      description: 'A field of each kind.',
      annotations: { readOnlyHint: true },
      inputSchema: {
        type: 'object',
        properties: {
          text: { type: 'string', description: 'Any text', minLength: 1 },
          size: { type: 'string', enum: ['S', 'M', 'L'] },
          count: { type: 'integer', minimum: 1, maximum: 9, default: 2 },
          ratio: { type: 'number' },
          sure: { type: 'boolean' },
          tags: { type: 'array', items: { type: 'string' } },
          place: object({ city, street: { type: 'string' } }, ['city']),
          either: { oneOf: [{ type: 'string' }, { type: 'object' }] },
        },
        required: ['text', 'count'],
      },
    },
  ],
  travel: [
    {
      name: 'search_trains',
      description: 'Trains between two stations on a day.',
      annotations: { readOnlyHint: true },
      waits: 1_150,
      inputSchema: object({ from: { type: 'string' }, to: { type: 'string' }, date: { type: 'string', format: 'date' } }),
      result: 'RE 61 08:25 → 15:02, 499 kr\nRE 603 12:03 → 18:57, 569 kr',
    },
    {
      name: 'get_weather',
      description: 'The forecast for a city.',
      inputSchema: object({ city }),
      annotations: { readOnlyHint: true },
      waits: 380,
      result: '4 °C, dry, light wind',
    },
    {
      name: 'find_hotel',
      description: 'Hotels with a free room.',
      annotations: { readOnlyHint: true, idempotentHint: true },
      waits: 620,
      fail: 1,
      inputSchema: object({ city, nights: { type: 'integer' }, near: { type: 'string' } }),
      result: 'Hotel Bryggen, 1290 kr, 6 minutes from the station',
    },
    {
      name: 'price_alert',
      description: 'Tells when a room gets cheaper.',
      inputSchema: object({ hotel: { type: 'string' } }),
      annotations: { readOnlyHint: true },
      waits: 240,
      error: 'The alert service is closed on Sundays.',
    },
    {
      name: 'book_train',
      description: 'Books and pays seats on a train. The ticket cannot be returned.',
      waits: 540,
      annotations: { destructiveHint: true },
      inputSchema: object({
        train: { type: 'string' },
        date: { type: 'string' },
        departs: { type: 'string' },
        seats: { type: 'integer' },
        price_nok: { type: 'number' },
      }),
      result: 'booked: coach 5, seats 41 and 42',
    },
  ],
  // Filled by the tests of hostile texts.
  hostile: [],
};

function call(name, given) {
  return { name, arguments: given };
}

function object(properties, required = Object.keys(properties)) {
  return { type: 'object', properties, required };
}
