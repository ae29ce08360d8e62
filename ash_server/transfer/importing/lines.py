r"""A file of transcripts as the texts it holds: its lines, split on `\n` alone, or one whole JSON document.

Reading takes bounded memory and can begin at any line; nothing is decoded, so nothing is lost.
"""

import json
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn

import msgspec

from ash_server.transfer.importing.compressed import open_text, skip

LONGEST_LINE = 64 * 1024 * 1024
_LARGEST_DOCUMENT = 32 * 1024 * 1024
_PIECE = 1024 * 1024

_BATCH_LINES = 200
_BATCH_BYTES = 2 * 1024 * 1024

ReadLine = Callable[[int], bytes]
"""`readline` of a binary file: the next line with its newline, cut at so many bytes."""


class Place(NamedTuple):
    """Where a line begins in its file."""

    number: int
    """Counted from 1."""
    offset: int
    """In bytes."""


START = Place(1, 0)


class Line(NamedTuple):
    """A line, or all of a file that is one text."""

    place: Place
    data: bytes | None
    """Without the newline; None where it is longer than LONGEST_LINE."""
    size: int
    """With the newline."""
    terminated: bool
    file: str | None = None
    """Of a session that is kept in many files: which of them it is, as a path below the folder of all."""

    @property
    def name(self) -> str:
        """Tells it from the others of its session."""
        return self.file or str(self.place.number)

    @property
    def end(self) -> Place:
        return Place(self.place.number + 1, self.place.offset + self.size)


def read_file(path: Path, start: Place = START) -> Iterator[Line]:
    """The texts of a file, or of a compressed one, from one of its lines on; raises OSError."""
    with open_text(path) as file:
        if start == START:
            yield from read_texts(file)
        else:
            skip(file, start.offset)
            yield from _read_lines(file.readline, start)


def read_texts(file: BinaryIO) -> Iterator[Line]:
    """The document that a file is as a whole, else its lines: at once where the first of them is JSON."""
    head = _read_head(file)
    if not _opens_document(head) or _is_json(head):
        yield from _read_lines(_put_back(head, file.readline), START)
        return
    whole = head + file.read(_LARGEST_DOCUMENT - len(head))
    if len(whole) < _LARGEST_DOCUMENT and _is_json(whole):
        yield _line(START, whole)
    else:
        yield from _read_lines(_put_back(whole, file.readline), START)


def may_be_unfinished(line: Line) -> bool:
    """Whether it is the beginning of a JSON value, whose rest somebody may be about to write."""
    return (
        not line.terminated
        and line.data is not None
        and _opens_document(line.data)
        and not _is_json(line.data)
    )


def batched(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Lists of lines, short in number and in bytes."""
    batch: list[Line] = []
    size = 0
    for line in lines:
        if batch and (len(batch) == _BATCH_LINES or size + line.size > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += line.size
    if batch:
        yield batch


def _read_lines(readline: ReadLine, start: Place) -> Iterator[Line]:
    place = start
    while data := readline(LONGEST_LINE + 1):
        whole = len(data) <= LONGEST_LINE or data.endswith(b"\n")
        line = _line(place, data) if whole else _pass_over(place, len(data), readline)
        yield line
        place = line.end


def _line(place: Place, data: bytes) -> Line:
    return Line(place, data.removesuffix(b"\n"), len(data), data.endswith(b"\n"))


def _pass_over(place: Place, size: int, readline: ReadLine) -> Line:
    """The rest of a line that is too long, of which so many bytes were read."""
    piece = b""
    while not piece.endswith(b"\n") and (piece := readline(_PIECE)):
        size += len(piece)
    return Line(place, None, size, piece.endswith(b"\n"))


def _read_head(file: BinaryIO) -> bytes:
    """The first line that is not blank, with the blank ones before it."""
    head = b""
    while len(head) < _PIECE and not head.strip() and (line := file.readline(_LARGEST_DOCUMENT)):
        head += line
    return head


def _put_back(head: bytes, readline: ReadLine) -> ReadLine:
    """Reads what was read ahead once more, then goes on."""
    again = BytesIO(head)

    def read(limit: int) -> bytes:
        data = again.readline(limit)
        if data.endswith(b"\n") or len(data) == limit:
            return data
        return data + readline(limit - len(data))

    return read


def _opens_document(head: bytes) -> bool:
    return head.removeprefix(BOM_UTF8).lstrip()[:1] in (b"{", b"[")


def _is_json(data: bytes) -> bool:
    text = data.removeprefix(BOM_UTF8)
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except RecursionError:
        return False
    except ValueError:  # also what it says of a lone surrogate, which JSON allows
        return _is_odd_json(text)
    return True


def _is_odd_json(text: bytes) -> bool:
    try:
        json.loads(text.decode(), parse_int=len, parse_float=len, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
