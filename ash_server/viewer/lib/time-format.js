import { el } from "./dom.js";

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { weekday: "long", year: "numeric", month: "long", day: "numeric" });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
const short = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });

const UNITS = [
  ["minute", 60_000, 60],
  ["hour", 3_600_000, 24],
  ["day", 86_400_000, 14],
];

export function clockText(milliseconds) {
  return clock.format(milliseconds);
}

/** Milliseconds since 1970 as the clock shows it, with the whole of it to point at. */
export function clockTime(milliseconds) {
  return time(milliseconds, clock);
}

export function dayOf(milliseconds) {
  return time(milliseconds, day);
}

/** Alike for two moments of one day. */
export function dayKey(milliseconds) {
  return new Date(milliseconds).toDateString();
}

/** "3 hours ago" for what is recent, the date for what is not. */
export function ago(milliseconds, now) {
  const past = now - milliseconds;
  if (past < 60_000) return "just now";
  const unit = UNITS.find(([, size, most]) => past < size * most);
  return unit ? relative.format(-Math.floor(past / unit[1]), unit[0]) : short.format(milliseconds);
}

export function timeAgo(milliseconds, now) {
  return time(milliseconds, { format: () => ago(milliseconds, now) });
}

function time(milliseconds, form) {
  const moment = new Date(milliseconds);
  if (Number.isNaN(moment.getTime())) return el("time", {}, String(milliseconds));
  const iso = moment.toISOString();
  return el("time", { datetime: iso, title: `${moment.toString()} · ${iso}` }, form.format(moment));
}
