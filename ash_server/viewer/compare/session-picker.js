import { getJson, isAborted, likePage, messageOf, withQuery } from "../lib/api.js";
import { compareAddress } from "../lib/compare-address.js";
import { el } from "../lib/dom.js";
import { folderName } from "../lib/session-facts.js";
import { agentOf, sourceName } from "../lib/source-names.js";
import { momentTime } from "../lib/time-format.js";
import { sessionAddress } from "../session/permalinks.js";
import { titleOf } from "./comparison-view.js";

const LIMIT = 20;
const TYPING_DELAY_MS = 200;

/** A list of sessions to compare a session with: its original, and sessions of its project. */
export class SessionPicker {
  /** @type {any} */
  chosen;
  /** @type {any} */
  original;
  /** @type {AbortController | undefined} */
  request;
  /** @type {number | undefined} */
  timer;

  /** @param {{a: string, b: string}} sides the ids; at least one is empty */
  constructor({ a, b }) {
    this.id = a || b;
    /** The side that a choice fills. */
    this.side = a ? "b" : "a";
    this.box = el("input", { type: "search", "aria-label": "Find a session", placeholder: "Title, tag or id" });
    this.box.addEventListener("input", () => this.findSoon());
    this.status = el("p", { class: "compare-note", role: "status" });
    this.list = el("ul", { class: "compare-choices" });
    this.element = el("div", { class: "compare-picker" });
  }

  async load() {
    if (this.id) this.chosen = await getJson(`/api/sessions/${encodeURIComponent(this.id)}`);
    const { copyOf } = this.chosen ?? {};
    if (copyOf) this.original = await getJson(`/api/sessions/${copyOf}`).catch(() => undefined);
    const chosen = this.chosen && el("a", { href: likePage(sessionAddress(this.id)), dir: "auto" }, ...titleOf(this.chosen));
    const task = chosen ? ["Choose the session to compare with ", chosen, "."] : ["Choose the first session."];
    this.element.replaceChildren(el("p", {}, ...task), this.box, this.status, this.list);
    await this.find();
  }

  findSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.find(), TYPING_DELAY_MS);
  }

  async find() {
    this.request?.abort();
    this.request = new AbortController();
    const q = this.box.value.trim();
    try {
      this.show(await this.search(q, this.request.signal), q);
    } catch (problem) {
      if (!isAborted(problem)) this.status.textContent = messageOf(problem);
    }
  }

  async search(q, signal) {
    const project = q ? undefined : this.chosen?.project;
    const { sessions } = await getJson(withQuery("/api/sessions", { q, project, limit: LIMIT }), { signal });
    const isAlone = sessions.every(({ id }) => id === this.id);
    if (project === undefined || !isAlone) return sessions;
    return (await getJson(withQuery("/api/sessions", { limit: LIMIT }), { signal })).sessions;
  }

  show(sessions, q) {
    const isOther = ({ id }) => id !== this.id && (q || id !== this.original?.id);
    const first = this.original && !q ? [this.choice(this.original, "Original")] : [];
    const choices = [...first, ...sessions.filter(isOther).map((session) => this.choice(session))];
    this.status.textContent = choices.length ? "" : "No session matches.";
    this.list.replaceChildren(...choices);
  }

  /** @param {any} session @param {string} [mark] */
  choice(session, mark) {
    const { id, project, lastAt, updatedAt } = session;
    const sides = this.side === "b" ? { a: this.id, b: id } : { a: id, b: this.id };
    const facts = [mark, sourceName(agentOf(session)), project && folderName(project)].filter(Boolean);
    return el(
      "li",
      {},
      el("a", { href: compareAddress(sides), dir: "auto" }, ...titleOf(session)),
      el("p", {}, facts.join(" · "), " · ", momentTime(Date.parse(lastAt ?? updatedAt))),
    );
  }
}
