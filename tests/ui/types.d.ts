// The types of what the page's modules hand to one another, for `tsc --checkJs`. They are not served; what the modules are is said here, as
// each byte of theirs is fetched by browsers:
//
// - app.js: the shell: header, navigation, key, theme, and the router that mounts one screen at a time.
// - lib/api.js: talks to the gateway that serves this page, and follows a run to its end, whoever looks: by the stream of the request that
//   starts it, by its event log, or else by asking again and again. The key is kept in memory only, and goes nowhere else.
// - lib/dom.js: makes elements, signs, and the parts that the screens share; and words of values. Text is always set as text: nothing parses
//   markup, so that a model's or a tool's words stay words. Joiners belong to many scripts and to emoji; beside ASCII they have no use.
// - protocol.js: requests: the one of the screen Try, which form and JSON editor change; the one that goes on with a response; and programs
//   to copy that send one, with texts quoted for each language and the key as an environment variable. And the events of a stream, folded
//   into the response that they describe, as the accumulator of `crates/response` does, tested on the same streams; and the way back.
// - forms.js: a form from a JSON Schema, with JSON in its place for what a form cannot say. Schemas come from servers, and may be deep, huge,
//   recursive or nonsense: depth, fields and choices are bounded, and what is beyond becomes a field for JSON. Patterns are shown, never run.
// - next-step.js: what a person has to do: about an error, and for a response that waits for approvals, for functions of the client, or for
//   answers to tools. Cards show exactly what will be called; nothing is edited, and nothing is approved for later.
// - run/account.js: what happened in a run, from the gateway's trace: times, turns and their items; and in plain words how it ended and why,
//   where the time went, what failed. Pure.
// - run/picture.js: the picture of a run: where everything lies, which is pure (an account, a response and a width in; groups, lanes, bars,
//   bands and gaps out), and its drawing as rows of a tree, with the keys that the ARIA authoring practices give a tree.
// - run/view.js: a run on the page: summary, picture or table, and beside it the output or the details of what is selected.
// - screens/: Try, with the request as a form, as JSON and as programs, and its run beside it; one run; lists: Runs, Tools and Connect.

type Json = Record<string, any>;

// --- the gateway's account of a run -----------------------------------------------------------------------

interface Usage {
  input_tokens: number;
  input_tokens_details?: { cached_tokens?: number };
  output_tokens: number;
  output_tokens_details?: { reasoning_tokens?: number };
  total_tokens: number;
}

/** What a model writes. */
type Kind = 'reasoning' | 'text' | 'arguments';

interface Span {
  kind: Kind;
  from: number;
  to: number;
}

interface Call {
  call_id: string;
  name: string;
  executor: string | null;
  attempts: number;
  retried_at?: number[];
  started_at: number;
  ended_at: number | null;
  /** Null while it runs. */
  outcome: 'completed' | 'failed' | 'async' | 'cancelled' | 'unknown' | null;
  error?: string | null;
  cached?: boolean;
  fallback?: string | null;
  truncated?: boolean;
  /** A stream told it behind another call, for which it may have waited: it took no longer than that. */
  at_most?: boolean;
}

interface Turn {
  index: number;
  /** The model wrote a summary, which is no turn of the loop. */
  is_compaction?: boolean;
  provider: string | null;
  model: string | null;
  /** 0: the model was not asked, only approved calls were made. */
  attempts: number;
  retried_at?: number[];
  /** Why each of them was made: the kind of the failure before. */
  retry_reasons?: string[];
  sent_at: number;
  first_byte_at: number | null;
  first_token_at: number | null;
  ended_at: number | null;
  usage: Usage | null;
  cost_usd: number | null;
  calls: Call[];
  /** When the model wrote what, where that was watched. */
  spans?: Span[];
}

interface Wait {
  kind: string;
  from: number;
  to: number | null;
}

interface Limit {
  name: string;
  at: number;
}

interface Trace {
  id: string;
  started_at: number;
  ended_at: number | null;
  turns: Turn[];
  waits: Wait[];
  limits: Limit[];
  /** Whether its stream can be read again; of a gateway that tells it. */
  has_events?: boolean;
  /** The times are those of this page's clock. */
  watched?: boolean;
  /** Watched from the middle on. */
  late?: boolean;
}

interface Belonging {
  /** The items of each turn, in order. */
  turns: Json[][];
  /** The item of a call, by the call's id. */
  items: Map<string, Json>;
  /** The item with the result of a call, where that is one of its own. */
  outputs: Map<string, Json>;
}

// --- words and sums ---------------------------------------------------------------------------------------

interface State {
  icon: string;
  word: string;
  tone: 'ok' | 'bad' | 'warn' | 'busy' | 'off';
}

type Part = 'first_byte' | 'first_token' | 'writing' | 'tools' | 'waits' | 'other';

interface Stretch {
  part: Part;
  from: number;
  to: number;
  name: string;
  turn: number | null;
  /** The row of the picture. */
  id: string | null;
  atMost?: boolean;
}

interface Account {
  total: number;
  parts: { part: Part; ms: number }[];
  /** The time, cut where something begins or ends, and what each piece counts as. */
  pieces: (Interval & { part: Part })[];
  longest: (Stretch & { ms: number }) | null;
}

interface Finding {
  text: string;
  tone: '' | 'bad' | 'warn' | 'ok';
  /** The row of the picture that it is about. */
  row: string | null;
  advice?: string;
}

// --- the picture ------------------------------------------------------------------------------------------

interface Interval {
  from: number;
  to: number;
}

interface Piece extends Interval {
  x: number;
  end: number;
  cut: boolean;
}

interface Tick {
  x: number;
  label: string;
  /** The label stands before the tick. */
  last: boolean;
}

interface Axis extends Interval {
  width: number;
  pieces: Piece[];
  x: (moment: number) => number;
  ticks: Tick[];
}

interface Bar {
  x: number;
  w: number;
  /** first_byte, first_token, a `Kind`, call, call-failed, call-off, attempt (one that was given up) or wait. */
  kind: string;
}

interface Mark {
  x: number;
  kind: 'first-token' | 'retry';
}

interface Badge {
  text: string;
  tone: '' | 'warn' | 'bad';
}

/** One row of the picture. */
interface Lane {
  id: string;
  kind: 'model' | 'call' | 'wait' | 'end';
  label: string;
  note: string;
  state: State;
  bars: Bar[];
  marks: Mark[];
  caption: string;
  badges: Badge[];
  /** When it begins, from the begin of the run. */
  at: number;
  /** Where the first bar begins and the last one ends. */
  start: number;
  end: number;
  ms: number | null;
  /** It may have taken less. */
  atMost?: boolean;
  /** The index of the turn in the trace and of the call in the turn, -1 for none. */
  turn: number;
  call: number;
}

/** A turn with its calls, or a lane of its own. */
interface Group {
  id: string;
  lane: Lane;
  calls: Lane[];
  failed: number;
}

interface Layout {
  axis: Axis;
  groups: Group[];
  bands: { x: number; w: number; words: string }[];
  /** Those that are shortened. */
  gaps: { x: number; w: number; words: string }[];
  /** How much could be shortened. */
  shortenable: string | null;
  /** Where a limit stopped something. */
  stops: number[];
}

interface LayoutOptions {
  compress?: boolean;
  /** The end of what still goes on. */
  now?: number;
  /** What it waited for has come, in another response. */
  continued?: boolean;
}

// --- runs on the page -------------------------------------------------------------------------------------

interface Run {
  response: any;
  trace: Trace | null;
  now?: number;
}

interface TracedRun extends Run {
  trace: Trace;
}

interface Progress {
  response: any;
  trace: Trace | null;
  now: number;
  over: boolean;
  /** Why nothing more is heard. */
  error: unknown;
  /** The questions that came (`antwort:input_required`). */
  inputs: any[];
}

interface Follower {
  /** Tells at once, and then of each change. */
  subscribe: (listener: (progress: Progress) => void) => () => void;
  /** The id of the response, once there is one. */
  known: Promise<string>;
  ended: Promise<Progress>;
  /** Hears no more; a run that hangs on this connection is cancelled by it. */
  stop: () => void;
}

interface Picture {
  root: HTMLElement;
  show: (shown: TracedRun & LayoutOptions) => void;
  select: (id: string | null, focus?: boolean) => void;
  collapseAll: (collapse: boolean) => void;
  stop: () => void;
}

interface EventStream {
  events: any[];
  source: 'log' | 'watched' | 'reconstructed';
}

// --- elements and answers ---------------------------------------------------------------------------------

type Child = Node | string | number | null | undefined | false;

/**
 * Attributes, besides `class`, `text`, `on` (listeners), `style` (an object) and `data`. An attribute of `true` is set without a value;
 * of `false`, null or undefined not at all (but `aria-*` is written out).
 */
interface Props {
  class?: string;
  text?: string | number;
  on?: Record<string, (event: any) => void>;
  style?: Record<string, string | number>;
  data?: Record<string, string | number>;
  [attribute: string]: any;
}

interface ErrorOf {
  status: number;
  code?: string | null;
  type?: string | null;
  /** The path of the field that the error names. */
  param?: string | null;
  requestId?: string | null;
  /** Seconds to wait before the next attempt. */
  retryAfter?: number | null;
}

/** A response as it is so far. */
type Folded = Json & { output: any[] };

// --- the shell --------------------------------------------------------------------------------------------

declare namespace Page {
  type Query = Record<string, string | number | boolean | null | undefined>;

  interface StreamOptions {
    /** With a body it is a POST, else a GET. */
    body?: unknown;
    query?: Query;
    signal?: AbortSignal;
    headers?: Record<string, string>;
    /** Gets each event's data, parsed; and the id of the request that is answered. */
    onEvent: (event: any, requestId: string | null) => void;
  }

  interface Api {
    get: (path: string, query?: Query, options?: { signal?: AbortSignal }) => Promise<any>;
    post: (path: string, body?: unknown, options?: { signal?: AbortSignal; headers?: Record<string, string> }) => Promise<any>;
    /** Resolves at the end of the stream. */
    stream: (path: string, options: StreamOptions) => Promise<void>;
    setKey: (key: string) => void;
    hasKey: () => boolean;
  }

  interface Store {
    get: (key: string) => any;
    /** Tells the subscribers, if the value is another. */
    set: (key: string, value: unknown) => void;
    /** Returns what ends it. */
    subscribe: (keys: string[], told: (changed: string) => void) => () => void;
  }

  interface Shortcut {
    /** As in `KeyboardEvent.key`; `Ctrl+Enter` also means the command key of a Mac. */
    key: string;
    /** What it does, for the list; without `run` only that: another part of the page heeds it. */
    help: string;
    run?: () => void;
  }

  interface Route {
    screen: string;
    id: string | null;
    seq: number | null;
    query: URLSearchParams;
  }

  interface Context {
    api: Api;
    /** Keys: `theme`, `denied` (the last 401 or 403), `key` (counts changes of the key), `runs` (the list that was shown last). */
    store: Store;
    navigate: (hash: string, options?: { replace?: boolean }) => void;
    /** The screen is made anew: another key may see other things. */
    useKey: (key: string) => void;
    /** That of the moment of mounting. */
    route: Route;
  }

  interface Mounted {
    update?: (route: Route) => void;
    unmount?: () => void;
  }

  interface Screen {
    title: string;
    mount: (root: HTMLElement, context: Context) => Mounted;
  }
}
