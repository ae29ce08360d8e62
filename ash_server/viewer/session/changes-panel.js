import { isAborted, messageOf } from "../lib/api.js";
import { copyText } from "../lib/clipboard.js";
import { unifiedDiff } from "../lib/diff-view.js";
import { button, el } from "../lib/dom.js";
import { markHidden } from "../lib/hidden-characters.js";
import { formatNumber, pluralize } from "../lib/number-format.js";
import { clockTime } from "../lib/time-format.js";
import { lineCounts, patchOf } from "./changes.js";
import { SidePanel } from "./side-panel.js";
import { planList, planText } from "./plan.js";

/** Panels at this width cover the item that an edit leads to. */
const NARROW = "(max-width: 40rem)";

const COPY = "Copy patch";

/** A panel with the files that the session or one turn changed, their differences and edits, and the last plan. */
export class ChangesPanel extends SidePanel {
  /** @type {any} */
  plan;
  /** The report that is shown. @type {any} */
  report;
  /** The turn that is shown. @type {number | undefined} */
  turn;

  /**
   * @param {(turn: number | undefined, signal: AbortSignal) => Promise<any>} load the report of the session or of a turn
   * @param {(edit: any) => any} onVisit
   */
  constructor(load, onVisit) {
    super("changes", "Changed files");
    this.load = load;
    this.onVisit = onVisit;
    this.copy = button({}, COPY, () => this.copyPatch());
    this.unfold = button({}, "Expand all", () => this.expandAll());
    this.whole = button({}, "All turns", () => this.open());
  }

  /**
   * Show the changes of the session, or of a turn.
   *
   * @param {{turn?: number, isPlan?: boolean}} [part] `isPlan`: go to the plan
   */
  async open({ turn, isPlan = false } = {}) {
    const signal = this.nextSignal();
    this.turn = turn;
    this.setTitle(this.plan && turn === undefined ? "Plan and changed files" : "Changed files");
    if (!this.isOpen) this.reveal();
    this.focus();
    if (!this.report) this.body.replaceChildren(el("p", { class: "changed-none" }, "Loading…"));
    try {
      this.show(await this.load(turn, signal), isPlan);
    } catch (problem) {
      if (!isAborted(problem)) this.showProblem(messageOf(problem));
    }
  }

  setTitle(text) {
    this.title.textContent = text;
    this.element.setAttribute("aria-label", text);
  }

  showProblem(message) {
    const parts = [this.planDetails(true), el("p", { role: "alert" }, message)];
    this.facts.replaceChildren();
    this.body.replaceChildren(...parts.filter((part) => part instanceof Element));
  }

  show(report, isPlan) {
    this.report = report;
    this.copy.textContent = COPY;
    const { files, commands } = report;
    this.facts.replaceChildren(...this.factsOf(report));
    const parts = [
      this.planDetails(isPlan || !files.length),
      ...files.map((file) => this.fileDetails(file)),
      !files.length && el("p", { class: "changed-none" }, "No tool reported a changed file."),
      commands.length > 0 && this.commandList(commands),
    ];
    this.body.replaceChildren(...parts.filter((part) => part instanceof Element));
    this.body.scrollTop = 0;
  }

  factsOf({ filesChanged, notCounted, files, ...totals }) {
    const texts = [
      this.turn !== undefined && (this.turn > 0 ? `Turn ${formatNumber(this.turn)}` : "Before the first turn"),
      pluralize(filesChanged, "file"),
      lineCounts(totals),
      notCounted > 0 && `${pluralize(notCounted, "edit")} not counted`,
    ];
    const controls = [
      this.turn !== undefined && this.whole,
      files.length > 0 && this.unfold,
      filesChanged > 0 && this.copy,
    ];
    const shown = controls.filter((part) => part instanceof Element);
    return [texts.filter(Boolean).join(" · "), el("span", { class: "changed-controls" }, ...shown)];
  }

  async copyPatch() {
    this.copy.textContent = (await copyText(patchOf(this.report))) ? "Copied" : "Not copied";
  }

  expandAll() {
    this.body.querySelectorAll("details").forEach((each) => (each.open = true));
  }

  planDetails(isOpen) {
    if (!this.plan || this.turn !== undefined) return undefined;
    const summary = el("summary", {}, el("span", { class: "changed-plan-name" }, "Plan"), planText(this.plan));
    return el("details", { class: "changed-plan", open: isOpen }, summary, planList(this.plan));
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
    const lines = commands.map((call) => el("li", {}, ...this.callLine(call), el("code", {}, ...markHidden(call.command))));
    const summary = el("summary", {}, `${pluralize(commands.length, "command")} that may have changed files`);
    return el("details", { class: "changed-commands" }, summary, el("ol", { class: "changed-edits" }, ...lines));
  }

  /** A link to the call, with its turn, time and outcome. */
  callLine(call) {
    const { turn, tool, at, outcome, isRetracted, ...lines } = call;
    const label = `${turn > 0 ? `Turn ${formatNumber(turn)} · ` : ""}${tool}`;
    const state = [outcome !== "ok" && outcome, isRetracted && "retracted"].filter(Boolean).join(", ");
    return [
      button({ class: "changed-call" }, label, () => this.visit(call)),
      ...(at === undefined ? [] : [" ", clockTime(Date.parse(at))]),
      ...(state ? [" ", el("span", { class: "changed-state", "data-outcome": outcome }, state)] : []),
      " ",
      lineCounts(lines),
    ];
  }

  visit(call) {
    if (matchMedia(NARROW).matches) this.close();
    return this.onVisit(call);
  }
}
