import { problemOf } from "../lib/api.js";
import { parseJson } from "../lib/json-view.js";
import { chunksOf, frames } from "./sse-parser.js";

/** The server says something each 15 s. */
const SILENCE = 40_000;
const SOONEST = 1000;
const LATEST = 30_000;

/** What no further attempt mends. */
const ENDS = { 401: "refused", 403: "refused", 404: "gone", 409: "ahead" };

/**
 * Follows a session from a cursor, through lost connections and restarts of the server: each event comes once.
 *
 * `tell` is called with what happens: ("event", event), ("connected"), ("caught_up"), ("lost", when it tries again, in
 * milliseconds since 1970), and as the last ("gone" | "ahead" | "refused", problem).
 *
 * A browser writes each attempt that fails into its console, whatever made it. So there are few: later and later ones.
 */
export class Stream {
  constructor(address, tell) {
    this.address = address;
    this.tell = tell;
    this.soonest = SOONEST;
  }

  /** Goes on behind this sequence. */
  start(after) {
    this.stop();
    this.after = after;
    this.failures = 0;
    this.stopping = new AbortController();
    this.run(this.stopping.signal);
  }

  stop() {
    this.stopping?.abort();
    this.stopping = undefined;
  }

  get isRunning() {
    return this.stopping !== undefined;
  }

  /** Tries at once, where it waits. */
  retry() {
    this.wake?.();
  }

  async run(signal) {
    while (!signal.aborted) {
      const problem = await this.attempt(signal).catch((error) => error);
      if (signal.aborted) return;
      const end = ENDS[problem?.status];
      if (end) {
        this.stop();
        this.tell(end, problem);
        return;
      }
      await this.pause(signal);
    }
  }

  /** Reads until the connection ends, or nothing is heard any more. */
  async attempt(signal) {
    const silence = new AbortController();
    const listen = () => setTimeout(() => silence.abort(), SILENCE);
    let timer = listen();
    try {
      const response = await this.connect(AbortSignal.any([signal, silence.signal]));
      this.tell("connected");
      for await (const frame of frames(chunksOf(response.body))) {
        clearTimeout(timer);
        timer = listen();
        if (signal.aborted) return;
        this.take(frame);
      }
    } finally {
      clearTimeout(timer);
      silence.abort();
    }
  }

  async connect(signal) {
    const headers = { Accept: "text/event-stream", "Last-Event-ID": String(this.after) };
    const response = await fetch(this.address, { headers, signal, cache: "no-store" });
    if (!response.ok) throw await problemOf(response);
    return response;
  }

  take({ event, data, id, retry }) {
    if (retry !== undefined) this.soonest = Number(retry) || SOONEST;
    if (id !== undefined && data !== undefined) {
      this.failures = 0;
      this.after = Number(id);
      this.tell("event", parseJson(data));
    } else if (event === "caught_up") {
      this.failures = 0;
      this.tell("caught_up");
    }
  }

  async pause(signal) {
    const wait = Math.min(LATEST, this.soonest * 2 ** this.failures++);
    this.tell("lost", Date.now() + wait);
    await new Promise((done) => {
      this.wake = done;
      setTimeout(done, wait);
      signal.addEventListener("abort", done, { once: true });
    });
  }
}
