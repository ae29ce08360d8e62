/** Where things are on the screen, and how they stay there. */

/** What has a place of its own in the log. */
export const ITEM = "[data-event-id][id]";

/** What went wrong: what the server counts as errors of a session. */
export const FAILED = ".error-banner, .tool-call[data-failed]";

/** So near to the end a person is at it. */
export const NEAR = 64;

const FRAMES = 30;
const STEADY = 4;
const BY_HAND = ["wheel", "touchmove", "keydown", "pointerdown"];

/** Where the contents begin: the bar lies over what is above. */
export function edge() {
  return Math.max(0, document.querySelector(".page-bar")?.getBoundingClientRect().bottom ?? 0);
}

/** The items that can be seen, from the top. */
export function inView(log) {
  const [top, bottom] = [edge(), innerHeight];
  return [...log.children]
    .filter((part) => part.matches(".turn") && isBetween(part, top, bottom))
    .flatMap((turn) => [...turn.querySelectorAll(ITEM)].filter((item) => isBetween(item, top, bottom)));
}

function isBetween(element, top, bottom) {
  const box = element.getBoundingClientRect();
  return box.height > 0 && box.bottom > top && box.top < bottom;
}

/** Whether it takes part in the page: not filtered out, nor folded away. */
export function isShown(element) {
  return element.isConnected && element.checkVisibility() && !element.closest("[hidden]");
}

/** What was held where the last time, and where the page was then: pixels are whole, and what is left adds up. */
let held;

/** Changes the page; what a person sees of the log stays where it is, or what comes next of it. */
export function keepInView(log, change) {
  const seen = inView(log).map((element) => [element, wantedTop(element)]);
  change();
  if (!seen.length) return;
  const [kept, top] = seen.find(([element]) => isShown(element)) ?? [nextShown(log, seen[0][0]), edge()];
  if (!kept) return;
  scrollOn(kept.getBoundingClientRect().top - top);
  const now = (held = { element: kept, top, at: scrollY, isFresh: true });
  afterFrames(STEADY, () => (now.isFresh = false));
}

/** What was held stays where it is while turns come to be drawn: at the top of a page no browser sees to it. */
export function holdOn() {
  if (!held?.isFresh || held.at !== scrollY || !held.element.isConnected) return;
  scrollOn(held.element.getBoundingClientRect().top - held.top);
  held.at = scrollY;
}

function afterFrames(left, act) {
  if (left === 0) act();
  else requestAnimationFrame(() => afterFrames(left - 1, act));
}

function wantedTop(element) {
  return held?.element === element && held.at === scrollY ? held.top : element.getBoundingClientRect().top;
}

function nextShown(log, element) {
  const follows = (other) => element.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING;
  return [...log.querySelectorAll(ITEM)].find((other) => follows(other) && isShown(other));
}

function scrollOn(distance) {
  if (Math.abs(distance) >= 0.5) scrollBy({ top: distance, behavior: "instant" });
}

export function distanceToEnd() {
  const page = document.documentElement;
  return page.scrollHeight - page.clientHeight - scrollY;
}

export function toEnd() {
  scrollTo({ top: document.documentElement.scrollHeight, behavior: "instant" });
}

/**
 * Brings an element so far below the bar, and holds it there while the sizes of what is around it become known; until
 * they are, or the person scrolls.
 */
export function bringTo(element, below) {
  let steady = 0;
  let left = FRAMES;
  const stop = () => (left = 0);
  BY_HAND.forEach((name) => addEventListener(name, stop, { once: true, passive: true }));
  const step = () => {
    const off = element.getBoundingClientRect().top - edge() - below;
    const before = scrollY;
    scrollOn(off);
    steady = Math.abs(off) < 1 || scrollY === before ? steady + 1 : 0;
    if (element.isConnected && steady < STEADY && --left > 0) requestAnimationFrame(step);
    else BY_HAND.forEach((name) => removeEventListener(name, stop));
  };
  step();
}
