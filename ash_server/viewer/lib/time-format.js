import { el } from "./dom.js";
import { lazy } from "./lazy.js";

const clock = lazy(() => new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" }));
const day = lazy(() => new Intl.DateTimeFormat(undefined, { weekday: "long", year: "numeric", month: "long", day: "numeric" }));
const dayOfYear = lazy(() => new Intl.DateTimeFormat(undefined, { weekday: "short", month: "short", day: "numeric" }));
const date = lazy(() => new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" }));
const dateAndClock = lazy(() => new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" }));

export function clockText(milliseconds) {
  return clock().format(milliseconds);
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

/** The date of a moment in a heading: with the day of the week in this year, else with the year. */
export function shortDayTime(milliseconds, now) {
  const isThisYear = new Date(milliseconds).getFullYear() === new Date(now).getFullYear();
  return time(milliseconds, isThisYear ? dayOfYear : date);
}

/** A `<time>` with the local date and time. */
export function momentTime(milliseconds) {
  return time(milliseconds, dateAndClock);
}

/** The local date and time of a moment. */
export function momentText(milliseconds) {
  return dateAndClock().format(milliseconds);
}

/** The local dates and times between two moments. */
export function rangeText(begin, end) {
  return dateAndClock().formatRange(begin, end);
}

function time(milliseconds, formatter) {
  const moment = new Date(milliseconds);
  if (Number.isNaN(moment.getTime())) return el("time", {}, String(milliseconds));
  const iso = moment.toISOString();
  return el("time", { datetime: iso, title: `${moment.toString()} · ${iso}` }, formatter().format(moment));
}
