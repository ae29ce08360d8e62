"""What somebody has written, as a part of a document of Markdown: as it was written, and over where it ends.

A text may be Markdown, and is shown as such. But its tags are shown as text, its pictures become links, it names no
addresses for others, and a fence that is left open is closed. Code is left alone as far as it is plain that it is code:
what depends on the lines around is taken for none, and at worst shows a backslash.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

_BLANK = " \t"
_MAY_GO_ON = " " * 4
"""What begins so may belong to the paragraph ahead of it, whatever it looks like."""
_FENCE = re.compile(r"(?P<ahead>[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*)(?P<fence>`{3,}|~{3,})(?P<words>.*)")
_TICKS = re.compile("(`+)")
_MARKUP = re.compile(r"(?P<even>(?<!\\)(?:\\\\)*)(?P<mark><(?=[A-Za-z/!?])|!(?=\[)|(?<=\]):)")


def contained(text: str) -> str | None:
    """None where it is not plain which lines stand in a fence: it can be shown as code, as a whole."""
    lines = re.sub("\r\n?", "\n", text).strip("\n").split("\n")
    shown, paragraph, place = list[str](), list[str](), 0
    while place < len(lines):
        fenced = _fenced(lines, place)
        if fenced is None:
            return None
        if paragraph and lines[place].startswith(_MAY_GO_ON):
            paragraph += fenced or [lines[place]]
        elif fenced or not lines[place].strip(_BLANK):
            shown += [*_without_markup(paragraph), *(fenced or [lines[place]])]
            paragraph = []
        else:
            paragraph.append(lines[place])
        place += max(1, len(fenced))
    return "\n".join([*shown, *_without_markup(paragraph)])


def _fenced(lines: Sequence[str], start: int) -> list[str] | None:
    """The lines of the fence that begins here, with one that closes it; none where none does. None where that depends
    on the list or the quote in which it stands."""
    opening = _FENCE.fullmatch(lines[start])
    if opening is None or (opening["fence"][0] == "`" and "`" in opening["words"]):
        return []
    ahead, fence = opening["ahead"], opening["fence"]
    if not ahead:
        ends = (place for place in range(start + 1, len(lines)) if _closes(_outdented(lines[place]), fence))
        end = next(ends, None)
        return [*lines[start:], fence] if end is None else list(lines[start : end + 1])
    for place in range(start + 1, len(lines)):
        line = lines[place]
        if line.strip(_BLANK) and not line.startswith(ahead):
            return None
        if _closes(line.lstrip(" "), fence):
            return list(lines[start : place + 1]) if line.startswith(ahead + fence[0]) else None
    return None


def _closes(line: str, fence: str) -> bool:
    ticks = line.rstrip(_BLANK)
    return len(ticks) >= len(fence) and not ticks.strip(fence[0])


def _outdented(line: str) -> str:
    """By as much as the end of a fence may be further in."""
    return line[min(3, len(line) - len(line.lstrip(" "))) :]


def _without_markup(paragraph: Iterable[str]) -> Iterator[str]:
    """Code between ticks stays as it is where no tick of an earlier line may be the one that opens it."""
    loose = set[int]()
    for line in paragraph:
        pieces = _TICKS.split(line)
        lengths = [len(ticks) for ticks in pieces[1::2]]
        if "\\`" in line or not loose.isdisjoint(lengths):
            loose.update(lengths, (length - 1 for length in lengths))
            yield _escaped(line)
        else:
            spans = _spans(pieces)
            inside = {place for first, last in spans for place in range(first, last + 1)}
            loose.update(len(pieces[place]) for place in range(1, len(pieces), 2) if place not in inside)
            yield "".join(piece if place in inside else _escaped(piece) for place, piece in enumerate(pieces))


def _spans(pieces: Sequence[str]) -> list[tuple[int, int]]:
    """Where code begins and ends, among pieces of which every other one is ticks: with the next as many of them."""
    closing, following = dict[int, int](), dict[str, int]()
    for place in range(len(pieces) - 2, 0, -2):
        if pieces[place] in following:
            closing[place] = following[pieces[place]]
        following[pieces[place]] = place
    spans, place = list[tuple[int, int]](), 1
    while place < len(pieces):
        end = closing.get(place, place)
        if end > place:
            spans.append((place, end))
        place = end + 2
    return spans


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\g<even>\\\g<mark>", text)
