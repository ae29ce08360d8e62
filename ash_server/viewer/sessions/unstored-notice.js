/** A notice above the list: transcripts on this machine that are not stored, and are deleted soon. */
import { getJson, isAborted } from "../lib/api.js";
import { button, el } from "../lib/dom.js";
import { pluralize } from "../lib/number-format.js";

const HIDDEN_KEY = "ash-hidden-notice";

/** One sentence for each agent and problem. @returns {string[]} */
function unstoredTexts({ days, agents }) {
  return agents.flatMap(({ name, expiring, newPrompts }) =>
    [
      expiring > 0 &&
        `Within ${pluralize(days, "day")}, ${name} deletes ${pluralize(expiring, "transcript")} that ${isOrAre(expiring)} not stored.`,
      newPrompts > 0 &&
        `${name} has deleted ${pluralize(newPrompts, "transcript")}; only the prompts can still be stored.`,
    ].filter((text) => typeof text === "string"),
  );
}

function isOrAre(count) {
  return count === 1 ? "is" : "are";
}

export class UnstoredNotice {
  constructor() {
    this.text = el("p");
    this.element = el("aside", { class: "unstored-notice", "aria-label": "Transcripts that are not stored", hidden: true });
    this.element.append(this.text, button({}, "Hide", () => this.hide()));
  }

  /** Load the counts. A notice that was hidden stays hidden until they change. */
  async load() {
    try {
      this.show(await getJson("/api/transcripts/unstored"));
    } catch (error) {
      if (!isAborted(error)) this.element.hidden = true; // the page works without it
    }
  }

  show(unstored) {
    this.shown = unstoredTexts(unstored).join(" ");
    this.element.hidden = !this.shown || this.shown === sessionStorage.getItem(HIDDEN_KEY);
    this.text.replaceChildren(this.shown, " Run ", el("code", {}, "ash import --all"), ".");
  }

  hide() {
    sessionStorage.setItem(HIDDEN_KEY, this.shown ?? "");
    this.element.hidden = true;
  }
}
