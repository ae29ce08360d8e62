/** Spans of time in the addresses of pages, as local days. */

const DATE = /^\d{4}-\d\d-\d\d$/;

/** The text of a date, or an empty text if it is none. */
export function readDate(text) {
  return DATE.test(text) && !Number.isNaN(Date.parse(`${text}T00:00`)) ? text : "";
}

/** The beginning of a local day. */
export function midnight(milliseconds, days = 0) {
  const day = new Date(milliseconds);
  return new Date(day.getFullYear(), day.getMonth(), day.getDate() + days).getTime();
}

/** The beginning of the day of a date. */
export function startOfDate(date, days = 0) {
  return midnight(Date.parse(`${date}T00:00`), days);
}

/** The local date of a moment. */
export function dateOf(milliseconds) {
  const day = new Date(milliseconds);
  const parts = [day.getMonth() + 1, day.getDate()].map((part) => String(part).padStart(2, "0"));
  return [String(day.getFullYear()).padStart(4, "0"), ...parts].join("-");
}

export function toIso(milliseconds) {
  return milliseconds === undefined ? undefined : new Date(milliseconds).toISOString();
}
