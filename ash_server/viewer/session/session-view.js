/** The log with all that works on it without a server: what the page of a session and the exported one have alike. */
import { ChatRenderer } from "../render/chat-renderer.js";
import { button, el } from "../lib/dom.js";
import { helpButton, listen } from "../lib/keyboard.js";
import { state } from "../lib/placeholders.js";
import { themeToggle } from "../lib/theme.js";
import { toggleFold } from "../render/turn-layout.js";
import { Colours } from "./syntax-colours.js";
import { Filters } from "./filters.js";
import { Follow } from "./auto-scroll.js";
import { closeMenus, frame } from "./page-frame.js";
import { Outline } from "./prompt-outline.js";
import { bringTo, keepInView } from "./scroll-anchor.js";
import { shortcuts } from "./keyboard-shortcuts.js";
import { Stored } from "./stored-panel.js";
import { Toolbar, copied, textOf } from "./item-toolbar.js";
import { Voice } from "./announcer.js";
import { Walk, focus } from "./item-navigation.js";

const MARGIN = 16;
const FLASH = 1500;

export class View {
  /**
   * `addressOf` gives the address of an item, `messages` is where stored messages are asked for, `usageOf` tells what
   * the answer of an item cost. Methods that end in nothing here are the page's to replace.
   */
  constructor({ addressOf, messages, hrefOf, usageOf = () => undefined }) {
    this.addressOf = addressOf;
    this.voice = new Voice();
    this.log = el("div", { role: "log", "aria-live": "off", "aria-label": "Conversation" });
    this.renderer = new ChatRenderer(this.log, { hrefOf, onPaint: () => this.painted() });
    this.filters = new Filters(this.log, () => this.filtered());
    this.pill = button({ class: "to-end", hidden: true }, null, () => this.toEnd());
    this.follow = new Follow(this.renderer, this.pill, () => this.hasEnd());
    this.walk = new Walk(this.log);
    this.outline = new Outline(this.renderer, (prompt) => this.visit(prompt));
    this.stored = new Stored(messages);
    this.colours = new Colours(this.log);
    this.toolbar = new Toolbar(this.log, this.tools(), (element) => usageOf(this.renderer.itemOf(element)));
    this.blank = el("div", { class: "blank", hidden: true });
    addEventListener("beforeprint", () => this.renderer.fillAll());
  }

  /** Builds the page; `header`, `ahead` and `behind` are what stands around the log. */
  build({ home, mark, bar = [], header, ahead = [], behind = [], keys = {} }) {
    const openHelp = listen([...shortcuts({ ...this.acts(), ...keys }), [["?"], "this list"]]);
    const onPhones = el("div", { class: "on-phones" }, themeToggle(), helpButton(openHelp));
    this.filters.menu.querySelector(".menu-body").append(onPhones);
    return frame({
      home,
      mark,
      bar: [this.filters.presets, this.filters.menu, ...bar, themeToggle(), helpButton(openHelp), this.outline.opener],
      main: [header, ...ahead, this.blank, this.log, ...behind, this.toolbar.element],
      rail: this.outline.element,
      others: [this.pill, this.stored.element, this.voice.toast, this.voice.whisper],
    });
  }

  acts() {
    return {
      walk: this.walk,
      filters: this.filters,
      copyLink: (element) => this.copyLink(element),
      openStored: (element) => this.stored.open(this.renderer.itemOf(element)),
      toStart: () => this.toStart(),
      toEnd: () => this.toEnd(),
      close: () => this.close(),
      onEdge: () => false,
      pause: () => this.follow.pause(),
      wrap: () => keepInView(this.log, () => this.log.toggleAttribute("data-wrap")),
    };
  }

  tools() {
    const itemOf = (element) => this.renderer.itemOf(element);
    return {
      link: { label: "Copy link", run: (element) => this.copyLink(element) },
      stored: { label: "What is stored", run: (element) => this.stored.open(itemOf(element)) },
      text: { label: "Copy text", run: (element) => copied(this.voice, textOf(itemOf(element)), "Text") },
    };
  }

  copyLink(element) {
    return copied(this.voice, new URL(this.addressOf(this.renderer.itemOf(element)), location).href, "Link");
  }

  /** Goes to an item; the way back leads here. */
  visit(element) {
    history.pushState(null, "", this.addressOf(this.renderer.itemOf(element)));
    this.present(element);
  }

  /** Shows an item: opens what it is folded into, lets it through the filters, scrolls there and flashes. */
  present(element, { below = MARGIN, flashes = true } = {}) {
    this.follow.release();
    this.filters.reveal(element);
    while (toggleFold(element.closest("[hidden]"), false));
    for (let outer = element.parentElement; outer !== this.log; outer = outer.parentElement) {
      if (outer.matches("details")) outer.open = true;
    }
    focus(element);
    bringTo(element, below);
    if (!flashes) return;
    element.setAttribute("data-flash", "");
    setTimeout(() => element.removeAttribute("data-flash"), FLASH);
  }

  /** To the first record that no table knows, if it is here; gives whether it is. */
  goToUnrecognised() {
    const raw = this.renderer.inOrder.find(({ item }) => item.event.type === "raw");
    if (raw) this.visit(raw.element);
    return raw !== undefined;
  }

  toStart() {
    this.follow.release();
    scrollTo({ top: 0, behavior: "instant" });
  }

  toEnd() {
    this.follow.stick();
  }

  hasEnd() {
    return true;
  }

  close() {
    if (closeMenus()) return;
    if (this.stored.isOpen) this.stored.close();
    else if (this.outline.isOpen) this.outline.toggle(false);
    else document.activeElement?.blur();
  }

  painted() {
    this.filters.update();
    this.outline.update();
    this.colours.update();
    this.toolbar.put();
    this.showBlank();
  }

  filtered() {
    this.showBlank();
    this.toolbar.put();
  }

  /** Where all that is loaded is left out, that is told. */
  showBlank() {
    const isBlank = this.renderer.shown.size > 0 && !this.log.querySelector(":scope > .turn:not([data-empty])");
    this.blank.hidden = !isBlank;
    if (!isBlank || this.blank.firstChild) return;
    const action = { label: "Show everything", run: () => this.filters.choose("everything") };
    const detail = "The filters show nothing of this session.";
    this.blank.append(state("none", "All of it is left out", { detail, action }));
  }
}
