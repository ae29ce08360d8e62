/** The page of two sessions side by side. Its address determines its content. */
import { ComparisonView } from "./compare/comparison-view.js";
import { SessionPicker } from "./compare/session-picker.js";
import { getJson, withQuery } from "./lib/api.js";
import { el } from "./lib/dom.js";
import { listenForKeys } from "./lib/keyboard.js";
import { pageHeader } from "./lib/page-header.js";
import { errorPlaceholder, skeleton } from "./lib/placeholders.js";
import { sessionTitle } from "./session/session-header.js";

class ComparePage {
  constructor() {
    this.view = new ComparisonView();
    this.contents = el("div", { class: "compare-contents" });
    const main = el("main", { class: "sessions compare" }, el("h1", {}, "Compare sessions"), this.contents);
    document.body.append(pageHeader("p", listenForKeys(this.shortcuts())), main);
  }

  async show() {
    const query = new URLSearchParams(location.search);
    const [a, b] = ["a", "b"].map((name) => query.get(name) ?? "");
    this.contents.replaceChildren(skeleton());
    try {
      if (a && b) await this.compare(a, b);
      else await this.choose({ a, b });
    } catch (error) {
      this.contents.replaceChildren(errorPlaceholder(error, () => this.show()));
    }
  }

  async compare(a, b) {
    const comparison = await getJson(withQuery("/api/compare", { a, b }));
    document.title = `${sessionTitle(comparison.a)} and ${sessionTitle(comparison.b)} · Ash`;
    this.view.show(comparison);
    this.contents.replaceChildren(this.view.element);
  }

  async choose(sides) {
    const picker = new SessionPicker(sides);
    await picker.load();
    this.contents.replaceChildren(picker.element);
  }

  /** @returns {import("./lib/keyboard.js").Shortcut[]} */
  shortcuts() {
    return [
      [["d"], "show only differences, or everything", { d: () => this.view.toggleEqual() }],
      [["?"], "these keys"],
    ];
  }
}

new ComparePage().show();
