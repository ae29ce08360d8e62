/** What keys do, and the list of them that `?` shows. */
import { toggleFold } from "../render/turn-layout.js";
import { PROMPT } from "./item-navigation.js";
import { ITEM, bringTo, edge } from "./scroll-anchor.js";

const TWICE = 700;

/** Rows of keys (../lib/keyboard.js); those whose acts a page has no use for are left out. */
export function shortcuts(acts) {
  const { walk, filters, copyLink, openStored, openFind, toStart, toEnd, close, onEdge, pause, wrap } = acts;
  const go = async (steps, kind) => walk.go(steps, kind) || ((await onEdge(steps)) && walk.go(steps, kind));
  const withItem = (act) => () => walk.current && act(walk.current);
  const opens = (change) => withItem(opening(pause, change));
  const toggles = (name) => () => filters.toggle(name);
  let pressed = -Infinity;
  const twice = ({ timeStamp }) => {
    if (timeStamp - pressed < TWICE) toStart();
    pressed = timeStamp;
  };
  return [
    [["j", "k"], "next, previous", { j: () => go(1), k: () => go(-1) }],
    [["J", "K"], "next, previous prompt", { J: () => go(1, PROMPT), K: () => go(-1, PROMPT) }],
    [["g g", "G"], "to the beginning, to the end", { g: twice, G: toEnd }],
    [["e", "E"], "open this, all of this turn", { e: opens(one), E: opens(all) }],
    [["1", "2", "3"], "Read, Work, Everything", presets(filters)],
    [["t", "s"], "thinking, system messages", { t: toggles("thinking"), s: toggles("system") }],
    [["w"], "wrap long lines", { w: wrap }],
    [["y"], "copy the link", { y: withItem(copyLink) }],
    [["r"], "what is stored", { r: withItem(openStored) }],
    openFind && [["/"], "search this session", { "/": openFind }],
    [["Esc"], "close", { Escape: close }],
  ].filter(Boolean);
}

function presets(filters) {
  return { 1: () => filters.choose("read"), 2: () => filters.choose("work"), 3: () => filters.choose("everything") };
}

/** Opens cards or closes them; what somebody looks at stays where it is. */
function opening(pause, change) {
  return (item) => {
    pause();
    const below = item.getBoundingClientRect().top - edge();
    change(item);
    bringTo(item, below);
  };
}

function one(item) {
  if (item.matches("details")) item.open = !item.open;
}

function all(item) {
  const turn = item.closest(".turn");
  const cards = [...turn.querySelectorAll(`details:is(${ITEM})`)];
  const isOpening = cards.some((card) => !card.open);
  if (isOpening) turn.querySelectorAll(".tool-calls[data-folded] > .fold").forEach((fold) => toggleFold(fold, false));
  cards.forEach((card) => (card.open = isOpening));
}
