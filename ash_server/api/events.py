"""The log of events of a session: read from a cursor, posted, and derived from what a stream brings."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import msgspec
from litestar import Controller, Request, Response, get, post
from litestar.datastructures import State
from litestar.openapi import ResponseSpec
from litestar.params import FromPath, QueryParameter
from pydantic import MISSING, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from ash_server.api.http.bodies import BODY_REFUSALS, JSON, NDJSON, Body, check_size, decode_body, read_body
from ash_server.api.http.connections import Pool
from ash_server.api.http.operations import (
    MOST_IN_BATCH,
    ONE_LINE,
    WITHOUT_NUL,
    json_list_of,
    json_of,
    operation,
    text,
)
from ash_server.api.http.problems import READS, WRITES, refusals
from ash_server.api.http.write_connections import Writers
from ash_server.api.messages import (
    AppendedMessages,
    ExpectedSequence,
    check_count,
    described,
    read_lines,
    report,
    status_of,
)
from ash_server.db import events, messages
from ash_server.db.pagination import may_go_on
from ash_server.db.sessions import uuid7
from ash_server.errors import (
    AshError,
    BatchTooLarge,
    DuplicateInBatch,
    EmptyBatch,
    IdConflict,
    InvalidBody,
    InvalidJson,
    InvalidParameter,
    MessageTooLarge,
    NulByte,
    SequenceMismatch,
    SessionNotFound,
    TooDeep,
)
from ash_server.offload import offload_each
from ash_server.settings import Settings
from ash_shared.eventlog import Event
from ash_shared.model.blocks import MAX_DEPTH, nests_deeper
from ash_shared.model.events import EVENT_TYPES, EVENTS, ChatEvent, read_event
from ash_shared.model.message import LAST_SEQUENCE

_MOST_DEPTH = MAX_DEPTH + 2
"""A record of any depth that is read lies in the payload of its event."""

_several = msgspec.json.Decoder(list[msgspec.Raw])
_anything = msgspec.json.Decoder()


class EventPage(BaseModel):
    """Events in ascending order of their sequence."""

    model_config = ConfigDict(use_attribute_docstrings=True, serialize_by_alias=True)

    events: list[ChatEvent]
    next_after: int | MISSING = Field(default=MISSING, alias="nextAfter")
    """The `after` of the next page; absent where nothing more can be there."""
    prev_before: int | MISSING = Field(default=MISSING, alias="prevBefore")
    """The `before` of the page ahead of this one, where there may be one."""


def _by_type() -> list[Any]:
    """The payload by the type, as in ChatEvent, whose envelope is another."""
    other = {"type": "object", "properties": {"type": {"not": {"enum": sorted(EVENT_TYPES)}}}}
    return [*(_typed(type, EVENTS[type]) for type in EVENTS), other]


def _typed(type: str, model: type[BaseModel]) -> dict[str, Any]:
    payload = model.model_fields["payload"].annotation
    properties = {
        "type": {"const": type, "type": "string"},
        "payload": {"$ref": f"#/components/schemas/{getattr(payload, '__name__', '')}"},
    }
    return {"type": "object", "properties": properties, "required": ["type", "payload"]}


class NewEvent(BaseModel):
    """An event to append: as a ChatEvent, of which nothing but `type` and `payload` is needed.

    A payload of a type that Ash knows has to be what that type promises. Other types and other keys are kept.
    """

    model_config = ConfigDict(
        extra="allow", use_attribute_docstrings=True, json_schema_extra={"anyOf": _by_type()}
    )

    id: str | MISSING = Field(
        default=MISSING, min_length=1, max_length=255, json_schema_extra=dict(WITHOUT_NUL)
    )
    """Makes the append repeatable: the same id with the same event is stored once. Left out, it is random."""
    timestamp: int | MISSING = Field(default=MISSING, ge=0, le=LAST_SEQUENCE)
    """In milliseconds since 1970. Left out, it is the time of storing."""
    type: str = Field(min_length=1, max_length=100, json_schema_extra=dict(WITHOUT_NUL))
    turn_id: str | MISSING = Field(default=MISSING, alias="turnId")
    response_id: str | MISSING = Field(default=MISSING, alias="responseId")
    record_id: str | MISSING = Field(default=MISSING, alias="recordId")
    payload: dict[str, Any]


class PostedEvent(BaseModel):
    """Where a posted event is now."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    id: str
    sequence: int
    created: bool
    """False where the same event was stored before."""


class PostedEvents(BaseModel):
    """One for each event that was sent, in that order."""

    events: list[PostedEvent]


class Ended(BaseModel):
    """What ending a session took."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    events: int
    """How many events closed what was open: 0 where nothing was."""


_PLACE = {
    "sessionId": "0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60",
    "turnId": "5b0c6f0e-50a5-5d70-9a52-3b1f7f0c8a11",
}
_CALLED = {
    "sequence": 7,
    "messageSequence": 12,
    "id": "0b1c6f0e-50a5-5d70-9a52-3b1f7f0c8a11",
    "timestamp": 1793611915002,
    **_PLACE,
    "type": "tool_call",
    "responseId": "msg_01",
    "recordId": "5b0c",
    "payload": {"toolCallId": "toolu_01", "toolName": "Bash", "args": {"command": "pytest -q"}},
}
_ANSWERED = {
    "sequence": 8,
    "messageSequence": 13,
    "id": "c2f1a0d3-3f7e-5a0b-8f0e-6f0f3a6c1b52",
    "timestamp": 1793611921877,
    **_PLACE,
    "type": "tool_result",
    "payload": {"toolCallId": "toolu_01", "result": "1 failed: test_paths", "exitCode": 1},
}
_NEW: Mapping[str, Any] = {
    "id": "run-7/1",
    "type": "user_message",
    "turnId": "run-7",
    "payload": {"text": "Which tests fail?"},
}
_CALL: Mapping[str, Any] = {
    "id": "run-7/2",
    "type": "tool_call",
    "turnId": "run-7",
    "payload": {"toolCallId": "call_1", "toolName": "shell", "args": {"command": "pytest -q"}},
}
_OF_THE_HOUSE: Mapping[str, Any] = {"type": "build_finished", "payload": {"status": "red"}}
_LINE = '{"type":"assistant","message":{"id":"msg_01","role":"assistant","content":[{"type":"text","text":"Done."}]}}\n'

_TYPES = "^({0})(,({0}))*$".format("|".join(EVENTS))
_SEQUENCE = {"ge": 1, "le": LAST_SEQUENCE}
_LINES_REFUSALS = tuple(error for error in BODY_REFUSALS if error not in (InvalidBody, InvalidJson, TooDeep))


class EventController(Controller):
    path = "/api/sessions/{session_id:uuid}"
    tags = ("events",)

    @get(
        "/events",
        operation_id="listEvents",
        summary="List events",
        description="In ascending order. Go forwards with `after` (begin at 0, go on with `nextAfter`), backwards with "
        "`before` (begin with the largest number, go on with `prevBefore`), or ask for the event `at` a sequence with "
        "what is around it, half of the page ahead of it, and go on from there both ways. `message` is the same by the "
        "sequence of a stored message, which stays as it is when events are derived anew. `collapse` leaves out the "
        "pieces of what has become whole: a replay needs none. `type` leaves only events of these types.\n\n"
        "The sequences have no gap. Where a session was rebuilt by a newer version, they begin with a `reset`: what a "
        "reader has from before it is the older reading.",
        response_description="A page of events.",
        responses=refusals(*READS, SessionNotFound),
        operation_class=operation(
            answers={200: {JSON: json_of(EventPage, page={"events": [_CALLED, _ANSWERED], "nextAfter": 8})}}
        ),
    )
    async def list(  # noqa: PLR0913  # one argument per parameter of the query
        self,
        pool: Pool,
        session_id: FromPath[UUID],
        *,
        after: Annotated[
            int, QueryParameter(ge=0, le=LAST_SEQUENCE, description="Only those after this sequence.")
        ] = 0,
        before: Annotated[
            int | None,
            QueryParameter(**_SEQUENCE, description="Only those before this sequence, and of them the last."),
        ] = None,
        at: Annotated[
            int | None,
            QueryParameter(
                **_SEQUENCE,
                description="The event of this sequence, and what is around it; without `after` and `before`.",
            ),
        ] = None,
        message: Annotated[
            int | None,
            QueryParameter(
                **_SEQUENCE,
                description="The first event of the message of this sequence, or, where it has none, of a later one, "
                "and what is around it; without `after`, `before` and `at`.",
            ),
        ] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=1000, description="The most events to answer.")] = 100,
        collapse: Annotated[
            bool, QueryParameter(description="Whether to leave out the pieces of what has become whole.")
        ] = False,
        type: Annotated[
            str | None,
            QueryParameter(
                schema_extra={"pattern": _TYPES},
                description="Only these types of events, of those that Ash knows, separated by commas.",
            ),
        ] = None,
    ) -> Response[EventPage]:
        page = events.EventFilter(
            after=after,
            before=before,
            at=at,
            message=message,
            limit=limit,
            collapse=collapse,
            types=None if type is None else events.types_in(type),
        )
        has_middle = _middle(page)
        async with pool.connection() as conn:
            found = await events.get_events(conn, session_id, **page)
        goes_on = may_go_on(found, limit)
        ends: dict[str, int] = {}
        if found and goes_on and before is None:
            ends["nextAfter"] = found[-1].sequence
        if found and ((goes_on and before is not None) or (has_middle and found[0].sequence > 1)):
            ends["prevBefore"] = found[0].sequence
        return Response[Any](events.page_json(found, ends).encode(), media_type=JSON)

    @post(
        "/events",
        operation_id="appendEvents",
        summary="Append events",
        description="One event, a list of them, or NDJSON. All are stored or none. `id` and `timestamp` "
        "may be left out; an `id` makes the append repeatable. Types and keys that Ash does not know are kept. The "
        "session and the sequences of an event are given by where it is appended, whatever it says of them.",
        response_description="They are stored; those that were stored before have `created: false`.",
        responses={
            200: ResponseSpec(
                PostedEvents, description="All of them were stored before.", generate_examples=False
            ),
            **refusals(
                *WRITES,
                *BODY_REFUSALS,
                SessionNotFound,
                MessageTooLarge,
                BatchTooLarge,
                EmptyBatch,
                IdConflict,
                DuplicateInBatch,
                NulByte,
            ),
        },
        operation_class=operation(
            body={
                JSON: json_list_of(NewEvent, one=_NEW, several=[_NEW, _CALL], of_another_type=_OF_THE_HOUSE),
                NDJSON: text(
                    "One event per line; blank lines are passed over.",
                    lines="".join(f"{msgspec.json.encode(each).decode()}\n" for each in (_NEW, _CALL)),
                ),
            }
        ),
    )
    async def append(
        self, request: Request[Any, Any, Any], state: State, writers: Writers, session_id: FromPath[UUID]
    ) -> Response[PostedEvents]:
        sent = _READERS[(body := await read_body(request, *_READERS)).media_type](body)
        check_count(sent, "event")
        new = await offload_each(partial(_read, state.settings), sent)
        async with writers.connection(session_id) as conn:
            stored = await events.append_events(conn, session_id, new)
        state.hub.wake(session_id)
        made = PostedEvents(events=[PostedEvent(**each._asdict()) for each in stored])
        return Response(made, status_code=status_of(stored))

    @post(
        "/chunks",
        operation_id="appendChunks",
        summary="Append pieces of a stream",
        description="NDJSON: each line as the provider or its CLI wrote it. Every line is stored verbatim as a message "
        "of kind `chunk`, `record` or `message`, and becomes events in the same transaction. What is no record of the "
        "format becomes a `raw` event: no line ends a stream. A line that carries the provider's own `uuid` is stored "
        "once, however often it is sent; others are appended each time, and `expectedSequence` tells whether a request "
        "whose answer was lost had arrived. With `end` the body may be empty.",
        response_description="They are stored: what each line is now, in their order; those that were stored before "
        "have `created: false`.",
        responses={
            200: ResponseSpec(
                AppendedMessages,
                description="Nothing is new: there was no line, or each was stored before.",
                generate_examples=False,
            ),
            **refusals(
                *WRITES,
                *_LINES_REFUSALS,
                SessionNotFound,
                MessageTooLarge,
                BatchTooLarge,
                EmptyBatch,
                IdConflict,
                SequenceMismatch,
                NulByte,
            ),
        },
        operation_class=operation(
            body={NDJSON: text("The lines of the stream; blank ones are passed over.", line=_LINE)}
        ),
    )
    async def append_chunks(  # noqa: PLR0913  # likewise
        self,
        request: Request[Any, Any, Any],
        state: State,
        writers: Writers,
        session_id: FromPath[UUID],
        *,
        source: Annotated[
            str | None,
            QueryParameter(
                max_length=100,
                pattern=ONE_LINE,
                description="The format of the lines. Left out, it is recognised.",
            ),
        ] = None,
        end: Annotated[
            bool, QueryParameter(description="Whether the stream ends with them: what is open is closed.")
        ] = False,
        expected_sequence: ExpectedSequence = None,
    ) -> Response[AppendedMessages]:
        lines = read_lines(await read_body(request, NDJSON), source)
        if lines or not end:
            check_count(lines, "line")
        new = await described(state.settings, session_id, lines)
        async with writers.connection(session_id) as conn:
            stored = await messages.append(
                conn, session_id, new, ends=end, expected_sequence=expected_sequence
            )
        state.hub.wake(session_id)
        return report(stored)

    @post(
        "/end",
        operation_id="endSession",
        summary="Close what is open",
        description="The stream has ended, perhaps too early: texts and calls that are open are closed with what is "
        "there, and so is the turn. Nothing is made up. A session that goes on later simply goes on.",
        response_description="Nothing is open.",
        status_code=200,
        responses=refusals(*WRITES, SessionNotFound),
    )
    async def end(self, state: State, writers: Writers, session_id: FromPath[UUID]) -> Ended:
        async with writers.connection(session_id) as conn:
            count = await events.end_session(conn, session_id)
        state.hub.wake(session_id)
        return Ended(events=count)


class _Sent(NamedTuple):
    """An event as it came."""

    content: str
    number: int
    """Of it in the batch, counted from 0."""
    path: str
    """Where in the body it is; of a line it is the body's own."""


def _read_json(body: Body) -> list[_Sent]:
    """The events are not decoded yet: each has to be of the size of one, and they take their time."""
    if not body.text.lstrip().startswith("["):
        return [_Sent(body.text, 0, "$")]
    pieces = decode_body(body.text, _several)
    first = enumerate(islice(pieces, MOST_IN_BATCH + 1))
    return [_Sent(bytes(piece).decode(), number, f"$[{number}]") for number, piece in first]


def _read_lines(body: Body) -> list[_Sent]:
    return [_Sent(line.content, number, "$") for number, line in enumerate(read_lines(body))]


_READERS = {JSON: _read_json, NDJSON: _read_lines}


def _read(settings: Settings, sent: _Sent) -> Event:
    """The event, with an id where it has none. Raises InvalidJson, InvalidBody, TooDeep or MessageTooLarge."""
    check_size(sent.content, settings, sent.number)
    try:
        event = decode_body(sent.content, _anything)
    except AshError as error:
        error.index = sent.number
        raise
    if not isinstance(event, dict):
        raise _invalid(sent, sent.path, "Expected an object")
    if nests_deeper(event, _MOST_DEPTH):
        raise TooDeep(f"At most {_MOST_DEPTH} levels are read.", index=sent.number)
    event = {"id": str(uuid7()), **{name: event[name] for name in event if name not in _OF_ITS_PLACE}}
    _check(event, sent)
    return event


_OF_ITS_PLACE = frozenset({"sessionId", "sequence", "messageSequence"})
"""What the log says of an event, and not its writer."""


def _check(event: Event, sent: _Sent) -> None:
    try:
        read_event({"timestamp": 0, "sessionId": "", **event})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        is_known = isinstance(event.get("type"), str) and event["type"] in EVENT_TYPES
        place = first["loc"][1:] if is_known else first["loc"]
        raise _invalid(sent, sent.path + _path(place), _message(first)) from None


def _path(place: Sequence[int | str]) -> str:
    """What follows a number is the type of the block there, which is no part of the path."""
    followed = zip(place, ("", *place), strict=False)
    return "".join(_step(part) for part, before in followed if not isinstance(before, int))


def _step(part: int | str) -> str:
    return f"[{part}]" if isinstance(part, int) else f".{part}"


def _message(error: ErrorDetails) -> str:
    """What is wrong, without the value, which some messages quote."""
    return _WORDS.get(error["type"], error["msg"])


_WORDS: Mapping[str, str] = {
    "model_type": "Input should be an object",
    "dict_type": "Input should be an object",
    "union_tag_invalid": "Input should be a block of a known type",
    "union_tag_not_found": "Input should be a block, which has a type",
}


def _invalid(sent: _Sent, path: str, message: str) -> InvalidBody:
    return InvalidBody(
        f"{message} at {path}.", index=sent.number, errors=[{"path": path, "message": message}]
    )


def _middle(page: events.EventFilter) -> bool:
    """Whether it is around something. Raises InvalidParameter where it has ends as well."""
    middles = [name for name in ("at", "message") if page.get(name) is not None]
    if len(middles) > 1 or (middles and (page.get("after") or page.get("before") is not None)):
        raise _contradiction(*middles)
    return bool(middles)


def _contradiction(*middles: str) -> InvalidParameter:
    message = "It stands alone, without after and before."
    return InvalidParameter(
        "'at' and 'message' are the middle of a page, 'after' and 'before' are its ends.",
        errors=[{"path": name, "message": message} for name in middles],
    )
