"""Binary values in rows of databases: `{"base64": …}`.

Each value is hidden, because a secret in it may have any encoding, and may be compressed. Objects with further keys are
not hidden.
"""

import re
from collections.abc import Callable, Iterator

_NAME = "base64"
_KEY = f'"{_NAME}"'
_OBJECT_START = re.compile(r"\{\s{0,64}\Z")
_VALUE_START = re.compile(r'\s{0,64}:\s{0,64}"')
_AFTER_VALUE = re.compile(r'"\s{0,64}(\}|,\s{0,64}")')
_WIDTH = 65


def may_contain_blobs(text: str) -> bool:
    """True if the text may contain a value at any level of escapes."""
    return _NAME in text or "\\u" in text


def find_blobs(text: str, width: Callable[[int], int] = lambda position: 1) -> Iterator[tuple[int, int]]:
    """Yield the spans of the values, in order.

    `width` returns the length of a character in the escaped text: the quotes of a string have the same, so another one
    ends the text in which a value is cut.

    Values may be very long, and no other thread runs during a call of the pattern matcher, so only their surroundings
    are matched with patterns.
    """
    key = text.find(_KEY)
    while key >= 0:
        end = key + len(_KEY)
        value = _VALUE_START.match(text, end)
        if value is not None and _OBJECT_START.search(text, max(0, key - _WIDTH), key):
            start, quote = value.end(), text.find('"', value.end())
            following = _AFTER_VALUE.match(text, quote) if quote >= 0 else None
            if following is not None and width(quote) == width(start - 1):
                start, end = (start if following[1] == "}" else quote), quote
            else:
                end = _end_of_word(text, start, quote if quote >= 0 else len(text))
            if start < end:
                yield start, end
        key = text.find(_KEY, end)


def _end_of_word(text: str, start: int, limit: int) -> int:
    """Return the end of a value that is cut."""
    return min((end for space in " \n\t" if (end := text.find(space, start, limit)) >= 0), default=limit)
