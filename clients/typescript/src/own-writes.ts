import type { ApiRequest } from "./request.js";
import type { AppendedMessage } from "./types.js";

/** Longer than any lag of a replica that servers read from, which is at most 30 seconds. */
const CURRENT_MILLISECONDS = 60_000;
const MAX_SESSIONS = 1000;

/** The writes of a client, so that it reads no older state from a server with a lagging replica. */
export class OwnWrites {
  /** The last sequence that was appended to each session. */
  readonly #sequences = new Map<string, number>();
  #appendedUntil = 0;
  #changedUntil = 0;

  /** Return the header that names the writes that the answer must include. */
  headers(request: ApiRequest): Record<string, string> {
    if (request.method !== "GET") return {};
    const session = sessionOf(request);
    const now = performance.now();
    if (now < this.#changedUntil || (session === undefined && now < this.#appendedUntil)) {
      return { "Ash-Sequence": "current" };
    }
    const sequence = session === undefined ? undefined : this.#sequences.get(session);
    return sequence === undefined ? {} : { "Ash-Sequence": `messages=${sequence}` };
  }

  /** Record the writes of a request. */
  add(request: ApiRequest, answer: unknown): void {
    if (request.method === "GET" || request.path.endsWith("/messages/compare")) return;
    const until = performance.now() + CURRENT_MILLISECONDS;
    const session = sessionOf(request);
    if (session === undefined || !isAppend(request)) {
      this.#changedUntil = until;
      if (session !== undefined && request.method === "DELETE" && request.path.endsWith(session)) {
        this.#sequences.delete(session);
      }
      return;
    }
    this.#appendedUntil = until;
    const { messages = [] } = (answer ?? {}) as { messages?: AppendedMessage[] };
    const last = Math.max(this.#sequences.get(session) ?? 0, ...messages.map(({ sequence }) => sequence));
    this.#sequences.delete(session);
    this.#sequences.set(session, last);
    const [oldest] = this.#sequences.keys();
    if (this.#sequences.size > MAX_SESSIONS && oldest !== undefined) this.#sequences.delete(oldest);
  }
}

/** False for a commit, which sends an object and may change metadata. */
function isAppend({ path, json, text }: ApiRequest): boolean {
  return path.endsWith("/messages") && (text !== undefined || Array.isArray(json));
}

function sessionOf({ path }: ApiRequest): string | undefined {
  return /^\/api\/sessions\/([^/]+)/.exec(path)?.[1];
}
