/** Why the server did not answer what it was asked for, in words for a person. */
class Problem extends Error {
  constructor({ title, detail, status = 0 }) {
    super(detail ?? title);
    this.title = title;
    this.detail = detail;
    this.status = status;
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
  if (!response.ok) throw await problemOf(response);
  return parsed(await reached(() => response.text()), read);
}

/** What a response says that refuses. */
export async function problemOf(response) {
  const { status } = response;
  const text = await reached(() => response.text());
  try {
    const { title, detail } = JSON.parse(text);
    if (typeof title === "string") return new Problem({ title, detail, status });
  } catch {
    // It is the word of somebody else.
  }
  return new Problem({ title: `The server answered with status ${status}.`, status });
}

/** Whether somebody began anew: no error, and nothing to show. */
export function isAbandoned(error) {
  return error.name === "AbortError";
}

async function reached(ask) {
  try {
    return await ask();
  } catch (error) {
    if (isAbandoned(error)) throw error;
    throw new Problem({ title: "The server cannot be reached.", detail: "Is Ash still running?" });
  }
}

function parsed(text, read) {
  try {
    return read(text);
  } catch {
    throw new Problem({ title: "The server's answer is not JSON." });
  }
}
