"""Format the citations of an answer as footnotes: a mark after each cited text, and a list of sources."""

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from ash_shared.model.blocks import Block

_DIGITS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_FIRST_PLACEHOLDER = 0x2E00
_UNMARKABLE_ENDINGS = ("|", "```", "~~~")
_UNSAFE_IN_LINK = re.compile(r"[^!-~]|[<>()\[\]\\`]")


class CitedSource(NamedTuple):
    mark: str
    title: str | None
    url: str | None
    quotes: tuple[str, ...]


def continues(previous: Block, block: Block) -> bool:
    """True if both blocks belong to the same text: Claude splits texts at citations."""
    return previous["type"] == block["type"] == "text" and (_is_cited(previous) or _is_cited(block))


def list_sources(texts: Sequence[Block]) -> list[CitedSource]:
    """Return each source once, in order of first citation."""
    citations_by_source = dict[str, list[Any]]()
    for citation in (each for text in texts for each in _citations(text)):
        citations_by_source.setdefault(_source_key(citation), []).append(citation)
    return [
        _to_source(number, citations)
        for number, citations in enumerate(citations_by_source.values(), start=1)
    ]


def insert_placeholders(texts: Sequence[Block]) -> tuple[str, str, list[str]]:
    """Return the joined text with a placeholder for each mark, the placeholder, and the marks.

    The placeholder is a character that does not occur in the text.
    """
    keys = list(dict.fromkeys(_source_key(each) for text in texts for each in _citations(text)))
    placeholder = _unused_character("".join(text["text"] for text in texts))
    parts, marks = list[str](), list[str]()
    for text in texts:
        part: str = text["text"]
        stripped = part.rstrip()
        if _is_cited(text) and not stripped.endswith(_UNMARKABLE_ENDINGS):
            numbers = sorted({keys.index(_source_key(each)) + 1 for each in _citations(text)})
            marks.append("\u2009".join(map(_mark, numbers)))
            part = stripped + placeholder + part[len(stripped) :]
        parts.append(part)
    return "".join(parts), placeholder, marks


def _is_cited(text: Block) -> bool:
    """True if the citations cover the whole text."""
    return any(
        isinstance(each, dict) and isinstance(each.get("cited_text"), str) for each in _citations(text)
    )


def _citations(text: Block) -> list[Any]:
    citations = text.get("citations")
    return citations if isinstance(citations, list) else []


def _source_key(citation: Any) -> str:
    title, url = _title_and_url(citation)
    return json.dumps(citation if title is None else [url, title, citation.get("document_index")])


def _title_and_url(citation: Any) -> tuple[str | None, str | None]:
    fields = citation if isinstance(citation, dict) else {}
    url = fields.get("url") if isinstance(fields.get("url"), str) else None
    titles = (fields.get(name) for name in ("title", "document_title", "url"))
    return next((title for title in titles if isinstance(title, str)), None), url


def _to_source(number: int, citations: Sequence[Any]) -> CitedSource:
    title, url = _title_and_url(citations[0])
    if title is None:
        return CitedSource(_mark(number), None, None, (json.dumps(citations[0], ensure_ascii=False),))
    return CitedSource(
        _mark(number), title, url and _link_target(url), tuple(dict.fromkeys(_quotes(citations)))
    )


def _quotes(citations: Sequence[Any]) -> Iterator[str]:
    return (each["cited_text"] for each in citations if isinstance(each.get("cited_text"), str))


def _link_target(url: str) -> str | None:
    """Return the URL escaped for a Markdown link; None if it is not an http(s) URL."""
    if not re.match("https?://", url, re.IGNORECASE):
        return None
    return _UNSAFE_IN_LINK.sub(lambda match: quote(match[0], safe="", errors="replace"), url)


def _mark(number: int) -> str:
    return str(number).translate(_DIGITS)


def _unused_character(text: str) -> str:
    """Return an unused punctuation character: next to one, Markdown parses delimiters as at the end of a line."""
    characters = map(chr, range(_FIRST_PLACEHOLDER, 0xFFFF))
    return next(each for each in characters if unicodedata.category(each)[0] == "P" and each not in text)
