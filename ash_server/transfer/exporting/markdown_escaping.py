"""Embed a text in a Markdown document so that it cannot affect the rest of the document.

Markdown in the text is rendered. But HTML tags are shown as text, images become links, link reference definitions are
escaped, and an open fence is closed. Only text that is code in every context is left unescaped; at worst, a backslash
is shown in code.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

_WHITESPACE = " \t"
_CONTINUATION = " " * 4
"""A line with this indentation may continue the previous paragraph, even if it looks like a fence."""
_FENCE = re.compile(r"(?P<indent>[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*)(?P<fence>`{3,}|~{3,})(?P<info>.*)")
_TICKS = re.compile("(`+)")
_MARKUP = re.compile(r"(?P<even>(?<!\\)(?:\\\\)*)(?P<mark><(?=[A-Za-z/!?])|!(?=\[)|(?<=\]):)")


def embed_markdown(text: str) -> str | None:
    """Return the escaped text. None if it is ambiguous which lines are fenced; show the whole text as code then."""
    lines = re.sub("\r\n?", "\n", text).strip("\n").split("\n")
    output, paragraph, index = list[str](), list[str](), 0
    while index < len(lines):
        fenced = _read_fence(lines, index)
        if fenced is None:
            return None
        if paragraph and lines[index].startswith(_CONTINUATION):
            paragraph += fenced or [lines[index]]
        elif fenced or not lines[index].strip(_WHITESPACE):
            output += [*_escape_paragraph(paragraph), *(fenced or [lines[index]])]
            paragraph = []
        else:
            paragraph.append(lines[index])
        index += max(1, len(fenced))
    return "\n".join([*output, *_escape_paragraph(paragraph)])


def _read_fence(lines: Sequence[str], start: int) -> list[str] | None:
    """Return the lines of the fence that opens at `start`, closed; empty if none opens there.

    None if that depends on an enclosing list or quote.
    """
    opening = _FENCE.fullmatch(lines[start])
    if opening is None or (opening["fence"][0] == "`" and "`" in opening["info"]):
        return []
    indent, fence = opening["indent"], opening["fence"]
    if not indent:
        ends = (index for index in range(start + 1, len(lines)) if _closes(_dedent(lines[index]), fence))
        end = next(ends, None)
        return [*lines[start:], fence] if end is None else list(lines[start : end + 1])
    for index in range(start + 1, len(lines)):
        line = lines[index]
        if line.strip(_WHITESPACE) and not line.startswith(indent):
            return None
        if _closes(line.lstrip(" "), fence):
            return list(lines[start : index + 1]) if line.startswith(indent + fence[0]) else None
    return None


def _closes(line: str, fence: str) -> bool:
    ticks = line.rstrip(_WHITESPACE)
    return len(ticks) >= len(fence) and not ticks.strip(fence[0])


def _dedent(line: str) -> str:
    """Remove the indentation that a closing fence may have: up to three spaces."""
    return line[min(3, len(line) - len(line.lstrip(" "))) :]


def _escape_paragraph(paragraph: Iterable[str]) -> Iterator[str]:
    """Escape everything but code spans. A span counts only if no backtick run of an earlier line could include it."""
    unmatched = set[int]()  # lengths of backtick runs that may open a span across lines
    for line in paragraph:
        pieces = _TICKS.split(line)
        lengths = [len(ticks) for ticks in pieces[1::2]]
        if "\\`" in line or not unmatched.isdisjoint(lengths):
            unmatched.update(lengths, (length - 1 for length in lengths))
            yield _escape(line)
        else:
            spans = _code_spans(pieces)
            inside = {index for first, last in spans for index in range(first, last + 1)}
            unmatched.update(len(pieces[index]) for index in range(1, len(pieces), 2) if index not in inside)
            yield "".join(piece if index in inside else _escape(piece) for index, piece in enumerate(pieces))


def _code_spans(pieces: Sequence[str]) -> list[tuple[int, int]]:
    """Return the first and last index of each code span; every other piece is a run of backticks.

    A run is closed by the next run of the same length.
    """
    closing, following = dict[int, int](), dict[str, int]()
    for index in range(len(pieces) - 2, 0, -2):
        if pieces[index] in following:
            closing[index] = following[pieces[index]]
        following[pieces[index]] = index
    spans, index = list[tuple[int, int]](), 1
    while index < len(pieces):
        end = closing.get(index, index)
        if end > index:
            spans.append((index, end))
        index = end + 2
    return spans


def _escape(text: str) -> str:
    return _MARKUP.sub(r"\g<even>\\\g<mark>", text)
