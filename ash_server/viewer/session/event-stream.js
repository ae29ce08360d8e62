import { likePage, readProblem } from "../lib/api.js";
import { parseJson } from "../lib/json-view.js";
import { parseFrames, readChunks } from "./sse-parser.js";

/** The server sends a frame at least every 15 s. */
const TIMEOUT_MS = 40_000;
const MIN_RETRY_MS = 1000;
const MAX_RETRY_MS = 30_000;

/** Statuses after which retrying is useless. */
const FINAL = { 401: "refused", 403: "refused", 404: "gone", 409: "cursor_ahead" };

/**
 * Follow a session from a cursor, across lost connections and restarts of the server, without duplicate events.
 *
 * `emit` is called with: ("event", event), ("connected"), ("caught_up"), ("lost", time of the next attempt in
 * milliseconds since 1970), and finally ("gone" | "cursor_ahead" | "refused", problem).
 *
 * Browsers log each failed attempt to the console, so the retry delay grows.
 */
export class EventStream {
  after = 0;
  failures = 0;
  minRetryMs = MIN_RETRY_MS;
  /** @type {AbortController | undefined} */
  controller;
  /** Ends the current retry delay. @type {(() => void) | undefined} */
  wake;

  /**
   * @param {string} address
   * @param {(name: string, value?: any) => void} emit
   */
  constructor(address, emit) {
    this.address = address;
    this.emit = emit;
  }

  /** Stream the events after this sequence. */
  start(after) {
    this.stop();
    this.after = after;
    this.failures = 0;
    this.controller = new AbortController();
    this.run(this.controller.signal);
  }

  stop() {
    this.controller?.abort();
    this.controller = undefined;
  }

  get isRunning() {
    return this.controller !== undefined;
  }

  /** Retry now instead of after the delay. */
  retry() {
    this.wake?.();
  }

  /** @param {AbortSignal} signal */
  async run(signal) {
    while (!signal.aborted) {
      const problem = await this.attempt(signal).catch((error) => error);
      if (signal.aborted) return;
      const final = FINAL[problem?.status];
      if (final) {
        this.stop();
        this.emit(final, problem);
        return;
      }
      await this.waitForRetry(signal);
    }
  }

  /** Read until the connection ends or times out. */
  async attempt(signal) {
    const timeout = new AbortController();
    const startTimer = () => setTimeout(() => timeout.abort(), TIMEOUT_MS);
    let timer = startTimer();
    try {
      const response = await this.connect(AbortSignal.any([signal, timeout.signal]));
      this.emit("connected");
      for await (const frame of parseFrames(readChunks(response.body))) {
        clearTimeout(timer);
        timer = startTimer();
        if (signal.aborted) return;
        this.handleFrame(frame);
      }
    } finally {
      clearTimeout(timer);
      timeout.abort();
    }
  }

  async connect(signal) {
    const headers = { Accept: "text/event-stream", "Last-Event-ID": String(this.after) };
    const response = await fetch(likePage(this.address), { headers, signal, cache: "no-store" });
    if (!response.ok) throw await readProblem(response);
    return response;
  }

  /** @param {{event?: string, data?: string, id?: string, retry?: string}} frame */
  handleFrame({ event, data, id, retry }) {
    if (retry !== undefined) this.minRetryMs = Number(retry) || MIN_RETRY_MS;
    if (id !== undefined && data !== undefined) {
      this.failures = 0;
      this.after = Number(id);
      this.emit("event", parseJson(data));
    } else if (event === "caught_up") {
      this.failures = 0;
      this.emit("caught_up");
    }
  }

  /** @param {AbortSignal} signal */
  async waitForRetry(signal) {
    const delay = Math.min(MAX_RETRY_MS, this.minRetryMs * 2 ** this.failures++);
    this.emit("lost", Date.now() + delay);
    await /** @type {Promise<void>} */ (
      new Promise((done) => {
        this.wake = done;
        setTimeout(done, delay);
        signal.addEventListener("abort", () => done(), { once: true });
      })
    );
  }
}
