import { goToSignIn } from "./sign-in.js";

/** A failed request, with texts to show to the user. */
class Problem extends Error {
  /** @param {{title: string, detail?: string, status?: number, isUnreachable?: boolean}} problem */
  constructor({ title, detail, status = 0, isUnreachable = false }) {
    super(detail ?? title);
    this.title = title;
    this.detail = detail;
    this.status = status;
    this.isUnreachable = isUnreachable;
  }
}

/** The name of the event of the window that a request did not reach the server. */
export const UNREACHABLE = "ash-unreachable";

class Unreachable extends Problem {
  constructor() {
    const title = "The server cannot be reached.";
    const detail = navigator.onLine ? "Is Ash still running?" : "This device is offline.";
    super({ title, detail, isUnreachable: true });
    this.message = `${title} ${detail}`;
    dispatchEvent(new Event(UNREACHABLE));
  }
}

/** Append query parameters to a path; undefined, null and empty ones are omitted. */
export function withQuery(path, parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== "") query.append(name, value);
  }
  return query.size ? `${path}?${query}` : path;
}

/** The address with the `redact` parameter of the page, if any: everything that a redacted page loads is redacted. */
export function likePage(address) {
  const redact = new URLSearchParams(location.search).get("redact");
  if (redact === null) return address;
  return `${address}${address.includes("?") ? "&" : "?"}${new URLSearchParams({ redact })}`;
}

/**
 * Fetch JSON. Throws a Problem if the request fails, and an AbortError if `signal` aborts it.
 *
 * @param {string} address
 * @param {{signal?: AbortSignal, read?: (text: string) => any}} [options] `read` parses the text
 */
export async function getJson(address, { signal, read = (text) => JSON.parse(text) } = {}) {
  const response = await withNetworkProblem(() => fetch(likePage(address), { signal, headers: { Accept: "application/json" } }));
  if (!response.ok) throw await readProblem(response);
  return parseBody(await withNetworkProblem(() => response.text()), read);
}

/**
 * Send JSON, and return the JSON of the answer, if any. Throws a Problem if the request fails.
 *
 * @param {"POST" | "PATCH" | "DELETE"} method
 * @param {string} address
 * @param {unknown} [value]
 */
export async function sendJson(method, address, value) {
  const body = value === undefined ? undefined : JSON.stringify(value);
  const headers = { Accept: "application/json", ...(body && { "Content-Type": "application/json" }) };
  const response = await withNetworkProblem(() => fetch(likePage(address), { method, headers, body }));
  if (!response.ok) throw await readProblem(response);
  const text = await withNetworkProblem(() => response.text());
  return text ? parseBody(text, JSON.parse) : undefined;
}

/** The Problem in an error response. If it needs a key, the page that asks for one opens meanwhile. */
export async function readProblem(response) {
  const { status } = response;
  if (status === 401) goToSignIn();
  const text = await withNetworkProblem(() => response.text());
  try {
    const { title, detail } = JSON.parse(text);
    if (typeof title === "string") return new Problem({ title, detail, status });
  } catch {
    // The response is not from Ash, but from a proxy, for example.
  }
  return new Problem({ title: `The server answered with status ${status}.`, status });
}

/** True if the request was aborted for a newer one: there is no error to show. */
export function isAborted(error) {
  return error.name === "AbortError";
}

async function withNetworkProblem(request) {
  try {
    return await request();
  } catch (error) {
    if (isAborted(error)) throw error;
    throw new Unreachable();
  }
}

function parseBody(text, read) {
  try {
    return read(text);
  } catch {
    throw new Problem({ title: "The server's answer is not JSON." });
  }
}

/** The message of a caught error. */
export function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}
