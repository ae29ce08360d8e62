/** The page that stands alone: it has its events in it, and asks nobody for anything. */
import { parseJson } from "./lib/json-view.js";
import { Header, titleOf } from "./session/session-header.js";
import { find, placeIn } from "./session/permalinks.js";
import { View } from "./session/session-view.js";

function told(id) {
  return parseJson(document.getElementById(id).textContent);
}

/** To what the address names, if that is an item. */
function goToHash(view) {
  const place = placeIn(location);
  const element = place && find(view.renderer, place);
  if (element) view.present(element);
}

const session = told("session");
const view = new View({ addressOf: ({ event }) => `#e-${encodeURIComponent(event.id)}` });
const header = new Header();
header.show(session, { summary: told("summary"), onUnrecognised: () => view.goToUnrecognised() });
view.build({ header: header.element }).name(titleOf(session));
view.renderer.replayEvents(told("events"));
addEventListener("popstate", () => goToHash(view));
goToHash(view);
