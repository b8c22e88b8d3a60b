/**
 * Runs the functions of a client inside a response of antwort: the response asks for their outputs while it streams, and this
 * answers by itself.
 *
 *     import OpenAI from 'openai';
 *     import { ClientTools } from 'antwort-client-tools';
 *
 *     const tools = new ClientTools().register({
 *       name: 'thermometer',
 *       description: 'Measures the temperature of a room, in degrees Celsius.',
 *       parameters: { type: 'object', properties: { room: { type: 'string' } }, required: ['room'] },
 *       execute: async ({ room }) => '22',
 *     });
 *
 *     const client = new OpenAI({ baseURL: 'http://localhost:8080/v1', apiKey: 'unused' });
 *     const response = await tools.run(client, { model: 'my-model', input: 'How warm is the kitchen?' });
 *
 * `stream` yields the events instead. A connection that breaks is resumed where it was. Needs `openai` 6 or later.
 */

import type OpenAI from 'openai';

/** A function of the client. */
export interface ClientTool {
  name: string;
  description?: string;
  /** The JSON schema of the arguments. */
  parameters?: Record<string, unknown>;
  /** Its output: text as it is, anything else as JSON. An error becomes the error that the model reads. */
  execute: (args: any) => unknown;
}

/** A question of a tool to the user: a form by its JSON Schema, or an address to open once the user has agreed. */
export type Elicitation =
  | { mode: 'form'; message: string; requested_schema: Record<string, unknown> }
  | { mode: 'url'; message: string; url: string; elicitation_id?: string };

/** What the user has done; `content` is the form as it was filled in. */
export interface ElicitationAnswer {
  action: 'accept' | 'decline' | 'cancel';
  content?: Record<string, unknown>;
}

/** `antwort:input_required`: a call that the client is to answer. */
export interface InputRequiredEvent {
  type: 'antwort:input_required';
  sequence_number: number;
  item_id: string;
  output_index: number;
  call_id: string;
  name: string;
  namespace?: string;
  arguments: string;
  /** A question that a tool of the gateway asks the user. */
  elicitation?: Elicitation;
  /** In Unix seconds. */
  expires_at: number;
}

type ResponseEvent = OpenAI.Responses.ResponseStreamEvent | InputRequiredEvent;
type Request = Omit<OpenAI.Responses.ResponseCreateParamsStreaming, 'stream'> & { antwort?: Record<string, unknown> };

export interface ClientToolsOptions {
  /** Told of answers that were refused, as they came too late, and of those that could not be sent. */
  onRefused?: (call: InputRequiredEvent, error: unknown) => void;
  /** Shows questions of the gateway's own tools to the user. An error tells the tool that the user has cancelled. */
  onQuestion?: (question: Elicitation) => ElicitationAnswer | Promise<ElicitationAnswer>;
  /** The questions that `onQuestion` can show; forms unless said otherwise. */
  questionModes?: Elicitation['mode'][];
}

type Answer = { output: string | ElicitationAnswer } | { error: string };

const END = ['response.completed', 'response.incomplete', 'response.failed'];
/** Breaks of the connection in a row, without any event in between. */
const MAX_BREAKS = 6;

/** The functions of a client, and the loop that answers their calls. */
export class ClientTools {
  readonly #tools = new Map<string, ClientTool>();
  readonly #onRefused: NonNullable<ClientToolsOptions['onRefused']>;
  readonly #onQuestion: ClientToolsOptions['onQuestion'];
  readonly #questionModes: Elicitation['mode'][];

  constructor(options: ClientToolsOptions = {}) {
    this.#onRefused = options.onRefused ?? ((call, error) => console.warn(`the answer to ${call.name} was refused:`, error));
    this.#onQuestion = options.onQuestion;
    this.#questionModes = options.questionModes ?? ['form'];
  }

  /** Registers a function. */
  register(tool: ClientTool): this {
    this.#tools.set(tool.name, tool);
    return this;
  }

  /** The `tools` of a request. */
  get definitions(): OpenAI.Responses.FunctionTool[] {
    return [...this.#tools.values()].map(({ name, description, parameters }) => ({
      type: 'function',
      name,
      ...(description === undefined ? {} : { description }),
      parameters: parameters ?? { type: 'object', properties: {} },
      strict: false,
    }));
  }

  /** Makes a response, and returns it when it has ended, with `output_text` as the SDK's own methods have it. */
  async run(client: OpenAI, request: Request): Promise<OpenAI.Responses.Response> {
    for await (const event of this.stream(client, request)) {
      if (isEnd(event)) return { ...event.response, output_text: textOf(event.response) };
    }
    throw new Error('the stream has ended without a response');
  }

  /**
   * Makes a response, and yields its events while it answers the calls of functions. `tools` of the request are added to the
   * registered functions.
   */
  async *stream(client: OpenAI, request: Request): AsyncGenerator<ResponseEvent, void, undefined> {
    const body = {
      ...request,
      tools: [...this.definitions, ...(request.tools ?? [])],
      antwort: {
        ...request.antwort,
        client_tools: 'inline',
        ...(this.#onQuestion ? { elicitation: this.#questionModes } : {}),
      },
    };
    const asked = new Set<string>();
    for await (const [responseId, event] of events(client, body)) {
      if (event.type === 'antwort:input_required' && !asked.has(event.call_id)) {
        asked.add(event.call_id);
        // Calls are made beside the stream, and beside each other.
        if (!event.elicitation) void this.#answer(client, responseId, event, this.#result(event));
        else if (this.#onQuestion) void this.#answer(client, responseId, event, this.#ask(event.elicitation));
      }
      yield event;
    }
  }

  async #answer(client: OpenAI, responseId: string, call: InputRequiredEvent, answer: Promise<Answer>): Promise<void> {
    const result = await answer;
    try {
      await client.post(`/responses/${responseId}/inputs`, { body: { call_id: call.call_id, ...result } });
    } catch (error) {
      // The response goes on without it: it came too late, or somebody else has answered.
      this.#onRefused(call, error);
    }
  }

  async #ask(question: Elicitation): Promise<Answer> {
    try {
      return { output: (await this.#onQuestion?.(question)) ?? { action: 'cancel' } };
    } catch (error) {
      return { error: error instanceof Error ? error.message : String(error) };
    }
  }

  async #result(call: InputRequiredEvent): Promise<Answer> {
    const tool = this.#tools.get(call.name);
    if (!tool) return { error: `Tool not found: ${call.name}` };
    try {
      const output = await tool.execute(JSON.parse(call.arguments || '{}'));
      return { output: typeof output === 'string' ? output : (JSON.stringify(output) ?? '') };
    } catch (error) {
      return { error: error instanceof Error ? error.message : String(error) };
    }
  }
}

function isEnd(event: ResponseEvent): event is ResponseEvent & { response: OpenAI.Responses.Response } {
  return END.includes(event.type);
}

/** The texts of a response's messages, which the SDK adds only to responses that are no streams. */
function textOf(response: OpenAI.Responses.Response): string {
  const parts = response.output.flatMap((item) => (item.type === 'message' ? item.content : []));
  return parts.map((part) => (part.type === 'output_text' ? part.text : '')).join('');
}

/** The events of a response with its id; a connection that breaks is resumed behind the last event. */
async function* events(client: OpenAI, body: object): AsyncGenerator<[string, ResponseEvent], void, undefined> {
  let [id, last, breaks] = ['', -1, 0];
  for (;;) {
    let broken: unknown = new Error('the stream has ended early');
    try {
      const stream = (id
        ? await client.responses.retrieve(id, { stream: true, starting_after: last })
        : await client.responses.create({ ...body, stream: true } as OpenAI.Responses.ResponseCreateParamsStreaming)) as AsyncIterable<ResponseEvent>;
      for await (const event of stream) {
        breaks = 0;
        if ('sequence_number' in event) last = event.sequence_number;
        if (event.type === 'response.created') id = event.response.id;
        yield [id, event];
        if (isEnd(event)) return;
      }
    } catch (error) {
      // An answer with a status is one, and no break.
      if ((error as { status?: number }).status !== undefined) throw error;
      broken = error;
    }
    breaks += 1;
    // Without an id nobody knows whether there is a response.
    if (!id || breaks > MAX_BREAKS) throw broken;
    await new Promise((resolve) => setTimeout(resolve, Math.min(100 * 2 ** breaks, 5000)));
  }
}
