/** Browser notifications for sessions that begin to wait for the person, or end. Off until the button is pressed. */
import { activityOf } from "../lib/activity-text.js";
import { showHiddenCharacters } from "../lib/ansi.js";
import { button, el } from "../lib/dom.js";
import { sessionAddress } from "../session/permalinks.js";
import { sessionName } from "./session-row.js";

const SETTING = "ash-notifications";

/** Reasons why the browser shows no notifications. */
const REASONS = {
  insecure: "Notifications need https or localhost.",
  missing: "This browser has no notifications.",
  denied: "The browser blocks notifications from this page. Allow them in its settings for this site.",
};

export class Notifier {
  constructor() {
    this.button = button({ class: "notify", "aria-pressed": "false" }, "Notify me", () => this.toggle());
    this.note = el("span", { class: "notify-note", role: "status" });
    this.element = el("span", { class: "notifications" }, this.note, this.button);
    this.update();
  }

  /** True if notifications are wanted and allowed. */
  get isOn() {
    return !reason() && Notification.permission === "granted" && localStorage.getItem(SETTING) === "on";
  }

  async toggle() {
    const isWanted = !this.isOn;
    if (isWanted && Notification.permission === "default") await Notification.requestPermission();
    if (isWanted) localStorage.setItem(SETTING, "on");
    else localStorage.removeItem(SETTING);
    this.update();
  }

  update() {
    const obstacle = reason();
    this.button.hidden = obstacle !== undefined;
    this.button.setAttribute("aria-pressed", String(this.isOn));
    this.note.textContent = obstacle ? REASONS[obstacle] : "";
  }

  /** Notify of a session that began to wait or ended since the state before. */
  changed(before, session) {
    if (!this.isOn || !before) return;
    const now = Date.now();
    const [old, current] = [activityOf(before, now), activityOf(session, now)];
    const name = showHiddenCharacters(sessionName(session).name);
    if (current?.isWaiting && !old?.isWaiting) {
      notify(session, `Waits for you: ${name}`, [current.title, current.gist].filter(Boolean).join(" "));
    } else if (old && !current) notify(session, `Ended: ${name}`, "");
  }
}

/** @returns {keyof typeof REASONS | undefined} */
function reason() {
  if (!isSecureContext) return "insecure";
  if (!("Notification" in globalThis)) return "missing";
  return Notification.permission === "denied" ? "denied" : undefined;
}

function notify({ id }, title, body) {
  const notification = new Notification(title, { body, tag: id });
  notification.addEventListener("click", () => {
    focus();
    location.assign(sessionAddress(id));
  });
}
