// The request that is being written. It stays while the page is open, whichever screen is shown.

import { Attachments } from '../../request.js';

/** @typedef {Record<string, any>} Json */
/** What shows a part of the request, and is told of changes that others make. @typedef {{refresh: (body: Json) => void}} View */

export class Draft {
  /** @type {Json} */
  body = { input: '' };
  attachments = new Attachments();
  /** What is wrong with the JSON that is being typed; `body` is the last that was right. @type {string | null} */
  fault = null;
  /** @type {Set<View>} */
  #views = new Set();

  /** @param {View} view */
  watch(view) {
    this.#views.add(view);
    view.refresh(this.body);
  }

  /** @param {Json} body @param {View} [by] is not told: it has made the change, and may have the cursor */
  set(body, by) {
    this.body = body;
    this.fault = null;
    for (const view of this.#views) if (view !== by) view.refresh(body);
  }

  /** Views of a screen that is gone are forgotten. */
  forget() {
    this.#views.clear();
  }
}
