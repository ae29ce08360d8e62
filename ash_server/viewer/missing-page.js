/** The page of a session that is not stored, perhaps because its run is just starting: waits for its first message. */
import { getJson, withQuery } from "./lib/api.js";
import { button } from "./lib/dom.js";
import { themeToggle } from "./lib/theme.js";
import { SessionFeed } from "./sessions/session-feed.js";

const MIN_LOOK_INTERVAL_MS = 1_000;
const MIN_RELOAD_DELAY_MS = 1_000;
/** A stored session may still have no page: behind a proxy, or with another server that is behind. */
const MAX_RELOADS = 4;
const MAX_WAIT_MS = 60 * 60_000;

const { reference } = document.body.dataset;
/** @type {HTMLElement | null} */
const notice = document.querySelector(".working");
/** The sessions that were looked at. @type {Set<string>} */
const others = new Set();
/** @type {number | undefined} */
let timer;
let lookedAt = -MIN_LOOK_INTERVAL_MS;
let isOver = false;

function lookSoon() {
  const delay = lookedAt + MIN_LOOK_INTERVAL_MS - performance.now();
  timer ??= setTimeout(look, Math.max(0, delay));
}

async function look() {
  timer = undefined;
  lookedAt = performance.now();
  try {
    const { sessions } = await getJson(withQuery("/api/sessions", { reference, limit: 1 }));
    if (sessions.length && !isOver) openSession();
  } catch {
    others.clear(); // the next change of any session looks again
  }
}

/** Reload the page, later each time that this did not help. The history entry counts the reloads. */
function openSession() {
  const reloads = history.state?.reloads ?? 0;
  if (reloads >= MAX_RELOADS) return stop("The session is stored, but its page does not open.");
  end();
  setTimeout(() => reload({ reloads: reloads + 1 }), reloads && MIN_RELOAD_DELAY_MS * 2 ** (reloads - 1));
}

function reload(state) {
  history.replaceState(state, "");
  location.reload();
}

function end() {
  isOver = true;
  feed.end();
}

/** Stop waiting, and say why. */
function stop(reason) {
  if (isOver) return;
  end();
  if (!notice) return;
  notice.textContent = reason;
  notice.hidden = false;
  document.querySelector(".refusal-action")?.before(button({ class: "refusal-action" }, "Try again", () => reload(null)), " ");
}

function onSession({ id }) {
  if (others.has(id)) return;
  others.add(id);
  lookSoon();
}

const on = {
  state(name) {
    if (notice) notice.hidden = name !== "live";
  },
  caught_up: lookSoon,
  session: onSession,
  deleted: () => undefined,
};
const feed = new SessionFeed("/api/sessions/stream", on);
feed.open();
setTimeout(() => stop("This page no longer waits for the session."), MAX_WAIT_MS);
document.querySelector(".page-header")?.append(themeToggle());
