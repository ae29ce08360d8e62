/** The page of a session that is not stored, perhaps because its run is just starting: waits for its first message. */
import { getJson, withQuery } from "./lib/api.js";
import { themeToggle } from "./lib/theme.js";
import { SessionFeed } from "./sessions/session-feed.js";

document.querySelector(".page-header")?.append(themeToggle());

const { reference } = document.body.dataset;
/** The sessions that were looked at. @type {Set<string>} */
const others = new Set();

async function look() {
  try {
    const { sessions } = await getJson(withQuery("/api/sessions", { reference, limit: 1 }));
    if (sessions.length) location.reload();
  } catch {
    // The next change of a session looks again.
  }
}

function onSession({ id }) {
  if (others.has(id)) return;
  others.add(id);
  look();
}

const on = {
  state(name) {
    /** @type {HTMLElement | null} */
    const notice = document.querySelector(".working");
    if (notice) notice.hidden = name !== "live";
  },
  caught_up: look,
  session: onSession,
  deleted: () => undefined,
};
new SessionFeed("/api/sessions/stream", on).open();
