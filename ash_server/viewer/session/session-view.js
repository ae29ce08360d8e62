/** The log with everything that works without a server: shared by the session page and the exported page. */
import { blurActiveElement, button, el } from "../lib/dom.js";
import { helpButton, listenForKeys } from "../lib/keyboard.js";
import { showLongTexts } from "../lib/long-text.js";
import { placeholder } from "../lib/placeholders.js";
import { themeToggle } from "../lib/theme.js";
import { ChatRenderer } from "../render/chat-renderer.js";
import { toggleFold } from "../render/turn-layout.js";
import { Announcer } from "./announcer.js";
import { AutoScroll } from "./auto-scroll.js";
import { Filters } from "./filters.js";
import { ItemNavigation, focusItem } from "./item-navigation.js";
import { ItemToolbar, copyAndAnnounce, itemText } from "./item-toolbar.js";
import { shortcuts } from "./keyboard-shortcuts.js";
import { OpenAll } from "./open-all.js";
import { closeMenus, pageFrame } from "./page-frame.js";
import { PromptOutline } from "./prompt-outline.js";
import { FAILED, keepScrollPosition, scrollToItem } from "./scroll-anchor.js";
import { StoredPanel } from "./stored-panel.js";
import { SyntaxColours } from "./syntax-colours.js";
import { Thumbnails } from "./thumbnails.js";

const MARGIN = 16;
const FLASH_MS = 1500;

/** @typedef {import("../render/event-log.js").Item} Item */

/** Subclasses override goToError, toStart, toEnd, hasEnd, isWhole, endFocus, onPaint and onFilter. */
export class SessionView {
  /**
   * @param {object} options
   * @param {(item: Item) => string} options.addressOf the address of an item
   * @param {string} [options.messages] the address of the stored messages
   * @param {(sessionId: string) => string} [options.hrefOf] the address of another session
   * @param {(item: Item) => string | undefined} [options.usageOf] the usage text of an item's answer
   */
  constructor({ addressOf, messages, hrefOf, usageOf = () => undefined }) {
    this.addressOf = addressOf;
    this.announcer = new Announcer();
    this.log = el("div", { role: "log", "aria-live": "off", "aria-label": "Conversation" });
    this.renderer = new ChatRenderer(this.log, { hrefOf, onPaint: (painted) => this.onPaint(painted) });
    this.filters = new Filters(this.log, () => this.onFilter());
    this.pill = button({ class: "to-end", hidden: true }, null, () => this.toEnd());
    this.autoScroll = new AutoScroll(this.renderer, this.pill, () => this.hasEnd());
    this.openAll = new OpenAll(this.renderer, {
      announce: (text) => this.announcer.show(text),
      pause: () => this.autoScroll.pause(),
      paint: (change) => this.autoScroll.paint(change),
    });
    this.navigation = new ItemNavigation(this.log);
    this.outline = new PromptOutline(this.renderer, (prompt) => this.visit(prompt));
    this.storedPanel = new StoredPanel(messages);
    /** @type {import("./side-panel.js").SidePanel[]} */
    this.panels = [this.storedPanel];
    this.thumbnails = new Thumbnails(this.renderer);
    this.syntaxColours = new SyntaxColours(this.log);
    this.toolbar = new ItemToolbar(this.log, this.toolbarActions(), (element) => usageOf(this.itemOf(element)));
    this.blank = el("div", { class: "blank", hidden: true });
    this.log.addEventListener("copied", (event) => this.announcer.show(/** @type {CustomEvent} */ (event).detail));
    addEventListener("beforeprint", () => this.prepareForPrint());
  }

  /**
   * Build the page. `before` and `after` are elements around the log, `panels` are more side panels.
   *
   * @param {{home?: string, marks?: Element[], bar?: any[], header: Element, before?: any[], after?: any[],
   *   panels?: import("./side-panel.js").SidePanel[], actions?: Record<string, any>}} parts
   */
  build({ home, marks, bar = [], header, before = [], after = [], panels = [], actions = {} }) {
    this.panels.push(...panels);
    const openHelp = listenForKeys([...shortcuts({ ...this.actions(), ...actions }), [["?"], "this list"]]);
    const onPhones = el("div", { class: "on-phones" }, this.openAll.button(), themeToggle(), helpButton(openHelp));
    this.filters.menu.querySelector(".menu-body")?.append(onPhones);
    return pageFrame({
      home,
      marks,
      bar: [this.filters.presets, this.filters.menu, ...bar, this.openAll.button(), themeToggle(), helpButton(openHelp), this.outline.opener],
      main: [header, ...before, this.blank, this.log, ...after, this.toolbar.element],
      rail: this.outline.element,
      others: [this.pill, ...this.panels.map(({ element }) => element), this.announcer.toast, this.announcer.hiddenStatus],
    });
  }

  prepareForPrint() {
    this.renderer.fillAllToolBodies();
    showLongTexts(this.log);
  }

  /** The actions of keyboard shortcuts. */
  actions() {
    return {
      navigation: this.navigation,
      filters: this.filters,
      copyLink: (element) => this.copyLink(element),
      openStored: (element) => this.storedPanel.open(this.itemOf(element)),
      goToError: (steps) => this.goToError(steps),
      toStart: () => this.toStart(),
      toEnd: () => this.toEnd(),
      close: () => this.close(),
      onEdge: () => false,
      pause: () => this.autoScroll.pause(),
      openAll: () => this.openAll.toggle(),
      wrap: () => keepScrollPosition(this.log, () => this.log.toggleAttribute("data-wrap")),
    };
  }

  toolbarActions() {
    return {
      link: { label: "Copy link", run: (element) => this.copyLink(element) },
      stored: { label: "Show the stored text", run: (element) => this.storedPanel.open(this.itemOf(element)) },
      text: { label: "Copy text", run: (element) => this.copyText(element) },
    };
  }

  /** @returns {any} the item shown by an element of the log */
  itemOf(element) {
    return this.renderer.itemOf(element);
  }

  copyLink(element) {
    const { href } = new URL(this.addressOf(this.itemOf(element)), location.href);
    return copyAndAnnounce(this.announcer, href, "Link");
  }

  copyText(element) {
    return copyAndAnnounce(this.announcer, itemText(this.itemOf(element)), "Text");
  }

  /** Go to an item, as a new entry of the history. */
  visit(element) {
    history.pushState(null, "", this.addressOf(this.itemOf(element)));
    this.present(element);
  }

  /**
   * Unfold and unfilter an item, scroll to it and flash it.
   *
   * @param {any} element
   * @param {{below?: number, flashes?: boolean, focuses?: boolean}} [options] `below` is the distance to the bar
   */
  present(element, { below = MARGIN, flashes = true, focuses = true } = {}) {
    this.autoScroll.release();
    this.filters.reveal(element);
    while (toggleFold(element.closest("[hidden]"), false));
    for (let outer = element.parentElement; outer !== this.log; outer = outer.parentElement) {
      if (outer.matches("details")) outer.open = true;
    }
    if (focuses) focusItem(element);
    scrollToItem(element, below);
    if (!flashes) return;
    element.setAttribute("data-flash", "");
    setTimeout(() => element.removeAttribute("data-flash"), FLASH_MS);
  }

  /**
   * Go to the next (1) or previous (-1) error.
   *
   * @param {number} steps
   * @param {Element | null} [current] the item to start from
   * @returns {any}
   */
  goToError(steps, current) {
    if (!this.visitError(steps, current)) this.announceNoError(steps);
  }

  /** Go through the errors one by one, then from the first again: the count is at the top of the page. */
  goToCountedError() {
    const { last } = this.navigation;
    return this.goToError(1, last?.isConnected && last.matches(FAILED) ? last : undefined);
  }

  announceNoError(steps) {
    this.navigation.last = null;
    this.announcer.show(steps > 0 ? "No error after this" : "No error before this");
  }

  /** Go to the next or previous error among the loaded items, also of subagents; false if there is none. */
  visitError(steps, current) {
    const error = this.navigation.neighbour(steps, FAILED, () => true, current);
    if (!error) return false;
    this.openError(error);
    this.visit(error);
    return true;
  }

  /** Open a failed call, and announce the number of its error. */
  openError(error) {
    if (error instanceof HTMLDetailsElement) error.open = true;
    const errors = [...this.log.querySelectorAll(FAILED)];
    if (this.isWhole()) this.announcer.show(`Error ${errors.indexOf(error) + 1} of ${errors.length}`);
  }

  /** Go to the first loaded record that was not recognized; false if there is none. */
  visitUnrecognised() {
    const raw = this.renderer.inOrder.find(({ item }) => item.event.type === "raw");
    if (raw) this.visit(raw.element);
    return raw !== undefined;
  }

  /** @returns {any} */
  toStart() {
    this.autoScroll.release();
    scrollTo({ top: 0, behavior: "instant" });
  }

  /** @returns {any} */
  toEnd() {
    this.autoScroll.follow();
  }

  hasEnd() {
    return true;
  }

  /** True if all events are loaded. */
  isWhole() {
    return true;
  }

  close() {
    if (closeMenus()) return;
    const panel = this.panels.findLast(({ isOpen }) => isOpen);
    if (panel) panel.close();
    else if (this.outline.isOpen) this.outline.toggle(false);
    else this.endFocus();
  }

  endFocus() {
    blurActiveElement();
  }

  /** The text of the first prompt in the log; empty if there is none. */
  firstPrompt() {
    const prompt = this.log.querySelector(".user-message:not([data-synthetic])");
    const { visibleText, text, transcription } = (prompt && this.itemOf(prompt)?.event.payload) ?? {};
    return visibleText ?? text ?? transcription ?? "";
  }

  /** @param {Set<Element>} painted the turns that were painted */
  onPaint(painted) {
    this.openAll.update();
    this.filters.update(painted);
    this.outline.update();
    this.syntaxColours.update();
    this.thumbnails.update(painted);
    this.toolbar.update();
    this.updateBlank();
  }

  onFilter() {
    this.updateBlank();
    this.toolbar.update();
  }

  /** Show a notice if the filters hide all loaded items. */
  updateBlank() {
    const isBlank = this.renderer.itemViews.size > 0 && !this.log.querySelector(":scope > .turn:not([data-empty])");
    this.blank.hidden = !isBlank;
    if (!isBlank || this.blank.firstChild) return;
    const action = { label: "Show everything", run: () => this.filters.choose("everything") };
    const detail = "The filters hide all items of this session.";
    this.blank.append(placeholder("none", "Everything is filtered out", { detail, action }));
  }
}
