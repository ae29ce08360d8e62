"""Find secrets in texts.

Texts are searched slice by slice, because no other thread runs during a call of the pattern matcher. Slices overlap by
the length of the longest form, so the result does not depend on slice boundaries.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from ash_server.redaction.blobs import find_blobs, may_contain_blobs
from ash_server.redaction.escapes import Unescaped, unescape
from ash_server.redaction.forms import FORMS, MAX_LENGTH, Form

_SLICE = 64 * 1024
_OVERLAP = MAX_LENGTH + 256
_BLOCK = 1024 * 1024
_MAX_ANCHOR = 32
_MAX_LEVELS = 8
"""Levels of JSON within JSON strings. Without a limit, `\\u005cu005cu005c…` would have one level per few characters."""

_BEGINNING_OF_ESCAPE = re.compile(r"(?<!\\)(?:\\\\){0,8}(\\(?:u[0-9A-Fa-f]{0,3})?)\Z")
_LONGEST_BEGINNING = 5 + 2 * 8

BLOB_LABEL = "binary data"


class Secret(NamedTuple):
    start: int
    end: int
    label: str


def find_secrets(text: str, *, is_json: bool = False) -> list[Secret]:
    """Return the secrets and the binary values of a text in order, without overlaps.

    The text is searched as it is, and with its escapes decoded, level by level. A JSON document is searched only with
    its escapes decoded, so that no secret begins or ends within an escape.
    """
    forms = _possible_forms(text)
    if not forms and not may_contain_blobs(text):
        return []
    levels, current = list[Unescaped](), text
    first = unescape(text) if is_json else None
    if first is not None:
        levels, current = [first], first.text
    secrets = _place(_find_all(current, forms, levels), levels)
    while len(levels) < _MAX_LEVELS and (level := unescape(current)) is not None:
        levels.append(level)
        current = level.text
        secrets += _place(_find_all(current, forms, levels), levels)
    return _merge(secrets)


def _possible_forms(text: str) -> Sequence[Form]:
    r"""Return the forms that may occur in the text at any level of escapes: none for most texts.

    Only `\u` escapes letters and digits. In a text without it, the anchors of all forms occur unescaped, and so do
    complete secrets of forms without quotes, slashes and line ends.
    """
    if "\\u" in text:
        return FORMS
    return [
        form
        for form in _anchored_forms(text)
        if form.has_escapes or next(_scan(text, [form]), None) is not None
    ]


def _anchored_forms(text: str) -> list[Form]:
    """Return the forms with an anchor in the text."""
    anchored = list[Form]()
    others = list(FORMS)
    for start in range(0, len(text), _BLOCK):
        block = text[start : start + _BLOCK + _MAX_ANCHOR]
        lowered = block.lower()
        contained = [_may_contain(lowered if form.ignores_case else block, form) for form in others]
        anchored += [form for form, is_contained in zip(others, contained, strict=True) if is_contained]
        others = [form for form, is_contained in zip(others, contained, strict=True) if not is_contained]
    return [form for form in FORMS if form in anchored]


def _find_all(text: str, forms: Sequence[Form], levels: Sequence[Unescaped]) -> Iterator[Secret]:
    def width(position: int) -> int:
        return _place_of(position + 1, levels) - _place_of(position, levels)

    yield from (Secret(start, end, BLOB_LABEL) for start, end in find_blobs(text, width))
    yield from _scan(text, forms)


def _scan(text: str, forms: Sequence[Form]) -> Iterator[Secret]:
    """Yield the secrets of each form. Secrets of different forms may overlap."""
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
    r"""Return `start`, or the start of the escape that contains it, as in `\npm_…`."""
    match = _BEGINNING_OF_ESCAPE.search(text, max(0, start - _LONGEST_BEGINNING), start)
    return match.start(1) if match else start


def _place(secrets: Iterable[Secret], levels: Sequence[Unescaped]) -> list[Secret]:
    """Return the secrets of the innermost level with their positions in the text."""
    return [Secret(_place_of(start, levels), _place_of(end, levels), label) for start, end, label in secrets]


def _place_of(position: int, levels: Sequence[Unescaped]) -> int:
    for level in reversed(levels):
        position = level.place_of(position)
    return position


def _merge(secrets: Iterable[Secret]) -> list[Secret]:
    """Join overlapping secrets, with the label of the one that begins first."""
    merged = list[Secret]()
    for secret in sorted(secrets, key=itemgetter(0)):
        if merged and secret.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, secret.end))
        else:
            merged.append(secret)
    return merged
