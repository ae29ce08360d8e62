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
    const read = (place) => getJson(withQuery(this.path, { ...this.parameters, ...place }), { signal });
    let page = await read(range);
    // With filters, a page may be empty although others follow.
    while ((page.sessions ?? page.results)?.length === 0 && page.nextAfter !== undefined) {
      page = await read({ ...range, after: page.nextAfter });
    }
    signal.throwIfAborted();
    this.after = page.nextAfter;
    return page;
  }
}
