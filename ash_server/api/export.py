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

from ash_server.api.http.bodies import NDJSON
from ash_server.api.http.operations import operation, text
from ash_server.api.http.problems import READS, refusals
from ash_server.api.http.streaming import begun, in_pieces
from ash_server.errors import SessionNotFound
from ash_server.transfer.exporting.jsonl import FORMATS, Export


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
        chosen = FORMATS[format]
        name = f'attachment; filename="{session_id}{chosen.suffix}"'
        pieces = exported(state.export_pool, session_id, chosen.export)
        return await begun(pieces, headers={"Content-Disposition": name})


async def exported(
    pool: AsyncConnectionPool[AsyncConnection], session_id: UUID, export: Export
) -> AsyncGenerator[bytes, None]:
    """On one connection: the session as it was at one moment."""
    async with (
        pool.connection() as conn,
        aclosing(export(conn, session_id)) as texts,
        aclosing(in_pieces(texts)) as pieces,
    ):
        async for piece in pieces:
            yield piece
