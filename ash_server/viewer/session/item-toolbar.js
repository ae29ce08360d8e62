import { el, iconButton } from "../lib/dom.js";
import { copyText } from "../lib/clipboard.js";
import { ITEM } from "./scroll-anchor.js";

/** Small tools for the item that somebody points at, or that has the focus: one element, which goes there. */
export class Toolbar {
  /** `actions`: by name {label, run(element)}; `usageOf` tells what the answer of an element cost. */
  constructor(log, actions, usageOf) {
    this.log = log;
    this.usageOf = usageOf;
    this.usage = el("span", { class: "item-usage" });
    const buttons = Object.entries(actions).map(([name, { label, run }]) =>
      iconButton(name, label, () => this.item?.isConnected && run(this.item)),
    );
    this.element = el(
      "div",
      { class: "item-toolbar", role: "toolbar", "aria-label": "This item", hidden: true },
      this.usage,
      ...buttons,
    );
    log.addEventListener("pointerover", ({ target, pointerType }) => pointerType !== "touch" && this.goTo(target));
    log.addEventListener("focusin", ({ target }) => this.goTo(target));
    log.addEventListener("click", ({ target }) => this.goTo(target));
    log.addEventListener("pointerleave", ({ relatedTarget }) => this.leave(relatedTarget));
    this.element.addEventListener("pointerleave", ({ relatedTarget }) => this.leave(relatedTarget));
  }

  goTo(target) {
    const item = target.closest(ITEM);
    if (!item || item === this.item) return;
    this.item = item;
    this.put();
  }

  leave(to) {
    if (to && (this.element.contains(to) || this.log.contains(to))) return;
    this.goTo(document.activeElement?.closest(`.chat-log ${ITEM}`) ?? document.body);
    if (!this.item?.contains(document.activeElement)) this.hide();
  }

  hide() {
    this.item = undefined;
    this.element.hidden = true;
  }

  /** After each painting, too: things move. */
  put() {
    if (!this.item?.isConnected || !this.element.parentElement) return this.hide();
    const [at, within] = [this.item, this.element.parentElement].map((element) => element.getBoundingClientRect());
    this.usage.textContent = this.usageOf(this.item) ?? "";
    this.element.style.setProperty("--item-top", `${Math.round(at.top - within.top)}px`);
    this.element.style.setProperty("--item-right", `${Math.round(within.right - at.right)}px`);
    this.element.hidden = false;
  }
}

/** What an item says, as it was written. */
export function textOf({ event: { payload }, text, call, results = [], answers = [] }) {
  const said = text ?? payload.text ?? payload.transcription ?? payload.message;
  const of = (events) => events.map((event) => written(event.payload.result));
  const parts = call || results.length ? [call && written(call.payload.args), ...of(results)] : [said, ...of(answers)];
  return parts.filter(Boolean).join("\n\n") || written(payload.raw ?? payload);
}

function written(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

export async function copied(voice, text, what) {
  voice.say((await copyText(text)) ? `${what} copied` : "The browser does not allow to copy");
}
