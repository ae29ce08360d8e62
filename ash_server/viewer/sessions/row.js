import { withQuery } from "../api.js";
import { el } from "../dom.js";
import { counted } from "../numbers.js";
import { timeAgo } from "../time.js";
import { activeAt } from "./groups.js";

/** The link that a row is: all of it is one, and says what it leads to. */
export function rowLink(session, { now, isLive, isSubagent }) {
  const { name, isNamed, prompt } = nameOf(session);
  const { source, messageCount, errorCount, unrecognisedCount } = session;
  return el(
    "a",
    { class: "session-row", href: sessionAddress(session.id) },
    el("span", { class: isNamed ? "session-title" : "session-title untitled", dir: "auto" }, name),
    " ",
    el("span", { class: "session-when" }, timeAgo(activeAt(session), now)),
    " ",
    prompt && el("span", { class: "session-prompt", dir: "auto" }, prompt, " "),
    el(
      "span",
      { class: "session-facts" },
      ...spaced(
        el("span", { class: "session-source" }, source),
        isSubagent && el("span", { class: "fact relation" }, "subagent"),
        el("span", { class: "fact" }, counted(messageCount, "message")),
        errorCount > 0 && el("span", { class: "fact errors" }, counted(errorCount, "error")),
        unrecognisedCount > 0 &&
          el("span", { class: "fact unrecognised" }, `${counted(unrecognisedCount, "event")} not recognised`),
        isLive && el("span", { class: "live-mark" }, "live"),
      ),
    ),
  );
}

export function sessionAddress(id, place = {}) {
  return withQuery(`/sessions/${encodeURIComponent(id)}`, place);
}

/** What to call it, and what it was asked where that says more. */
export function nameOf({ title, prompt, externalId }) {
  const said = oneLine(prompt);
  const told = oneLine(title);
  if (told) return { name: told, isNamed: true, prompt: said.startsWith(begun(told)) ? "" : said };
  return { name: said || externalId || "Untitled", isNamed: said !== "", prompt: "" };
}

function oneLine(text) {
  return (text ?? "").replace(/\s+/g, " ").trim();
}

/** A title that was cut ends with an ellipsis, where the prompt goes on. */
function begun(title) {
  return title.replace(/\s*(…|\.\.\.)$/, "");
}

/** Read aloud or copied, words that stand apart must not run together. */
function spaced(...elements) {
  return elements.filter(Boolean).flatMap((element, place) => (place ? [" ", element] : [element]));
}
