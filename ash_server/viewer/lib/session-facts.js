/** Where a session ran, who ran it, and how long: texts for rows and headers. */
import { formatDuration } from "./number-format.js";

const CAUSES = { schedule: "scheduled", program: "by a program" };

/** The last folder of a path: `ash` of `/work/ash`. */
export function folderName(path) {
  return path?.split(/[/\\]+/).filter(Boolean).at(-1) ?? path;
}

/**
 * "22 h 22 min, 40 min active"; empty without times. The active part is missing if it is nearly the whole.
 *
 * @param {{durationMs?: number, activeMs?: number}} session
 */
export function durationText({ durationMs = 0, activeMs = 0 }) {
  const shown = [
    durationMs >= 1000 && formatDuration(durationMs),
    isPart(activeMs, durationMs) && `${formatDuration(activeMs)} active`,
  ];
  return shown.filter(Boolean).join(", ");
}

function isPart(activeMs, durationMs) {
  return activeMs >= 1000 && activeMs < 0.8 * durationMs;
}

/**
 * Who or what began a session; empty for a person without a name.
 *
 * @param {{person?: string, cause?: string}} session
 */
export function starter({ person, cause }) {
  return [person, CAUSES[cause ?? ""]].filter(Boolean).join(", ");
}
