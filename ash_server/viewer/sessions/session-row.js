import { el } from "../lib/dom.js";
import { counted, number } from "../lib/number-format.js";
import { sourceName } from "../lib/source-names.js";
import { timeAgo } from "../lib/time-format.js";
import { lastPart, plainly } from "../lib/title-text.js";
import { activeAt } from "./session-groups.js";

/** The link that a row is: all of it is one, and says what it leads to. */
export function rowLink(session, { now, isLive, isSubagent }) {
  const { name, isNamed, prompt, path } = nameOf(session);
  const { source, eventCount, errorCount, unrecognisedCount } = session;
  return el(
    "a",
    { class: "session-row", href: sessionAddress(session.id) },
    el("span", { class: isNamed ? "session-title" : "session-title untitled", dir: "auto", title: path }, name),
    " ",
    el("span", { class: "session-when" }, timeAgo(activeAt(session), now)),
    " ",
    prompt && el("span", { class: "session-prompt", dir: "auto" }, prompt, " "),
    el(
      "span",
      { class: "session-facts" },
      ...spaced(
        el("span", { class: "session-source" }, sourceName(source)),
        isSubagent && el("span", { class: "fact relation" }, "subagent"),
        el("span", { class: "fact" }, counted(eventCount, "event")),
        errorCount > 0 && el("span", { class: "fact errors" }, counted(errorCount, "error")),
        unrecognisedCount > 0 &&
          el("span", { class: "fact unrecognised" }, `${number(unrecognisedCount)} unrecognised`),
        isLive && el("span", { class: "live-mark" }, "live"),
      ),
    ),
  );
}

export function sessionAddress(id) {
  return `/sessions/${encodeURIComponent(id)}`;
}

/** What to call it, and what it was asked where that says more. */
export function nameOf({ title, prompt, externalId }) {
  const said = oneLine(prompt);
  const told = oneLine(title);
  if (told) return { name: plainly(told), isNamed: true, prompt: said.startsWith(begun(told)) ? "" : plainly(said) };
  if (said) return { name: plainly(said), isNamed: true, prompt: "" };
  return { name: lastPart(externalId ?? "") || "Untitled", isNamed: false, prompt: "", path: externalId };
}

export function oneLine(text) {
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
