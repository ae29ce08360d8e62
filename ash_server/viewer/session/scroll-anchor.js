/** Where items are on the screen, and how they keep their position while the page changes. */

/** Items of the log. */
export const ITEM = "[data-event-id][id]";

/** Failed items: those that the server counts as errors of a session. */
export const FAILED = ".error-banner, .tool-call[data-failed]";

/** The page counts as scrolled to the end within this distance, in pixels. */
export const NEAR_END = 64;

const MAX_FRAMES = 30;
const STEADY_FRAMES = 4;
/** A range is scrolled to this share of the screen, from the top. */
const RANGE_SHARE = 0.3;
const USER_INPUT = ["wheel", "touchmove", "keydown", "pointerdown"];

/** The top of the visible content, below the bar. */
export function contentTop() {
  return Math.max(0, document.querySelector(".page-bar")?.getBoundingClientRect().bottom ?? 0);
}

/** The items on the screen, from the top. */
export function itemsInView(log) {
  const [top, bottom] = [contentTop(), innerHeight];
  return turnsInView(log, top, bottom).flatMap((turn) =>
    [...turn.querySelectorAll(ITEM)].filter((item) => isBetween(item, top, bottom)),
  );
}

/** A long log has thousands of turns: those below the screen are not looked at. */
function turnsInView(log, top, bottom) {
  const turns = [];
  for (const part of log.children) {
    if (part.getBoundingClientRect().top >= bottom) break;
    if (part.matches(".turn") && isBetween(part, top, bottom)) turns.push(part);
  }
  return turns;
}

function isBetween(element, top, bottom) {
  const box = element.getBoundingClientRect();
  return box.height > 0 && box.bottom > top && box.top < bottom;
}

/** True for an element that is neither filtered out nor folded. */
export function isVisible(element) {
  return element.isConnected && element.checkVisibility() && !element.closest("[hidden]");
}

/** @typedef {"top" | "bottom"} Edge the edge of an element that keeps its position */

/**
 * An element, the exact position of its edge, and the scroll position. Scroll positions are whole pixels, so rounding
 * errors would accumulate without the exact position.
 *
 * @typedef {{element: Element, edge: Edge, position: number, scrollY: number, headerHeight: number}} Anchor
 */

/** The last anchor. @type {Anchor | undefined} */
let anchor;
/** The number of frames during which the anchor is still restored. */
let restoringFrames = 0;

/**
 * Change the page and keep the position of the first visible item, or of the next one that is still visible.
 *
 * @param {HTMLElement} log
 * @param {() => void} change
 * @param {Edge} [edge] "bottom" for a change that may extend the item at its top
 */
export function keepScrollPosition(log, change, edge = "top") {
  const before = itemsInView(log).map((element) => anchorOf(element, edge));
  change();
  if (!before.length) return;
  const stillVisible = before.find(({ element }) => isVisible(element));
  const next = stillVisible ? undefined : nextVisible(log, before[0].element);
  const current = stillVisible ?? (next && { ...anchorOf(next, "top"), position: contentTop() });
  if (!current) return;
  anchor = current;
  // Each frame of a long page takes time, and after a change that moved nothing there is nothing to restore.
  if (scrollToAnchor(current)) restoreForFrames();
}

function restoreForFrames() {
  if (restoringFrames === 0) requestAnimationFrame(endFrame);
  restoringFrames = STEADY_FRAMES;
}

function endFrame() {
  if (--restoringFrames > 0) requestAnimationFrame(endFrame);
}

/** Restore the anchor while turns are rendered. Browsers do not anchor the scroll position at the top of the page. */
export function restoreAnchor() {
  if (restoringFrames > 0 && anchor && anchor.scrollY === scrollY && anchor.element.isConnected) scrollToAnchor(anchor);
}

/**
 * Scroll so that the element is at its previous position. If only the header moved it, and the header was visible at
 * the top of the page, keep the header visible. Returns true if the element had moved.
 *
 * @param {Anchor} current
 */
function scrollToAnchor(current) {
  const position = current.element.getBoundingClientRect()[current.edge];
  const growth = headerHeight() - current.headerHeight;
  const isMovedByHeader = current.scrollY === 0 && Math.abs(position - current.position - growth) < 1;
  if (isMovedByHeader) current.position += growth;
  else scrollByExactly(position - current.position);
  current.headerHeight = headerHeight();
  current.scrollY = scrollY;
  return Math.abs(position - current.position) >= 0.5 || growth !== 0;
}

/**
 * @param {Element} element
 * @param {Edge} edge
 * @returns {Anchor}
 */
function anchorOf(element, edge) {
  const measured = element.getBoundingClientRect()[edge];
  const isSame = anchor?.element === element && anchor.edge === edge && anchor.scrollY === scrollY;
  const position = anchor && isSame && Math.abs(anchor.position - measured) < 1 ? anchor.position : measured;
  return { element, edge, position, scrollY, headerHeight: headerHeight() };
}

function headerHeight() {
  return document.querySelector(".session-header")?.getBoundingClientRect().height ?? 0;
}

function nextVisible(log, element) {
  const follows = (other) => element.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING;
  return [...log.querySelectorAll(ITEM)].find((other) => follows(other) && isVisible(other));
}

function scrollByExactly(distance) {
  if (Math.abs(distance) >= 0.5) scrollBy({ top: distance, behavior: "instant" });
}

export function distanceToEnd() {
  const page = document.documentElement;
  return page.scrollHeight - page.clientHeight - scrollY;
}

export function scrollToEnd() {
  scrollTo({ top: document.documentElement.scrollHeight, behavior: "instant" });
}

/**
 * Scroll a range into view, also in the boxes around it within the log.
 *
 * @param {Range} range
 * @param {HTMLElement} log
 */
export function scrollToRange(range, log) {
  const boxes = [];
  for (let box = range.startContainer.parentElement; box && box !== log; box = box.parentElement) boxes.push(box);
  untilSteady(() => {
    const isSteady = boxes.filter((box) => scrollWithin(box, range)).length === 0;
    return scrollBelow(range, (innerHeight - contentTop()) * RANGE_SHARE) && isSteady;
  });
}

/** Scroll a box so that a range is in view; true if it was scrolled. */
function scrollWithin(box, range) {
  if (box.scrollHeight <= box.clientHeight && box.scrollWidth <= box.clientWidth) return false;
  const { scrollTop, scrollLeft } = box;
  const [inner, outer] = [range.getBoundingClientRect(), box.getBoundingClientRect()];
  if (inner.top < outer.top || inner.bottom > outer.bottom) box.scrollTop += inner.top - outer.top - outer.height / 3;
  if (inner.left < outer.left || inner.right > outer.right) box.scrollLeft += inner.left - outer.left - outer.width / 3;
  return box.scrollTop !== scrollTop || box.scrollLeft !== scrollLeft;
}

/**
 * Scroll an element to a distance below the bar, and keep it there until the layout is steady or the user scrolls.
 *
 * @param {Element} element
 * @param {number} below
 */
export function scrollToItem(element, below) {
  untilSteady(() => !element.isConnected || scrollBelow(element, below));
}

/** Scroll the page so that an element or a range is at a distance below the bar; true if it was, or cannot be. */
function scrollBelow(target, below) {
  const distance = target.getBoundingClientRect().top - contentTop() - below;
  const before = scrollY;
  scrollByExactly(distance);
  return Math.abs(distance) < 1 || scrollY === before;
}

/** The latest scrolling: it ends those before it. @type {object | undefined} */
let latest;

/** Repeat a step in each frame until it returns true several times in a row, or the user scrolls. */
function untilSteady(step) {
  const own = (latest = {});
  let steady = 0;
  let framesLeft = MAX_FRAMES;
  const stop = () => (framesLeft = 0);
  USER_INPUT.forEach((name) => addEventListener(name, stop, { once: true, passive: true }));
  const repeat = () => {
    steady = step() ? steady + 1 : 0;
    if (own === latest && steady < STEADY_FRAMES && --framesLeft > 0) requestAnimationFrame(repeat);
    else USER_INPUT.forEach((name) => removeEventListener(name, stop));
  };
  repeat();
}
