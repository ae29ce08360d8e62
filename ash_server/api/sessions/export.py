"""Export a session as a file."""

from typing import Annotated, Any, Literal
from uuid import UUID

from litestar import Controller, Request, get
from litestar.params import FromPath, QueryParameter
from litestar.response import Stream

from ash_server.api.http.bodies import NDJSON
from ash_server.api.http.dependencies import InjectedReader
from ash_server.api.http.guards.access import record
from ash_server.api.http.openapi.operations import documents, text
from ash_server.api.http.problems import READ_ERRORS, TEXT_ERRORS, error_responses
from ash_server.api.http.redaction import REDACTED_NAME, is_redacted, mark_as_redacted
from ash_server.api.http.streaming import buffered, start_stream
from ash_server.store import Store
from ash_server.transfer.exporting.jsonl import FORMATS


class ExportController(Controller):
    path = "/api/sessions/{session_id:uuid}/export"
    tags = ("sessions",)

    @get(
        media_type=NDJSON,
        opt=documents(answer={NDJSON: text("The stored messages, or the events.")}),
        operation_id="exportSession",
        response_description="The file.",
        responses=error_responses(*READ_ERRORS, *TEXT_ERRORS),
    )
    async def export(
        self,
        request: Request[Any, Any, Any],
        reader: InjectedReader,
        session_id: FromPath[UUID],
        format: Annotated[
            Literal["jsonl", "events"],
            QueryParameter(description="Export the stored messages or the events."),
        ] = "jsonl",
    ) -> Stream:
        """Export a session, byte for byte.

        Returns the stored messages in order, each followed by a newline. For an imported session, the bytes
        equal the imported file, including a missing newline at the end. With `format=events`, returns the
        events instead, one per line and without sequences; this file can be imported again.
        """
        await reader(lambda store: store.sessions.get(session_id), session_id)
        await record(request, "session.export", session_id)
        suffix, export = FORMATS[format]
        redacts = is_redacted(request.scope)
        name = f'attachment; filename="{session_id}{REDACTED_NAME if redacts else ""}{suffix}"'
        if redacts:
            mark_as_redacted(request.scope)

        async def start(store: Store) -> Stream:
            await store.sessions.get(session_id)  # if the replica lacks the session, the primary answers
            chunks = buffered(export(store, session_id, redacts=redacts))
            return await start_stream(chunks, headers={"Content-Disposition": name})

        return await reader(start, session_id)
