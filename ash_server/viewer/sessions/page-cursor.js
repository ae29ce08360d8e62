import { getJson, withQuery } from "../lib/api.js";

/** Pages of a list of the API, one after the other. What was asked ahead of `first` is forgotten. */
export class Pages {
  constructor(path, size) {
    this.path = path;
    this.size = size;
  }

  first(parameters, size = this.size) {
    this.abandon();
    this.waiting = new AbortController();
    this.parameters = parameters;
    return this.ask({ limit: size });
  }

  next() {
    return this.ask({ limit: this.size, after: this.after });
  }

  abandon() {
    this.waiting?.abort();
    this.after = undefined;
  }

  async ask(place) {
    const { signal } = this.waiting;
    const page = await getJson(withQuery(this.path, { ...this.parameters, ...place }), { signal });
    signal.throwIfAborted();
    this.after = page.nextAfter;
    return page;
  }
}
