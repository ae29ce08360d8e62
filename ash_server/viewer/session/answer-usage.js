import { getJson, withQuery } from "../lib/api.js";
import { formatCacheUsage, formatNumber, pluralize } from "../lib/number-format.js";

const DELAY_MS = 500;
const ANSWER_KINDS = new Set(["text", "thinking", "tool"]);

/** Token usage per answer of the model. It is part of the standard messages, which are fetched when it is shown. */
export class AnswerUsage {
  /** Usage texts by response id or record id. @type {Map<string, string>} */
  texts = new Map();
  isShown = false;
  isFetching = false;
  /** The range of messages that were fetched. @type {number | undefined} */
  from;
  /** @type {number | undefined} */
  to;
  /** @type {Element[]} */
  markedElements = [];
  /** @type {number | undefined} */
  timer;

  /**
   * @param {string} address
   * @param {import("../render/chat-renderer.js").ChatRenderer} renderer
   */
  constructor(address, renderer) {
    this.address = address;
    this.renderer = renderer;
  }

  setShown(isShown) {
    this.isShown = isShown;
    this.update();
  }

  /** The usage text of an item's answer, if it is known and shown. */
  textOf(item) {
    return this.isShown ? this.texts.get(this.answerOf(item) ?? "") : undefined;
  }

  /** @param {import("../render/event-log.js").Item} item */
  answerOf({ kind, event: { responseId, recordId } }) {
    if (!ANSWER_KINDS.has(kind)) return undefined;
    return [responseId, recordId].find((id) => id !== undefined && this.texts.has(id));
  }

  /** Update after each painting. */
  update() {
    this.mark();
    if (!this.isShown) return;
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.fetch();
    }, DELAY_MS);
  }

  /** Set `data-usage` on the last item of each answer. */
  mark() {
    const last = new Map();
    for (const { item, element } of this.isShown ? this.renderer.itemViews.values() : []) {
      const answer = this.answerOf(item);
      if (answer !== undefined && !(last.get(answer)?.seq > item.seq)) last.set(answer, { seq: item.seq, element });
    }
    const marks = new Map([...last].map(([answer, { element }]) => [element, this.texts.get(answer)]));
    this.markedElements.forEach((element) => marks.has(element) || element.removeAttribute("data-usage"));
    this.markedElements = [...marks.keys()];
    marks.forEach((text, element) => element.setAttribute("data-usage", text));
  }

  /** Fetch the usage of messages before and after the known range. */
  async fetch() {
    if (this.isFetching) return;
    this.isFetching = true;
    const [from, to] = this.loadedMessages();
    const { from: knownFrom = to + 1, to: knownTo = to } = this;
    try {
      if (from < knownFrom) await this.fetchRange(from, knownFrom - 1);
      if (to > knownTo) await this.fetchRange(knownTo + 1, to);
      [this.from, this.to] = [Math.min(from, knownFrom), Math.max(to, knownTo)];
      this.mark();
    } catch {
      // Usage is optional: without it no content is missing.
    }
    this.isFetching = false;
  }

  /** The first and the last message of the loaded events. */
  loadedMessages() {
    let [from, to] = [Infinity, 0];
    for (const { messageSequence } of this.renderer.log.events.values()) {
      from = Math.min(from, messageSequence ?? from);
      to = Math.max(to, messageSequence ?? to);
    }
    return [from, to];
  }

  async fetchRange(from, to) {
    for (let after = from - 1; after !== undefined && after < to; ) {
      const page = await getJson(withQuery(this.address, { after, limit: 1000 }));
      page.messages.forEach((message) => this.add(message));
      after = page.nextAfter;
    }
  }

  add({ id, usage, metadata }) {
    if (usage) this.texts.set(metadata.messageId ?? id, usageText(usage));
  }
}

function usageText(usage) {
  const { input_tokens: input, output_tokens: output } = usage;
  const parts = [`${pluralize(input, "token")} in`, `${formatNumber(output)} out`, ...formatCacheUsage(usage)];
  return parts.filter(Boolean).join(" · ");
}
