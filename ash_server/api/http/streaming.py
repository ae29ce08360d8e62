"""Answers that are written while they are sent."""

from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing
from typing import Any

from litestar.response import Stream

_PIECE = 64 * 1024


async def in_pieces(texts: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """The same bytes in pieces of some size."""
    piece = bytearray()
    async for each in texts:
        piece += each
        if len(piece) >= _PIECE:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)


async def begun(pieces: AsyncGenerator[bytes, None], **options: Any) -> Stream:
    """The answer, once its first piece is there: what fails until then is answered as a problem."""
    first = await anext(pieces)
    return Stream(_resumed(first, pieces), **options)


async def _resumed(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(rest):
        yield first
        async for piece in rest:
            yield piece
