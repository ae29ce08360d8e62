import { DelayedTask } from "../lib/delayed-task.js";
import { button, el, setChildren } from "../lib/dom.js";
import { markHidden } from "../lib/hidden-characters.js";
import { formatNumber } from "../lib/number-format.js";
import { stripMarkdown } from "../lib/title-text.js";
import { PROMPT } from "./item-navigation.js";
import { FAILED, contentTop, distanceToEnd } from "./scroll-anchor.js";

const MAX_TITLE_LENGTH = 120;
const DELAY_MS = 300;

/** The last prompt above this share of the screen, from the top, is the current one. */
const READING_SHARE = 0.3;

/** The reading line. Near the end of the page it moves down, since the last prompts cannot be scrolled to the top. */
function readingLine() {
  const left = distanceToEnd();
  const range = Math.min(innerHeight, left + scrollY);
  const isNearEnd = range > 0 && left < range;
  const share = isNearEnd ? 1 - (1 - READING_SHARE) * (left / range) : READING_SHARE;
  return contentTop() + (innerHeight - contentTop()) * share;
}

/** @typedef {{prompt: any, link: HTMLAnchorElement, row: HTMLElement, title?: string, turn?: Element}} OutlineEntry */

/** The list of prompts next to the log, with the current one and the number of failures of each. */
export class PromptOutline {
  /** By prompt element. @type {Map<Element, OutlineEntry>} */
  entries = new Map();
  turnsInView = new Set();
  /** @type {OutlineEntry | undefined} */
  current;
  filling = new DelayedTask(() => this.fill(), DELAY_MS);
  /** @type {number | undefined} */
  frame;

  /**
   * @param {import("../render/chat-renderer.js").ChatRenderer} renderer
   * @param {(prompt: Element) => void} onChoose
   */
  constructor(renderer, onChoose) {
    this.renderer = renderer;
    this.observer = new IntersectionObserver((entries) => this.onIntersection(entries));
    this.list = el("ol", { class: "outline-list" });
    const more = (label) => el("button", { class: "outline-more", type: "button", hidden: true }, label);
    this.older = more("Older …");
    this.newer = more("Newer …");
    this.closer = this.toggleButton("outline-close", "Close", false);
    this.opener = this.toggleButton("outline-open", "Prompts", true);
    const title = el("h2", { class: "outline-title" }, "Prompts");
    const parts = [title, this.closer, this.older, this.list, this.newer];
    this.element = el("nav", { class: "outline", "aria-label": "Prompts", hidden: true }, ...parts);
    this.list.addEventListener("click", (event) => this.onClick(event, onChoose));
    addEventListener("scroll", () => this.markCurrentSoon(), { passive: true });
  }

  toggleButton(name, label, isOpen) {
    return button({ class: `${name} icon-button`, "aria-label": label }, null, () => this.toggle(isOpen));
  }

  /** Open or close the outline, which is a sheet on small screens. */
  toggle(isOpen) {
    this.element.toggleAttribute("data-open", isOpen);
    (isOpen ? this.closer : this.opener).focus({ preventScroll: true });
  }

  get isOpen() {
    return this.element.hasAttribute("data-open");
  }

  onClick(event, onChoose) {
    const link = event.target.closest("a");
    const chosen = [...this.entries.values()].find((entry) => entry.link === link);
    if (!chosen || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    if (this.isOpen) this.toggle(false);
    onChoose(chosen.prompt);
  }

  /** Update after each painting. */
  update() {
    this.filling.request();
  }

  fill() {
    const entries = this.renderer.inOrder.filter(isPrompt).map((view) => this.entryOf(view));
    this.entries = new Map(entries.map((entry) => [entry.prompt, entry]));
    setChildren(this.list, entries.map(({ row }) => row));
    this.element.hidden = this.opener.hidden = entries.length === 0;
    this.countErrors(entries);
    this.markCurrentSoon();
  }

  entryOf({ element, item }) {
    const title = promptTitle(item);
    const entry = this.entries.get(element) ?? newEntry(element, item);
    if (entry.title !== title) {
      entry.title = title;
      entry.link.title = title;
      entry.link.replaceChildren(...markHidden(title, "prose"));
    }
    const turn = element.closest(".turn");
    entry.turn = turn;
    this.observer.observe(turn);
    return entry;
  }

  /** Count the failures between each prompt and the next. */
  countErrors(entries) {
    const counts = entries.map(() => 0);
    let index = -1;
    for (const element of this.renderer.container.querySelectorAll(FAILED)) {
      while (entries[index + 1] && isBefore(entries[index + 1].prompt, element)) index++;
      if (index >= 0) counts[index]++;
    }
    entries.forEach(({ link }, each) => showCount(link, counts[each]));
  }

  onIntersection(entries) {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) this.turnsInView.add(target);
      else this.turnsInView.delete(target);
    }
    this.markCurrent();
  }

  /** Wait for the next frame, which lays out the page anyway. */
  markCurrentSoon() {
    this.frame ??= requestAnimationFrame(() => this.markCurrent());
  }

  /** Mark the prompt of the text that is being read. */
  markCurrent() {
    this.frame = undefined;
    const line = readingLine();
    /** @param {OutlineEntry} entry */
    const isAboveLine = ({ turn, prompt }) => this.turnsInView.has(turn) && prompt.getBoundingClientRect().top < line;
    const current = [...this.entries.values()].findLast(isAboveLine);
    if (!current || current === this.current) return;
    this.current?.link.removeAttribute("aria-current");
    this.current = current;
    current.link.setAttribute("aria-current", "true");
    if (!this.element.matches(":hover")) this.scrollIntoList(current.row);
  }

  /** Scroll the list to a row, without scrolling the page. */
  scrollIntoList(row) {
    /** @type {HTMLElement[]} */
    const lists = [this.list, this.element];
    const scroller = lists.find((element) => element.scrollHeight > element.clientHeight + 1);
    if (!scroller) return;
    const [box, outer] = [row.getBoundingClientRect(), scroller.getBoundingClientRect()];
    const isOutside = box.top < outer.top || box.bottom > outer.bottom;
    if (isOutside) scroller.scrollTop += box.top - outer.top - outer.height / 2;
  }
}

/** @returns {OutlineEntry} */
function newEntry(prompt, item) {
  const link = el("a", { class: "outline-link", href: `#e-${encodeURIComponent(item.event.id)}` });
  return { prompt, link, row: el("li", {}, link) };
}

function isPrompt({ item, element }) {
  return item.kind === "user" && element.matches(PROMPT) && !element.closest(".subagent");
}

function promptTitle({ event: { payload } }) {
  const text = (payload.visibleText ?? payload.text ?? payload.transcription ?? "").trim();
  return stripMarkdown(text.split("\n", 1)[0]).slice(0, MAX_TITLE_LENGTH) || "…";
}

function isBefore(element, other) {
  return Boolean(element.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING);
}

function showCount(link, count) {
  const mark = link.querySelector(".outline-errors");
  if (!count) mark?.remove();
  else if (mark) mark.textContent = formatNumber(count);
  else link.append(el("span", { class: "outline-errors", title: "failed" }, formatNumber(count)));
}
