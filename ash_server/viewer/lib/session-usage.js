import { getJson, withQuery } from "./api.js";

/** The usage of a session, with the total of its subagents. */
export async function loadUsage(id) {
  const { rows } = await getJson(withQuery("/api/usage", { by: "session", session: id }));
  return rows.find((row) => row.session?.id === id);
}
