const plain = new Intl.NumberFormat();
const MONEY = /** @type {const} */ ({ style: "currency", currency: "USD", maximumSignificantDigits: 3 });

export function formatNumber(value) {
  return plain.format(value);
}

export function formatDollars(value) {
  return value.toLocaleString(undefined, MONEY);
}

/** A count with its noun: "2 failures", "1 failure". */
export function pluralize(count, noun) {
  return `${formatNumber(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Tokens read from the prompt cache and written to it, as texts. */
export function formatCacheUsage(usage) {
  const { cache_read_input_tokens: read, cache_creation_input_tokens: written } = usage ?? {};
  return [read > 0 && `${formatNumber(read)} from the cache`, written > 0 && `${formatNumber(written)} to the cache`];
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
