import { getJson, withQuery } from "../lib/api.js";
import { costText } from "../lib/cost-text.js";
import { formatCacheUsage, formatNumber, pluralize } from "../lib/number-format.js";
import { turnCosts } from "./turn-costs.js";

const DELAY_MS = 500;
const PAGE = 1000;
const ANSWER_KINDS = new Set(["text", "thinking", "tool"]);
const COUNTS = ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];

/** The model, the usage and the cost of an answer as the API has it. @typedef {Record<string, any>} Answer */

/**
 * Usage and cost per answer of the model, and cost per turn. The usage is part of the standard messages, which are
 * fetched when it is shown.
 */
export class AnswerUsage {
  /** Standard messages with usage by response id or record id. @type {Map<string, any>} */
  messages = new Map();
  /** Answers by the sequence of their first message. @type {Map<number, Answer[]>} */
  answers = new Map();
  isShown = false;
  isFetching = false;
  fetchedMessages = new FetchedRange();
  fetchedAnswers = new FetchedRange();
  /** @type {Element[]} */
  markedElements = [];
  /** @type {number | undefined} */
  timer;

  /**
   * @param {string} api the address of the session in the API
   * @param {import("../render/chat-renderer.js").ChatRenderer} renderer
   */
  constructor(api, renderer) {
    this.api = api;
    this.renderer = renderer;
  }

  setShown(isShown) {
    this.isShown = isShown;
    this.update();
  }

  /** The usage text of an item's answer, if it is known and shown. */
  textOf(item) {
    const id = this.isShown ? this.answerOf(item) : undefined;
    return id === undefined ? undefined : this.textOfAnswer(id, this.sequencesOf(id));
  }

  /** @param {import("../render/event-log.js").Item} item */
  answerOf({ kind, event: { responseId, recordId } }) {
    if (!ANSWER_KINDS.has(kind)) return undefined;
    return [responseId, recordId].find((id) => id !== undefined && this.messages.has(id));
  }

  /** Update after each painting. */
  update() {
    if (this.isShown || this.markedElements.length) this.mark();
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.fetch();
    }, DELAY_MS);
  }

  /** Set `data-usage` on the last item of each answer. */
  mark() {
    const last = new Map();
    for (const { item, element } of this.isShown ? this.renderer.itemViews.values() : []) {
      const id = this.answerOf(item);
      if (id === undefined) continue;
      const known = last.get(id) ?? { seq: 0, sequences: new Set() };
      known.sequences.add(item.event.messageSequence);
      if (item.seq >= known.seq) Object.assign(known, { seq: item.seq, element });
      last.set(id, known);
    }
    const marks = new Map([...last].map(([id, { element, sequences }]) => [element, this.textOfAnswer(id, sequences)]));
    this.markedElements.forEach((element) => marks.has(element) || element.removeAttribute("data-usage"));
    this.markedElements = [...marks.keys()];
    marks.forEach((text, element) => element.setAttribute("data-usage", text));
  }

  /** The messages of the items of an answer. */
  sequencesOf(id) {
    const items = [...this.renderer.itemViews.values()].map(({ item }) => item);
    return new Set(items.filter((item) => this.answerOf(item) === id).map(({ event }) => event.messageSequence));
  }

  textOfAnswer(id, sequences) {
    const { usage, metadata } = this.messages.get(id);
    const answers = [...sequences].flatMap((sequence) => this.answers.get(sequence) ?? []);
    const answer = answers.find((each) => COUNTS.every((name) => each[name] === (usage[name] ?? 0)));
    const cost = answer && costText(asUsage([answer]));
    return [metadata.model ?? answer?.model, usageText(usage), cost].filter(Boolean).join(" · ");
  }

  /** Show the costs of turns in their footers, where the transcript does not state them. */
  markTurns() {
    for (const [footer, answers] of turnCosts(this.renderer, this.answers)) {
      const models = [...new Set(answers.map(({ model }) => model))].filter(Boolean).join(", ");
      footer.setAttribute("data-cost", [models, costText(asUsage(answers))].filter(Boolean).join(" · "));
    }
  }

  /** Fetch what is not known of the loaded messages. */
  async fetch() {
    if (this.isFetching) return;
    this.isFetching = true;
    const loaded = this.loadedMessages();
    try {
      await this.fetchedAnswers.extend(loaded, (from, to) => this.fetchAnswers(from, to));
      this.fetchedAnswers.forgetAfter(this.lastEnd());
      this.markTurns();
      if (this.isShown) {
        await this.fetchedMessages.extend(loaded, (from, to) => this.fetchMessages(from, to));
        this.mark();
      }
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
    return { from, to };
  }

  /** The message of the last end of a turn: the usage of later answers may still change. */
  lastEnd() {
    const ends = [...this.renderer.log.turns.values()].map(({ end }) => end?.event.messageSequence ?? 0);
    return ends.reduce((one, other) => Math.max(one, other), 0);
  }

  async fetchMessages(from, to) {
    for (let after = from - 1; after !== undefined && after < to; ) {
      const page = await getJson(withQuery(`${this.api}/standard-messages`, { after, limit: PAGE }));
      page.messages.forEach((message) => this.add(message));
      after = page.nextAfter;
    }
  }

  async fetchAnswers(from, to) {
    for (let after = from - 1; after !== undefined && after < to; ) {
      const page = await getJson(withQuery(`${this.api}/answers`, { after, limit: Math.min(PAGE, to - after) }));
      const bySequence = Map.groupBy(page.answers, ({ messageSequence }) => messageSequence);
      bySequence.forEach((answers, sequence) => this.answers.set(sequence, answers));
      after = page.nextAfter;
    }
  }

  add(message) {
    const { id, usage, metadata } = message;
    if (usage) this.messages.set(metadata.messageId ?? id, message);
  }
}

/** A range of messages that were fetched. */
class FetchedRange {
  /** @type {{from: number, to: number} | undefined} */
  known;

  /** Fetch the messages before and after the known range. */
  async extend({ from, to }, fetch) {
    const known = this.known ?? { from: to + 1, to };
    if (from < known.from) await fetch(from, known.from - 1);
    if (to > known.to) await fetch(known.to + 1, to);
    this.known = { from: Math.min(from, known.from), to: Math.max(to, known.to) };
  }

  /** Fetch later messages again. */
  forgetAfter(sequence) {
    if (this.known && sequence < this.known.to) this.known.to = Math.max(sequence, this.known.from - 1);
  }
}

/** The cost of some answers together. */
function asUsage(answers) {
  const priced = answers.filter(({ costUsd }) => costUsd !== undefined);
  return {
    answers: answers.length,
    costUsd: priced.length ? priced.reduce((sum, { costUsd }) => sum + costUsd, 0) : undefined,
    reportedAnswers: answers.filter(({ isReported }) => isReported).length,
    unpricedAnswers: answers.length - priced.length,
  };
}

function usageText(usage) {
  const { input_tokens: input, output_tokens: output } = usage;
  const parts = [`${pluralize(input, "token")} in`, `${formatNumber(output)} out`, ...formatCacheUsage(usage)];
  return parts.filter(Boolean).join(" · ");
}
