"""Find out whether a page needs the library for formulas.

Less precise than the viewer (`lib/markdown/math.js`), which knows code and paragraphs: no formula is missed, and some
scripts of shells count as formulas.
"""

import re

from ash_server.store.log.events import StoredEvent
from ash_shared.model.event_types import CHUNKS

# In a JSON string, line ends, quotes and backslashes are escaped, and its end is the only plain quote.
_LINE = rb'(?:[^"\\$`]|\\[^nr"])'
_FORMULA = re.compile(
    rb"\$(?![ $\{]|\(\(|[A-Z_]{3}|\\[nrt])" + _LINE + rb"{1,500}(?<! )\$(?![A-Za-z0-9_$])"
    rb"|\$\$(?!\")(?:[^\"\\]|\\.){1,4000}?\$\$"
    rb"|\\\\\((?:[^\"\\]|\\.){1,1000}?\\\\\)"
    rb"|\\\\\[(?:[^\"\\]|\\.){1,4000}?\\\\\]"
)
_DELIMITER = re.compile(rb"\$|\\\\[(\[]")


def contains_formula(document: bytes) -> bool:
    """True if a string in a JSON document may contain a formula."""
    return _FORMULA.search(document) is not None


def has_formula(event: StoredEvent) -> bool:
    """True if an event may contain a formula, or a part of one if its text continues in other events."""
    if event.type in CHUNKS:
        return _DELIMITER.search(event.content) is not None
    return contains_formula(event.content)
