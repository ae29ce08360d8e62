const ANCHORS = "[data-session-id]";

/** The scroll position with the first visible row as its anchor, since content above may change its height. */
export function readScrollPosition(parent) {
  if (scrollY === 0) return undefined;
  const anchor = [...parent.querySelectorAll(ANCHORS)].find((element) => topOf(element) > 0);
  return { top: scrollY, id: anchor?.dataset.sessionId, offset: anchor && topOf(anchor) };
}

/** Restore a scroll position, by default the top. */
export function restoreScrollPosition(parent, position) {
  scrollTo(0, position?.top ?? 0);
  const anchor = position?.id && parent.querySelector(`[data-session-id="${CSS.escape(position.id)}"]`);
  if (!anchor) return;
  const align = () => anchor.isConnected && scrollBy(0, topOf(anchor) - position.offset);
  anchor.scrollIntoView();
  align();
  requestAnimationFrame(() => requestAnimationFrame(align)); // by then the rows around it are rendered
}

function topOf(element) {
  return element.getBoundingClientRect().top;
}
