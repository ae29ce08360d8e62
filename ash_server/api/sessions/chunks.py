"""Append the lines of a provider's stream."""

from typing import Annotated, Any
from uuid import UUID

from litestar import Controller, Request, Response, post
from litestar.datastructures import State
from litestar.openapi import ResponseSpec
from litestar.params import FromPath, QueryParameter

from ash_server.api.http.bodies import BODY_ERRORS, NDJSON, check_count, read_body
from ash_server.api.http.dependencies import InjectedStore
from ash_server.api.http.openapi.operations import documents, text
from ash_server.api.http.parameters import ExpectedSequence, format_parameter, id_parameter
from ash_server.api.http.problems import WRITE_ERRORS, error_responses
from ash_server.api.sessions.messages import appended_response, check_sizes, parse_lines
from ash_server.errors import (
    BatchTooLarge,
    EmptyBatch,
    IdConflict,
    InvalidBody,
    InvalidJson,
    MessageTooLarge,
    NulByte,
    SequenceMismatch,
    SessionNotFound,
    TooDeep,
)
from ash_server.store.log.writer import StreamIds
from ash_shared.model.pages import AppendedMessages

_NDJSON_ERRORS = tuple(error for error in BODY_ERRORS if error not in (InvalidBody, InvalidJson, TooDeep))


class ChunkController(Controller):
    path = "/api/sessions/{session_id:uuid}/chunks"
    tags = ("events",)

    @post(
        opt=documents(body={NDJSON: text("The lines of the stream; blank lines are skipped.")}),
        operation_id="appendChunks",
        response_description="Stored. Contains an entry for each line, in order; lines that were already stored have "
        "`created: false`.",
        responses={
            200: ResponseSpec(
                AppendedMessages,
                description="Nothing was stored: the body had no lines, or all were already stored.",
                generate_examples=False,
            ),
            **error_responses(
                *WRITE_ERRORS,
                *_NDJSON_ERRORS,
                SessionNotFound,
                MessageTooLarge,
                BatchTooLarge,
                EmptyBatch,
                IdConflict,
                SequenceMismatch,
                NulByte,
            ),
        },
    )
    async def append(  # noqa: PLR0913  # one argument per parameter
        self,
        request: Request[Any, Any, Any],
        state: State,
        store: InjectedStore,
        session_id: FromPath[UUID],
        *,
        source: Annotated[
            str | None,
            format_parameter("The format of the lines. Default: detected."),
        ] = None,
        end: Annotated[
            bool, QueryParameter(description="End the stream after these lines, and close everything open.")
        ] = False,
        expected_sequence: ExpectedSequence = None,
        turn_id: Annotated[
            str | None,
            id_parameter(
                "The turn of the events. Continues the open turn if it has this id; otherwise the open turn ends.",
                "turnId",
            ),
        ] = None,
        response_id: Annotated[
            str | None,
            id_parameter("The response of the events. Default: the id of the provider's API.", "responseId"),
        ] = None,
    ) -> Response[AppendedMessages]:
        """Append stream chunks.

        Send the lines as NDJSON, exactly as the provider or its CLI wrote them. Each line is stored verbatim
        as a message of the kind `chunk`, `record` or `message`, and normalized to events in the same
        transaction. A line in another format becomes a `raw` event and does not end the stream. A line with
        the provider's own `uuid` is stored once, even if it is sent again. Other lines are always appended;
        after a lost response, `expectedSequence` detects whether the request was stored. With `end`, the body
        may be empty.
        """
        lines = parse_lines(await read_body(request, NDJSON), source)
        if lines or not end:
            check_count(lines, "line")
        check_sizes(state.settings, lines)
        stored = await store.messages.append(
            session_id,
            lines,
            expected_sequence=expected_sequence,
            end=end,
            ids=StreamIds(turn_id, response_id),
        )
        return appended_response("messages", stored)
