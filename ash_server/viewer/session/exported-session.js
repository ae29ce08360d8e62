/** The exported page: its events are inlined, and it makes no requests. */
import { parseJson } from "../lib/json-view.js";
import { ChangesPanel } from "./changes-panel.js";
import { changesOfTurn } from "./changes.js";
import { findElement, placeFromUrl } from "./permalinks.js";
import { SessionHeader, sessionTitle } from "./session-header.js";
import { SessionView } from "./session-view.js";
import { TurnChanges } from "./turn-changes.js";

const NO_CHANGES = { files: [], turns: [], commands: [], filesChanged: 0, notCounted: 0 };

function readJson(id) {
  return parseJson(document.getElementById(id)?.textContent ?? "null");
}

/** Go to the item named by the address. */
function goToHash(view) {
  const place = placeFromUrl(location);
  const element = place && findElement(view.renderer, place);
  if (element) view.present(element);
}

/** Show the changes of the turns, again after each painting. */
class ExportedView extends SessionView {
  /** @type {TurnChanges | undefined} */
  turnChanges;

  /** @param {Set<Element>} painted */
  onPaint(painted) {
    super.onPaint(painted);
    this.turnChanges?.update(painted);
  }
}

/** Show the session whose events are in the page. */
export function showExportedSession() {
  const session = readJson("session");
  const { plan, report } = readJson("changes") ?? {};
  const view = new ExportedView({ addressOf: ({ event }) => `#e-${encodeURIComponent(event.id)}` });
  const changes = changesPanel(view, plan, report);
  const header = new SessionHeader({ hasList: false });
  header.show(session, {
    summary: readJson("summary"),
    usage: readJson("usage"),
    plan,
    onChanges: report && (() => changes.open()),
    onPlan: () => changes.open({ isPlan: true }),
    onError: () => view.goToCountedError(),
    onUnrecognised: () => view.visitUnrecognised(),
  });
  view.build({ header: header.element, panels: [changes] }).setTitle(sessionTitle(session));
  view.renderer.replayEvents(readJson("events"));
  view.turnChanges = new TurnChanges(view.renderer, (turn) => changes.open({ turn }));
  if (report) view.turnChanges.show(report);
  header.setFirstPrompt(view.firstPrompt());
  addEventListener("popstate", () => goToHash(view));
  goToHash(view);
}

function changesPanel(view, plan, report) {
  const load = async (turn) => (turn === undefined ? (report ?? NO_CHANGES) : changesOfTurn(report, turn));
  const panel = new ChangesPanel(load, (call) => goToCall(view, call));
  panel.plan = plan;
  return panel;
}

/** Go to a call, and open it. */
function goToCall(view, { sequence }) {
  const element = findElement(view.renderer, { at: sequence });
  if (!element) return;
  view.visit(element);
  if (element instanceof HTMLDetailsElement) element.open = true;
}
