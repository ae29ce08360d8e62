import { getJson, isAbandoned, withQuery } from "../lib/api.js";
import { symbol } from "../lib/ansi.js";
import { copyButton } from "../lib/clipboard.js";
import { button, el, iconButton } from "../lib/dom.js";
import { jsonView, parseJson } from "../lib/json-view.js";
import { counted, number } from "../lib/number-format.js";
import { clockTime, dayOf } from "../lib/time-format.js";
import { eventsOf } from "./permalinks.js";

const SHOWN_AT_ONCE = 300_000;

/** What would not be seen, or would turn the text around it. */
const UNSEEN = /[\0-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** A panel beside the log: what was stored, as it was stored. */
export class Stored {
  /** `address` is that of the session's messages; without one, there is nothing but the events. */
  constructor(address) {
    this.address = address;
    this.title = el("h2", { class: "stored-title", tabindex: -1 });
    this.facts = el("p", { class: "stored-facts" });
    this.body = el("div", { class: "stored-body" });
    this.buttons = [
      iconButton("prev", "The message before", () => this.go(-1)),
      iconButton("next", "The next message", () => this.go(1)),
      copyButton(() => this.text, "Copy what is stored"),
      iconButton("close", "Close", () => this.close()),
    ];
    this.element = el(
      "aside",
      { class: "stored", "aria-label": "Stored text", hidden: true },
      el("header", { class: "stored-header" }, this.title, ...this.buttons),
      this.facts,
      this.body,
    );
  }

  get isOpen() {
    return !this.element.hidden;
  }

  /** The stored messages that an item was made of; of one that was posted, its events. */
  async open(item) {
    this.opener = document.activeElement;
    const events = eventsOf(item);
    const sequences = [...new Set(events.map((event) => event.messageSequence))].filter((each) => each !== undefined);
    this.others = sequences.sort((one, other) => one - other);
    this.element.hidden = false;
    if (this.address && sequences.length) await this.show(item.event.messageSequence ?? sequences[0]);
    else this.showEvents(events);
    this.title.focus({ preventScroll: true });
  }

  close() {
    this.asking?.abort();
    this.element.hidden = true;
    this.opener?.focus({ preventScroll: true });
  }

  go(step) {
    return this.show(this.sequence + step);
  }

  async show(sequence) {
    this.asking?.abort();
    this.asking = new AbortController();
    const { signal } = this.asking;
    const query = { after: sequence - 1, limit: 1, kind: "message,record,chunk" };
    try {
      const { messages } = await getJson(withQuery(this.address, query), { signal });
      const [message] = messages;
      if (message?.sequence === sequence) this.showMessage(message);
    } catch (problem) {
      if (!isAbandoned(problem)) this.body.replaceChildren(el("p", {}, problem.message));
    }
  }

  showMessage({ sequence, role, kind, source, createdAt, content }) {
    this.sequence = sequence;
    this.enable(sequence > 1, true);
    const size = new TextEncoder().encode(content).length;
    const at = Date.parse(createdAt);
    this.put(`Message ${number(sequence)}`, content, [
      `${role} · ${kind} · ${source} · ${counted(size, "byte")} · stored `,
      dayOf(at),
      " ",
      clockTime(at),
      ...this.linksToOthers(),
    ]);
  }

  showEvents(events) {
    this.sequence = undefined;
    this.enable(false, false);
    const [first] = events;
    const text = JSON.stringify(events.length === 1 ? first : events, null, 2);
    const why = this.address ? "It was posted as an event: no message was stored." : "";
    this.put(first.sequence === undefined ? "Event" : `Event ${number(first.sequence)}`, text, [why]);
  }

  enable(canGoBack, canGoOn) {
    this.buttons[0].disabled = !canGoBack;
    this.buttons[1].disabled = !canGoOn;
  }

  /** A call and its result are two messages. */
  linksToOthers() {
    const others = this.others.filter((each) => each !== this.sequence);
    const linkTo = (each) => button({ class: "stored-other" }, `Message ${number(each)}`, () => this.show(each));
    return others.flatMap((each) => [" · ", linkTo(each)]);
  }

  put(title, text, facts) {
    this.text = text;
    this.title.textContent = title;
    this.facts.replaceChildren(...facts);
    const tree = treeOf(text);
    const pre = el("pre", { class: "stored-text", tabindex: 0, dir: "ltr" }, ...marked(text.slice(0, SHOWN_AT_ONCE)));
    const parts = [pre, text.length > SHOWN_AT_ONCE && rest(pre, text), tree];
    this.body.replaceChildren(...parts.filter(Boolean));
    this.body.scrollTop = 0;
  }
}

function rest(pre, text) {
  const told = `Show all ${counted(text.length, "character")}`;
  const more = button({}, told, () => {
    pre.replaceChildren(...marked(text));
    more.remove();
  });
  return more;
}

/** The text as it is, and each character that cannot be seen in an element that shows a symbol for it. */
function marked(text) {
  const parts = [];
  let at = 0;
  for (const { 0: character, index } of text.matchAll(UNSEEN)) {
    parts.push(text.slice(at, index), el("span", { class: "control", "data-symbol": symbol(character) }, character));
    at = index + 1;
  }
  return [...parts, text.slice(at)].filter((part) => part !== "");
}

function treeOf(text) {
  try {
    const value = parseJson(text);
    return typeof value === "object" && value !== null && el("div", { class: "stored-tree" }, jsonView(value));
  } catch {
    return undefined;
  }
}
