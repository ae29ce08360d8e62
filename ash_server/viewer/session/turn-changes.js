import { button, el } from "../lib/dom.js";
import { changedFilesText } from "./changes.js";

/** Adds a button to the footer of each turn that changed files: it opens the panel with the changes of the turn. */
export class TurnChanges {
  /** The turns of the report by number. @type {Map<number, any>} */
  turns = new Map();
  /** The numbers of turns by the sequence of an event with an edit. @type {Map<number, number>} */
  numbers = new Map();
  /** The numbers of turns by the id of the loaded turn. @type {Map<string, number>} */
  known = new Map();
  /** The number of items when `known` was filled. */
  size = 0;

  /**
   * @param {import("../render/chat-renderer.js").ChatRenderer} renderer
   * @param {(turn: number) => any} onOpen
   */
  constructor(renderer, onOpen) {
    this.renderer = renderer;
    this.onOpen = onOpen;
  }

  /** Show another report. */
  show(report) {
    this.turns = new Map(report.turns.map((turn) => [turn.turn, turn]));
    const edits = report.files.flatMap((file) => file.edits);
    this.numbers = new Map(edits.map(({ sequence, turn }) => [sequence, turn]));
    this.size = 0;
    this.update();
  }

  /**
   * Update the footers, which each painting may replace.
   *
   * @param {Set<Element>} [painted] the turns that were painted; all turns by default
   */
  update(painted) {
    if (!this.turns.size) return;
    if (this.size !== this.renderer.itemViews.size) this.findTurns();
    for (const [id, number] of this.known) {
      const element = this.renderer.turnViews.get(id)?.element;
      if (element && (painted?.has(element) ?? true)) this.mark(element, number);
    }
  }

  findTurns() {
    this.size = this.renderer.itemViews.size;
    this.known = new Map();
    for (const { item } of this.renderer.itemViews.values()) {
      const { sequence, turnId } = item.call ?? item.event;
      const number = this.numbers.get(sequence ?? 0);
      if (number !== undefined && turnId !== undefined && this.turns.has(number)) this.known.set(turnId, number);
    }
  }

  mark(element, number) {
    const isOver = element.dataset.state !== "running" && !element.querySelector(":scope > .revoked");
    if (!isOver) return;
    const { files, ...lines } = this.turns.get(number);
    const text = changedFilesText(files.length, lines);
    const old = element.querySelector(":scope > .turn-end > .turn-changes");
    if (old?.textContent === text) return;
    const control = button({ class: "turn-changes", title: "Show the changes of this turn" }, text, () => this.onOpen(number));
    if (old) return old.replaceWith(control);
    const footer = footerOf(element);
    footer.append(footer.textContent ? " · " : "", control);
  }
}

/** The footer of a turn; a turn without facts has none. */
function footerOf(element) {
  const footer = element.querySelector(":scope > .turn-end") ?? el("footer", { class: "turn-end" });
  if (!footer.isConnected) element.append(footer);
  return footer;
}
