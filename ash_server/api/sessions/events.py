"""List and append the events of a session."""

import asyncio
from functools import partial
from itertools import islice
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import msgspec
from litestar import Controller, Request, Response, get, post
from litestar.datastructures import State
from litestar.openapi import ResponseSpec
from litestar.params import FromPath, QueryParameter
from pydantic import ConfigDict, Field

from ash_server.api.http.bodies import (
    BODY_ERRORS,
    JSON,
    MAX_BATCH_SIZE,
    NDJSON,
    Body,
    check_count,
    check_size,
    check_values,
    decode_body,
    read_body,
)
from ash_server.api.http.dependencies import InjectedReader, InjectedStore
from ash_server.api.http.openapi.operations import WITHOUT_NUL, documents, text
from ash_server.api.http.problems import READ_ERRORS, TEXT_ERRORS, WRITE_ERRORS, error_responses
from ash_server.api.http.redaction import compared, is_redacted
from ash_server.api.sessions.messages import appended_response, parse_lines
from ash_server.errors import (
    AshError,
    BatchTooLarge,
    DuplicateInBatch,
    EmptyBatch,
    IdConflict,
    InvalidParameter,
    MessageTooLarge,
    NulByte,
    SessionMismatch,
)
from ash_server.offload import offload_each
from ash_server.settings import Settings
from ash_server.store.conversation.redacted_rows import hide_event_chunks
from ash_server.store.log.events import EventFilter, page_json, parse_cursor, parse_types
from ash_server.store.prepare import prepare_event
from ash_server.store.text import ONE_LINE
from ash_shared.eventlog import Event
from ash_shared.model.base import ABSENT, AshModel, Omittable
from ash_shared.model.event_types import CATALOGUE
from ash_shared.model.message import LAST_SEQUENCE
from ash_shared.model.pages import EventPage

_list_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_any_decoder = msgspec.json.Decoder()


class NewEvent(AshModel):
    """An event to append: a ChatEvent with only `type` and `payload` required.

    The payload of a known type must match the schema in KnownEvent. Unknown types and keys are kept.
    """

    model_config = ConfigDict(extra="allow")

    id: Omittable[Annotated[str, Field(min_length=1, max_length=255)]] = Field(
        default=ABSENT, json_schema_extra=dict(WITHOUT_NUL)
    )
    """Makes the append idempotent: an event with the same id and content is stored once. Default: random."""
    timestamp: Omittable[Annotated[int, Field(ge=0, le=LAST_SEQUENCE)]] = ABSENT
    """Milliseconds since 1970. Default: the time when the event is stored."""
    type: str = Field(min_length=1, max_length=100, json_schema_extra=dict(WITHOUT_NUL))
    session_id: Omittable[str] = Field(default=ABSENT, alias="sessionId")
    """The id, the external id or the provider's id of the session. Default: this session."""
    turn_id: Omittable[str] = Field(default=ABSENT, alias="turnId")
    response_id: Omittable[str] = Field(default=ABSENT, alias="responseId")
    record_id: Omittable[str] = Field(default=ABSENT, alias="recordId")
    payload: dict[str, Any]


class PostedEvent(AshModel):
    """The stored position of a posted event."""

    id: str
    sequence: int
    created: bool
    """False if the same event was already stored."""


class PostedEvents(AshModel):
    """An entry for each event of the request, in the same order."""

    events: list[PostedEvent]


_APPEND_BODY = {JSON: list[NewEvent], NDJSON: text("One event per line; blank lines are skipped.")}

_TYPES = "^({0})(,({0}))*$".format("|".join(CATALOGUE))
_SEQUENCE = {"ge": 1, "le": LAST_SEQUENCE}

After = Annotated[
    str,
    QueryParameter(
        min_length=1,
        max_length=255,
        pattern=ONE_LINE,
        description="Only events after this event: a sequence or an `id`. A number is a sequence.",
    ),
]
Before = Annotated[
    int | None,
    QueryParameter(**_SEQUENCE, description="Only the last events before this sequence."),
]
Around = Annotated[
    int | None,
    QueryParameter(
        **_SEQUENCE,
        description="A page around the event with this sequence. Cannot be combined with `after` or `before`.",
    ),
]
AroundMessage = Annotated[
    int | None,
    QueryParameter(
        **_SEQUENCE,
        description="A page around the first event of the message with this sequence, or of the next message "
        "that has events. Cannot be combined with `after`, `before` or `at`.",
    ),
]
Types = Annotated[
    str | None,
    QueryParameter(
        schema_extra={"pattern": _TYPES},
        description="Only events with these types, separated by commas. Unknown types are rejected.",
    ),
]
Agent = Annotated[
    str | None,
    QueryParameter(
        min_length=1,
        max_length=1000,
        pattern=ONE_LINE,
        description="Only events from this agent. The `agentId` of a subagent's session finds the call that "
        "started the subagent.",
    ),
]


class EventController(Controller):
    path = "/api/sessions/{session_id:uuid}"
    tags = ("events",)

    @get(
        "/events",
        operation_id="listEvents",
        response_description="A page of events.",
        responses=error_responses(*READ_ERRORS, *TEXT_ERRORS),
    )
    async def list(  # noqa: PLR0913  # one argument per parameter of the query
        self,
        request: Request[Any, Any, Any],
        reader: InjectedReader,
        session_id: FromPath[UUID],
        *,
        after: After = "0",
        before: Before = None,
        at: Around = None,
        message: AroundMessage = None,
        limit: Annotated[int, QueryParameter(ge=1, le=1000, description="Maximum number of events.")] = 100,
        collapse: Annotated[
            bool, QueryParameter(description="Omit stream chunks if their complete content is stored.")
        ] = False,
        type: Types = None,
        agent: Agent = None,
    ) -> Response[EventPage]:
        """List events.

        Events are sorted by ascending sequence. To page forwards, start with `after=0` and continue with
        `nextAfter`. To page backwards, start with `before` set to the largest number and continue with
        `prevBefore`. `at` returns the page around an event; continue in either direction from there.
        `message` returns the page around the first event of a stored message. Message sequences, unlike event
        sequences, do not change when events are rebuilt.

        With `type`, `agent` or `collapse`, a page reads a limited number of events: it may be short, or empty,
        although it has a cursor.

        Sequences have no gaps. When a newer version of Ash rebuilds a session, the log starts with a `reset`:
        discard all events received earlier.
        """
        page = EventFilter(
            after=parse_cursor(compared(request.scope, after)),
            before=before,
            at=at,
            message=message,
            limit=limit,
            collapse=collapse,
            types=None if type is None else parse_types(type),
            agent=compared(request.scope, agent),
        )
        _check_cursors(page)
        rows, cursors = await reader(
            lambda store: store.events.get_stored_page(session_id, **page), session_id
        )
        if is_redacted(request.scope):
            rows = await asyncio.to_thread(hide_event_chunks, rows)
        return Response[Any](page_json(rows, cursors), media_type=JSON)

    @post(
        "/events",
        opt=documents(body=_APPEND_BODY),
        operation_id="appendEvents",
        response_description="Stored; events that were already stored have `created: false`.",
        responses={
            200: ResponseSpec(
                PostedEvents, description="All events were already stored.", generate_examples=False
            ),
            **error_responses(
                *WRITE_ERRORS,
                *TEXT_ERRORS,
                *BODY_ERRORS,
                MessageTooLarge,
                BatchTooLarge,
                EmptyBatch,
                IdConflict,
                DuplicateInBatch,
                NulByte,
                SessionMismatch,
            ),
        },
    )
    async def append(
        self, request: Request[Any, Any, Any], state: State, store: InjectedStore, session_id: FromPath[UUID]
    ) -> Response[PostedEvents]:
        """Append events.

        Accepts a list of events, a single event, or NDJSON. Either all events are stored or none. `id` and
        `timestamp` are optional; an `id` makes the append idempotent. Unknown types and keys are kept. A
        `sessionId` must match the id, the external id or the provider id of the session. `sequence` and
        `messageSequence` are ignored.
        """
        body = await read_body(request, *_BODY_PARSERS)
        check_values(body.text)
        batch = _BODY_PARSERS[body.media_type](body)
        check_count(batch, "event")
        new = await offload_each(partial(_parse_event, state.settings), batch)
        stored = await store.events.append_prepared(session_id, new)
        return appended_response("events", stored)


class _RawEvent(NamedTuple):
    """An undecoded event of a batch."""

    content: str
    position: int
    """Index in the batch, counted from 0."""
    path: str
    """JSONPath of the event in the body, or in its line."""


def _split_json(body: Body) -> list[_RawEvent]:
    """Split a list into undecoded events. They are decoded after their sizes are checked."""
    if not body.text.lstrip().startswith("["):
        return [_RawEvent(body.text, 0, "$")]
    items = decode_body(body.text, _list_decoder)
    first_items = enumerate(islice(items, MAX_BATCH_SIZE + 1))
    return [_RawEvent(bytes(item).decode(), index, f"$[{index}]") for index, item in first_items]


def _split_lines(body: Body) -> list[_RawEvent]:
    return [_RawEvent(line.content, index, "$") for index, line in enumerate(parse_lines(body))]


_BODY_PARSERS = {JSON: _split_json, NDJSON: _split_lines}


def _parse_event(settings: Settings, raw: _RawEvent) -> Event:
    """Decode and validate the event. Raises InvalidJson, InvalidBody, TooDeep or MessageTooLarge."""
    check_size(raw.content, settings, raw.position)
    try:
        event = decode_body(raw.content, _any_decoder)
    except AshError as error:
        error.index = raw.position
        raise
    return prepare_event(event, raw.position, raw.path)


def _check_cursors(page: EventFilter) -> None:
    """Raises InvalidParameter if a page around an event has other cursors as well."""
    centers = [name for name in ("at", "message") if page.get(name) is not None]
    has_bounds = page.get("after") != 0 or page.get("before") is not None
    if len(centers) > 1 or (centers and has_bounds):
        message = "It excludes the other cursors."
        raise InvalidParameter(
            "Use 'at' or 'message' alone, or 'after' or 'before'.",
            errors=[{"path": name, "message": message} for name in centers],
        )
