/** The page of running sessions, with their current activity; those that wait for the person come first. */
import { getJson, isAborted, likePage, withQuery } from "./lib/api.js";
import { ABANDONED_MS, activityOf, keepElapsed } from "./lib/activity-text.js";
import { el, morph, setChildren } from "./lib/dom.js";
import { listenForKeys } from "./lib/keyboard.js";
import { pageHeader } from "./lib/page-header.js";
import { agentOf } from "./lib/source-names.js";
import { errorPlaceholder, placeholder, skeleton } from "./lib/placeholders.js";
import { MissedChanges } from "./sessions/missed-changes.js";
import { isImported, lastActivity } from "./sessions/session-groups.js";
import { Notifier } from "./sessions/notifier.js";
import { rowLink } from "./sessions/session-row.js";
import { SessionFeed } from "./sessions/session-feed.js";

const MAX_SESSIONS = 500;
const UPDATE_MS = 15_000;

/** Groups of sessions, in their order on the page. */
const GROUPS = { waiting: "Waits for you", running: "Running", ended: "Ended in the last 10 minutes" };

class LivePage {
  /** @type {Map<string, any>} */
  sessions = new Map();
  /** @type {Map<string, HTMLElement>} */
  rows = new Map();
  /** @type {Element | undefined} */
  empty;
  missed = new MissedChanges();
  loading = new AbortController();
  /** Whether the last list could not be loaded: the changes alone would be a part of it. */
  hasFailed = false;

  constructor() {
    this.notifier = new Notifier();
    this.status = el("p", { class: "list-status", role: "status" });
    this.contents = el("div", { class: "board" }, skeleton());
    this.groups = Object.fromEntries(
      Object.entries(GROUPS).map(([name, title]) => {
        const list = el("ul", { class: "session-rows", role: "list" });
        const element = el("section", { class: "session-day", "data-group": name }, el("h2", { class: "day" }, title), list);
        return [name, { element, list }];
      }),
    );
    const line = el("div", { class: "list-line" }, this.status, this.notifier.element);
    const main = el("main", { class: "sessions", id: "live" }, el("h1", {}, "Live"), line, this.contents);
    document.body.append(pageHeader("p", listenForKeys([[["?"], "these keys"]])), main);
  }

  start() {
    const on = {
      session: (session) => this.update(session),
      deleted: ({ id }) => this.remove(id),
      caught_up: () => this.load(),
      state: () => undefined,
    };
    new SessionFeed("/api/sessions/stream", on, () => this.notifier.isOn).open();
    keepElapsed(this.contents);
    setInterval(() => this.show(), UPDATE_MS);
  }

  async load() {
    this.loading.abort();
    const { signal } = (this.loading = new AbortController());
    try {
      const since = new Date(Date.now() - ABANDONED_MS).toISOString();
      const address = withQuery("/api/sessions", { since, limit: MAX_SESSIONS, activity: true });
      const { page, changes } = await this.missed.during(() => getJson(address, { signal }));
      this.sessions = new Map(page.sessions.map((session) => [session.id, session]));
      changes.forEach((session, id) => (session ? this.sessions.set(id, session) : this.sessions.delete(id)));
      this.hasFailed = false;
      this.show();
    } catch (problem) {
      if (isAborted(problem)) return;
      this.hasFailed = true;
      this.contents.replaceChildren(errorPlaceholder(problem, () => this.load()));
    }
  }

  update(session) {
    this.missed.note(session.id, session);
    const before = this.sessions.get(session.id);
    this.sessions.set(session.id, session);
    if (groupOf(session, Date.now())) this.notifier.changed(before, session);
    this.show();
  }

  remove(id) {
    this.missed.note(id, undefined);
    this.sessions.delete(id);
    this.show();
  }

  show() {
    if (this.hasFailed) return;
    const now = Date.now();
    /** @type {Record<string, any[]>} */
    const byGroup = { waiting: [], running: [], ended: [] };
    for (const session of this.sessions.values()) byGroup[groupOf(session, now) ?? ""]?.push(session);
    const shown = Object.keys(GROUPS).filter((name) => byGroup[name].length > 0);
    for (const name of shown) {
      const sorted = byGroup[name].sort((one, other) => begin(other) - begin(one) || (one.id < other.id ? 1 : -1));
      setChildren(this.groups[name].list, sorted.map((session) => this.row(session, name !== "ended")));
    }
    const elements = shown.map((name) => this.groups[name].element);
    setChildren(this.contents, shown.length ? elements : [this.emptyNotice()]);
    const counts = shown.map((name) => `${byGroup[name].length} ${name}`).join(" · ");
    if (this.status.textContent !== counts) this.status.textContent = counts;
  }

  row(session, isLive) {
    const row = this.rows.get(session.id) ?? el("li", { class: "session-item", "data-session-id": session.id });
    this.rows.set(session.id, row);
    const fresh = rowLink(session, { isLive });
    row.dataset.source = agentOf(session);
    row.toggleAttribute("data-live", isLive);
    if (row.firstElementChild) morph(row.firstElementChild, fresh);
    else row.append(fresh);
    return row;
  }

  emptyNotice() {
    return (this.empty ??= placeholder("none", "No session is running", {
      detail: "Running sessions appear here with their current activity.",
      action: { label: "All sessions", run: () => location.assign(likePage("/")) },
    }));
  }
}

/** The group of a session; undefined for one that is not on the page. Subagents belong to the call of their parent. */
function groupOf(session, now) {
  if (session.agentId !== undefined || isImported(session) || now - lastActivity(session) > ABANDONED_MS) return undefined;
  const activity = activityOf(session, now);
  if (!activity) return session.activity ? "ended" : undefined;
  return activity.isWaiting ? "waiting" : "running";
}

/** The start of a session. Rows are sorted by it, so that they keep their places while sessions grow. */
function begin({ firstAt, createdAt }) {
  return Date.parse(firstAt ?? createdAt);
}

new LivePage().start();
