/** One HTTP request with `fetch`; failures are ApiError. */

import { ApiError, answerError, notAsh } from "./errors.js";
import { OwnWrites } from "./own-writes.js";
import type { ApiRequest } from "./request.js";

const TIMEOUT_SECONDS = 30;
/** Seconds without even a heartbeat after which a stream is considered lost. */
export const SILENCE_SECONDS = 45;

/** Codes of node for requests that were not sent; browsers have none. */
const NOT_SENT = new Set([
  "EAI_AGAIN",
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "UND_ERR_CONNECT_TIMEOUT",
]);

export interface OpenOptions {
  accept?: string;
  /** Seconds without data after which the connection is considered lost. */
  silence?: number;
  signal?: AbortSignal | undefined;
}

export class Connection {
  readonly written = new OwnWrites();
  readonly #url: string;
  readonly #headers: Record<string, string>;
  readonly #fetch: typeof fetch;

  constructor(url: string, key: string | undefined, fetchWith: typeof fetch) {
    this.#url = url;
    this.#headers = key === undefined ? {} : { Authorization: `Bearer ${key}` };
    this.#fetch = fetchWith;
  }

  /** Send a request once, and return the text of the answer. */
  async read(request: ApiRequest): Promise<string> {
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    let body = "";
    for await (const chunk of this.open(request)) body += decoder.decode(chunk, { stream: true });
    return body + decoder.decode();
  }

  /** Send a request once, and yield the chunks of the answer. Throws the reason of the signal if it is aborted. */
  async *open(request: ApiRequest, options: OpenOptions = {}): AsyncGenerator<Uint8Array, void> {
    const { accept = "application/json", silence = TIMEOUT_SECONDS, signal } = options;
    const connection = new AbortController();
    const abort = () => connection.abort();
    const sent = this.#toFetch(request, accept, connection.signal);
    signal?.throwIfAborted();
    signal?.addEventListener("abort", abort);
    let timer = setTimeout(abort, 1000 * TIMEOUT_SECONDS);
    try {
      const response = await this.#fetch(sent);
      if (!response.ok) throw await toError(response);
      if (!response.body) return;
      const reader = response.body.getReader();
      while (true) {
        clearTimeout(timer);
        timer = setTimeout(abort, 1000 * silence);
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        yield value;
      }
    } catch (error) {
      signal?.throwIfAborted();
      throw error instanceof ApiError ? error : this.noAnswer(error, connection.signal.aborted);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
      abort();
    }
  }

  /** Return the error of a request without a complete answer. */
  noAnswer(cause?: unknown, isTimeout = false): ApiError {
    const { code, message } = (cause instanceof Error && cause.cause ? cause.cause : (cause ?? {})) as NodeError;
    const reason = isTimeout ? "no data within the time limit" : message || code || "the connection was closed";
    const wasSent = !NOT_SENT.has(code ?? "");
    return new ApiError("no_answer", reason, { message: `${this.#url} does not answer: ${reason}`, wasSent, cause });
  }

  #toFetch(request: ApiRequest, accept: string, signal: AbortSignal): Request {
    const { method, path, query = {}, json, text } = request;
    const headers: Record<string, string> = {
      ...this.#headers,
      ...this.written.headers(request),
      Accept: accept,
    };
    const body = json === undefined ? text : JSON.stringify(json);
    if (body !== undefined) headers["Content-Type"] = json === undefined ? "text/plain" : "application/json";
    const parameters = Object.entries(query).flatMap(([name, value]) => [value].flat().map((each) => [name, each]));
    const given = parameters.filter(([, value]) => value !== undefined && value !== null);
    const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
    const url = `${this.#url}${path}${parameters.length > 0 ? `?${search}` : ""}`;
    return new Request(url, { method, headers, signal, body: body ?? null, redirect: "manual", cache: "no-store" });
  }
}

interface NodeError {
  code?: string;
  message?: string;
}

async function toError(response: Response): Promise<ApiError> {
  const isRedirect = response.status < 400;
  return isRedirect
    ? notAsh({ status: response.status })
    : answerError(response.status, response.headers, await response.text());
}
