"""Find secrets in texts.

Texts are searched slice by slice. Consecutive slices overlap by the length of the longest form, so the result does not
depend on where they begin. A call of the pattern matcher, during which no other thread runs, sees one slice only.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from ash_server.redaction.escapes import Unescaped, unescape
from ash_server.redaction.forms import FORMS, MAX_LENGTH, Form

_SLICE = 64 * 1024
_OVERLAP = MAX_LENGTH + 256
_BLOCK = 1024 * 1024
_MAX_ANCHOR = 32
_MAX_LEVELS = 8
"""Levels of JSON within strings of JSON. Without a limit, `\\u005cu005cu005c…` would have as many as characters."""

_BEGINNING_OF_ESCAPE = re.compile(r"(?<!\\)(?:\\\\){0,8}(\\(?:u[0-9A-Fa-f]{0,3})?)\Z")
_LONGEST_BEGINNING = 5 + 2 * 8


class Secret(NamedTuple):
    start: int
    end: int
    label: str


def find_secrets(text: str, *, is_json: bool = False) -> list[Secret]:
    """Return the secrets of a text in order, without overlaps.

    The text is searched as it is, and with its escapes replaced, again and again. A document of JSON is only searched
    with its escapes replaced, so that each secret begins and ends between them.
    """
    forms = _possible_forms(text)
    if not forms:
        return []
    levels, current = list[Unescaped](), text
    first = unescape(text) if is_json else None
    if first is not None:
        levels, current = [first], first.text
    secrets = _place(_scan(current, forms), levels)
    while len(levels) < _MAX_LEVELS and (level := unescape(current)) is not None:
        levels.append(level)
        current = level.text
        secrets += _place(_scan(current, forms), levels)
    return _merge(secrets)


def _possible_forms(text: str) -> Sequence[Form]:
    r"""Return the forms that the text may have at any level of escapes: for most texts, none.

    Only `\u` stands for letters and digits. Without it, a form without quotes, slashes and line ends stands in the text
    as it is, and so does the anchor of any other form.
    """
    if "\\u" in text:
        return FORMS
    return [
        form
        for form in _anchored_forms(text)
        if form.has_escapes or next(_scan(text, [form]), None) is not None
    ]


def _anchored_forms(text: str) -> list[Form]:
    found = list[Form]()
    others = list(FORMS)
    for start in range(0, len(text), _BLOCK):
        block = text[start : start + _BLOCK + _MAX_ANCHOR]
        lowered = block.lower()
        contained = [_may_contain(lowered if form.ignores_case else block, form) for form in others]
        found += [form for form, is_contained in zip(others, contained, strict=True) if is_contained]
        others = [form for form, is_contained in zip(others, contained, strict=True) if not is_contained]
    return [form for form in FORMS if form in found]


def _scan(text: str, forms: Sequence[Form]) -> Iterator[Secret]:
    """Yield the secrets of each form; those of several forms may overlap."""
    starts = [0] * len(forms)
    for start in range(0, len(text), _SLICE):
        border = start + _SLICE
        end = min(len(text), border + _OVERLAP)
        piece = text[start:end]
        lowered = piece.lower()
        for index, form in enumerate(forms):
            if _may_contain(lowered if form.ignores_case else piece, form):
                for secret in _scan_slice(text, form, max(start, starts[index]), border, end):
                    yield secret
                    starts[index] = secret.end


def _may_contain(piece: str, form: Form) -> bool:
    return any(anchor in piece for anchor in form.anchors)


def _scan_slice(text: str, form: Form, start: int, border: int, end: int) -> Iterator[Secret]:
    """Yield the secrets that begin before the border."""
    for first, last in form.find(text, start, end):
        if first >= border:
            return
        yield Secret(_start_of_escape(text, first), last, form.label)


def _start_of_escape(text: str, start: int) -> int:
    r"""Return the start, or that of the escape that it is in the middle of: `npm_…` may be preceded by a `\`."""
    match = _BEGINNING_OF_ESCAPE.search(text, max(0, start - _LONGEST_BEGINNING), start)
    return match.start(1) if match else start


def _place(secrets: Iterable[Secret], levels: list[Unescaped]) -> list[Secret]:
    """Return where the secrets of the innermost level stand in the text."""
    placed = list(secrets)
    for level in reversed(levels):
        placed = [Secret(level.place_of(start), level.place_of(end), label) for start, end, label in placed]
    return placed


def _merge(secrets: Iterable[Secret]) -> list[Secret]:
    """Join secrets that overlap. The one that begins first labels them."""
    merged = list[Secret]()
    for secret in sorted(secrets, key=itemgetter(0)):
        if merged and secret.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, secret.end))
        else:
            merged.append(secret)
    return merged
