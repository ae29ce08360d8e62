import { button, el, place } from "../lib/dom.js";
import { number } from "../lib/number-format.js";
import { plainly } from "../lib/title-text.js";
import { FAILED, distanceToEnd, edge } from "./scroll-anchor.js";

const LONGEST = 120;
const LATER = 300;

/** What of the screen, from the top, may pass before the next prompt counts as the one that is read. */
const READ_FROM = 0.3;

/** The last ones cannot be brought to the top: towards the end of the page, all of the screen counts. */
function readLine() {
  const left = distanceToEnd();
  const range = Math.min(innerHeight, left + scrollY);
  const isNearEnd = range > 0 && left < range;
  return edge() + (innerHeight - edge()) * (isNearEnd ? 1 - (1 - READ_FROM) * (left / range) : READ_FROM);
}

/** The prompts of a session, in a rail beside it: where one is, and where something failed. */
export class Outline {
  /** `onChoose` is called with the element of a prompt. */
  constructor(renderer, onChoose) {
    this.renderer = renderer;
    this.entries = new Map();
    this.turnsInView = new Set();
    this.observer = new IntersectionObserver((seen) => this.saw(seen));
    this.list = el("ol", { class: "outline-list" });
    this.older = el("button", { class: "outline-older", type: "button", hidden: true }, "Older …");
    this.closer = this.toggler("outline-close", "Close", false);
    this.opener = this.toggler("outline-open", "Prompts", true);
    const title = el("h2", { class: "outline-title" }, "Prompts");
    const parts = [title, this.closer, this.older, this.list];
    this.element = el("nav", { class: "outline", "aria-label": "Prompts", hidden: true }, ...parts);
    this.list.addEventListener("click", (event) => this.clicked(event, onChoose));
    addEventListener("scroll", () => (this.frame ??= requestAnimationFrame(() => this.mark())), { passive: true });
  }

  toggler(name, label, isOpen) {
    return button({ class: `${name} icon-button`, "aria-label": label }, null, () => this.toggle(isOpen));
  }

  /** As a sheet, where the screen is small. */
  toggle(isOpen) {
    this.element.toggleAttribute("data-open", isOpen);
    (isOpen ? this.closer : this.opener).focus({ preventScroll: true });
  }

  get isOpen() {
    return this.element.hasAttribute("data-open");
  }

  clicked(event, onChoose) {
    const link = event.target.closest("a");
    const chosen = [...this.entries.values()].find((entry) => entry.link === link);
    if (!chosen || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    if (this.isOpen) this.toggle(false);
    onChoose(chosen.prompt);
  }

  /** After each painting. */
  update() {
    this.later ??= setTimeout(() => {
      this.later = undefined;
      this.fill();
    }, LATER);
  }

  fill() {
    const entries = this.renderer.inOrder.filter(isPrompt).map((shown) => this.entryOf(shown));
    this.entries = new Map(entries.map((entry) => [entry.prompt, entry]));
    place(this.list, entries.map(({ row }) => row));
    this.element.hidden = this.opener.hidden = entries.length === 0;
    this.countErrors(entries);
    this.mark();
  }

  entryOf({ element, item }) {
    const told = lineOf(item);
    const entry = this.entries.get(element) ?? entryFor(element, item);
    if (entry.told !== told) {
      entry.told = told;
      entry.link.title = told;
      entry.link.replaceChildren(told);
    }
    entry.turn = element.closest(".turn");
    this.observer.observe(entry.turn);
    return entry;
  }

  /** What failed behind each prompt, up to the next one. */
  countErrors(entries) {
    const counts = entries.map(() => 0);
    let at = -1;
    for (const element of this.renderer.container.querySelectorAll(FAILED)) {
      while (entries[at + 1] && isAhead(entries[at + 1].prompt, element)) at++;
      if (at >= 0) counts[at]++;
    }
    entries.forEach(({ link }, place) => showCount(link, counts[place]));
  }

  saw(seen) {
    for (const { target, isIntersecting } of seen) {
      if (isIntersecting) this.turnsInView.add(target);
      else this.turnsInView.delete(target);
    }
    this.mark();
  }

  /** Marks the prompt that what is read belongs to. */
  mark() {
    this.frame = undefined;
    const line = readLine();
    const begun = ({ turn, prompt }) => this.turnsInView.has(turn) && prompt.getBoundingClientRect().top < line;
    const current = [...this.entries.values()].findLast(begun);
    if (!current || current === this.current) return;
    this.current?.link.removeAttribute("aria-current");
    this.current = current;
    current.link.setAttribute("aria-current", "true");
    if (!this.element.matches(":hover")) this.bring(current.row);
  }

  /** Into the rail, without the page scrolling. */
  bring(row) {
    const rail = [this.list, this.element].find((element) => element.scrollHeight > element.clientHeight + 1);
    if (!rail) return;
    const [at, within] = [row.getBoundingClientRect(), rail.getBoundingClientRect()];
    if (at.top < within.top || at.bottom > within.bottom) rail.scrollTop += at.top - within.top - within.height / 2;
  }
}

function entryFor(prompt, item) {
  const link = el("a", { class: "outline-link", href: `#e-${encodeURIComponent(item.event.id)}` });
  return { prompt, link, row: el("li", {}, link) };
}

function isPrompt({ item, element }) {
  return item.kind === "user" && !element.hasAttribute("data-synthetic") && !element.closest(".subagent");
}

function lineOf({ event: { payload } }) {
  const said = (payload.visibleText ?? payload.text ?? payload.transcription ?? "").trim();
  return plainly(said.split("\n", 1)[0]).slice(0, LONGEST) || "…";
}

function isAhead(element, other) {
  return Boolean(element.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING);
}

function showCount(link, count) {
  const mark = link.querySelector(".outline-errors");
  if (!count) mark?.remove();
  else if (mark) mark.textContent = number(count);
  else link.append(el("span", { class: "outline-errors", title: "failed" }, number(count)));
}
