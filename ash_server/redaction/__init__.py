"""Replacement of tokens, keys and passwords in texts that are shown to others, such as `[redacted: github token]`.

A replacement contains no quote and no backslash, so JSON with secrets stays valid.
"""

import re
from collections.abc import Iterable, Iterator

import msgspec

from ash_server.redaction.escapes import Unescaped, unescape
from ash_server.redaction.forms import MAX_LENGTH
from ash_server.redaction.secrets import Secret, find_secrets

MAX_INLINE = 16 * 1024
"""Characters; longer texts are redacted in a thread, which yields to the event loop between two slices."""
_MAX_CUT = 200
"""Characters of the names of sessions, and of the last text of a summary, which are cut at this length."""

_ELLIPSIS = "\u2026"
_NAME_OF_SESSION = re.compile(r'"(?:title|prompt|lastText)"\s{0,8}:\s{0,8}"')
_LAST_WORD = re.compile(r"[!-~]{1,200}\u2026?\Z")
_QUOTE_OR_ESCAPE = re.compile(r'\\.|"', re.DOTALL)
_NEXT_ITEM = re.compile(r'"[\s,]{1,100}+"')
_COLON = re.compile(r'"\s{0,100}:')
_JSON_START = re.compile(r"[ \t\r\n]*+[{\[\"]")
_FIELD = re.compile("data: ?")
_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode


def redact(text: str) -> str:
    """Replace the secrets. Redact large texts in a thread: it takes time in proportion to the text."""
    return _replace(text, find_secrets(text))


def redact_json(document: str) -> str:
    """Replace the secrets in the strings of a document of JSON, at any level, without a change of other bytes."""
    found = [
        part for secret in find_secrets(document, is_json=True) for part in _within_strings(document, secret)
    ]
    return _replace(document, sorted([*found, *_cut_names(document)]))


def redact_text(text: str) -> str:
    """Replace the secrets of a text, which stays valid JSON if it is."""
    return redact_json(text) if _is_json(text) else redact(text)


def redact_name(name: str) -> str:
    """Replace the secrets of the name of a session, and its last word if it may have been cut there."""
    last = _LAST_WORD.search(name) if len(name) == _MAX_CUT else None
    return redact(f"{name[: last.start()]}{_ELLIPSIS}" if last else name)


class RedactedLines:
    """Redacts lines that come in pieces, each of which is JSON, JSON after `data: `, or text."""

    def __init__(self) -> None:
        self._pending = bytearray()

    @property
    def pending_bytes(self) -> int:
        return len(self._pending)

    def add(self, piece: bytes, *, more: bool) -> bytes:
        """Return the redacted lines up to the last line end, or all of them if no more follows."""
        searched = len(self._pending)
        self._pending += piece
        end = self._pending.rfind(b"\n", searched) + 1 if more else len(self._pending)
        complete = self._pending[:end].decode("utf-8", "surrogateescape")
        del self._pending[:end]
        lines = map(_redact_field, complete.split("\n"))
        return "\n".join(lines).encode("utf-8", "surrogateescape")


def _redact_field(line: str) -> str:
    """Redact a line of JSON or text, or the value of a line of server-sent events."""
    field = _FIELD.match(line)
    name = field[0] if field else ""
    return name + redact_text(line[len(name) :])


def _is_json(text: str) -> bool:
    if not _JSON_START.match(text):
        return False
    try:
        _decode_raw(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return True


def _replace(text: str, secrets: Iterable[Secret]) -> str:
    parts, last = list[str](), 0
    for start, end, label in secrets:
        if start >= last:
            parts += (text[last:start], f"[redacted: {label}]" if label else _ELLIPSIS)
        last = max(last, end)
    return "".join([*parts, text[last:]]) if parts else text


def _within_strings(document: str, secret: Secret) -> Iterator[Secret]:
    """Yield the parts of a secret in each string of a list: a private key may be a list of lines."""
    start, end, label = secret
    while start < end:
        stop = _end_of_string(document, start, end)
        if start < stop:
            yield Secret(start, stop, label)
        following = _NEXT_ITEM.match(document, stop, end) if stop < end else None
        start = following.end() if following and not _is_key(document, following.end()) else end


def _is_key(document: str, start: int) -> bool:
    """True if the string that begins here is the key of an object."""
    end = _end_of_string(document, start, min(len(document), start + MAX_LENGTH))
    return _COLON.match(document, end) is not None


def _end_of_string(document: str, start: int, end: int) -> int:
    """Return the position of the quote that ends the string, or the end of the part if there is none."""
    while quote := _QUOTE_OR_ESCAPE.search(document, start, end):
        if quote[0] == '"':
            return quote.start()
        start = quote.end()
    return end


def _cut_names(document: str) -> Iterator[Secret]:
    """Yield the last words of the names that may have been cut there."""
    for member in _NAME_OF_SESSION.finditer(document):
        end = _end_of_string(document, member.end(), min(len(document), member.end() + 6 * _MAX_CUT))
        name = unescape(document[member.end() : end]) or Unescaped(document[member.end() : end])
        last = _LAST_WORD.search(name.text) if len(name.text) == _MAX_CUT else None
        if last:
            yield Secret(member.end() + name.place_of(last.start()), end, "")
