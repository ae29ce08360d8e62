import { getJson, messageOf, withQuery } from "../lib/api.js";
import { el } from "../lib/dom.js";
import { formatNumber, pluralize } from "../lib/number-format.js";
import { sessionAddress } from "../session/permalinks.js";
import { closeButton, note, openDialog } from "./dialog.js";

const MAX_PLACES = 5;
const UNKNOWN = "Secrets of unknown forms are not found: read a session before you share it.";

/** The secrets that redaction would replace in a session, by kind and place, never their values. */
export function loadFindings({ id }) {
  return getJson(`/api/sessions/${id}/findings`);
}

/** Show the secrets in a session in a dialog. */
export async function showFindings(session) {
  const shown = el("div", { role: "status" }, note("Searching…"));
  openDialog("Secrets in this session", shown, el("div", { class: "action-buttons" }, closeButton()));
  try {
    shown.replaceChildren(...findingLines(session, await loadFindings(session)));
  } catch (problem) {
    shown.replaceChildren(el("p", { class: "action-error" }, messageOf(problem)));
  }
}

/** The number of secrets, their kinds and places, and a warning of unknown forms. */
export function findingLines({ id }, { total, findings }) {
  const kinds = [...new Set(findings.map(({ kind }) => kind))];
  const rows = kinds.map((kind) => kindRow(id, kind, findings.filter((finding) => finding.kind === kind)));
  return [
    el("p", { class: "findings-total" }, total ? `${pluralize(total, "secret")} of known forms` : "No secret of a known form"),
    ...(rows.length ? [el("ul", { class: "findings" }, ...rows)] : []),
    note(UNKNOWN),
  ];
}

function kindRow(id, kind, places) {
  const count = places.reduce((sum, place) => sum + place.count, 0);
  const links = places.slice(0, MAX_PLACES).flatMap((place, index) => [index > 0 && ", ", placeLink(id, place)]);
  const more = places.length - MAX_PLACES;
  const rest = more > 0 && `, and ${formatNumber(more)} more`;
  return el("li", {}, el("strong", {}, kind), ` ${formatNumber(count)}: `, ...links, rest);
}

/** A link to a message or an event; the place of others is a field of the session. */
function placeLink(id, { message, event, field }) {
  if (field !== undefined) return field;
  const query = message === undefined ? { at: event } : { message };
  const name = message === undefined ? `event ${formatNumber(event)}` : `message ${formatNumber(message)}`;
  return el("a", { href: withQuery(sessionAddress(id), query) }, name);
}
