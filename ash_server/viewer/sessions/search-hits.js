import { el, setChildren } from "../lib/dom.js";
import { markHidden } from "../lib/hidden-characters.js";
import { hitPlace, markedSnippet } from "../lib/search-result.js";
import { formatHits, formatNumber } from "../lib/number-format.js";
import { placeUrl, sessionAddress } from "../session/permalinks.js";
import { agentOf, sourceName } from "../lib/source-names.js";
import { momentTime } from "../lib/time-format.js";
import { LoadMore } from "./load-more.js";
import { PageCursor } from "./page-cursor.js";
import { sessionName } from "./session-row.js";

const PAGE = 100;

/**
 * @typedef {{id: string, hits: Map<number, any>, matches: number, atLeast: boolean, pages: PageCursor, list: Element,
 *   more: LoadMore}} HitGroup
 */

/** Search hits grouped by session, in the order of their first hits. */
export class SearchHits {
  /** @type {Map<string, HitGroup>} */
  groups = new Map();

  /** @param {() => object} parameters the parameters of the search, for loading more hits of a session */
  constructor(parameters) {
    this.parameters = parameters;
    this.element = el("div");
  }

  clear() {
    this.groups = new Map();
    this.element.replaceChildren();
  }

  /** The number of hits, including those not loaded. */
  get count() {
    return [...this.groups.values()].reduce((sum, { matches }) => sum + matches, 0);
  }

  /** True if there may be more hits than `count`. */
  get isAtLeast() {
    return [...this.groups.values()].some(({ atLeast }) => atLeast);
  }

  add(results) {
    for (const hit of results) {
      const group = this.groupOf(hit);
      group.hits.set(hit.eventSequence, hit);
      group.matches = Math.max(hit.matches, group.hits.size);
      group.atLeast = hit.atLeast ?? false;
    }
    new Set(results.map(({ sessionId }) => sessionId)).forEach((id) => this.show(this.groups.get(id)));
  }

  /** @returns {HitGroup} */
  groupOf(hit) {
    return this.groups.get(hit.sessionId) ?? this.addGroup(hit);
  }

  addGroup(hit) {
    const pages = new PageCursor("/api/search", PAGE);
    const list = el("ol", { class: "hit-list", role: "list" });
    const more = new LoadMore("", () => this.loadMore(group));
    /** @type {HitGroup} */
    const group = { id: hit.sessionId, hits: new Map(), matches: 0, atLeast: false, pages, list, more };
    this.groups.set(hit.sessionId, group);
    this.element.append(section(hit, list, more.element));
    return group;
  }

  /** @param {HitGroup | undefined} group */
  show(group) {
    if (!group) return;
    const { hits, matches, atLeast, list, more } = group;
    setChildren(list, [...hits.values()].map((hit) => (hit.element ??= hitRow(hit))));
    const rest = matches - hits.size;
    const number = rest > 0 ? `${formatNumber(rest)}${atLeast ? "+" : ""} more` : "More";
    more.show(rest > 0 || atLeast, `${number} in this session`);
  }

  async loadMore(group) {
    const { pages, id } = group;
    const parameters = { ...this.parameters(), sessionId: id };
    const page = await (pages.after === undefined ? pages.first(parameters) : pages.next());
    this.add(page.results);
    if (pages.after === undefined) group.more.show(false);
  }
}

function section(hit, ...children) {
  const { sessionId } = hit;
  const agent = agentOf(hit);
  return el(
    "section",
    { class: "hits", "data-session-id": sessionId, "data-source": agent },
    el(
      "h3",
      { class: "hits-title" },
      el(
        "a",
        { class: "hits-session", href: sessionAddress(sessionId) },
        el("span", { class: "session-title", dir: "auto" }, ...markHidden(sessionName(hit).name, "prose")),
      ),
      " ",
      el("span", { class: "session-source" }, sourceName(agent)),
      " ",
      el("span", { class: "fact" }, formatHits(hit)),
    ),
    ...children,
  );
}

/** Names of hits by their type, else by their role, as on the pages of sessions. */
const HIT_NAMES = {
  tool_call: "tool call",
  tool_result: "tool result",
  thinking_done: "thinking",
  user: "prompt",
  assistant: "answer",
  tool: "tool result",
  system: "system message",
};

function hitRow(hit) {
  return el(
    "li",
    {},
    el(
      "a",
      { class: "hit", href: placeUrl(sessionAddress(hit.sessionId), hitPlace(hit)) },
      el("span", { class: "hit-role" }, HIT_NAMES[hit.type] ?? HIT_NAMES[hit.role] ?? hit.role),
      " ",
      momentTime(Date.parse(hit.createdAt)),
      " ",
      el("span", { class: "snippet", dir: "auto" }, ...markedSnippet(hit)),
    ),
  );
}
