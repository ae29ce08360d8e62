import { getJson, withQuery } from "../lib/api.js";
import { counted, number, ofCache } from "../lib/number-format.js";

const LATER = 500;
const ANSWERS = new Set(["text", "thinking", "tool"]);

/**
 * What each answer of the model cost: it stands in the standard messages, which are fetched when somebody wants to see
 * it, for what is loaded.
 */
export class Usage {
  constructor(address, renderer) {
    this.address = address;
    this.renderer = renderer;
    this.known = new Map();
    this.isWanted = false;
  }

  /** Whether it is shown. */
  want(isWanted) {
    this.isWanted = isWanted;
    this.update();
  }

  /** Of the answer that an item belongs to, as far as it is known and wanted. */
  of(item) {
    return this.isWanted ? this.known.get(this.answerOf(item)) : undefined;
  }

  answerOf({ kind, event: { responseId, recordId } }) {
    return ANSWERS.has(kind) ? [responseId, recordId].find((name) => this.known.has(name)) : undefined;
  }

  /** After each painting. */
  update() {
    this.mark();
    if (!this.isWanted) return;
    this.later ??= setTimeout(() => {
      this.later = undefined;
      this.fetch();
    }, LATER);
  }

  /** Below the last item of each answer. */
  mark() {
    const last = new Map();
    for (const { item, element } of this.isWanted ? this.renderer.shown.values() : []) {
      const answer = this.answerOf(item);
      if (answer !== undefined && !(last.get(answer)?.seq > item.seq)) last.set(answer, { seq: item.seq, element });
    }
    const marks = new Map([...last].map(([answer, { element }]) => [element, this.known.get(answer)]));
    this.marked?.forEach((element) => marks.has(element) || element.removeAttribute("data-usage"));
    this.marked = [...marks.keys()];
    marks.forEach((told, element) => element.setAttribute("data-usage", told));
  }

  /** What lies ahead of what is known, and what has come behind it. */
  async fetch() {
    if (this.isFetching) return;
    this.isFetching = true;
    const [from, to] = this.loaded();
    const { from: known = to + 1, to: last = to } = this;
    try {
      if (from < known) await this.read(from, known - 1);
      if (to > last) await this.read(last + 1, to);
      [this.from, this.to] = [Math.min(from, known), Math.max(to, last)];
      this.mark();
    } catch {
      // It is there to look at: without it nothing is missing that was said.
    }
    this.isFetching = false;
  }

  /** From which stored message to which. */
  loaded() {
    let [from, to] = [Infinity, 0];
    for (const { messageSequence } of this.renderer.log.events.values()) {
      from = Math.min(from, messageSequence ?? from);
      to = Math.max(to, messageSequence ?? to);
    }
    return [from, to];
  }

  async read(from, to) {
    for (let after = from - 1; after !== undefined && after < to; ) {
      const page = await getJson(withQuery(this.address, { after, limit: 1000 }));
      page.data.forEach((message) => this.take(message));
      after = page.nextAfter;
    }
  }

  take({ id, usage, metadata }) {
    if (!usage) return;
    this.known.set(metadata.messageId ?? id, told(usage));
  }
}

function told(usage) {
  const { input_tokens: given, output_tokens: made } = usage;
  return [`${counted(given, "token")} in`, `${number(made)} out`, ...ofCache(usage)].filter(Boolean).join(" · ");
}
