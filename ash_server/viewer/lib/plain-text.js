const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

/** True if a text contains no character that is invisible or changes the order of others. */
export function isPlain(text) {
  return !HIDDEN.test(text);
}
