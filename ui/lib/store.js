// One store: the state that several views share. It tells its subscribers which keys have changed.

/** @typedef {Page.Store} Store */

/** @param {Record<string, unknown>} initial @returns {Store} */
export function createStore(initial) {
  const values = new Map(Object.entries(initial));
  /** @type {Set<{keys: string[], told: (changed: string) => void}>} */
  const subscribers = new Set();
  return {
    get: (key) => values.get(key),
    set(key, value) {
      if (values.get(key) === value) return;
      values.set(key, value);
      for (const subscriber of [...subscribers]) {
        if (subscriber.keys.includes(key)) subscriber.told(key);
      }
    },
    subscribe(keys, told) {
      const subscriber = { keys, told };
      subscribers.add(subscriber);
      return () => void subscribers.delete(subscriber);
    },
  };
}
