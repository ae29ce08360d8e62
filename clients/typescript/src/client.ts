import { Connection, SILENCE_SECONDS } from "./connection.js";
import { ApiError, notAsh } from "./errors.js";
import type { ApiRequest } from "./request.js";
import { Attempts, NEVER, type Retry, wait } from "./retry.js";
import { type ServerEvent, ServerEventParser } from "./server-events.js";
import type {
  AppendedMessage,
  BudgetPage,
  ChangesQuery,
  ChatEvent,
  CountQuery,
  EventPage,
  EventQuery,
  ExportFormat,
  FindingList,
  Health,
  LabelUpdate,
  Message,
  MessagePage,
  MessageQuery,
  Metadata,
  NewEvent,
  NewMessage,
  NewSession,
  ProjectPage,
  ProjectQuery,
  SearchPage,
  SearchQuery,
  Session,
  SessionChanges,
  SessionComparison,
  SessionCounts,
  SessionFacts,
  SessionPage,
  SessionQuery,
  SessionResume,
  SessionUpdate,
  TagList,
  UsageQuery,
  UsageReport,
} from "./types.js";

/** The version of the API that this client works with. */
export const API_VERSION = 1;

const DEFAULT_PORT = "4100";
const HEALTH = "/health/live";
const OTHER_API = new Set(["method_not_allowed", "not_ash", "not_found"]);

const MAX_BATCH = 500;
/** A batch ends before the message that would exceed this size. */
const MAX_BATCH_BYTES = 1024 * 1024;
/** A longer message is sent alone, as the body of a request. */
const MAX_BATCHED_BYTES = 512 * 1024;

export interface ClientOptions {
  key?: string | undefined;
  retry?: Retry;
  /** Sends the requests; by default the global function. */
  fetch?: typeof fetch;
}

export interface FollowOptions {
  /** Only events after this sequence; 0 by default. */
  after?: number;
  /** Omit chunks of a stream if the complete content is stored. */
  collapse?: boolean;
  /** Ends the iteration. */
  signal?: AbortSignal;
}

/** A connection to a server. Every method throws ApiError. */
export class AshClient {
  /** Without a trailing slash. */
  readonly url: string;
  readonly #retry: Retry;
  readonly #connection: Connection;

  /** Throws ApiError for a URL that does not begin with http:// or https://. */
  constructor(url: string, { key, retry = {}, fetch: fetchWith = (...sent) => fetch(...sent) }: ClientOptions = {}) {
    this.url = checkUrl(url);
    this.#retry = retry;
    this.#connection = new Connection(this.url, key, fetchWith);
  }

  /** Connect to ASH_URL (default: the server at ASH_PORT on this machine), with the key in ASH_KEY if it is set. */
  static fromEnv(options: Omit<ClientOptions, "key"> = {}): AshClient {
    const { process } = globalThis as { process?: { env: Record<string, string | undefined> } };
    const { ASH_URL, ASH_KEY, ASH_PORT } = process?.env ?? {};
    return new AshClient(ASH_URL || `http://127.0.0.1:${ASH_PORT || DEFAULT_PORT}`, { ...options, key: ASH_KEY || undefined });
  }

  /** Return the versions of the server. Needs no key. */
  health(): Promise<Health> {
    return this.send({ method: "GET", path: HEALTH });
  }

  /** Throws ApiError `other_version` if this client cannot work with the server. */
  async checkVersion(): Promise<void> {
    checkVersion(await this.health());
  }

  /** Return a page, most recent activity first; `nextAfter` is the `after` of the next page. */
  listSessions(query: SessionQuery = {}): Promise<SessionPage> {
    return this.send({ method: "GET", path: "/api/sessions", query });
  }

  /** Yield all sessions, page by page. */
  async *sessions(query: SessionQuery = {}): AsyncGenerator<Session, void> {
    for await (const page of pages(query, (next) => this.listSessions(next))) yield* page.sessions;
  }

  /** Count the sessions by the values of filters; the counts of a filter that is set leave it out. */
  countSessions(query: CountQuery = {}): Promise<SessionCounts> {
    return this.send({ method: "GET", path: "/api/sessions/counts", query });
  }

  getSession(session: string): Promise<Session> {
    return this.send({ method: "GET", path: sessionPath(session) });
  }

  /** Return the kinds and places of the secrets in a session, never their values. */
  listFindings(session: string): Promise<FindingList> {
    return this.send({ method: "GET", path: `${sessionPath(session)}/findings` });
  }

  /** Return where a session ran, and its tools, skills, files and last plan. */
  getFacts(session: string): Promise<SessionFacts> {
    return this.send({ method: "GET", path: `${sessionPath(session)}/facts` });
  }

  /** Return the changed files; `turn` and `path` select some. */
  getChanges(session: string, query: ChangesQuery = {}): Promise<SessionChanges> {
    return this.send({ method: "GET", path: `${sessionPath(session)}/changes`, query });
  }

  /** Return the facts, tools, files and prompts of two sessions side by side. */
  compareSessions(a: string, b: string): Promise<SessionComparison> {
    return this.send({ method: "GET", path: "/api/compare", query: { a, b } });
  }

  /** Return the command that continues the session in its agent, or the reason why there is none. */
  getResume(session: string): Promise<SessionResume> {
    return this.send({ method: "GET", path: `${sessionPath(session)}/resume` });
  }

  /** Create a session; with an `externalId`, return the existing session of this source and name. */
  createSession(fields: NewSession = {}): Promise<Session> {
    const isRepeatable = typeof fields.externalId === "string";
    return this.send({ method: "POST", path: "/api/sessions", json: fields, isRepeatable });
  }

  /** Change the title, or replace the metadata as a whole. */
  updateSession(session: string, changes: SessionUpdate): Promise<Session> {
    return this.send({ method: "PATCH", path: sessionPath(session), json: changes });
  }

  /** Change the star, the archive, tags or the note; what is not passed stays. */
  updateLabels(session: string, changes: LabelUpdate): Promise<Session> {
    return this.send({ method: "PATCH", path: `${sessionPath(session)}/labels`, json: changes });
  }

  /** Return a page of projects, most recent activity first; `nextAfter` is the `after` of the next page. */
  listProjects(query: ProjectQuery = {}): Promise<ProjectPage> {
    return this.send({ method: "GET", path: "/api/projects", query });
  }

  /** Return the tags of sessions that are not archived, most used first. */
  listTags(): Promise<TagList> {
    return this.send({ method: "GET", path: "/api/tags" });
  }

  /** Delete a session with its messages and events, if it ends with this sequence. */
  deleteSession(session: string, query: { expectedSequence?: number } = {}): Promise<void> {
    return this.send({ method: "DELETE", path: sessionPath(session), query, isRepeatable: false });
  }

  /** Close the open texts, tool calls and turns of a stream that has ended. */
  async endSession(session: string): Promise<void> {
    await this.send({ method: "POST", path: `${sessionPath(session)}/end` });
  }

  /**
   * Store texts verbatim, in batches, and return one entry per text.
   *
   * Each text has an id, so a retry stores it once: its own, else one derived from the provider's id in the text, else
   * a random one. If a batch is refused, those before it are stored.
   */
  async append(
    session: string,
    messages: Iterable<string | NewMessage> | AsyncIterable<string | NewMessage>,
    { source }: { source?: string } = {},
  ): Promise<AppendedMessage[]> {
    const appended: AppendedMessage[] = [];
    for await (const batch of batches(withIds(messages, source))) {
      appended.push(...(await this.#appended(appendRequest(session, batch))));
    }
    return appended;
  }

  /**
   * Append messages and change metadata in one transaction, if the session ends with this sequence.
   *
   * `metadata` is merged into the session's metadata, key by key; null removes a key. If all messages are already stored,
   * nothing changes; if only some are stored, the metadata stays as it is. Without messages, only the metadata changes.
   * Throws ApiError `sequence_mismatch`; its problem contains the `currentSequence`.
   */
  commit(
    session: string,
    messages: readonly NewMessage[] = [],
    { metadata, expectedSequence }: { metadata?: Metadata; expectedSequence?: number } = {},
  ): Promise<AppendedMessage[]> {
    return this.#appended({
      method: "POST",
      path: `${sessionPath(session)}/messages`,
      json: { messages: messages.map((message) => withId(message)), metadata, expectedSequence },
      isRepeatable: messages.length > 0 || expectedSequence === undefined,
    });
  }

  /** Return a page of messages with their typed blocks, in ascending order. */
  listMessages(session: string, query: MessageQuery = {}): Promise<MessagePage> {
    return this.send({ method: "GET", path: `${sessionPath(session)}/messages`, query: { parsed: true, ...query } });
  }

  /** Yield all messages after `after`, page by page. */
  async *messages(session: string, query: MessageQuery = {}): AsyncGenerator<Message, void> {
    for await (const page of pages(query, (next) => this.listMessages(session, next))) yield* page.messages;
  }

  /** Delete the text of a message and everything derived from it; its sequence is not used again. */
  deleteMessage(session: string, sequence: number): Promise<void> {
    return this.send({ method: "DELETE", path: `${sessionPath(session)}/messages/${sequence}` });
  }

  /** Delete the last message and return it; null if there is none. Not repeated if the answer is lost. */
  async popMessage(session: string): Promise<Message | null> {
    try {
      return await this.send({ method: "POST", path: `${sessionPath(session)}/messages/pop`, isRepeatable: false });
    } catch (error) {
      if (error instanceof ApiError && error.code === "message_not_found") return null;
      throw error;
    }
  }

  /** Return a page of events, in ascending order. */
  listEvents(session: string, query: EventQuery = {}): Promise<EventPage> {
    return this.send({ method: "GET", path: `${sessionPath(session)}/events`, query });
  }

  /** Yield all stored events after `after`, page by page. */
  async *events(session: string, query: EventQuery = {}): AsyncGenerator<ChatEvent, void> {
    for await (const page of pages(query, (next) => this.listEvents(session, next))) yield* page.events;
  }

  /** Append events. Those without an id get one, so that a retry stores them once. */
  async postEvents(session: string, events: readonly NewEvent[]): Promise<void> {
    const json = events.map((event) => ({ id: randomId(), ...event }));
    await this.send({ method: "POST", path: `${sessionPath(session)}/events`, json });
  }

  /**
   * Yield the events after a sequence, then each new one; each once and in order, across lost connections.
   *
   * Ends when the signal is aborted, or with an ApiError: `session_not_found` if the session is deleted, `cursor_ahead`
   * if it is replaced by a shorter one, or the last error if the server does not answer for the time of `retry`.
   */
  async *follow(session: string, options: FollowOptions = {}): AsyncGenerator<ChatEvent, void> {
    const { collapse = false, signal } = options;
    const attempts = new Attempts(this.#retry);
    let { after = 0 } = options;
    while (true) {
      try {
        for await (const { sequence, data } of this.#streamEvents(session, { after, collapse }, signal)) {
          attempts.succeed();
          if (signal?.aborted) return;
          if (sequence !== undefined && sequence > after) {
            after = sequence;
            yield JSON.parse(data);
          }
        }
      } catch (error) {
        if (signal?.aborted) return;
        await wait(attempts.delayAfter(error), signal);
      }
    }
  }

  /** Search the texts of all sessions, newest results first. */
  search(q: string, query: SearchQuery = {}): Promise<SearchPage> {
    return this.send({ method: "GET", path: "/api/search", query: { q, ...query } });
  }

  /** Return tokens and costs at API prices, by day or by at most two other dimensions. */
  getUsage({ by, ...query }: UsageQuery = {}): Promise<UsageReport> {
    return this.send({ method: "GET", path: "/api/usage", query: { ...query, by: by?.join(",") } });
  }

  /** Return the budgets, each with the cost of its current period. */
  listBudgets(): Promise<BudgetPage> {
    return this.send({ method: "GET", path: "/api/budgets" });
  }

  /** Yield the bytes of the imported file in chunks; with the format `events`, the events, one per line. */
  export(session: string, format: ExportFormat = "jsonl"): AsyncGenerator<Uint8Array, void> {
    const request: ApiRequest = { method: "GET", path: `${sessionPath(session)}/export`, query: { format } };
    return this.#connection.open(request, { accept: "application/x-ndjson" });
  }

  /** Send a request until it is answered, and return the decoded answer: for routes without a method here. */
  async send<Answer>(request: ApiRequest): Promise<Answer> {
    try {
      return await this.#send(request, this.#retry);
    } catch (error) {
      const mayBeOtherVersion = error instanceof ApiError && OTHER_API.has(error.code) && request.path !== HEALTH;
      if (mayBeOtherVersion) await this.#checkVersionOnce();
      throw error;
    }
  }

  async #send<Answer>(request: ApiRequest, retry: Retry): Promise<Answer> {
    const attempts = new Attempts(retry, request.isRepeatable);
    while (true) {
      try {
        const answer = parseAnswer(await this.#connection.read(request));
        this.#connection.written.add(request, answer);
        return answer as Answer;
      } catch (error) {
        await wait(attempts.delayAfter(error));
      }
    }
  }

  /** Throws ApiError `other_version` if the server reports another version. */
  async #checkVersionOnce(): Promise<void> {
    const health = await this.#send<Health>({ method: "GET", path: HEALTH }, NEVER).catch(() => undefined);
    if (health) checkVersion(health);
  }

  async #appended(request: ApiRequest): Promise<AppendedMessage[]> {
    const { messages } = await this.send<{ messages: AppendedMessage[] }>(request);
    return messages;
  }

  /** Yield the server-sent events of a connection. Throws ApiError when it is lost. */
  async *#streamEvents(session: string, query: object, signal?: AbortSignal): AsyncGenerator<ServerEvent, void> {
    const parser = new ServerEventParser();
    const request: ApiRequest = { method: "GET", path: `${sessionPath(session)}/events/stream`, query };
    const options = { accept: "text/event-stream", silence: SILENCE_SECONDS, signal };
    for await (const chunk of this.#connection.open(request, options)) {
      yield* parser.feed(chunk);
    }
    throw this.#connection.noAnswer();
  }
}

function checkUrl(url: string): string {
  if (/^https?:\/\/[^/]/.test(url) && URL.canParse(url)) return url.replace(/\/+$/, "");
  const detail = `'${url}' is not a server address, which starts with http:// or https://`;
  throw new ApiError("bad_address", detail, { wasSent: false });
}

/** Throws ApiError if the server has another version of the API. */
function checkVersion({ api = 0, version = "" }: Health): void {
  if (api === API_VERSION) return;
  const [age, advice] = api < API_VERSION ? ["older", "update the server"] : ["newer", "update this one"];
  throw new ApiError(
    "other_version",
    `the server is ${age} than this program: it runs Ash ${version} with version ${api} of the API, ` +
      `not ${API_VERSION}; ${advice}`,
  );
}

function parseAnswer(body: string): unknown {
  if (body === "") return undefined;
  try {
    return JSON.parse(body);
  } catch (cause) {
    throw notAsh({ cause });
  }
}

/** Yield pages until one has no `nextAfter`. */
async function* pages<Query extends { after?: unknown }, Page extends { nextAfter?: Query["after"] | null }>(
  query: Query,
  list: (query: Query) => Promise<Page>,
): AsyncGenerator<Page, void> {
  for (let after = query.after; after !== null; ) {
    const page = await list({ ...query, after });
    yield page;
    after = page.nextAfter ?? null;
  }
}

function sessionPath(session: string): string {
  return `/api/sessions/${encodeURIComponent(session)}`;
}

async function* withIds(
  messages: Iterable<string | NewMessage> | AsyncIterable<string | NewMessage>,
  source: string | undefined,
): AsyncGenerator<NewMessage, void> {
  for await (const message of messages) yield withId(message, source);
}

/** Return a message that repeated appends store once. */
function withId(message: string | NewMessage, source?: string): NewMessage {
  const fields = typeof message === "string" ? { content: message } : message;
  return { fallbackId: randomId(), ...(source === undefined ? {} : { source }), ...fields };
}

/** `crypto.randomUUID` is missing on pages without TLS. */
function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function appendRequest(session: string, batch: NewMessage[]): ApiRequest {
  const path = `${sessionPath(session)}/messages`;
  const [{ content, ...fields }] = batch as [NewMessage];
  // The text of a request cannot contain a lone surrogate, which the server refuses.
  const isText = byteLength(content) > MAX_BATCHED_BYTES && content.isWellFormed();
  return isText
    ? { method: "POST", path, query: fields, text: content }
    : { method: "POST", path, json: batch };
}

/** Yield batches that one request can append; a long message is alone in its batch. */
async function* batches(messages: AsyncIterable<NewMessage>): AsyncGenerator<NewMessage[], void> {
  let batch: NewMessage[] = [];
  let size = 0;
  for await (const message of messages) {
    const length = byteLength(message.content);
    const isLong = length > MAX_BATCHED_BYTES;
    if (batch.length > 0 && (isLong || batch.length === MAX_BATCH || size + length > MAX_BATCH_BYTES)) {
      yield batch;
      batch = [];
      size = 0;
    }
    if (isLong) {
      yield [message];
    } else {
      batch.push(message);
      size += length;
    }
  }
  if (batch.length > 0) yield batch;
}

function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}
