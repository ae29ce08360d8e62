"""The files that a session changed."""

import asyncio
from typing import Annotated, Any
from uuid import UUID

from litestar import Controller, Request, Response, get
from litestar.params import FromPath, QueryParameter

from ash_server.api.http.bodies import JSON
from ash_server.api.http.dependencies import InjectedReader
from ash_server.api.http.openapi.operations import documents, text
from ash_server.api.http.problems import READ_ERRORS, TEXT_ERRORS, error_responses
from ash_server.api.http.redaction import is_redacted
from ash_server.errors import SessionTooLarge
from ash_server.store.text import ONE_LINE
from ash_shared.model.message import LAST_SEQUENCE
from ash_shared.model.reports.changes import SessionChanges
from ash_shared.projections.changes import to_patch

PATCH = "text/x-diff"

OfTurn = Annotated[
    int | None,
    QueryParameter(ge=1, le=LAST_SEQUENCE, description="Only the turn with this number, from 1."),
]
OfPath = Annotated[
    str | None,
    QueryParameter(
        min_length=1,
        max_length=4096,
        pattern=ONE_LINE,
        description="Only files at this path: a whole path, or its last segments.",
    ),
]
WithDiffs = Annotated[bool, QueryParameter(description="Include the changed lines in the JSON.")]


class ChangesController(Controller):
    path = "/api/sessions/{session_id:uuid}/changes"
    tags = ("sessions",)

    @get(
        opt=documents(answer={JSON: SessionChanges, PATCH: text("The combined differences as a patch.")}),
        operation_id="getChanges",
        response_description="The changes.",
        responses=error_responses(*READ_ERRORS, *TEXT_ERRORS, SessionTooLarge),
    )
    async def get(
        self,
        request: Request[Any, Any, Any],
        reader: InjectedReader,
        session_id: FromPath[UUID],
        *,
        turn: OfTurn = None,
        path: OfPath = None,
        diffs: WithDiffs = True,
    ) -> Response[bytes]:
        """List the changed files.

        Returns the files that the tools of a session changed, with their edits in order and the difference of
        each file and turn, from what the tools reported. Failed and denied calls are listed and not counted.
        Shell commands that may have changed files are listed as commands, because their files are not known.
        With `Accept: text/x-diff`, the response is a patch.
        """
        media_type = request.accept.best_match([JSON, PATCH], JSON) or JSON
        redacts = is_redacted(request.scope)
        changes = await reader(
            lambda store: store.conversation.read_changes(
                session_id, turn=turn, path=path, diffs=diffs or media_type == PATCH, redacts=redacts
            ),
            session_id,
        )
        body = await asyncio.to_thread(_WRITERS[media_type], changes)
        return Response(body, media_type=media_type)


def _to_json(changes: SessionChanges) -> bytes:
    return changes.model_dump_json().encode()


def _to_patch(changes: SessionChanges) -> bytes:
    return to_patch(changes).encode(errors="replace")


_WRITERS = {JSON: _to_json, PATCH: _to_patch}
