/** Periods of time in a report: their order, their names, and the spans they cover. No DOM. */
import { dateOf } from "../lib/time-span.js";
import { UNKNOWN } from "./usage-figures.js";

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
/** A longer axis shows its end. */
const MAX_SLOTS = 200;

const utc = (options) => new Intl.DateTimeFormat(undefined, { ...options, timeZone: "UTC" });
const local = (options) => new Intl.DateTimeFormat(undefined, options);

const LONG = {
  hour: local({ weekday: "short", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" }),
  day: utc({ weekday: "short", year: "numeric", month: "short", day: "numeric" }),
  week: utc({ year: "numeric", month: "short", day: "numeric" }),
  month: utc({ year: "numeric", month: "long" }),
  block: local({ weekday: "short", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" }),
};
const SHORT = {
  hour: local({ hour: "2-digit", minute: "2-digit" }),
  day: utc({ month: "short", day: "numeric" }),
  week: utc({ month: "short", day: "numeric" }),
  month: utc({ year: "numeric", month: "short" }),
  block: local({ month: "short", day: "numeric", hour: "2-digit" }),
};

/** From the start of a period to the end of its name. */
const RANGES = { week: 6 * DAY_MS, block: 5 * HOUR_MS };

const STARTS = {
  hour: (text) => Date.parse(text.replace(/T(\d\d)/, "T$1:00")),
  day: (text) => Date.parse(`${text}T00:00Z`),
  week: startOfWeek,
  month: (text) => Date.parse(`${text}-01T00:00Z`),
  block: (text) => Date.parse(text.replace(/T(\d\d)/, "T$1:00")),
};

const NEXT = {
  hour: (start) => start + HOUR_MS,
  day: (start) => start + DAY_MS,
  week: (start) => start + 7 * DAY_MS,
  month: (start) => Date.UTC(new Date(start).getUTCFullYear(), new Date(start).getUTCMonth() + 1),
};

/** The start of a period: a moment for hours, else midnight of a date in UTC. NaN if it is unknown. */
export function startOf(by, text) {
  return text === UNKNOWN ? NaN : STARTS[by](text);
}

export function longName(by, start) {
  return by in RANGES ? LONG[by].formatRange(start, start + RANGES[by]) : LONG[by].format(start);
}

export function shortName(by, start) {
  return SHORT[by].format(start);
}

/**
 * The periods of an axis without gaps: from the first to the last one with usage, and the whole span of the filters.
 *
 * @param {string} by
 * @param {number[]} starts of the periods with usage
 * @param {{since?: number, until?: number}} bounds
 * @param {number} now
 */
export function axisOf(by, starts, { since, until }, now) {
  if (!starts.length) return [];
  if (by === "block") return [...starts].sort((one, other) => one - other).slice(-MAX_SLOTS);
  const ends = since === undefined ? [] : [periodOf(by, since), periodOf(by, Math.min(now, (until ?? now + 1) - 1))];
  const all = [...starts, ...ends];
  const [first, last] = [all.reduce((one, other) => Math.min(one, other)), all.reduce((one, other) => Math.max(one, other))];
  const slots = [];
  for (let start = first; start <= last; start = NEXT[by](start)) {
    slots.push(start);
    if (slots.length > MAX_SLOTS) slots.shift();
  }
  return slots;
}

/**
 * The span of a period, as filters of the address.
 *
 * @param {string} by
 * @param {number} start
 */
export function spanOfPeriod(by, start) {
  if (by === "hour") return { since: isoMinute(start), until: isoMinute(start + HOUR_MS) };
  const [first, last] = [start, NEXT[by](start) - DAY_MS].map((day) => new Date(day).toISOString().slice(0, 10));
  return { since: first, until: last };
}

/** The start of the period of a moment. */
function periodOf(by, moment) {
  if (by === "hour") return new Date(moment).setMinutes(0, 0, 0);
  const date = dateOf(moment);
  if (by === "month") return STARTS.month(date.slice(0, 7));
  const day = STARTS.day(date);
  return by === "week" ? day - ((new Date(day).getUTCDay() + 6) % 7) * DAY_MS : day;
}

/** The Monday of an ISO week: "2026-W48". January 4 is always in week 1. */
function startOfWeek(text) {
  const [year, week] = text.split("-W").map(Number);
  const fourth = Date.UTC(year, 0, 4);
  const monday = fourth - ((new Date(fourth).getUTCDay() + 6) % 7) * DAY_MS;
  return monday + (week - 1) * 7 * DAY_MS;
}

function isoMinute(moment) {
  return new Date(moment).toISOString().replace(":00.000Z", "Z");
}
