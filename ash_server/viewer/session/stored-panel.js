import { getJson, isAborted, withQuery } from "../lib/api.js";
import { controlSymbol } from "../lib/ansi.js";
import { copyButton } from "../lib/clipboard.js";
import { button, el, iconButton } from "../lib/dom.js";
import { jsonView, parseJson } from "../lib/json-view.js";
import { longText } from "../lib/long-text.js";
import { formatNumber, pluralize } from "../lib/number-format.js";
import { errorPlaceholder } from "../lib/placeholders.js";
import { clockTime, dayTime } from "../lib/time-format.js";
import { eventsOf } from "./permalinks.js";
import { SidePanel } from "./side-panel.js";

/** Runs of characters that are invisible or change the text direction. */
const INVISIBLE = /[\0-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]+/g;

/** A panel with the stored text of a message. */
export class StoredPanel extends SidePanel {
  text = "";
  /** The sequence of the message that is shown. @type {number | undefined} */
  sequence;
  /** The sequences of all messages of the item. @type {number[]} */
  others = [];

  /** @param {string} [address] of the session's messages; without one, the events are shown */
  constructor(address) {
    const steps = [
      iconButton("prev", "The message before", () => this.go(-1)),
      iconButton("next", "The next message", () => this.go(1)),
    ];
    super("stored", "Stored text", [...steps, copyButton(() => this.text, "Copy the stored text")]);
    this.address = address;
    this.steps = steps;
  }

  /** Show the stored message of an item or, for posted events, the events. */
  async open(item) {
    this.reveal();
    const events = eventsOf(item);
    const sequences = [...new Set(events.map((event) => event.messageSequence))].filter((each) => each !== undefined);
    this.others = sequences.sort((one, other) => one - other);
    if (this.address && sequences.length) await this.show(item.event.messageSequence ?? sequences[0]);
    else this.showEvents(events);
    this.focus();
  }

  go(step) {
    return this.show((this.sequence ?? 0) + step);
  }

  async show(sequence) {
    const signal = this.nextSignal();
    const query = { after: sequence - 1, limit: 1, kind: "message,record,chunk" };
    try {
      const { messages } = await getJson(withQuery(this.address, query), { signal });
      const [message] = messages;
      if (message?.sequence === sequence) this.showMessage(message);
    } catch (problem) {
      if (!isAborted(problem)) this.showProblem(problem, sequence);
    }
  }

  showProblem(problem, sequence) {
    this.text = "";
    this.sequence = sequence;
    this.title.textContent = `Message ${formatNumber(sequence)}`;
    this.facts.replaceChildren();
    this.body.replaceChildren(errorPlaceholder(problem, () => this.show(sequence)));
  }

  showMessage({ sequence, role, kind, source, createdAt, content }) {
    this.sequence = sequence;
    this.enableSteps(sequence > 1, true);
    const size = new TextEncoder().encode(content).length;
    const storedAt = Date.parse(createdAt);
    this.showText(`Message ${formatNumber(sequence)}`, content, [
      `${role} · ${kind} · ${source} · ${pluralize(size, "byte")} · stored `,
      dayTime(storedAt),
      " ",
      clockTime(storedAt),
      ...this.linksToOthers(),
    ]);
  }

  showEvents(events) {
    this.sequence = undefined;
    this.enableSteps(false, false);
    const [first] = events;
    const text = JSON.stringify(events.length === 1 ? first : events, null, 2);
    const reason = this.address ? "It was posted as an event: no message was stored." : "";
    this.showText(first.sequence === undefined ? "Event" : `Event ${formatNumber(first.sequence)}`, text, [reason]);
  }

  enableSteps(hasPrevious, hasNext) {
    this.steps[0].disabled = !hasPrevious;
    this.steps[1].disabled = !hasNext;
  }

  /** Links to the other messages of the item: a call and its result are two messages. */
  linksToOthers() {
    const others = this.others.filter((each) => each !== this.sequence);
    const linkTo = (each) => button({ class: "stored-other" }, `Message ${formatNumber(each)}`, () => this.show(each));
    return others.flatMap((each) => [" · ", linkTo(each)]);
  }

  showText(title, text, facts) {
    this.text = text;
    this.title.textContent = title;
    this.facts.replaceChildren(...facts);
    const pre = el("pre", { class: "stored-text", tabindex: 0, dir: "ltr" }, ...longText(text, markInvisible));
    this.body.replaceChildren(pre, ...[jsonTree(text)].filter((part) => !!part));
    this.body.scrollTop = 0;
  }
}

/** The unchanged text; runs of invisible characters are in elements that show a symbol for each. */
function markInvisible(text) {
  const parts = [];
  let offset = 0;
  for (const { 0: run, index } of text.matchAll(INVISIBLE)) {
    const symbols = Array.from(run, controlSymbol).join("");
    parts.push(text.slice(offset, index), el("span", { class: "control", "data-symbol": symbols }, run));
    offset = index + run.length;
  }
  return [...parts, text.slice(offset)].filter((part) => part !== "");
}

function jsonTree(text) {
  try {
    const value = parseJson(text);
    return typeof value === "object" && value !== null && el("div", { class: "stored-tree" }, jsonView(value));
  } catch {
    return undefined;
  }
}
