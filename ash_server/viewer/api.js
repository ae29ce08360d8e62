/** Why the server did not answer what it was asked for, in words for a person. */
export class Problem extends Error {
  constructor({ title, detail, status = 0, code = "unreachable" }) {
    super(detail ?? title);
    this.title = title;
    this.detail = detail;
    this.status = status;
    this.code = code;
  }
}

/** The address with these parameters; those that are undefined, null or empty are left out. */
export function withQuery(path, parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== "") query.append(name, value);
  }
  return query.size ? `${path}?${query}` : path;
}

/**
 * What the server answers as JSON. Throws a Problem where it refuses or cannot be reached, and an AbortError
 * where `signal` says so. `read` makes a value of the text.
 */
export async function getJson(address, { signal, read = (text) => JSON.parse(text) } = {}) {
  const response = await reached(() => fetch(address, { signal, headers: { Accept: "application/json" } }));
  const text = await reached(() => response.text());
  if (!response.ok) throw new Problem(refusal(response, text));
  return parsed(text, read);
}

async function reached(ask) {
  try {
    return await ask();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ title: "The server cannot be reached.", detail: "Is Ash still running?" });
  }
}

function refusal({ status }, text) {
  const unreadable = { title: `The server answered with status ${status}.`, status, code: "unreadable" };
  try {
    const { title, detail, code } = JSON.parse(text);
    return typeof title === "string" ? { title, detail, status, code } : unreadable;
  } catch {
    return unreadable;
  }
}

function parsed(text, read) {
  try {
    return read(text);
  } catch {
    throw new Problem({ title: "The server's answer is not JSON.", code: "unreadable" });
  }
}
