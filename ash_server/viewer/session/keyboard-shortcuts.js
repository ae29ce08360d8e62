/** The keyboard shortcuts of a session page. */
import { toggleFold } from "../render/turn-layout.js";
import { PROMPT } from "./item-navigation.js";
import { ITEM, contentTop, scrollToItem } from "./scroll-anchor.js";

/** "g g": the second key must follow within this time. */
const SEQUENCE_MS = 700;

/**
 * The rows for listenForKeys (../lib/keyboard.js). Shortcuts without an action on this page are omitted.
 *
 * @param {Record<string, any>} actions
 * @returns {import("../lib/keyboard.js").Shortcut[]}
 */
export function shortcuts(actions) {
  const { navigation, filters, copyLink, openStored, openSearch, toStart, toEnd, close, onEdge, pause, wrap } = actions;
  const { goToError, goToHit, openAll, openMenu } = actions;
  const go = async (steps, kind) => navigation.go(steps, kind) || ((await onEdge(steps)) && navigation.go(steps, kind));
  const withItem = (act) => () => navigation.current && act(navigation.current);
  const opens = (change) => withItem(keepingPosition(pause, change));
  const toggles = (name) => () => filters.toggle(name);
  let lastPressed = -Infinity;
  const pressedTwice = ({ timeStamp }) => {
    if (timeStamp - lastPressed < SEQUENCE_MS) toStart();
    lastPressed = timeStamp;
  };
  return [
    [["j", "k"], "next, previous", { j: () => go(1), k: () => go(-1) }],
    [["J", "K"], "next, previous prompt", { J: () => go(1, PROMPT), K: () => go(-1, PROMPT) }],
    [["x", "X"], "next, previous error", { x: () => goToError(1), X: () => goToError(-1) }],
    [["g g", "G"], "to the beginning, to the end", { g: pressedTwice, G: toEnd }],
    [["e", "E"], "open this, all of this turn", { e: opens(toggleItem), E: opens(toggleTurn) }],
    [["a"], "expand or collapse all", { a: openAll }],
    [["1", "2", "3"], "Read, Work, Everything", presets(filters)],
    [["t", "s"], "thinking, system messages", { t: toggles("thinking"), s: toggles("system") }],
    [["w"], "wrap long lines", { w: wrap }],
    [["y"], "copy the link", { y: withItem(copyLink) }],
    [["r"], "show the stored text", { r: withItem(openStored) }],
    openMenu && [["m"], "actions: resume, label, share", { m: openMenu }],
    openSearch && [["/"], "search this session", { "/": openSearch }],
    goToHit && [["n", "N"], "next, previous hit of the search", { n: () => goToHit(1), N: () => goToHit(-1) }],
    [["Esc"], "close", { Escape: close }],
  ].filter(Boolean);
}

function presets(filters) {
  return { 1: () => filters.choose("read"), 2: () => filters.choose("work"), 3: () => filters.choose("everything") };
}

/** Apply a change without moving the item on the screen. */
function keepingPosition(pause, change) {
  return (item) => {
    pause();
    const below = item.getBoundingClientRect().top - contentTop();
    change(item);
    scrollToItem(item, below);
  };
}

function toggleItem(item) {
  if (item.matches("details")) item.open = !item.open;
}

function toggleTurn(item) {
  const turn = item.closest(".turn");
  const cards = [...turn.querySelectorAll(`details:is(${ITEM}, .subagent)`)];
  const isOpening = cards.some((card) => !card.open);
  if (isOpening) turn.querySelectorAll("[data-folded] > .fold").forEach((fold) => toggleFold(fold, false));
  cards.forEach((card) => (card.open = isOpening));
}
