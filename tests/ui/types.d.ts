// The types of what the page's modules hand to one another, for `tsc --checkJs`. They are not served.

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
}

interface Turn {
  index: number;
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

// --- the shell --------------------------------------------------------------------------------------------

declare namespace Page {
  type Query = Record<string, string | number | boolean | null | undefined>;

  interface StreamOptions {
    /** With a body it is a POST, else a GET. */
    body?: unknown;
    query?: Query;
    signal?: AbortSignal;
    headers?: Record<string, string>;
    /** Gets each event's data, parsed. */
    onEvent: (event: any) => void;
  }

  interface Api {
    get: (path: string, query?: Query, options?: { signal?: AbortSignal }) => Promise<any>;
    post: (path: string, body?: unknown, options?: { signal?: AbortSignal; headers?: Record<string, string> }) => Promise<any>;
    /** Resolves at the end of the stream. */
    stream: (path: string, options: StreamOptions) => Promise<{ requestId: string | null }>;
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
    /** What it does, for the list. */
    help: string;
    run: (event: KeyboardEvent) => void;
  }

  interface Route {
    screen: string;
    id: string | null;
    seq: number | null;
    query: URLSearchParams;
  }

  interface Context {
    api: Api;
    /** Keys: `theme`, `denied` (the last 401 or 403), `key` (counts changes of the key). */
    store: Store;
    navigate: (hash: string, options?: { replace?: boolean }) => void;
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

// --- the functions of the modules, by module ---------------------------------------------------------------

declare namespace Of {
  interface app {
    parseRoute: (hash: string) => Page.Route;
    navigate: (hash: string, options?: {replace?: boolean}) => void;
    createStore: (initial: Record<string, unknown>) => Page.Store;
  }
  interface fold {
    foldAll: (events: any[], count?: number) => Record<string, any> & { output: any[]; };
    change: (item: any, name: string, event: any) => void;
    write: (item: any, place: [string, string], at: number, done: boolean, event: any) => void;
    /** response: one that has ended; returns events whose fold is the response */
    reconstruct: (response: any) => any[];
    ofItem: (item: any, index: number) => any[];
    ofPart: (part: any, at: Record<string, any>) => ({ part: any; type: string; } | { delta: any; type: string; })[];
  }
  interface api {
    send: (method: string, path: string, options: {query?: Page.Query, body?: unknown, signal?: AbortSignal, headers?: Record<string, string>, accept?: string}) => Promise<Response>;
    readEvents: (reply: Response, onEvent: (event: any) => void, signal: AbortSignal | undefined) => Promise<void>;
    readJson: (reply: Response) => Promise<any>;
    /** onFrame: called for each event that has data; returns takes the stream piece by piece, cut anywhere */
    sseDecoder: (onFrame: (frame: {event: string, data: string, id: string | null}) => void) => {push: (text: string) => void};
  }
  interface dom {
    listen: (element: Element, listeners: Record<string, (event: any) => void>) => void;
    restyle: (element: HTMLElement | SVGElement, style: Record<string, string | number>) => void;
    attribute: (element: Element, name: string, value: unknown) => void;
    harmless: (name: string, value: string) => boolean;
    announce: (text: string) => void;
    icon: (name: string) => SVGSVGElement;
    stateMark: (state: {icon: string, word: string, tone: string}) => HTMLSpanElement;
  }
  interface format {
    counted: (count: number, noun: string, plural?: string) => string;
    duration: (ms: number | null | undefined) => string;
    pair: (seconds: number, big: number, bigName: string, small: number, smallName: string) => string;
    trim: (decimal: string) => string;
    number: (value: number) => string;
    tokens: (count: number | null | undefined) => string;
    cost: (usd: number | null | undefined) => string;
    rate: (count: number | null | undefined, ms: number | null | undefined) => string | null;
    /** ms: since the epoch */
    moment: (ms: number | null | undefined, now?: number) => string;
    exact: (ms: number | null | undefined) => string;
    /** ms: since the epoch */
    ago: (ms: number, now?: number) => string;
    short: (id: string) => string;
  }
  interface keys {
    /** returns ends them */
    addShortcuts: (shortcuts: Page.Shortcut[]) => () => void;
    nameOf: (event: KeyboardEvent) => string;
    isWriting: (target: EventTarget | null) => boolean;
  }
  interface follow {
    followerOf: (id: string) => Follower | null;
    /** request: a POST with a body, or the path of a response that runs */
    startFollowing: (request: {api: Page.Api, path: string, body?: any, headers?: Record<string, string>}) => Follower;
    take: (response: any) => void;
    onEvent: (event: any) => void;
    log: (of: string) => Promise<void>;
    pause: (ms: number, signal: AbortSignal) => Promise<void>;
    /** id: of the response */
    remember: (id: string, event: any) => void;
    recall: (id: string) => any[] | null;
    /** sentAt: when the request was sent, null if another page sent it; returns `trace` grows */
    liveTrace: (sentAt: number | null) => {push: (event: any, now: number) => void, tick: (now: number) => void, trace: Trace};
    openTurn: (now: number) => Turn;
    write: (kind: Kind, now: number) => void;
    begin: (event: any, now: number) => void;
    beginCall: (event: any, now: number) => void;
    dispatch: (event: any, now: number) => void;
    finish: (event: any, now: number) => void;
    end: (now: number) => void;
    openTurnAt: (at: number) => Turn;
  }
  interface items {
    /** label: for those who hear the page */
    textBlock: (text: string, label: string) => HTMLElement;
    renderItem: (item: any) => HTMLElement;
    call: (item: any) => HTMLElement;
    renderGiven: (item: any, asked: any[]) => HTMLElement;
    block: (kind: string, title: string, item: any, ...content: ((Node | null))[]) => HTMLElement;
    createOutput: (label: string) => {root: HTMLElement, show: (response: any) => void};
    showCalls: (all: boolean) => void;
    renderDetails: (root: HTMLElement, run: TracedRun, lane: Lane, onClose: () => void) => void;
    when: (at: number | null, trace: Trace) => false | HTMLSpanElement;
    attempts: (of: Turn | Call, trace: Trace) => string;
    ofCall: (call: Call, owned: Belonging, trace: Trace) => (HTMLElement | null)[];
    ofTurn: (turn: Turn, items: Json[], trace: Trace) => (HTMLElement | null)[];
  }
  interface layout {
    /** width: of the plot, in pixels */
    layout: (trace: Trace, response: any, width: number, options?: LayoutOptions) => Layout;
    groupOf: (lane: Lane, calls?: Lane[]) => Group;
    inOrder: (turns: Group[], waits: Group[], trace: Trace) => Group[];
    turnGroups: (trace: Trace, turn: Turn, index: number, items: any[], axis: Axis, over: boolean, failed: boolean) => Group[];
    laneOf: (axis: Axis, from: number, to: number, more: Partial<Lane> & Pick<Lane, 'id' | 'kind' | 'state'>) => Lane;
    modelLane: (turn: Turn, items: any[], axis: Axis, over: boolean) => Lane;
    modelCaption: (turn: Turn) => string;
    writing: (turn: Turn, items: any[], from: number, to: number, axis: Axis) => Bar[];
    callLane: (call: Call, id: string, axis: Axis, over: boolean, place: {turn: number, call: number}) => Lane;
    retries: (of: {retried_at?: number[]}, axis: Axis) => Mark[];
    badgesOf: (of: Turn | Call) => Badge[];
    waitLane: (wait: Wait, index: number, axis: Axis, over: boolean) => Lane;
    endLane: (trace: Trace, response: any, axis: Axis, continued: boolean) => Lane;
    bar: (axis: Axis, from: number, to: number, kind: string) => Bar[];
    thin: (axis: Axis, at: number, kind: string) => Bar[];
    /** width: of the plot; returns `before`: x is the right end of the words */
    captionPlace: (lane: Lane, width: number) => {side: 'after' | 'before' | 'below', x: number};
    /** cuts: disjoint, in order */
    makeAxis: (from: number, to: number, width: number, cuts?: Interval[]) => Axis;
    locate: (pieces: Piece[], moment: number) => number;
    ticksOf: (pieces: Piece[], from: number, msPerPixel: number, width: number) => Tick[];
    lastInside: (ticks: Tick[], width: number) => Tick[];
    tickLabel: (offset: number, step: number) => string;
    idleTimes: (busy: Interval[], from: number, to: number) => Interval[];
  }
  interface live {
    /** options: told of the begin and the end of each run; returns `stop` cancels the run; `leave` only takes it off the page */
    watch: (root: HTMLElement, options: {api: Page.Api, path?: string, body: any, headers?: Record<string, string>, onBegin?: () => void, onEnd?: (progress: Progress) => void}) => {stop: () => Promise<void>, leave: () => void};
    continueWith: (request: any) => Promise<void>;
    show: (request: any) => () => void;
    showState: (root: HTMLElement, progress: Progress) => void;
    /** options: `request`: the one that the run is of, where the page knows it */
    createRunPanel: (options: {api: Page.Api, request?: any, onContinue: (body: any) => Promise<void>}) => { root: HTMLDivElement; show(run: Run): void; progress(progress: Progress): void; stop(): void; };
    chain: (run: Run) => void;
    loadInput: (response: any) => void;
    renderInputOf: (root: HTMLElement, response: any, api: Page.Api) => Promise<void>;
    showError: (error: unknown) => void;
    finish: (response: any) => void;
  }
  interface picture {
    createPicture: (options: {label: string, onSelect: (lane: Lane) => void, onLayout?: (layout: Layout) => void}) => Picture;
    /** place: its level, its position there, and how many there are */
    rowOf: (lane: Lane, place: number[], plot: number, folded?: Lane[]) => HTMLElement;
    select: (id: string | null, focus?: boolean) => void;
    toggle: (id: string, collapse: boolean) => void;
    treeKeys: (event: KeyboardEvent, tree: HTMLElement, select: (id: string) => void, toggle: (id: string, collapse: boolean) => void) => void;
    sync: (tree: HTMLElement, wanted: HTMLElement[]) => void;
    /** folded: the calls of a collapsed turn */
    fillRow: (row: HTMLElement, lane: Lane, plot: number, folded: Lane[]) => void;
    place: (look: string, x: number, w?: number, text?: string) => HTMLSpanElement;
    plotOf: (lane: Lane, width: number, folded: Lane[]) => HTMLDivElement;
    drawAxis: (axis: HTMLElement, drawn: Layout, trace: Trace) => void;
  }
  interface trace {
    plainType: (item: any) => string;
    isCall: (item: any) => boolean;
    isOutput: (item: any) => boolean;
    belonging: (output: any[], trace: Trace) => Belonging;
    claim: (output: any[], trace: Trace) => { items: Map<any, any>; turnOf: Map<any, number>; };
    nameOf: (item: any) => string;
    written: (items: any[]) => {kind: Kind, length: number}[];
    writtenIn: (item: any) => {kind: Kind, length: number} | null;
    texts: (content: any[] | string | null | undefined) => string[];
    turnNumber: (trace: Trace, turn: Turn | null | undefined) => number;
    turnName: (trace: Trace, turn: Turn | null | undefined) => string;
    lastMoment: (trace: Trace) => number;
    /** now: the end of what still goes on */
    account: (trace: Trace, now?: number) => Account;
    waited: (call: Stretch, stretches: Stretch[]) => number;
    stretchesOf: (trace: Trace, end: number) => Stretch[];
    /** end: of what still goes on */
    endOfCall: (call: Call, end: number) => number;
    callId: (turn: Turn, index: number) => string;
  }
  interface view {
    selectLane: (lane: Lane) => void;
    reveal: (row: string) => void;
    createTools: (does: {onTable: (table: boolean) => void, onCompress: () => void, onCollapse: (collapse: boolean) => void, onFollow: () => void}) => { root: HTMLDivElement; table(asTable: boolean): void; follow(running: boolean, following: boolean): void; layout({ shortenable, groups, gaps }: Layout, compressed: boolean, watched: Trace | null): void; };
    /** onShow: shows a row of the picture */
    renderTable: (root: HTMLElement, run: TracedRun, onShow: (row: string) => void) => void;
    /** onShow: shows a row of the picture */
    renderSummary: (root: HTMLElement, run: Run, onShow: (row: string) => void) => void;
    timeBar: (trace: Trace, now?: number) => HTMLDivElement;
  }
  interface words {
    statusWords: (status: string) => State;
    stateOf: (response: any) => State;
    continuedWords: (response: any) => State;
    isRunning: (response: any) => boolean;
    waitsFor: (response: any) => 'approval' | 'client' | null;
    outcomeWords: (call: Call, over: boolean) => State;
    limitWords: (name: string) => string;
    waitKind: (kind: string) => string;
    waitWords: (kind: string, ms: number | null) => string;
    attemptWords: (of: {attempts: number}) => string | null;
    totals: (response: any, trace: Trace | null) => string;
    ending: (response: any, trace: Trace | null, now?: number) => Finding;
    limitOf: (response: any, name: string) => string;
    slowness: (trace: Trace, now?: number) => Finding[];
    stepWords: (trace: Trace, step: Stretch) => string;
    percent: (part: number, whole: number) => string;
    troubles: (trace: Trace) => Finding[];
  }
  interface run_screen {
    openRun: (root: HTMLElement, context: Page.Context, route: Page.Route) => { stop: () => void; moveTo: (seq: number | null) => undefined; };
    continueWith: (request: any) => Promise<void>;
    findAnswer: (response: any) => Promise<void>;
    /** own: begun by this screen, and of no use without it */
    follow: (follower: Follower, own: boolean) => void;
    show: (response: any, trace: Trace | null) => void;
    ready: (response: any, trace: Trace | null) => void;
    moveTo: (seq: number | null) => Promise<void>;
    openReplay: (made: { root: HTMLElement; moveTo: (seq: number) => Promise<void>; step: (by: number) => Promise<void>; stop: () => void }) => void;
    step: (by: number) => void;
    renderHead: (root: HTMLElement, response: any, does: {api: Page.Api, path: string, onReplay: (() => void) | null}) => void;
    createReplay: (options: {api: Page.Api, response: any, kept: boolean, onMove: (seq: number) => void}) => {root: HTMLElement, moveTo: (seq: number) => Promise<void>, step: (by: number) => Promise<void>, stop: () => void};
    readStream: (api: Page.Api, response: any, kept: boolean, signal: AbortSignal) => Promise<EventStream>;
    drawStream: (root: HTMLElement, stream: EventStream, onMove: (seq: number) => void) => { step(by: number): void; moveTo(seq: number): void; };
    go: (index: number, told: boolean) => void;
  }
  interface runs_screen {
    queryText: (of: Record<string, string>) => string;
    createFilters: (onChange: (of: {status: string, model: string}) => void, onReload: () => void) => { root: HTMLDivElement; show(query: URLSearchParams): void; };
    renderList: (root: HTMLElement, runs: any[], query: URLSearchParams) => void;
    rowOf: (run: any, continued: boolean) => HTMLTableRowElement;
    chainOf: (run: any) => HTMLSpanElement | null;
    renderPager: (root: HTMLElement, page: any, query: URLSearchParams) => void;
  }
}
