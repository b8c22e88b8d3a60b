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

/** The call that an approval is asked for, with the response that asks and, where it is known, its request. */
interface Called {
  response: Json;
  request?: Json | null;
  label: string;
  name: string;
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
