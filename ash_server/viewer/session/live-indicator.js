import { ABANDONED_MS, activityParts, keepElapsed } from "../lib/activity-text.js";
import { button, el, morphChildren, setChildren } from "../lib/dom.js";
import { currentActivity } from "./activity.js";

/** The session counts as active for this time after an event. */
const ACTIVE_MS = 15_000;

/** Show whether the session is being written, and its activity: in the log, in the bar and in the window title. */
export class LiveIndicator {
  isConnected = false;
  lastEventAt = 0;
  /** The last time of a record or of the imported file, in milliseconds; infinite if there is none. */
  lastRecordAt = Infinity;
  /** @type {number | undefined} */
  timer;

  /**
   * @param {import("../render/chat-renderer.js").ChatRenderer} renderer
   * @param {{paint: (change: () => void) => void, hasEnd: () => boolean, toEnd: () => void}} options `paint` applies a
   *   change to the page; `hasEnd` is true if the newest event is loaded; `toEnd` scrolls there
   */
  constructor(renderer, { paint, hasEnd, toEnd }) {
    this.renderer = renderer;
    this.paint = paint;
    this.hasEnd = hasEnd;
    this.mark = el("span", { class: "live-mark", hidden: true }, "live");
    this.activity = button({ class: "activity", hidden: true, title: "To the end" }, null, toEnd);
    keepElapsed(this.activity);
    this.title = document.title;
    setInterval(() => this.update(), ACTIVE_MS);
  }

  /** Record that an event arrived now. */
  eventReceived() {
    this.lastEventAt = Date.now();
  }

  /** True if a turn is in progress. */
  get isOpen() {
    return this.renderer.openTurn !== undefined && this.hasEnd() && this.idleMs < ABANDONED_MS;
  }

  /**
   * The time since the last activity. Events of records without a time have the time when they were stored, so the last
   * time of a record or of the imported file is used if it is earlier.
   */
  get idleMs() {
    const { events, lastSeq } = this.renderer.log;
    const { timestamp = Date.now(), messageSequence } = events.get(lastSeq) ?? {};
    const writtenAt = messageSequence === undefined ? timestamp : Math.min(timestamp, this.lastRecordAt);
    return Date.now() - Math.max(this.lastEventAt, writtenAt);
  }

  setConnected(isConnected) {
    this.isConnected = isConnected;
    this.update();
  }

  /**
   * Set the window title, and the last time of a record or of the imported file.
   *
   * @param {string} title
   * @param {string | undefined} lastAt
   */
  describe(title, lastAt) {
    this.title = title;
    this.lastRecordAt = lastAt === undefined ? Infinity : Date.parse(lastAt);
    this.update();
  }

  update() {
    clearTimeout(this.timer);
    const { isOpen } = this;
    if (this.renderer.isLive !== isOpen) this.paint(() => this.renderer.setLive(isOpen));
    const isLive = this.isConnected && isOpen;
    const activeFor = isLive ? this.lastEventAt + ACTIVE_MS - Date.now() : 0;
    this.renderer.container.toggleAttribute("data-live", activeFor > 0);
    if (activeFor > 0) this.timer = setTimeout(() => this.update(), activeFor);
    this.mark.hidden = !isLive;
    const activity = isLive ? currentActivity(this.renderer) : undefined;
    this.showActivity(activity);
    const mark = activity?.isWaiting ? "❓" : "●";
    const title = isLive ? `${mark} ${this.title}` : this.title;
    if (document.title !== title) document.title = title;
  }

  /** @param {import("../lib/activity-text.js").Activity | undefined} activity */
  showActivity(activity) {
    this.activity.hidden = !activity;
    if (!activity) return;
    setChildren(this.activity, morphChildren([...this.activity.childNodes], activityParts(activity, Date.now())));
  }
}
