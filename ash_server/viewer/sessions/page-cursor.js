import { getJson, withQuery } from "../lib/api.js";

/** Fetches the pages of a list of the API one after the other. */
export class PageCursor {
  controller = new AbortController();
  parameters = {};
  /** The cursor of the next page, if there is one. @type {string | undefined} */
  after;

  /**
   * @param {string} path
   * @param {number} size
   */
  constructor(path, size) {
    this.path = path;
    this.size = size;
  }

  /** Fetch the first page, and abort pending requests. */
  first(parameters, size = this.size) {
    this.abort();
    this.controller = new AbortController();
    this.parameters = parameters;
    return this.fetch({ limit: size });
  }

  next() {
    return this.fetch({ limit: this.size, after: this.after });
  }

  abort() {
    this.controller.abort();
    this.after = undefined;
  }

  async fetch(range) {
    const { signal } = this.controller;
    const page = await getJson(withQuery(this.path, { ...this.parameters, ...range }), { signal });
    signal.throwIfAborted();
    this.after = page.nextAfter;
    return page;
  }
}
