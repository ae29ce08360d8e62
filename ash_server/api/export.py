"""A session as the file it came from."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Literal
from uuid import UUID

from litestar import Controller, get
from litestar.datastructures import State
from litestar.params import FromPath, QueryParameter
from litestar.response import Stream
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from ash_server.api.bodies import NDJSON
from ash_server.api.operations import operation, text
from ash_server.api.problems import READS, refusals
from ash_server.errors import SessionNotFound
from ash_server.transfer.jsonl import FORMS, Export

_PIECE = 64 * 1024


class ExportController(Controller):
    path = "/api/sessions/{session_id:uuid}/export"
    tags = ("sessions",)

    @get(
        media_type=NDJSON,
        operation_id="exportSession",
        summary="Export a session, byte for byte",
        description="Every stored text followed by a newline, in order: the very bytes of the file that was "
        "imported, and so without the last newline where the file had none. With `events` the session's events "
        "instead, one on a line, without their sequences: a file that can be imported as it is.",
        response_description="The file.",
        responses=refusals(*READS, SessionNotFound),
        operation_class=operation(
            answers={200: {NDJSON: text("The stored texts, or the events, one after the other.")}}
        ),
    )
    async def export(
        self,
        state: State,
        session_id: FromPath[UUID],
        format: Annotated[
            Literal["jsonl", "events"],
            QueryParameter(description="What the file holds: the texts as they came in, or the events."),
        ] = "jsonl",
    ) -> Stream:
        export = FORMS[format]
        pieces = _pieces(state.export_pool, session_id, export.pieces)
        first = await anext(pieces)
        name = f'attachment; filename="{session_id}{export.suffix}"'
        return Stream(_resumed(first, pieces), headers={"Content-Disposition": name})


async def _pieces(
    pool: AsyncConnectionPool[AsyncConnection], session_id: UUID, export: Export
) -> AsyncGenerator[bytes, None]:
    """The file in pieces of some size, of which the first comes, or fails, before the answer begins."""
    async with pool.connection() as conn, aclosing(export(conn, session_id)) as texts:
        piece = bytearray()
        async for each in texts:
            piece += each
            if len(piece) >= _PIECE:
                yield bytes(piece)
                piece.clear()
        yield bytes(piece)


async def _resumed(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(rest):
        yield first
        async for piece in rest:
            yield piece
