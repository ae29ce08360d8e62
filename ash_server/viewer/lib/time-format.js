import { el } from "./dom.js";

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { weekday: "long", year: "numeric", month: "long", day: "numeric" });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
const short = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });

/** @type {[unit: Intl.RelativeTimeFormatUnit, milliseconds: number, max: number][]} */
const UNITS = [
  ["minute", 60_000, 60],
  ["hour", 3_600_000, 24],
  ["day", 86_400_000, 14],
];

export function clockText(milliseconds) {
  return clock.format(milliseconds);
}

/** A `<time>` with the local time; its title has the full timestamp. */
export function clockTime(milliseconds) {
  return time(milliseconds, clock);
}

export function dayTime(milliseconds) {
  return time(milliseconds, day);
}

/** A key that is equal for two moments of the same local day. */
export function dayKey(milliseconds) {
  return new Date(milliseconds).toDateString();
}

/** "3 hours ago" for recent moments, else the date. */
export function agoText(milliseconds, now) {
  const past = now - milliseconds;
  if (past < 60_000) return "just now";
  const unit = UNITS.find(([, size, max]) => past < size * max);
  return unit ? relative.format(-Math.floor(past / unit[1]), unit[0]) : short.format(milliseconds);
}

export function agoTime(milliseconds, now) {
  return time(milliseconds, { format: () => agoText(milliseconds, now) });
}

function time(milliseconds, formatter) {
  const moment = new Date(milliseconds);
  if (Number.isNaN(moment.getTime())) return el("time", {}, String(milliseconds));
  const iso = moment.toISOString();
  return el("time", { datetime: iso, title: `${moment.toString()} · ${iso}` }, formatter.format(moment));
}
