import { lazy } from "./lazy.js";

const plain = lazy(() => new Intl.NumberFormat());
const threeDigits = lazy(() => new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 }));
const DOLLARS = /** @type {const} */ ({ style: "currency", currency: "USD", currencyDisplay: "narrowSymbol" });
const cents = lazy(() => new Intl.NumberFormat(undefined, DOLLARS));
const threeDigitDollars = lazy(() => new Intl.NumberFormat(undefined, { ...DOLLARS, maximumSignificantDigits: 3 }));
const NO_BREAK_SPACE = "\u00a0";
const MIN_COMPACT = 10_000;
/** @type {[size: number, unit: string][]} */
const UNITS = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "K"]];
/** 999.5 and more are a thousand in three digits. */
const ROUNDED_UP = 0.9995;
const MIN_CENTS = 0.005;

export function formatNumber(value) {
  return plain().format(value);
}

/** Dollars and cents; below a dollar, three digits. */
export function formatDollars(value) {
  return Math.abs(value) >= 1 ? cents().format(value) : threeDigitDollars().format(value);
}

/** A count with at most three digits: "1.23 M". */
export function formatCompact(value) {
  const [size, unit] = UNITS.find(([size]) => Math.abs(value) >= ROUNDED_UP * size) ?? [1, ""];
  const number = threeDigits().format(value / size);
  return unit ? `${number}${NO_BREAK_SPACE}${unit}` : number;
}

/** A count: exact up to four digits, else with three digits. */
export function formatShort(value) {
  return value < MIN_COMPACT ? plain().format(value) : formatCompact(value);
}

/** Dollars and cents. */
export function formatCents(value) {
  return value > 0 && value < MIN_CENTS ? `<${cents().format(0.01)}` : cents().format(value);
}

/** A share of a whole, in percent. */
export function formatShare(part, whole) {
  if (!(whole > 0)) return "";
  const percent = (100 * part) / whole;
  return percent > 0 && percent < 0.05 ? "<0.1%" : `${percent.toFixed(1)}%`;
}

/** A count with its noun: "2 failures", "1 failure". */
export function pluralize(count, noun, format = formatNumber) {
  return `${format(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** The number of hits of a search, with a plus if there may be more. */
export function formatHits({ matches, atLeast = false }) {
  return pluralize(matches, "hit", (count) => `${formatNumber(count)}${atLeast ? "+" : ""}`);
}

/** A number of cold sessions in search results, which count at most 1,000. */
export function formatCold(count) {
  return pluralize(count, "cold session", () => `${formatNumber(count)}${count < 1000 ? "" : "+"}`);
}

/** Tokens read from the prompt cache and written to it, as texts. */
export function formatCacheUsage(usage, format = formatNumber) {
  const { cache_read_input_tokens: read, cache_creation_input_tokens: written } = usage ?? {};
  return [read > 0 && `${format(read)} read from the cache`, written > 0 && `${format(written)} written to the cache`];
}

/** A duration in milliseconds; the longer, the coarser the unit. */
export function formatDuration(milliseconds) {
  const seconds = milliseconds / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return `${minutes} min ${Math.floor(seconds) % 60} s`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}
