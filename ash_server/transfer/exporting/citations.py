"""Where an answer says that it has it from: a mark behind what rests on a source, and what each mark stands for."""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

Block = Mapping[str, Any]

_DIGITS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_FIRST_PLACE = 0x2E00
_TAKES_NO_MARK = ("|", "```", "~~~")
_UNSAFE = re.compile(r"[^!-~]|[<>()\[\]\\`]")


class Source(NamedTuple):
    mark: str
    title: str | None
    url: str | None
    said: tuple[str, ...]


def go_on(before: Block, block: Block) -> bool:
    """Whether a text follows the other one: Claude cuts a text where what it says rests on a source."""
    return before["type"] == block["type"] == "text" and (_is_cited(before) or _is_cited(block))


def sources(texts: Sequence[Block]) -> list[Source]:
    """Each once, in the order in which they are named."""
    found = dict[str, list[Any]]()
    for citation in (each for text in texts for each in _citations(text)):
        found.setdefault(_name(citation), []).append(citation)
    return [_source(number, citations) for number, citations in enumerate(found.values(), start=1)]


def marked(texts: Sequence[Block]) -> tuple[str, str, list[str]]:
    """The whole text, with a sign where a mark belongs that is nowhere else in it, the sign, and the marks."""
    names = list(dict.fromkeys(_name(each) for text in texts for each in _citations(text)))
    place = _free_place("".join(text["text"] for text in texts))
    parts, marks = list[str](), list[str]()
    for text in texts:
        said: str = text["text"]
        end = said.rstrip()
        if _is_cited(text) and not end.endswith(_TAKES_NO_MARK):
            numbers = sorted({names.index(_name(each)) + 1 for each in _citations(text)})
            marks.append("\u2009".join(map(_mark, numbers)))
            said = end + place + said[len(end) :]
        parts.append(said)
    return "".join(parts), place, marks


def _is_cited(text: Block) -> bool:
    """Whether its sources are those of all that it says."""
    return any(
        isinstance(each, dict) and isinstance(each.get("cited_text"), str) for each in _citations(text)
    )


def _citations(text: Block) -> list[Any]:
    found = text.get("citations")
    return found if isinstance(found, list) else []


def _name(citation: Any) -> str:
    title, url = _about(citation)
    return json.dumps(citation if title is None else [url, title, citation.get("document_index")])


def _about(citation: Any) -> tuple[str | None, str | None]:
    told = citation if isinstance(citation, dict) else {}
    url = told.get("url") if isinstance(told.get("url"), str) else None
    titles = (told.get(name) for name in ("title", "document_title", "url"))
    return next((title for title in titles if isinstance(title, str)), None), url


def _source(number: int, citations: Sequence[Any]) -> Source:
    title, url = _about(citations[0])
    if title is None:
        return Source(_mark(number), None, None, (json.dumps(citations[0], ensure_ascii=False),))
    return Source(_mark(number), title, url and _address(url), tuple(dict.fromkeys(_said(citations))))


def _said(citations: Sequence[Any]) -> Iterator[str]:
    return (each["cited_text"] for each in citations if isinstance(each.get("cited_text"), str))


def _address(url: str) -> str | None:
    """As it may stand in a link; None where it does not lead to the web."""
    if not re.match("https?://", url, re.IGNORECASE):
        return None
    return _UNSAFE.sub(lambda found: quote(found[0], safe="", errors="replace"), url)


def _mark(number: int) -> str:
    return str(number).translate(_DIGITS)


def _free_place(text: str) -> str:
    """A sign, next to which Markdown reads marks as it does at the end of a line."""
    signs = map(chr, range(_FIRST_PLACE, 0xFFFF))
    return next(sign for sign in signs if unicodedata.category(sign)[0] == "P" and sign not in text)
