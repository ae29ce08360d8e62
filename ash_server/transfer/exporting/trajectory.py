"""A trajectory in ATIF as a file, with its images and recordings in a folder next to it.

The document is written step by step while it is received, because it may be larger than memory.
"""

import binascii
import json
import re
from base64 import b64decode
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from ash_shared.records.atif_notes import MEDIA_TYPES
from ash_shared.records.json_fields import items_at, text_at

SUFFIX = ".trajectory.json"


async def write_trajectory(chunks: AsyncIterator[bytes], file: BinaryIO, target: Path | None) -> None:
    """Write the JSON of a trajectory, indented.

    The `data:` URLs become files in the folder `NAME.media` next to `target`; None leaves them in the document. Raises
    OSError, and ValueError for an incomplete document.
    """
    media = None if target is None else _MediaFolder(target)
    await _TrajectoryFile(_JsonParts(chunks), file, media).write_trajectory("\n")
    file.write(b"\n")


class _TrajectoryFile:
    def __init__(self, document: "_JsonParts", file: BinaryIO, media: "_MediaFolder | None") -> None:
        self._document, self._file, self._media = document, file, media
        self._lists = {"steps": self._write_step, "subagent_trajectories": self.write_trajectory}

    async def write_trajectory(self, line: str) -> None:
        """`line`: a line break with the indentation of the trajectory."""
        inner, before = f"{line}  ", "{"
        await self._document.skip()
        while before != "}":
            name = await self._document.value()
            await self._document.skip()
            self._file.write(f"{before}{inner}{json.dumps(name)}: ".encode())
            if name in self._lists:
                await self._write_list(inner, self._lists[name])
            else:
                self._file.write(_indented(await self._document.value(), inner))
            before = await self._document.skip()
        self._file.write(f"{line}}}".encode())

    async def _write_list(self, line: str, write: Callable[[str], Awaitable[None]]) -> None:
        inner, before = f"{line}  ", await self._document.skip()
        while before != "]":
            self._file.write(f"{before}{inner}".encode())
            await write(inner)
            before = await self._document.skip()
        self._file.write(f"{line}]".encode())

    async def _write_step(self, line: str) -> None:
        step = await self._document.value()
        if self._media is not None:
            self._media.write(step)
        self._file.write(_indented(step, line))


def _indented(value: Any, line: str) -> bytes:
    return json.dumps(value, indent=2).replace("\n", line).encode()


class _JsonParts:
    """Decodes a JSON document value by value, while it is received. Lists that are read in parts are not empty."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._decode_text = getincrementaldecoder("utf-8")().decode
        self._decode = json.JSONDecoder().raw_decode
        self._text = ""
        self._place = 0

    async def skip(self) -> str:
        """Pass and return the next brace, bracket, comma or colon."""
        while (place := self._next_place()) == len(self._text):
            await self._receive(1)
        self._place = place + 1
        return self._text[place]

    async def value(self) -> Any:
        """Return the next value. Raises ValueError for an incomplete document."""
        while True:
            start = self._next_place()
            with suppress(json.JSONDecodeError):
                value, end = self._decode(self._text, start)
                if end < len(self._text):  # otherwise a number may go on
                    self._place = end
                    return value
            # Receives as much again, so that a large value is decoded only a few times.
            await self._receive(max(1, len(self._text) - start))

    def _next_place(self) -> int:
        return _BLANK.match(self._text, self._place).end()  # type: ignore[union-attr]  # matches any text

    async def _receive(self, size: int) -> None:
        """Forget what was decoded, and receive `size` characters or the rest. Raises ValueError at the end."""
        pieces = [self._text[self._place :]]
        self._place = 0
        while size > 0 and (chunk := await anext(self._chunks, None)) is not None:
            pieces.append(self._decode_text(chunk))
            size -= len(pieces[-1])
        if len(pieces) == 1:
            raise ValueError("The document is incomplete.")
        self._text = "".join(pieces)


_BLANK = re.compile(r"[ \t\r\n]*")


class _MediaFolder:
    """The folder next to a document, for its images and recordings."""

    def __init__(self, target: Path) -> None:
        self._folder = target.with_name(f"{target.stem}.media")
        self._count = 0

    def write(self, step: Any) -> None:
        """Write the `data:` URLs of a step to files. Their paths replace the URLs. Raises OSError."""
        for source, suffix, content in _inline_media(step):
            self._count += 1
            self._folder.mkdir(parents=True, exist_ok=True)
            file = self._folder / f"{self._count}.{suffix}"
            file.write_bytes(content)
            source["path"] = f"{self._folder.name}/{file.name}"


def _inline_media(step: Any) -> Iterator[tuple[dict[str, Any], str, bytes]]:
    """Yield the source of each image and recording, the suffix of its file, and its content."""
    for part in _parts(step):
        media_type = text_at(part, "source", "media_type") or ""
        content = _decoded(text_at(part, "source", "path") or "", media_type)
        if media_type in MEDIA_TYPES.get(text_at(part, "type") or "", ()) and content is not None:
            yield part["source"], media_type.partition("/")[2], content


def _parts(step: Any) -> Iterator[Any]:
    """Yield the parts of the message and of the results. Arguments of calls may look alike, and stay as they are."""
    yield from items_at(step, "message")
    for result in items_at(step, "observation", "results"):
        yield from items_at(result, "content")


def _decoded(url: str, media_type: str) -> bytes | None:
    """Return the content of a `data:` URL with this media type; None for any other URL."""
    prefix = f"data:{media_type};base64,"
    try:
        return b64decode(url.removeprefix(prefix), validate=True) if url.startswith(prefix) else None
    except (binascii.Error, ValueError):
        return None
