// What is said: scripts by model, tools by MCP server, and gates that hold an answer until a test lets it go on.
//
// A turn: {reasoning, text, calls: [{name, arguments}], usage: {input, cached, output, reasoning}, finish, cut,
//   fail: [{status, message, headers}]   answers before this one, to the same conversation,
//   gate: "sent" | "first_token", gate_after: DELTAS   held there until a test releases the gate of the model's name,
//   waits, first_token, pace: milliseconds before the status, the first token, and behind each delta}

import { MODELS, TOOLS } from './scenes.mjs';

export class Scripts {
  tools = new Map(Object.entries(TOOLS));
  gates = new Gates();
  #turns = new Map(Object.entries(MODELS));
  #tries = new Map();

  models() {
    return [...this.#turns.keys()];
  }

  set(model, turns) {
    this.#turns.set(model, turns);
  }

  /** The turn is the number of answers since the user spoke; the last one repeats. */
  turn({ model, messages }) {
    const turns = this.#turns.get(model) ?? [{ text: `No script for ${model}.` }];
    const spoke = messages.findLastIndex(({ role }) => role === 'user');
    const answers = messages.slice(spoke + 1).filter(({ role }) => role === 'assistant').length;
    return turns[Math.min(answers, turns.length - 1)];
  }

  /** The failure that comes before an answer, each in turn; then the answer, then the failures again. */
  failure(turn, { model, messages }) {
    if (!turn.fail) return undefined;
    const key = JSON.stringify([model, messages]);
    const tries = this.#tries.get(key) ?? 0;
    this.#tries.set(key, tries + 1);
    return turn.always ? turn.fail[0] : turn.fail[tries % (turn.fail.length + 1)];
  }
}

class Gates {
  /** @type {Map<string, {open: () => void}[]>} */
  #held = new Map();
  /** @type {Map<string, (() => void)[]>} */
  #asked = new Map();

  /** Waits for `release`, or for the end of the connection. */
  wait(name, response) {
    return new Promise((resolve) => {
      const asked = this.#asked.get(name)?.shift();
      if (asked) {
        asked();
        return resolve(undefined);
      }
      const held = { open: () => resolve(undefined) };
      const all = this.#held.get(name) ?? [];
      this.#held.set(name, [...all, held]);
      response.once('close', () => {
        this.#held.set(
          name,
          (this.#held.get(name) ?? []).filter((other) => other !== held),
        );
        resolve(undefined);
      });
    });
  }

  /** Lets the first that waits go on, now or when it comes. */
  release(name) {
    const held = this.#held.get(name)?.shift();
    if (held) return Promise.resolve(held.open());
    return new Promise((resolve) => this.#asked.set(name, [...(this.#asked.get(name) ?? []), () => resolve(undefined)]));
  }
}
