r"""Read a transcript file as lines, split on `\n` only, or as one JSON document.

Reading takes bounded memory and can start at any line. Lines are not decoded, so every byte is preserved.
"""

import json
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn

import msgspec

from ash_server.file_access import ANY_FILE, FileAccess
from ash_server.transfer.importing.compressed import open_text, skip
from ash_shared.parsing.parsed_text import parse_raw

MAX_LINE_BYTES = 64 * 1024 * 1024
_MAX_DOCUMENT_BYTES = 32 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024

_LOG = "gptme"
_START_OF_MESSAGE = b'{"role":'

RECENTLY_WRITTEN_SECONDS = 600
"""A file modified within this time may still be growing."""

_MAX_BATCH_LINES = 200
_MAX_BATCH_BYTES = 2 * 1024 * 1024

ReadLine = Callable[[int], bytes]
"""`readline` of a binary file: the next line with its newline, at most `limit` bytes."""


class LineStart(NamedTuple):
    """Start of a line in its file."""

    number: int
    """1-based."""
    offset: int
    """In bytes."""


START = LineStart(1, 0)


class FileLine(NamedTuple):
    """A line, or a whole file that is one text."""

    place: LineStart
    data: bytes | None
    """Without the newline; None if longer than MAX_LINE_BYTES."""
    size: int
    """In bytes, with the newline."""
    terminated: bool
    file: str | None = None
    """In a session spread over many files: the path of the file, relative to their common folder."""

    @property
    def name(self) -> str:
        """Unique within the session."""
        return self.file or str(self.place.number)

    @property
    def end(self) -> LineStart:
        return LineStart(self.place.number + 1, self.place.offset + self.size)


def source_of_log(first: FileLine) -> str | None:
    """Return the format of a log if its first line states it: its other lines look like messages of any program."""
    if first.data is None or not first.data.startswith(_START_OF_MESSAGE):
        return None
    return _LOG if parse_raw(first.data, None).source(None) == _LOG else None


def read_file(path: Path, start: LineStart = START, access: FileAccess = ANY_FILE) -> Iterator[FileLine]:
    """Yield the lines of a plain or compressed file from `start`. Raises OSError."""
    with open_text(path, access) as file:
        if start == START:
            yield from read_texts(file)
        else:
            skip(file, start.offset)
            yield from _read_lines(file.readline, start)


def read_texts(file: BinaryIO) -> Iterator[FileLine]:
    """Yield the whole file if it is one JSON document, else its lines. Lines are streamed if the first one is JSON."""
    head = _read_head(file)
    if not starts_like_json(head) or _is_json(head):
        yield from _read_lines(_prepend(head, file.readline), START)
        return
    document = head + file.read(_MAX_DOCUMENT_BYTES - len(head))
    if len(document) < _MAX_DOCUMENT_BYTES and _is_json(document):
        yield _to_line(START, document)
    else:
        yield from _read_lines(_prepend(document, file.readline), START)


def may_be_unfinished(line: FileLine) -> bool:
    """True for an incomplete JSON value at the end of a file, where a program may still be writing."""
    return (
        not line.terminated
        and line.data is not None
        and starts_like_json(line.data)
        and not _is_json(line.data)
    )


def batched(lines: Iterable[FileLine]) -> Iterator[list[FileLine]]:
    """Group lines into lists limited in count and in bytes."""
    batch: list[FileLine] = []
    size = 0
    for line in lines:
        if batch and (len(batch) == _MAX_BATCH_LINES or size + line.size > _MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += line.size
    if batch:
        yield batch


def _read_lines(readline: ReadLine, start: LineStart) -> Iterator[FileLine]:
    place = start
    while data := readline(MAX_LINE_BYTES + 1):
        is_complete = len(data) <= MAX_LINE_BYTES or data.endswith(b"\n")
        line = _to_line(place, data) if is_complete else _skip_long_line(place, len(data), readline)
        yield line
        place = line.end


def _to_line(place: LineStart, data: bytes) -> FileLine:
    return FileLine(place, data.removesuffix(b"\n"), len(data), data.endswith(b"\n"))


def _skip_long_line(place: LineStart, size: int, readline: ReadLine) -> FileLine:
    """Read the rest of a line that is too long, after its first `size` bytes."""
    chunk = b""
    while not chunk.endswith(b"\n") and (chunk := readline(_CHUNK_BYTES)):
        size += len(chunk)
    return FileLine(place, None, size, chunk.endswith(b"\n"))


def _read_head(file: BinaryIO) -> bytes:
    """Read up to the first line that is not blank."""
    head = b""
    while len(head) < _CHUNK_BYTES and not head.strip() and (line := file.readline(_MAX_DOCUMENT_BYTES)):
        head += line
    return head


def _prepend(head: bytes, readline: ReadLine) -> ReadLine:
    """Return a `readline` that first returns the lines of `head`."""
    buffered = BytesIO(head)

    def read(limit: int) -> bytes:
        data = buffered.readline(limit)
        if data.endswith(b"\n") or len(data) == limit:
            return data
        return data + readline(limit - len(data))

    return read


def starts_like_json(head: bytes) -> bool:
    return head.removeprefix(BOM_UTF8).lstrip()[:1] in (b"{", b"[")


def _is_json(data: bytes) -> bool:
    text = data.removeprefix(BOM_UTF8)
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except RecursionError:
        return False
    except ValueError:  # msgspec also rejects lone surrogates, which JSON allows
        return _is_lenient_json(text)
    return True


def _is_lenient_json(text: bytes) -> bool:
    try:
        json.loads(text.decode(), parse_int=len, parse_float=len, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(constant)
