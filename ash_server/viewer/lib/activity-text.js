/** The current activity of a session, as elements: for the bar, the list and the page of running sessions. */
import { showHiddenCharacters } from "./ansi.js";
import { el } from "./dom.js";
import { markHidden } from "./hidden-characters.js";
import { formatDuration } from "./number-format.js";

/** Longer times come from clocks that differ, or from a replay. */
const MAX_ELAPSED_MS = 24 * 3_600_000;
/** An open turn without events for this time counts as abandoned. */
export const ABANDONED_MS = 10 * 60_000;
const SECOND = 1000;

/**
 * `title` and `gist` describe the running call, or `title` is a word such as "Writing"; `since` is its start.
 *
 * @typedef {{isWaiting?: boolean, title?: string, gist?: string, since?: number}} Activity
 */

/**
 * The parts of a text such as "Bash pytest -q 12 s". `updateElapsed` updates the time.
 *
 * @param {Activity} activity
 * @param {number} now
 */
export function activityParts({ title, gist, since, isWaiting }, now) {
  const parts = [
    isWaiting && el("strong", { class: "waits" }, "waits for you"),
    title && el("span", { class: "activity-title" }, el("bdi", {}, title)),
    gist && el("span", { class: "activity-gist" }, el("bdi", {}, ...markHidden(gist))),
    since !== undefined && el("span", { class: "activity-time", "data-since": since }, elapsedText(now - since)),
  ].filter((part) => part instanceof Element);
  return parts.flatMap((part, index) => (index ? [new Text(" "), part] : [part]));
}

/** Update the times within an element once a second. */
export function keepElapsed(element) {
  setInterval(() => {
    for (const part of element.querySelectorAll(".activity-time")) {
      const text = elapsedText(Date.now() - Number(part.dataset.since));
      if (part.textContent !== text) part.textContent = text;
    }
  }, SECOND);
}

/** Whole seconds, so that the text changes once a second. */
function elapsedText(milliseconds) {
  if (!(milliseconds >= SECOND && milliseconds < MAX_ELAPSED_MS)) return "";
  return milliseconds < 60 * SECOND ? `${Math.floor(milliseconds / SECOND)} s` : formatDuration(milliseconds);
}

const WORDS = { writing: "Writing", thinking: "Thinking", working: "Working" };

/**
 * The activity in a session of the API; undefined if the session is not running.
 *
 * @returns {Activity | undefined}
 */
export function activityOf({ activity, updatedAt }, now) {
  const isRunning = activity && activity.state !== "ended" && now - Date.parse(updatedAt) < ABANDONED_MS;
  if (!isRunning) return undefined;
  const { state, tool, argument, since } = activity;
  return {
    isWaiting: state === "waiting",
    title: tool === undefined ? WORDS[state] : showHiddenCharacters(tool),
    gist: argument === undefined ? undefined : showHiddenCharacters(argument),
    since: since === undefined ? undefined : Date.parse(since),
  };
}
