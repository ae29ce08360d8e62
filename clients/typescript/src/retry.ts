/** Retries of failed requests. */

import { ApiError } from "./errors.js";

const MIN_SECONDS = 0.1;
const MAX_SECONDS = 2;
const MAX_RETRY_AFTER = 60;

/** Statuses of requests that the server has not begun to process. */
const NOT_PROCESSED = new Set([429, 503]);
/** The server lost its database during a write, which may have been stored. */
const WRITE_UNCONFIRMED = "write_unconfirmed";

export interface Retry {
  /** Seconds to repeat a request, by default 30; Infinity: until it succeeds; 0: never. */
  seconds?: number;
  /** Statuses of errors that may be temporary. A server that does not answer is always temporary. */
  statuses?: readonly number[];
  /** Called with each temporary error that is retried. */
  onFailure?: (error: ApiError) => void;
}

export const NEVER: Retry = { seconds: 0 };

/** The attempts of a request, or of a stream's connections. */
export class Attempts {
  readonly #retry: Required<Retry>;
  readonly #isRepeatable: boolean;
  #failingSince: number | undefined;
  #nextDelay = MIN_SECONDS;

  /** A request that is not repeatable is repeated only if the server cannot have processed it. */
  constructor(retry: Retry, isRepeatable = true) {
    const { seconds = 30, statuses = [429, 502, 503, 504], onFailure = () => {} } = retry;
    this.#retry = { seconds, statuses, onFailure };
    this.#isRepeatable = isRepeatable;
  }

  /** Forget earlier failures after an answer. */
  succeed(): void {
    this.#failingSince = undefined;
    this.#nextDelay = MIN_SECONDS;
  }

  /** Return the seconds to wait before the next attempt. Throws the error if there is none. */
  delayAfter(error: unknown): number {
    if (!(error instanceof ApiError) || !this.#isTemporary(error) || !this.#isSafe(error)) throw error;
    const delay = Math.max(this.#nextDelay, Math.min(error.retryAfter ?? 0, MAX_RETRY_AFTER));
    this.#nextDelay = Math.min(2 * this.#nextDelay, MAX_SECONDS);
    this.#failingSince ??= performance.now();
    const waited = (performance.now() - this.#failingSince) / 1000;
    if (waited + delay > this.#retry.seconds) throw error;
    this.#retry.onFailure(error);
    return delay;
  }

  #isTemporary(error: ApiError): boolean {
    return error.code === "no_answer" || this.#retry.statuses.includes(error.status ?? 0);
  }

  #isSafe(error: ApiError): boolean {
    const isNotProcessed = NOT_PROCESSED.has(error.status ?? 0) && error.code !== WRITE_UNCONFIRMED;
    return this.#isRepeatable || !error.wasSent || isNotProcessed;
  }
}

/** Wait, or less if the signal is aborted. */
export function wait(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, 1000 * seconds);
    signal?.addEventListener("abort", end);
    if (signal?.aborted) end();
  });
}
