const ANCHORS = "[data-session-id]";

/** What somebody looks at: how far down, and the row at the top, for what is above may grow or shrink. */
export function sightOf(parent) {
  if (scrollY === 0) return undefined;
  const anchor = [...parent.querySelectorAll(ANCHORS)].find((element) => topOf(element) > 0);
  return { top: scrollY, id: anchor?.dataset.sessionId, offset: anchor && topOf(anchor) };
}

/** Scrolls there again; to the top, if nothing else is known. */
export function lookAt(parent, sight) {
  scrollTo(0, sight?.top ?? 0);
  const anchor = sight?.id && parent.querySelector(`[data-session-id="${CSS.escape(sight.id)}"]`);
  if (!anchor) return;
  const bring = () => anchor.isConnected && scrollBy(0, topOf(anchor) - sight.offset);
  anchor.scrollIntoView();
  bring();
  requestAnimationFrame(() => requestAnimationFrame(bring)); // the heights of the rows around it are known then
}

function topOf(element) {
  return element.getBoundingClientRect().top;
}
