// The types of the page's forms and requests, for `tsc --checkJs`. They are not served.

/** What a form says of a part of a schema. */
interface Field {
  kind: 'text' | 'number' | 'integer' | 'boolean' | 'choice' | 'choices' | 'list' | 'group' | 'json';
  key: string;
  label: string;
  about: string;
  required: boolean;
  schema: Json;
  /** Of a choice. */
  options?: { value: unknown; label: string }[];
  /** Of a group. */
  fields?: Field[];
  /** Of a list. */
  item?: Field;
}

/** What was typed: text; a list or a group of such. */
type Raw = string | Raw[] | Map<string, Raw>;

interface Fault {
  path: string;
  message: string;
}

interface Control {
  root: HTMLElement;
  read: () => Raw;
  mark: (faults: Map<string, string>) => void;
}

/** `text` is the value as JSON, as it was typed. */
interface Reading {
  value: any;
  text: string;
  faults: Fault[];
}

/** The request that is being written. */
interface Draft {
  body: Json;
  /** What is wrong with the JSON that is being typed; `body` is the last that was right. */
  fault: string | null;
  /** The model that was filled in by the page. */
  offered?: string;
  files: { add: (name: string, url: string) => string; get: (short: string) => string | undefined; expand: <T>(value: T) => T };
  /** Tells all views but the one that has made the change, and may have the cursor. */
  set: (body: Json, by?: View) => void;
  watch: (view: View) => void;
  forget: () => void;
}

type View = (body: Json) => void;

/** A card of what a response waits for; `read` gives the item to send, or none, and what is missing is marked. */
interface Card {
  root: HTMLElement;
  read: () => Json | null;
}

interface Recipe {
  name: string;
  note?: string;
  text: string;
}

type Look = 'ok' | 'bad' | 'warn' | 'busy' | 'off';
type Cause = 'request' | 'key' | 'configuration' | 'gateway' | 'model' | 'tool' | 'limit' | 'connection' | 'unknown';

/** Fields of a request by their path. */
interface Section {
  root: HTMLElement;
  /** A choice of these names, and of what the request has. */
  choose: (path: string, names: { name: string; words?: string }[]) => void;
}

// --- the functions of the modules -------------------------------------------------------------------------

interface Forms {
  asObject: (value: any) => Json;
  join: (path: string, key: string | number) => string;
  fieldsOf: (schema: unknown) => Field;
  fieldOf: (key: string, declared: unknown, required: boolean, budget: {root: Json, left: number}, depth: number) => Field;
  shape: (schema: Json, budget: {root: Json, left: number}, depth: number) => Partial<Field>;
  plain: (schema: Json, root: Json) => { schema: Json; nullable: boolean };
  /** `reference`: such as `#/$defs/Size` */
  lookUp: (reference: string, root: Json) => Json;
  boundFault: (schema: Json, value: any) => string | null;
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

interface Steps {
  /** `onContinue`: sends the request that goes on; what it throws is shown; `options`: the request that the response is of, if it is known */
  renderNextStep: (response: Json, onContinue: (body: Json) => void | Promise<unknown>, options: {api: Page.Api, request?: Json | null}) => HTMLElement | null;
  inert: (root: HTMLElement, onReady: () => void) => () => boolean;
  card: (label: string, what: string, name: unknown, ...inside: (Node | null)[]) => HTMLElement;
  /** `options`: value and words */
  choices: (legend: string, options: [string, string][], choose: (value: string) => void) => HTMLElement;
  labelled: (label: string, input: HTMLInputElement | HTMLTextAreaElement, ...more: Node[]) => HTMLElement;
  /** `request`: the `mcp_approval_request`; `response`: that it is an item of; `options`: `known`: whether the request is */
  approvalCard: (request: Json, response: Json, options: {api: Page.Api, update: () => void, known: boolean}) => Card;
  definitionView: (response: Json, label: string, name: string, api: Page.Api) => HTMLElement;
  /** `annotations`: of MCP or of the gateway */
  effects: (annotations: any) => [string, string];
  callCard: (call: Json) => Card;
  /** `event`: `antwort:input_required` */
  renderInput: (event: Json, responseId: string, options: {api: Page.Api}) => HTMLElement;
  questionForm: (event: Json) => Card;
}

interface Requests {
  /** `base`: the gateway's address with `/v1` */
  curl: (base: string, body: Json) => string;
  python: (base: string, body: Json) => string;
  javascript: (base: string, body: Json) => string;
  /** `base`: the gateway's address with `/v1` */
  recipes: (base: string, model: string) => Recipe[];
  /** `path`: such as `antwort.limits.max_turns` */
  getAt: (body: Json, path: string) => any;
  setAt: (body: Json, path: string, value: unknown) => Json;
  readInput: (input: any) => {text: string, image: string | null} | null;
  writeInput: (text: string, image: string | null) => unknown;
  describeTool: (tool: any) => [string, string];
  is: (item: Json, type: string) => boolean;
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


interface Errors {
  ruleOf: (code: any) => [Cause, string] | undefined;
  byStatus: (status: number) => [Cause, string];
  /** `error`: an `ApiError`; the `error` of a response, a call or an event; or a text; `options`: a button to try again, inert until `Retry-After` is over */
  renderError: (error: any, options?: {onRetry?: () => void, title?: string}) => HTMLElement;
  retry: (seconds: number, onRetry: (() => void) | undefined) => HTMLElement;
  /** `until`: in ms */
  countDown: (until: number, shown: HTMLElement, tell: (left: number) => void) => void;
}

interface Parts {
  field: (label: string, control: HTMLElement, hint?: string) => HTMLElement;
  button: (text: string, click: () => void, look?: string) => HTMLButtonElement;
  /** `label`: for screen readers */
  pre: (label: string, text: string) => HTMLElement;
  codeBlock: (label: string, text: string) => HTMLElement;
  tabs: (label: string, tabs: {name: string, panel: HTMLElement, onShow?: () => void}[]) => { list: HTMLElement; panels: HTMLElement; show: (name: string) => void };
  state: (look: Look, word: string) => HTMLElement;
}

interface ToolsScreen {
  withoutHealth: (error: any, open: (label: string) => void, again: () => void) => HTMLElement[];
  /** `sessions`: of one server, by tenant and credentials */
  serverCard: (sessions: Json[], head: (worst: Json, look: HTMLElement) => HTMLElement) => HTMLElement;
  toolPanel: (tool: Json, server: string, context: {api: Page.Api, navigate: (hash: string) => void, refresh: () => void}) => HTMLElement;
}

interface ConnectScreen {
  readyView: (health: Json, again: () => void) => HTMLElement[];
  keyForm: (api: Page.Api, store: Page.Store) => any[];
  operation: (method: string, path: string, of: Json, shared: Json[]) => HTMLElement;
}

interface RequestForm {
  requestForm: (draft: Draft, api: Page.Api, signal: AbortSignal) => HTMLElement;
  section: (draft: Draft, name: string, properties: Json) => Section;
  addForm: (what: string, properties: Json, required: string, add: (value: Json) => void) => HTMLElement;
  offer: (draft: Draft, api: Page.Api, signal: AbortSignal, who: Section, offerTools: (offers: Json[]) => void, note: HTMLElement) => Promise<void>;
  runner: (api: Page.Api, place: HTMLElement) => { start: () => void; stop: HTMLElement; leave: () => void };
  reply: (request: Json, id: string) => void;
}
