// The types of the functions of the page's modules, by module, with what each of them is for: a function names its own as `Of['itsName']`.
// They are not served.

// app.js
interface Of {
  parseRoute: (hash: string) => Page.Route;
  navigate: Page.Context['navigate'];
  createStore: (initial: Record<string, unknown>) => Page.Store;
}

// protocol.js, events
interface Of {
  /** Without the prefix of one dialect. */
  plainType: (item: any) => string;
  isCall: (item: any) => boolean;
  nameOf: (item: any) => string;
  isRunning: (response: any) => boolean;
  /** Changes the response that it is given, unless the event brings one of its own. */
  fold: (response: Folded, event: any) => Folded;
  /** The response of an event replaces everything, but one without its items keeps those of the stream. */
  whole: (before: Folded, response: any) => Folded;
  foldAll: (events: any[], count?: number) => Record<string, any> & { output: any[]; };
  change: (item: any, name: string, event: any) => void;
  writeText: (item: any, place: [string, string], at: number, done: boolean, event: any) => void;
  /** A stream that could have made a response; never called exact. response: one that has ended; returns events whose fold is the response */
  reconstruct: (response: any) => any[];
  ofItem: (item: any, index: number) => any[];
  ofPart: (part: any, at: Record<string, any>) => ({ part: any; type: string; } | { delta: any; type: string; })[];
}

// forms.js
interface Of {
  text: (value: unknown) => string;
  /** None: there are too many, or no sense in them. */
  optionsOf: (schema: Json) => {value: unknown, label: string}[] | null;
  aboutOf: (schema: Json) => string;
  asObject: (value: any) => Json;
  join: (path: string, key: string | number) => string;
  /** The root is a group, or one field for JSON. */
  fieldsOf: (schema: unknown) => Field;
  fieldOf: (key: string, declared: unknown, required: boolean, budget: {root: Json, left: number}, depth: number) => Field;
  shape: (schema: Json, budget: {root: Json, left: number}, depth: number) => Partial<Field>;
  /** Follows references within the schema, and takes the null out of `X or null`. */
  plain: (schema: Json, root: Json) => { schema: Json; nullable: boolean };
  /** `reference`: such as `#/$defs/Size` */
  lookUp: (reference: string, root: Json) => Json;
  boundFault: (schema: Json, value: any) => string | null;
  /** `undefined`: it was left empty, and may be. */
  valueOf: (field: Field, raw: Raw | undefined, path?: string) => {value: any, faults: Fault[]};
  isEmpty: (raw: Raw) => boolean;
  leafValue: (field: Field, typed: string) => {value: unknown, error: string | null};
  /** `schema`: of an object; `options`: the form's name, for screen readers; `bare`: without the way to JSON; returns `readForm`: what was filled in; faults are shown, and the first is focused */
  schemaForm: (schema: unknown, options: {name: string, value?: any, bare?: boolean}) => {root: HTMLElement, readForm: (quiet?: boolean) => Reading};
  controlOf: (field: Field, value: any, path: string) => Control;
  inputOf: (field: Field, value: any) => HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;
  groupControl: (field: Field, known: Json, path: string, frame: (...inside: HTMLElement[]) => HTMLElement) => Control;
  listControl: (field: Field, value: any, path: string, frame: (...inside: HTMLElement[]) => HTMLElement, mark: (faults: Map<string, string>) => void) => Control;
}

// next-step.js
interface Of {
  words: (value: unknown) => string;
  explain: (error: any) => {fault: Cause, next: string};
  /** Never an empty box. */
  argumentsView: (text: unknown) => HTMLElement;
  /** A person plays the client. */
  outcomeForm: (call: Json) => Card;
  /** All are answered together, by one button. `onContinue`: sends the request that goes on; what it throws is shown; `options`: the request that the response is of, if it is known */
  renderNextStep: (response: Json, onContinue: (body: Json) => void | Promise<unknown>, options: {api: Page.Api, request?: Json | null}) => HTMLElement | null;
  inert: (root: HTMLElement, onReady: () => void) => () => boolean;
  card: (label: string, what: string, name: unknown, ...inside: (Node | null)[]) => HTMLElement;
  /** `options`: value and words */
  choices: (legend: string, options: [string, string][], choose: (value: string) => void) => HTMLElement;
  /** `request`: the `mcp_approval_request`; `response`: that it is an item of; `options`: `request`: the one that the response is of, if it is known */
  approvalCard: (request: Json, response: Json, options: {get: Page.Api['get'], update: () => void, request?: Json | null}) => Card;
  /** Of the server of this label, unless the operator has configured it */
  addressOf: (response: Json, label: string) => string | undefined;
  definitionView: (of: Called, get: Page.Api['get']) => HTMLElement;
  /**
   * What is nearest counts: the response itself, what it was sent, those before it or its conversation, as far as the key may read them;
   * then the server's list as it is now. The gateway lists tools where they are new to a chain, not in each response of it.
   */
  findDefinition: (of: Called, get: Page.Api['get']) => Promise<Json | undefined>;
  /** `annotations`: of MCP or of the gateway */
  effects: (annotations: any) => [string, string];
  callCard: (call: Json) => Card;
  /** What a running response asks for: it waits, and goes on in the same stream. `event`: `antwort:input_required` */
  renderInput: (event: Json, responseId: string, options: {api: Page.Api}) => HTMLElement;
  questionForm: (event: Json) => Card;
}

// next-step.js, errors
interface Of {
  ruleOf: (code: any) => [Cause, string] | undefined;
  byStatus: (status: number) => [Cause, string];
  /** A card; what there is of an output stays beside it. `error`: an `ApiError`; the `error` of a response, a call or an event; or a text; `options`: a button to try again, inert until `Retry-After` is over */
  renderError: (error: any, options?: {onRetry?: () => void, title?: string}) => HTMLElement;
  retry: (seconds: number, onRetry: (() => void) | undefined) => HTMLElement;
  /** As long as it is on the page. `until`: in ms */
  countDown: (until: number, shown: HTMLElement, tell: (left: number) => void) => void;
}

// protocol.js, requests
interface Of {
  openApprovals: (response: Json) => Json[];
  openCalls: (response: Json) => Json[];
  /** `base`: the gateway's address with `/v1` */
  curl: (base: string, body: Json) => string;
  python: (base: string, body: Json) => string;
  javascript: (base: string, body: Json) => string;
  /** As the project's tests set the clients up. `base`: the gateway's address with `/v1` */
  recipes: (base: string, model: string) => Recipe[];
  /** `path`: such as `antwort.limits.max_turns` */
  getAt: (body: Json, path: string) => any;
  /** A copy with another value; without one the field is gone, and what was only there for it. */
  setAt: (body: Json, path: string, value: unknown) => Json;
  /** The input as a text and an image; null if it is more than that, and only JSON can say it. */
  readInput: (input: any) => {text: string, image: string | null} | null;
  writeInput: (text: string, image: string | null) => unknown;
  describeTool: (tool: any) => [string, string];
  is: (item: Json, type: string) => boolean;
  /** An MCP server, not the gateway itself. */
  isServer: (tool: any) => boolean;
  /** A request cannot have both. */
  isSameTool: (one: any, other: Json) => boolean;
  withTools: (body: Json, tools: any[]) => Json;
  /** As the page sends a request, and as it is copied. */
  asSent: (body: Json) => Json;
  items: (response: Json) => Json[];
  ownNames: (tools: any) => string[];
  definitionIn: (response: Json, label: string, name: string) => Json | undefined;
  approvalItem: (id: string, approve: boolean, reason?: string) => Json;
  outputItem: (call: Json, answer: {output?: string, error?: string}) => Json;
  obstacle: (response: Json, request: Json | null | undefined) => string | null;
  /** `request`: the one that the response is of, which has the credentials that no response shows. */
  continuation: (response: Json, answers: Json[], request?: Json | null) => Json;
  echoed: (response: Json) => Json;
}

// lib/api.js
interface Of {
  createApi: (hooks?: {onDenied?: (error: Error) => void}) => Page.Api;
  noAnswer: (cause: unknown, signal?: AbortSignal) => Error;
  send: (method: string, path: string, options: {query?: Page.Query, body?: unknown, signal?: AbortSignal, headers?: Record<string, string>, accept?: string}) => Promise<Response>;
  readEvents: (reply: Response, onEvent: (event: any) => void, signal: AbortSignal | undefined) => Promise<void>;
  readJson: (reply: Response) => Promise<any>;
  /** The HTML standard's `text/event-stream`. onData: called with the data of each event that has any; returns takes the stream piece by piece, cut anywhere */
  sseDecoder: (onData: (data: string) => void) => {push: (text: string) => void};
}

// lib/api.js, following a run
interface Of {
  followerOf: (id: string) => Follower | null;
  /** request: a POST with a body, or the path of a response that runs */
  startFollowing: (request: {api: Page.Api, path: string, body?: any, headers?: Record<string, string>}) => Follower;
  take: (response: any) => void;
  onEvent: (event: any, requestId: string | null) => void;
  log: (of: string) => Promise<void>;
  pause: (ms: number, signal: AbortSignal) => Promise<void>;
  /** id: of the response */
  remember: (id: string, event: any) => void;
  /** A stream, if it was watched from its first event to its last. */
  recall: (id: string) => any[] | null;
  /** sentAt: when the request was sent, null if another page sent it; returns `trace` grows */
  liveTrace: (sentAt: number | null) => {push: (event: any, now: number) => void, tick: (now: number) => void, trace: Trace};
  openTurn: (now: number) => Turn;
  write: (kind: Kind, now: number) => void;
  begin: (event: any, now: number) => void;
  beginCall: (event: any, now: number) => void;
  /** The arguments are complete, and the call is made. */
  dispatch: (event: any, now: number) => void;
  endCall: (event: any, now: number) => void;
  end: (now: number) => void;
  /** event: `antwort:input_required` */
  ask: (event: any, now: number) => void;
  openTurnAt: (at: number) => Turn;
}

// lib/dom.js
interface Of {
  /** Escapes mean the same within a JSON string. */
  reveal: (text: string, keepLines?: boolean) => string;
  /** Each number and text as it was written. A text that is not JSON stays as it is. */
  indented: (text: string) => string;
  shown: (value: unknown) => string;
  parseJson: (text: string) => {value: any, error: string | null};
  el: <K extends keyof HTMLElementTagNameMap>(tag: K, props?: Props | null, ...children: (Child | Child[])[]) => HTMLElementTagNameMap[K];
  replace: (node: Element, ...children: (Child | Child[])[]) => void;
  append: (node: Element, children: (Child | Child[])[]) => void;
  apply: (element: HTMLElement | SVGElement, props: Props | null | undefined) => void;
  copyButton: (text: () => string) => HTMLButtonElement;
  facts: (rows: [string, any][]) => HTMLElement;
  fill: <T>(place: HTMLElement, load: () => Promise<T>, draw: (loaded: T) => any, failed: (error: any) => any) => Promise<void>;
  openDialog: (title: string, ...content: Child[]) => HTMLDialogElement;
  attribute: (element: Element, name: string, value: unknown) => void;
  harmless: (name: string, value: string) => boolean;
  announce: (text: string) => void;
  icon: (name: string) => SVGSVGElement;
  stateMark: (state: {icon: string, word: string, tone: string}) => HTMLSpanElement;
}

// lib/dom.js, parts of the screens
interface Of {
  field: (label: string, control: HTMLElement, hint?: string) => HTMLElement;
  /** An entry of a table, by a name that somebody else has chosen. */
  own: <T>(table: Record<string, T>, key: string, otherwise: T) => T;
  /** `use`: gets the key */
  keyField: (use: (key: string) => void) => HTMLElement[];
  sync: (tree: HTMLElement, wanted: HTMLElement[]) => void;
  button: (text: string, click: () => void, look?: string) => HTMLButtonElement;
  /** `label`: for screen readers */
  pre: (label: string, text: string) => HTMLElement;
  codeBlock: (label: string, text: string) => HTMLElement;
  /** Tabs, by the pattern of ARIA: arrows move, and the panel follows. */
  tabs: (label: string, tabs: {name: string, panel: HTMLElement, onShow?: () => void}[]) => { list: HTMLElement; panels: HTMLElement; show: (name: string) => void };
  state: (look: Look, word: string) => HTMLElement;
}

// lib/dom.js, shortcuts
interface Of {
  /** returns ends them */
  addShortcuts: (shortcuts: Page.Shortcut[]) => () => void;
  keyOf: (event: KeyboardEvent) => string;
  isWriting: (target: EventTarget | null) => boolean;
}

// lib/dom.js, words of values
interface Of {
  /** `1 call`, `2 calls`. */
  counted: (count: number, noun: string, plural?: string) => string;
  /** `840 ms`, `3.2 s`, `2 min 5 s`, `3 h`. */
  duration: (ms: number | null | undefined) => string;
  pair: (seconds: number, big: number, bigName: string, small: number, smallName: string) => string;
  trim: (decimal: string) => string;
  number: (value: number) => string;
  /** `950`, `12.3k`, `1.2M`. */
  tokens: (count: number | null | undefined) => string;
  cost: (usd: number | null | undefined) => string;
  rate: (count: number | null | undefined, ms: number | null | undefined) => string | null;
  /** `14:03:22`, of another day with its date. ms: since the epoch */
  moment: (ms: number | null | undefined, now?: number) => string;
  exact: (ms: number | null | undefined) => string;
  /** ms: since the epoch */
  ago: (ms: number, now?: number) => string;
  short: (id: string) => string;
}

// run/account.js, in words
interface Of {
  statusWords: (status: string) => State;
  /** The state of a response, also of one that waits. */
  stateOf: (response: any) => State;
  continuedWords: (response: any) => State;
  /** As far as it is the last of its chain. */
  waitsFor: (response: any) => 'approval' | 'client' | null;
  outcomeWords: (call: Call, over: boolean) => State;
  limitWords: (name: string) => string;
  waitKind: (kind: string) => string;
  /** `3 h for approval`. */
  waitWords: (kind: string, ms: number | null) => string;
  /** How long it was from the end of one response of a chain to the begin of the next, as exactly as it is known. */
  waitBetween: (earlier: Run, later: Run) => string | null;
  attemptWords: (of: {attempts: number}) => string | null;
  /** `2 turns, 4 calls, 1,504 tokens in (800 cached), 230 out, $0.0021`. */
  totals: (response: any, trace: Trace | null) => string;
  ending: (response: any, trace: Trace | null, now?: number) => Finding;
  /** `: 3`, where the response tells the limit that held. */
  limitOf: (response: any, name: string) => string;
  /** Whether the times tell where the time went: not while they are those of this page's clock, nor of a run that it saw a part of. */
  hasShares: (trace: Trace) => boolean;
  slowness: (trace: Trace, now?: number) => Finding[];
  stepWords: (trace: Trace, step: Stretch) => string;
  percent: (part: number, whole: number) => string;
  /** Failures first. */
  troubles: (trace: Trace) => Finding[];
}

// run/account.js, times and turns
interface Of {
  isOutput: (item: any) => boolean;
  /**
   * The trace names the calls of each turn; what the model wrote before them is of their turn, what comes behind them of the next. A
   * summary of the conversation has an inference of its own.
   */
  belonging: (output: any[], trace: Trace) => Belonging;
  /** Finds the item of each call: by its id, else the next one of its name. */
  claim: (output: any[], trace: Trace) => { items: Map<any, any>; turnOf: Map<any, number>; };
  /** With its length: how the bar of a turn is divided where nobody watched. */
  written: (items: any[]) => {kind: Kind, length: number}[];
  writtenIn: (item: any) => {kind: Kind, length: number} | null;
  texts: (content: any[] | string | null | undefined) => string[];
  /** Turns are counted as inferences: approved calls that come before the first are of none, and a summary is no turn. */
  turnNumber: (trace: Trace, turn: Turn | null | undefined) => number;
  turnTitle: (trace: Trace, turn: Turn | null | undefined) => string;
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

// run/picture.js, its drawing
interface Of {
  createPicture: (options: {label: string, onSelect: (lane: Lane) => void, onLayout?: (layout: Layout) => void}) => Picture;
  /** place: its level, its position there, and how many there are */
  treeRow: (lane: Lane, place: number[], plot: number, folded?: Lane[]) => HTMLElement;
  select: (id: string | null, focus?: boolean) => void;
  toggle: (id: string, collapse: boolean) => void;
  treeKeys: (event: KeyboardEvent, tree: HTMLElement, select: (id: string) => void, toggle: (id: string, collapse: boolean) => void) => void;
  /** folded: the calls of a collapsed turn */
  fillRow: (row: HTMLElement, lane: Lane, plot: number, folded: Lane[]) => void;
  /** Of the column of times. */
  timeOf: (lane: Lane) => string;
  place: (look: string, x: number, w?: number, text?: string) => HTMLSpanElement;
  plotOf: (lane: Lane, width: number, folded: Lane[]) => HTMLDivElement;
  drawAxis: (axis: HTMLElement, drawn: Layout, trace: Trace) => void;
}

// run/picture.js, where everything lies
interface Of {
  /** width: of the plot, in pixels */
  layout: (trace: Trace, response: any, width: number, options?: LayoutOptions) => Layout;
  groupOf: (lane: Lane, calls?: Lane[]) => Group;
  /** Each wait behind the turn in which it began. */
  inOrder: (turns: Group[], waits: Group[], trace: Trace) => Group[];
  /** Approved calls, which are made before the model is asked, are groups of their own. */
  turnGroups: (trace: Trace, turn: Turn, index: number, items: any[], axis: Axis, over: boolean, status: string) => Group[];
  laneOf: (axis: Axis, from: number, to: number, more: Partial<Lane> & Pick<Lane, 'id' | 'kind' | 'state'>) => Lane;
  modelLane: (trace: Trace, turn: Turn, items: any[], axis: Axis) => Lane;
  modelCaption: (turn: Turn, seen: boolean) => string;
  /** By kind: as it was watched, else in proportion to the text. */
  writing: (turn: Turn, items: any[], from: number, to: number, axis: Axis) => Bar[];
  callLane: (call: Call, id: string, axis: Axis, over: boolean, place: {turn: number, call: number}) => Lane;
  /** Of each attempt. */
  beginsOf: (turn: Turn) => number[];
  retries: (of: {retried_at?: number[]}, axis: Axis) => Mark[];
  badgesOf: (of: Turn | Call) => Badge[];
  waitLane: (wait: Wait, index: number, axis: Axis, over: boolean) => Lane;
  endLane: (trace: Trace, response: any, axis: Axis, continued: boolean) => Lane;
  bar: (axis: Axis, from: number, to: number, kind: string) => Bar[];
  thin: (axis: Axis, at: number, kind: string) => Bar[];
  /** So that the words of a bar never lie on a bar or outside of the picture. width: of the plot; returns `before`: x is the right end of the words */
  captionPlace: (lane: Lane, width: number) => {side: 'after' | 'before' | 'below', x: number};
  /** cuts: disjoint, in order */
  makeAxis: (from: number, to: number, width: number, cuts?: Interval[]) => Axis;
  locate: (pieces: Piece[], moment: number) => number;
  ticksOf: (pieces: Piece[], from: number, msPerPixel: number, width: number) => Tick[];
  /** The last label stands before its tick, where there is no room behind; it is left out if it would meet the one before. */
  lastInside: (ticks: Tick[], width: number) => Tick[];
  /** As exact as its step: behind a shortened gap of hours seconds still count. */
  tickLabel: (offset: number, step: number) => string;
  /** As far as they are long against the rest: what the button shortens. */
  idleTimes: (busy: Interval[], from: number, to: number) => Interval[];
}

// run/view.js
interface Of {
  /** Facts without a value are left out. */
  known: (list: [string, string | Node | null | undefined | false][]) => HTMLElement;
  selectLane: (lane: Lane) => void;
  showRow: (row: string) => void;
  createTools: (does: {onTable: (table: boolean) => void, onCompress: () => void, onCollapse: (collapse: boolean) => void, onFollow: () => void}) => { root: HTMLDivElement; table(asTable: boolean): void; follow(running: boolean, following: boolean): void; layout({ shortenable, groups, gaps }: Layout, compressed: boolean, watched: Trace | null): void; };
  /** It says the same as the picture. onShow: shows a row of the picture */
  renderTable: (root: HTMLElement, run: TracedRun, onShow: (row: string) => void) => void;
  /** onShow: shows a row of the picture */
  renderSummary: (root: HTMLElement, run: Run, onShow: (row: string) => void) => void;
  /** shared: what holds only of times that are not watched */
  legend: (shared: HTMLElement) => HTMLElement;
  timeBar: (trace: Trace, now?: number) => HTMLDivElement;
}

// run/view.js, items
interface Of {
  /** label: for those who hear the page */
  textBlock: (text: string, label: string) => HTMLElement;
  /** all: the items beside it, which have the names of calls */
  renderItem: (item: any, all?: any[]) => HTMLElement;
  callOf: (items: any[], id: string | undefined) => any;
  /** A call with its first words; the rest when it is opened. */
  call: (item: any) => HTMLElement;
  /** An item of the input; `asked`: the items that it may answer. */
  renderGiven: (item: any, asked: any[]) => HTMLElement;
  block: (kind: string, title: string, item: any, ...content: ((Node | null))[]) => HTMLElement;
  createOutput: (label: string) => {root: HTMLElement, show: (response: any) => void};
  showCalls: (all: boolean) => void;
  renderDetails: (root: HTMLElement, run: TracedRun, lane: Lane, onClose: () => void) => void;
  /** `+1.2 s 04:00:00.123 UTC`. */
  when: (at: number | null, trace: Trace) => false | HTMLSpanElement;
  attempts: (of: Turn | Call, trace: Trace) => string;
  /** The form of its tool, with its arguments. */
  alone: (item: any) => string;
  ofCall: (call: Call, owned: Belonging, trace: Trace) => (HTMLElement | null)[];
  ofTurn: (turn: Turn, items: Json[], trace: Trace) => (HTMLElement | null)[];
}

// screens/lists.js, connect
interface Of {
  readyView: (health: Json, again: () => void) => HTMLElement[];
  keyForm: (api: Page.Api, useKey: (key: string) => void) => any[];
  operation: (method: string, path: string, of: Json, shared: Json[]) => HTMLElement;
}

// screens/lists.js, runs
interface Of {
  queryText: (of: Record<string, string>) => string;
  createFilters: (onChange: (of: {status: string, model: string}) => void, onReload: () => void) => { root: HTMLDivElement; show(query: URLSearchParams): void; };
  /** Draws a page of the list, and tells whether anything is other than before. */
  createList: (root: HTMLElement) => (runs: any[], query: URLSearchParams) => boolean;
  rowOf: (run: any, continued: boolean) => HTMLTableRowElement;
  chainOf: (run: any) => HTMLSpanElement | null;
  renderPager: (root: HTMLElement, page: any, query: URLSearchParams) => void;
}

// screens/lists.js, tools
interface Of {
  /** A server can be named where its health may not be seen. */
  withoutHealth: (error: any, open: (label: string) => void, again: () => void) => HTMLElement[];
  /** `sessions`: of one server, by tenant and credentials */
  serverCard: (sessions: Json[], head: (worst: Json, look: HTMLElement) => HTMLElement) => HTMLElement;
  /** A row of a list to choose from. */
  entry: (value: string, choose: (value: string) => void, ...inside: any[]) => HTMLElement;
  toolPanel: (tool: Json, server: string, context: {api: Page.Api, navigate: (hash: string) => void, refresh: () => void, value?: Json}) => HTMLElement;
}

// screens/run.js
interface Of {
  /** returns `show`: tells that more is known of the run */
  renderChain: (root: HTMLElement, options: {api: Page.Api, run: Run}) => {show: (run: Run) => void, stop: () => void};
  addEarlier: (earlier: string, later: Run) => void;
  pathOf: (id: string) => string;
  linkTo: (id: string) => string;
  drawEarlier: (body: HTMLElement, loaded: Run) => () => void;
  openRun: (root: HTMLElement, context: Page.Context, route: Page.Route) => { stop: () => void; moveTo: (seq: number | null) => undefined; };
  /** own: begun by this screen, and of no use without it */
  follow: (follower: Follower, own: boolean) => void;
  show: (response: any, trace: Trace | null) => void;
  findAnswer: (response: any) => Promise<void>;
  ready: (response: any, trace: Trace | null) => void;
  moveTo: (seq: number | null) => Promise<void>;
  openReplay: (made: { root: HTMLElement; moveTo: (seq: number) => Promise<void>; step: (by: number) => Promise<void>; stop: () => void }) => void;
  step: (by: number) => void;
  renderHead: (root: HTMLElement, response: any, does: {api: Page.Api, path: string, list: string, onReplay: (() => void) | null}) => void;
  createReplay: (options: {api: Page.Api, response: any, kept: boolean, onMove: (seq: number) => void}) => {root: HTMLElement, moveTo: (seq: number) => Promise<void>, step: (by: number) => Promise<void>, stop: () => void};
  readStream: (api: Page.Api, response: any, kept: boolean, signal: AbortSignal) => Promise<EventStream>;
  drawStream: (root: HTMLElement, stream: EventStream, onMove: (seq: number) => void) => { step(by: number): void; moveTo(seq: number): void; };
  go: (index: number, told: boolean) => void;
}

// screens/run.js, a run in a panel
interface Of {
  /** What the run asks for is sent from here, too, and the run that follows is shown in its place. options: told of the begin and the end of each run; returns `stop` cancels the run; `leave` only takes it off the page */
  watch: (root: HTMLElement, options: {api: Page.Api, path?: string, body: any, headers?: Record<string, string>, onBegin?: () => void, onEnd?: (progress: Progress) => void}) => {stop: () => Promise<void>, leave: () => void};
  continueWith: (request: any) => Promise<void>;
  showRun: (request: any) => () => void;
  showState: (root: HTMLElement, progress: Progress) => void;
  /** options: `request`: the one that the run is of, where the page knows it */
  createRunPanel: (options: {api: Page.Api, request?: any, onContinue: (body: any) => Promise<void>}) => { root: HTMLDivElement; show(run: Run): void; progress(progress: Progress): void; stop(): void; };
  chain: (run: Run) => void;
  /** Once the run is stored. */
  loadInput: (response: any) => void;
  /** Decisions and outputs have the names of their calls, which the response before has. */
  renderInputOf: (root: HTMLElement, response: any, api: Page.Api) => Promise<void>;
  showError: (error: unknown) => void;
  finish: (response: any) => void;
}

// screens/try.js
interface Of {
  inputField: (draft: Draft) => HTMLElement;
  toolsEditor: (draft: Draft) => {root: HTMLElement, offer: (offers: Json[]) => void};
  jsonEditor: (draft: Draft) => {root: HTMLElement, focus: () => void};
  /** Written when they are looked at. */
  programs: (draft: Draft) => {name: string, panel: HTMLElement, onShow: () => void}[];
  requestForm: (draft: Draft, api: Page.Api, signal: AbortSignal) => HTMLElement;
  section: (draft: Draft, name: string, properties: Json) => Section;
  addForm: (what: string, properties: Json, required: string, add: (value: Json) => void) => HTMLElement;
  /** What the gateway has to offer, as far as the key may see it. */
  offer: (draft: Draft, api: Page.Api, signal: AbortSignal, who: Section, offerTools: (offers: Json[]) => void, note: HTMLElement) => Promise<void>;
  /** Runs one request at a time. */
  runner: (api: Page.Api, place: HTMLElement) => { start: () => void; stop: HTMLElement; leave: () => void };
  reply: (request: Json, id: string) => void;
}

// screens/lists.js
interface Of {
  resultView: (answer: Json) => (HTMLElement | null)[];
  reportView: (report: any) => HTMLElement[];
  clients: (api: Page.Api) => HTMLElement[];
  /** Fetched when it is asked for. */
  reference: (api: Page.Api) => HTMLElement;
  operations: (document: Json) => HTMLElement[];
}
