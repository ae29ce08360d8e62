import { el, place } from "../lib/dom.js";
import { marked, placeOf } from "../lib/search-result.js";
import { counted, number } from "../lib/number-format.js";
import { addressOf } from "../session/permalinks.js";
import { sourceName } from "../lib/source-names.js";
import { timeAgo } from "../lib/time-format.js";
import { More } from "./load-more.js";
import { Pages } from "./page-cursor.js";
import { nameOf, sessionAddress } from "./session-row.js";

const PAGE = 100;

/** Hits under the sessions they are in, in the order in which the first of each came. */
export class Hits {
  /** `parameters()` are those of the search, for asking for the other hits of a session. */
  constructor(parameters) {
    this.parameters = parameters;
    this.element = el("div");
    this.clear();
  }

  clear() {
    this.groups = new Map();
    this.element.replaceChildren();
  }

  /** How many there are, shown or not. */
  get count() {
    return [...this.groups.values()].reduce((sum, { matches }) => sum + matches, 0);
  }

  add(results) {
    for (const hit of results) {
      const group = this.groupOf(hit);
      group.hits.set(hit.eventSequence, hit);
      group.matches = Math.max(hit.matches, group.hits.size);
    }
    new Set(results.map(({ sessionId }) => sessionId)).forEach((id) => this.show(this.groups.get(id)));
  }

  groupOf(hit) {
    return this.groups.get(hit.sessionId) ?? this.begin(hit);
  }

  begin(hit) {
    const pages = new Pages("/api/search", PAGE);
    const list = el("ol", { class: "hit-list", role: "list" });
    const more = new More("", () => this.addRest(group));
    const group = { id: hit.sessionId, hits: new Map(), matches: 0, pages, list, more };
    this.groups.set(hit.sessionId, group);
    this.element.append(section(hit, list, more.element));
    return group;
  }

  show({ hits, matches, list, more }) {
    const now = Date.now();
    place(list, [...hits.values()].map((hit) => (hit.element ??= hitRow(hit, now))));
    more.show(matches > hits.size, `${number(matches - hits.size)} more in this session`);
  }

  async addRest(group) {
    const { pages, id } = group;
    const parameters = { ...this.parameters(), sessionId: id };
    const page = await (pages.after === undefined ? pages.first(parameters) : pages.next());
    this.add(page.results);
    if (pages.after === undefined) group.more.show(false);
  }
}

function section(hit, ...children) {
  const { sessionId, source } = hit;
  return el(
    "section",
    { class: "hits", "data-session-id": sessionId, "data-source": source },
    el(
      "h3",
      { class: "hits-title" },
      el(
        "a",
        { class: "hits-session", href: sessionAddress(sessionId) },
        el("span", { class: "session-title", dir: "auto" }, nameOf(hit).name),
      ),
      " ",
      el("span", { class: "session-source" }, sourceName(source)),
      " ",
      el("span", { class: "fact" }, counted(hit.matches, "hit")),
    ),
    ...children,
  );
}

function hitRow(hit, now) {
  return el(
    "li",
    {},
    el(
      "a",
      { class: "hit", href: addressOf(sessionAddress(hit.sessionId), placeOf(hit)) },
      el("span", { class: "hit-role" }, hit.role),
      " ",
      timeAgo(Date.parse(hit.createdAt), now),
      " ",
      el("span", { class: "snippet", dir: "auto" }, ...marked(hit)),
    ),
  );
}
