"""Replacement of tokens, keys and passwords in texts by labels such as `[redacted: github token]`.

A label contains no quote or backslash, so redacted JSON stays valid.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from ash_server.redaction.escapes import Unescaped, unescape
from ash_server.redaction.forms import MAX_LENGTH
from ash_server.redaction.secrets import BLOB_LABEL, Secret, find_secrets

MAX_INLINE = 16 * 1024
"""Characters. Longer texts are redacted in a thread, which yields to the event loop between slices."""
_MAX_CUT = 200
"""Maximum length in characters of session names, the last text of a summary, and types and versions in drift reports;
longer ones are cut."""

_ELLIPSIS = "\u2026"
_CUT_LENGTHS = {
    **dict.fromkeys(("title", "prompt", "lastText", "rawType", "clientVersion", "cliVersion"), _MAX_CUT),
    "models": 100,
    "project": 1000,
}
"""Maximum lengths of the texts in fields, or lists of texts, that are cut."""
_CUT_TEXT = re.compile(rf'"({"|".join(_CUT_LENGTHS)})"\s{{0,8}}:\s{{0,8}}(?:\[\s{{0,8}})?"')
_LAST_WORD = re.compile(r"[!-~]{1,200}\u2026?\Z")
_QUOTE_OR_ESCAPE = re.compile(r'\\.|"', re.DOTALL)
_NEXT_ITEM = re.compile(r'"[\s,]{1,100}+"')
_COLON = re.compile(r'"\s{0,100}:')
_JSON_START = re.compile(r"[ \t\r\n]*+[{\[\"]")
_FIELD = re.compile("data: ?")
_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode


def redact(text: str) -> str:
    """Replace the secrets in a text. Takes time in proportion to its length, so redact large texts in a thread."""
    return _replace(text, find_secrets(text))


def redact_json(document: str) -> str:
    """Replace the secrets in the strings of a JSON document, at any level, without changing other bytes."""
    secrets = [
        part for secret in find_secrets(document, is_json=True) for part in _within_strings(document, secret)
    ]
    return _replace(document, sorted([*secrets, *_cut_names(document)]))


def redact_text(text: str) -> str:
    """Replace the secrets in a text. JSON stays valid."""
    return redact_json(text) if _is_json(text) else redact(text)


def count_secrets(text: str) -> Counter[str]:
    """Return the number of secrets by kind, such as `github token`, without their values."""
    found = find_secrets(text, is_json=_is_json(text))
    return Counter(secret.label for secret in found if secret.label != BLOB_LABEL)


def redact_name(name: str, max_length: int = _MAX_CUT) -> str:
    """Replace the secrets in a name, and its last word if that may have been cut at `max_length`."""
    last = _LAST_WORD.search(name) if len(name) == max_length else None
    return redact(f"{name[: last.start()]}{_ELLIPSIS}" if last else name)


class RedactedLines:
    """Redacts lines of text, JSON, or `data: ` and JSON, that arrive in pieces."""

    def __init__(self) -> None:
        self._pending = bytearray()

    @property
    def pending_bytes(self) -> int:
        return len(self._pending)

    def add(self, piece: bytes, *, more: bool) -> bytes:
        """Return the redacted complete lines; the last line is complete if no more pieces follow."""
        searched = len(self._pending)
        self._pending += piece
        end = self._pending.rfind(b"\n", searched) + 1 if more else len(self._pending)
        complete = self._pending[:end].decode("utf-8", "surrogateescape")
        del self._pending[:end]
        lines = map(_redact_field, complete.split("\n"))
        return "\n".join(lines).encode("utf-8", "surrogateescape")


def _redact_field(line: str) -> str:
    """Redact a line of text or JSON, or the value of a `data` field of a server-sent event."""
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
    """Yield the parts of a secret that spans several strings of a list, such as the lines of a private key."""
    start, end, label = secret
    while start < end:
        stop = _end_of_string(document, start, end)
        if start < stop:
            yield Secret(start, stop, label)
        following = _NEXT_ITEM.match(document, stop, end) if stop < end else None
        start = following.end() if following and not _is_key(document, following.end()) else end


def _is_key(document: str, start: int) -> bool:
    """True if the string that begins at `start` is the key of an object."""
    end = _end_of_string(document, start, min(len(document), start + MAX_LENGTH))
    return _COLON.match(document, end) is not None


def _end_of_string(document: str, start: int, end: int) -> int:
    """Return the position of the closing quote, or `end` if there is none."""
    while quote := _QUOTE_OR_ESCAPE.search(document, start, end):
        if quote[0] == '"':
            return quote.start()
        start = quote.end()
    return end


def _cut_names(document: str) -> Iterator[Secret]:
    """Yield the last words of texts that may have been cut."""
    for member in _CUT_TEXT.finditer(document):
        length = _CUT_LENGTHS[member[1]]
        start: int | None = member.end()
        while start is not None:
            end = _end_of_string(document, start, min(len(document), start + 6 * length))
            name = unescape(document[start:end]) or Unescaped(document[start:end])
            last = _LAST_WORD.search(name.text) if len(name.text) == length else None
            if last:
                yield Secret(start + name.place_of(last.start()), end, "")
            following = _NEXT_ITEM.match(document, end)
            is_in_list = following is not None and not _is_key(document, following.end())
            start = following.end() if following is not None and is_in_list else None
