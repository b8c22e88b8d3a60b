// Talks to the gateway that serves this page. The key is kept in memory only, and goes nowhere else.

/** An answer that is an error, or no answer at all (status 0). */
export class ApiError extends Error {
  /**
   * @param {string} message
   * @param {{status: number, code?: string | null, type?: string | null, param?: string | null, requestId?: string | null, retryAfter?: number | null}} of
   */
  constructor(message, of) {
    super(message);
    this.name = 'ApiError';
    this.status = of.status;
    this.code = of.code ?? null;
    this.type = of.type ?? null;
    /** The path of the field that the error names. */
    this.param = of.param ?? null;
    this.requestId = of.requestId ?? null;
    /** Seconds to wait before the next attempt. */
    this.retryAfter = of.retryAfter ?? null;
  }
}

/** The address of the gateway: the folder above the page, also behind a path prefix. */
export const gateway = () => new URL('../', document.baseURI);

/** @param {{onDenied?: (error: ApiError) => void}} [hooks] `onDenied` hears of each 401 @returns {Page.Api} */
export function createApi(hooks = {}) {
  let key = '';

  /** @type {Of.api['send']} */
  async function send(method, path, { query, body, signal, headers, accept }) {
    const address = new URL(path.replace(/^\//, ''), gateway());
    for (const [name, value] of Object.entries(query ?? {})) {
      if (value !== null && value !== undefined && value !== '') address.searchParams.set(name, String(value));
    }
    /** @type {Record<string, string>} */
    const sent = { accept: accept ?? 'application/json', ...headers };
    if (key) sent.authorization = `Bearer ${key}`;
    if (body !== undefined) sent['content-type'] = 'application/json';
    const text = body === undefined ? undefined : JSON.stringify(body);
    let reply;
    try {
      reply = await fetch(address, { method, headers: sent, body: text, signal, credentials: 'omit', cache: 'no-store' });
    } catch (cause) {
      throw noAnswer(cause, signal);
    }
    if (!reply.ok) {
      const error = await errorOf(reply);
      if (error.status === 401) hooks.onDenied?.(error);
      throw error;
    }
    return reply;
  }

  return {
    setKey: (value) => void (key = value.trim()),
    hasKey: () => key !== '',
    get: async (path, query, options) => readJson(await send('GET', path, { query, ...options })),
    post: async (path, body, options) => readJson(await send('POST', path, { body: body ?? {}, ...options })),
    async stream(path, { onEvent, ...options }) {
      const method = options.body === undefined ? 'GET' : 'POST';
      const reply = await send(method, path, { ...options, accept: 'text/event-stream' });
      await readEvents(reply, onEvent, options.signal);
      return { requestId: reply.headers.get('x-request-id') };
    },
  };
}

/** @type {Of.api['readEvents']} */
async function readEvents(reply, onEvent, signal) {
  const decoder = sseDecoder((frame) => {
    if (frame.data !== '[DONE]') onEvent(JSON.parse(frame.data));
  });
  const reader = /** @type {ReadableStream<Uint8Array>} */ (reply.body).getReader();
  const utf8 = new TextDecoder();
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (cause) {
      throw noAnswer(cause, signal);
    }
    if (piece.done) return;
    decoder.push(utf8.decode(piece.value, { stream: true }));
  }
}

/** @type {Of.api['readJson']} */
async function readJson(reply) {
  const text = await reply.text();
  return text === '' ? null : JSON.parse(text);
}

/** @param {Response} reply @returns {Promise<ApiError>} */
async function errorOf(reply) {
  const text = await reply.text().catch(() => '');
  /** @type {any} */
  let error = null;
  try {
    error = JSON.parse(text).error;
  } catch {
    // Not of the gateway: a proxy's page.
  }
  const wait = Number(reply.headers.get('retry-after'));
  return new ApiError(error?.message ?? `The server answered ${reply.status} ${reply.statusText}`.trim(), {
    status: reply.status,
    code: error?.code,
    type: error?.type,
    param: error?.param,
    requestId: reply.headers.get('x-request-id'),
    retryAfter: Number.isFinite(wait) && wait > 0 ? wait : null,
  });
}

/** @param {unknown} cause @param {AbortSignal | undefined} signal */
function noAnswer(cause, signal) {
  if (signal?.aborted) return new ApiError('Stopped.', { status: 0, code: 'aborted' });
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new ApiError(`The connection to the gateway failed: ${reason}`, { status: 0, code: 'connection_failed' });
}

/** Decodes server-sent events (the HTML standard's `text/event-stream`). @type {Of.api['sseDecoder']} */
export function sseDecoder(onFrame) {
  let rest = '';
  let begun = false;
  let event = '';
  /** @type {string[]} */
  let data = [];
  /** @type {string | null} */
  let id = null;

  function line(text = '') {
    if (text === '') {
      if (data.length > 0) onFrame({ event: event || 'message', data: data.join('\n'), id });
      event = '';
      data = [];
      return;
    }
    const colon = text.indexOf(':');
    const field = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? '' : text.slice(colon + 1).replace(/^ /, '');
    if (field === 'data') data.push(value);
    else if (field === 'event') event = value;
    else if (field === 'id') id = value;
  }

  return {
    push(text) {
      if (text === '') return;
      rest += begun ? text : text.replace(/^\uFEFF/, '');
      begun = true;
      // A carriage return at the end may be half of a line break.
      const complete = rest.endsWith('\r') ? rest.length - 1 : rest.length;
      const lines = rest.slice(0, complete).split(/\r\n|\n|\r/);
      rest = (lines.pop() ?? '') + rest.slice(complete);
      lines.forEach(line);
    },
  };
}
