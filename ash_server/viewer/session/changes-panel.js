import { getJson, isAborted, messageOf } from "../lib/api.js";
import { unifiedDiff } from "../lib/diff-view.js";
import { button, el } from "../lib/dom.js";
import { markHidden } from "../lib/hidden-characters.js";
import { formatNumber, pluralize } from "../lib/number-format.js";
import { clockTime } from "../lib/time-format.js";
import { SidePanel } from "./side-panel.js";

/** A panel with the files that the session changed, their differences and edits. */
export class ChangesPanel extends SidePanel {
  /**
   * @param {string} address of the changes
   * @param {(place: import("./permalinks.js").Place) => any} onVisit
   */
  constructor(address, onVisit) {
    super("changes", "Changed files");
    this.address = address;
    this.onVisit = onVisit;
    this.title.textContent = "Changed files";
  }

  async open() {
    const signal = this.nextSignal();
    this.reveal();
    this.focus();
    try {
      this.show(await getJson(this.address, { signal }));
    } catch (problem) {
      if (!isAborted(problem)) this.body.replaceChildren(el("p", {}, messageOf(problem)));
    }
  }

  show({ files, commands, notCounted, ...totals }) {
    const facts = [
      pluralize(totals.filesChanged, "file"),
      lineCounts(totals),
      notCounted > 0 && `${pluralize(notCounted, "edit")} not counted`,
    ];
    this.facts.replaceChildren(facts.filter(Boolean).join(" · "));
    this.body.replaceChildren(
      ...files.map((file) => this.fileDetails(file)),
      ...(commands.length ? [this.commandList(commands)] : []),
    );
    this.body.scrollTop = 0;
  }

  /** A file; its difference is built when it is opened. */
  fileDetails(file) {
    const { path, newPath, status, diff, isComposed, edits } = file;
    const name = el("bdi", { class: "changed-path" }, ...markHidden(newPath === undefined ? path : `${path} → ${newPath}`));
    const state = status === "changed" ? undefined : el("span", { class: "changed-status" }, status);
    const counts = el("span", { class: "changed-lines" }, lineCounts(file));
    const details = el("details", { class: "changed-file" }, el("summary", {}, name, state, counts));
    const fill = () => {
      const note = isComposed ? undefined : "The edits do not fit each other, so each is shown in turn.";
      details.append(
        ...[note && el("p", { class: "changed-note" }, note)].filter((part) => !!part),
        ...(diff ? [unifiedDiff(diff, { path })] : []),
        el("ol", { class: "changed-edits" }, ...edits.map((edit) => el("li", {}, ...this.callLine(edit)))),
      );
    };
    details.addEventListener("toggle", fill, { once: true });
    return details;
  }

  commandList(commands) {
    const lines = commands.map((call) => el("li", {}, ...this.callLine(call), el("code", {}, call.command)));
    const summary = el("summary", {}, `${pluralize(commands.length, "command")} that may have changed files`);
    return el("details", { class: "changed-commands" }, summary, el("ol", { class: "changed-edits" }, ...lines));
  }

  /** A link to the call, with its turn, time and outcome. */
  callLine({ turn, sequence, messageSequence, tool, at, outcome, isRetracted, ...lines }) {
    const place = messageSequence === undefined ? { at: sequence } : { message: messageSequence };
    const label = `${turn > 0 ? `Turn ${formatNumber(turn)} · ` : ""}${tool}`;
    const state = [outcome !== "ok" && outcome, isRetracted && "retracted"].filter(Boolean).join(", ");
    return [
      button({ class: "changed-call" }, label, () => this.onVisit(place)),
      ...(at === undefined ? [] : [" ", clockTime(Date.parse(at))]),
      ...(state ? [" ", el("span", { class: "changed-state", "data-outcome": outcome }, state)] : []),
      " ",
      lineCounts(lines),
    ];
  }
}

/**
 * "+12 −3"; empty if nothing is known.
 *
 * @param {{added?: number, removed?: number, isLowerBound?: boolean}} lines
 */
export function lineCounts({ added = 0, removed = 0, isLowerBound }) {
  const parts = [added > 0 && `+${formatNumber(added)}`, removed > 0 && `−${formatNumber(removed)}`];
  const text = parts.filter(Boolean).join(" ");
  return text && isLowerBound ? `${text} or more` : text;
}
