"""Texts without the accents of Latin, Greek and Cyrillic letters, for comparisons."""

import re
from unicodedata import normalize

ACCENTS = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff"
"""Character ranges of combining marks. The marks of Indic scripts and kana are excluded: they make other letters."""
_ACCENT_RUN = re.compile(f"[{ACCENTS}]+")

_STROKES = str.maketrans("ĐđĦħıŁłŦŧØø", "DdHhiLlTtOo")
"""Letters without a decomposition."""
_STROKED = re.compile("[ĐđĦħıŁłŦŧØø]")


def without_accents(text: str) -> str:
    """Return the text without accents, in Unicode normal form C; a text of accents alone stays as it is."""
    if text.isascii():
        return text
    plain = normalize("NFC", _ACCENT_RUN.sub("", normalize("NFD", text)))
    return (plain.translate(_STROKES) if _STROKED.search(plain) else plain) or text


def replace_accented(text: str) -> str:
    """Return a text in normal form C without accents, each character at its position."""
    return text if text.isascii() else _ACCENTED.sub(lambda match: _PLAIN[match[0]], text)


_PLAIN = {
    letter: plain
    for letter in map(chr, (*range(0xC0, 0x250), *range(0x370, 0x530), *range(0x1E00, 0x2000)))
    if len(plain := without_accents(letter)) == 1 and plain != letter
}
_ACCENTED = re.compile(f"[{''.join(_PLAIN)}]")
