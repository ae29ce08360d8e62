const plain = new Intl.NumberFormat();
const money = new Intl.NumberFormat(undefined, { style: "currency", currency: "USD", maximumSignificantDigits: 3 });

export function number(value) {
  return plain.format(value);
}

export function dollars(value) {
  return money.format(value);
}

/** "2 failures", "1 failure". */
export function counted(count, noun) {
  return `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** What of the tokens the cache gave, and what it took. */
export function ofCache(usage) {
  const { cache_read_input_tokens: given, cache_creation_input_tokens: taken } = usage ?? {};
  return [given > 0 && `${number(given)} from the cache`, taken > 0 && `${number(taken)} to the cache`];
}

/** A span of milliseconds, as precise as a person wants it. */
export function duration(milliseconds) {
  const seconds = milliseconds / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return `${minutes} min ${Math.floor(seconds) % 60} s`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}
