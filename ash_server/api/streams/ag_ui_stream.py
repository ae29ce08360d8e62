"""The running turn of a session as a run of the AG-UI protocol."""

from typing import Any
from uuid import UUID

from litestar import Controller, Request, Response, get
from litestar.openapi import ResponseSpec
from litestar.params import FromPath

from ash_server.api.http.dependencies import InjectedStore
from ash_server.api.http.guards.origin_guard import check_origin
from ash_server.api.http.openapi.operations import documents, text
from ash_server.api.http.problems import READ_ERRORS, TEXT_ERRORS, error_responses
from ash_server.api.http.streaming import EVENT_STREAM
from ash_server.api.streams.ui_stream import TurnFormat, follow_turn
from ash_server.errors import OriginNotAllowed, SessionTooLarge
from ash_shared.projections import AgUiStream
from ash_shared.projections.ag_ui_stream import run_error

_AG_UI = TurnFormat(AgUiStream, lambda reason: run_error(reason, "cut_off"))


class AgUiStreamController(Controller):
    path = "/api/sessions/{session_id:uuid}/ag-ui"
    tags = ("events",)

    @get(
        media_type=EVENT_STREAM,
        guards=[check_origin],
        opt=documents(answer={EVENT_STREAM: text("Events of AG-UI, each followed by a blank line.")}),
        operation_id="followAgUiRun",
        response_description="The events of the run.",
        responses={
            204: ResponseSpec(None, description="No turn is running."),
            **error_responses(*READ_ERRORS, *TEXT_ERRORS, SessionTooLarge, OriginNotAllowed),
        },
    )
    async def follow(
        self, request: Request[Any, Any, Any], store: InjectedStore, session_id: FromPath[UUID]
    ) -> Response[Any]:
        """Follow the running turn (AG-UI).

        Sends the running turn as a run of the AG-UI protocol 1.0: `RUN_STARTED`, its events so far, then new
        ones as they are stored, until `RUN_FINISHED` or `RUN_ERROR`. The `threadId` is the id of the session,
        the `runId` the id of the turn. A client that connects again receives the run from its start. If no
        turn is running, the response is 204.

        Prompts are text messages with the role `user`. Events that AG-UI does not have are `CUSTOM` events, with
        their type as the name. `RUN_ERROR` has the code `changed` if content that was already sent has changed,
        and `cut_off` if the server stops, the session is deleted, or the key is no longer valid. A comment is
        sent after 15 seconds without events.

        Clients that do not read for about 10 seconds are disconnected.
        """
        return await follow_turn(request, store, session_id, _AG_UI)
