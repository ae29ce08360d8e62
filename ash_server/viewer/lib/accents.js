/** Texts without accents, for comparisons: as `ash_shared/parsing/accents.py`. */

/** Combining marks of Latin, Greek and Cyrillic letters, as characters of a pattern. */
export const ACCENTS = String.raw`\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff`;

const ACCENT = new RegExp(`[${ACCENTS}]+`, "gu");
const ACCENTED = /[\u00c0-\u024f\u0370-\u052f\u1e00-\u1fff]/g;
const STROKED = { "Đ": "D", "đ": "d", "Ħ": "H", "ħ": "h", "ı": "i", "Ł": "L", "ł": "l", "Ŧ": "T", "ŧ": "t", "Ø": "O", "ø": "o" };

/** @param {string} text */
export function withoutAccents(text) {
  return replaceAccented(text.normalize("NFD").replace(ACCENT, "").normalize("NFC"));
}

/**
 * Replace accented letters by plain ones; each character keeps its position, and combining marks stay.
 *
 * @param {string} text
 */
export function replaceAccented(text) {
  return text.replace(ACCENTED, plainLetter);
}

function plainLetter(letter) {
  const plain = letter.normalize("NFD").replace(ACCENT, "");
  return STROKED[plain] ?? (plain.length === 1 ? plain : letter);
}
