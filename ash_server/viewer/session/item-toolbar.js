import { plainOutput } from "../lib/ansi.js";
import { copyNotice, copyText } from "../lib/clipboard.js";
import { el, iconButton } from "../lib/dom.js";
import { callText } from "../render/tools/registry.js";
import { userShell } from "../render/user-shell.js";
import { ITEM } from "./scroll-anchor.js";

/** Buttons for the hovered or focused item: one element that moves to it. */
export class ItemToolbar {
  /** @type {any} */
  item;

  /**
   * @param {HTMLElement} log
   * @param {Record<string, {label: string, run: (element: Element) => void}>} actions
   * @param {(element: Element) => string | undefined} usageOf the usage text of an element's answer
   */
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
    log.addEventListener("pointerover", ({ target, pointerType }) => pointerType !== "touch" && this.moveTo(target));
    log.addEventListener("focusin", ({ target }) => this.moveTo(target));
    log.addEventListener("click", ({ target }) => this.moveTo(target));
    log.addEventListener("pointerleave", ({ relatedTarget }) => this.onPointerLeave(relatedTarget));
    this.element.addEventListener("pointerleave", ({ relatedTarget }) => this.onPointerLeave(relatedTarget));
  }

  moveTo(target) {
    const item = target.closest(ITEM);
    if (!item || item === this.item) return;
    this.item = item;
    this.update();
  }

  onPointerLeave(to) {
    if (to && (this.element.contains(to) || this.log.contains(to))) return;
    this.moveTo(document.activeElement?.closest(`.chat-log ${ITEM}`) ?? document.body);
    if (!this.item?.contains(document.activeElement)) this.hide();
  }

  hide() {
    this.item = undefined;
    this.element.hidden = true;
  }

  /** Update the position; also after each painting, which may move the item. */
  update() {
    const parent = this.element.parentElement;
    if (!this.item?.isConnected || !parent) return this.hide();
    const [box, parentBox] = [this.item, parent].map((element) => element.getBoundingClientRect());
    this.usage.textContent = this.usageOf(this.item) ?? "";
    this.element.style.setProperty("--item-top", `${Math.round(box.top - parentBox.top)}px`);
    this.element.style.setProperty("--item-right", `${Math.round(parentBox.right - box.right)}px`);
    this.element.hidden = false;
  }
}

/** The text of an item, for copying: of a shell command, `$`, the command and its output. */
export function itemText(item) {
  const { event, text, call, results = [], answers = [] } = item;
  const { payload } = event;
  if (call || results.length) return callText(item) ?? joined([call && asText(call.payload.args), ...resultsOf(results)]);
  const content = text ?? shellText(payload.text) ?? payload.text ?? payload.transcription ?? payload.message;
  return joined([content, ...resultsOf(answers)]) || asText(payload.raw ?? payload);
}

/** A shell command that a person ran, or its output. */
function shellText(text) {
  const { command, stdout, stderr } = userShell(text) ?? {};
  if (command !== undefined) return command;
  return stdout === undefined ? undefined : joined([stdout, stderr].map((each) => plainOutput(each).trimEnd()));
}

function resultsOf(events) {
  return events.map(({ payload }) => asText(payload.result));
}

function joined(parts) {
  return parts.filter(Boolean).join("\n\n");
}

function asText(value) {
  return typeof value === "string" ? plainOutput(value) : JSON.stringify(value, null, 2);
}

/** Copy a text and report the outcome. */
export async function copyAndAnnounce(announcer, text, name) {
  announcer.show(copyNotice(await copyText(text), text, name));
}
