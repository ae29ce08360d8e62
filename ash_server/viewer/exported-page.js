/** The exported page: its events are inlined, and it makes no requests. */
import { parseJson } from "./lib/json-view.js";
import { findElement, placeFromUrl } from "./session/permalinks.js";
import { SessionHeader, sessionTitle } from "./session/session-header.js";
import { SessionView } from "./session/session-view.js";

function readJson(id) {
  return parseJson(document.getElementById(id)?.textContent ?? "null");
}

/** Go to the item named by the address. */
function goToHash(view) {
  const place = placeFromUrl(location);
  const element = place && findElement(view.renderer, place);
  if (element) view.present(element);
}

const session = readJson("session");
const view = new SessionView({ addressOf: ({ event }) => `#e-${encodeURIComponent(event.id)}` });
const header = new SessionHeader({ hasList: false });
header.show(session, {
  summary: readJson("summary"),
  onError: () => view.goToCountedError(),
  onUnrecognised: () => view.visitUnrecognised(),
});
view.build({ header: header.element }).setTitle(sessionTitle(session));
view.renderer.replayEvents(readJson("events"));
header.setFirstPrompt(view.firstPrompt());
addEventListener("popstate", () => goToHash(view));
goToHash(view);
