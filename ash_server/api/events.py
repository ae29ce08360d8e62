"""The log of events of a session: read from a cursor, posted, and derived from what a stream brings."""

import time
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Controller, Request, Response, get, post
from litestar.datastructures import State
from litestar.params import FromPath, QueryParameter
from pydantic import MISSING, BaseModel, ConfigDict, Field, ValidationError

from ash_server.api.bodies import BODY_REFUSALS, JSON, NDJSON, Body, check_size, decode_body, read_body
from ash_server.api.messages import AppendedMessages, read_lines, report
from ash_server.api.operations import json_list_of, json_of, operation, text
from ash_server.api.parse import Source
from ash_server.api.pool import Pool
from ash_server.api.problems import READS, WRITES, refusals
from ash_server.api.turns import aside, in_turns
from ash_server.db import events, messages
from ash_server.db.sessions import uuid7
from ash_server.errors import (
    BatchTooLarge,
    DuplicateInBatch,
    EmptyBatch,
    IdConflict,
    InvalidBody,
    MessageTooLarge,
    NulByte,
    SessionNotFound,
    TooDeep,
)
from ash_server.ingest import new_message
from ash_shared.blocks import MAX_DEPTH, nests_deeper
from ash_shared.events import ChatEvent, read_event
from ash_shared.message import LAST_SEQUENCE
from ash_shared.normalize import Event

_MOST_IN_BATCH = 1000

_decoder = msgspec.json.Decoder(dict[str, Any] | list[dict[str, Any]])
_line_decoder = msgspec.json.Decoder(dict[str, Any])


class EventPage(BaseModel):
    """Events in ascending order of their sequence."""

    model_config = ConfigDict(use_attribute_docstrings=True, serialize_by_alias=True)

    events: list[ChatEvent]
    next_after: int | MISSING = Field(default=MISSING, alias="nextAfter")
    """The `after` of the next page; absent where nothing more can be there."""
    prev_before: int | MISSING = Field(default=MISSING, alias="prevBefore")
    """The `before` of the page ahead of this one, where there may be one."""


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


EXAMPLE: Mapping[str, Any] = {
    "id": "0b1c6f0e-50a5-5d70-9a52-3b1f7f0c8a11",
    "timestamp": 1793611915002,
    "sessionId": "0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60",
    "type": "assistant_done",
    "turnId": "t1",
    "responseId": "msg_01",
    "payload": {"text": "Done."},
}
_STORED = {"sequence": 7, "messageSequence": 12, **EXAMPLE}
_LINE = '{"type":"assistant","message":{"id":"msg_01","role":"assistant","content":[{"type":"text","text":"Done."}]}}\n'

_SEQUENCE = {"ge": 1, "le": LAST_SEQUENCE}


class EventController(Controller):
    path = "/api/sessions/{session_id:uuid}"
    tags = ("events",)

    @get(
        "/events",
        operation_id="listEvents",
        summary="List events",
        description="In ascending order. Go forwards with `after`, backwards with `before`, or begin `at` an event "
        "with what is around it. `collapse` leaves out the pieces of what has become whole: a replay needs none.\n\n"
        "The sequences have no gap. Where a session was rebuilt by a newer version, they begin with a `reset`: what a "
        "reader has from before it is the older reading.",
        response_description="A page of events.",
        responses=refusals(*READS, SessionNotFound),
        operation_class=operation(
            answers={200: {JSON: json_of(EventPage, page={"events": [_STORED], "nextAfter": 7})}}
        ),
    )
    async def list(  # noqa: PLR0913  # one argument per parameter of the query
        self,
        pool: Pool,
        session_id: FromPath[UUID],
        *,
        after: Annotated[
            int, QueryParameter(ge=0, le=LAST_SEQUENCE, description="Only those behind this sequence.")
        ] = 0,
        before: Annotated[
            int | None,
            QueryParameter(
                **_SEQUENCE, description="Only those ahead of this sequence, and of them the last."
            ),
        ] = None,
        at: Annotated[
            int | None,
            QueryParameter(**_SEQUENCE, description="The event of this sequence, and what is around it."),
        ] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=1000, description="The most events to answer.")] = 100,
        collapse: Annotated[
            bool, QueryParameter(description="Whether to leave out the pieces of what has become whole.")
        ] = False,
    ) -> Response[EventPage]:
        async with pool.connection() as conn:
            found = await events.get_events(
                conn, session_id, after=after, before=before, at=at, limit=limit, collapse=collapse
            )
        goes_on = events.may_go_on(found, limit)
        ends: dict[str, int] = {}
        if found and goes_on and before is None:
            ends["nextAfter"] = found[-1].sequence
        if found and ((goes_on and before is not None) or (at is not None and found[0].sequence > 1)):
            ends["prevBefore"] = found[0].sequence
        return Response[Any](_page(found, ends), media_type=JSON)

    @post(
        "/events",
        operation_id="appendEvents",
        summary="Append events",
        description="One event, a list of them, or NDJSON. All are stored or none. `id`, `timestamp` and `sessionId` "
        "may be left out; an `id` makes the append repeatable. Types and keys that Ash does not know are kept.",
        response_description="They are stored.",
        responses=refusals(
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
        operation_class=operation(
            body={
                JSON: json_list_of(ChatEvent, one=EXAMPLE),
                NDJSON: text("One event per line.", line=msgspec.json.encode(EXAMPLE).decode() + "\n"),
            }
        ),
    )
    async def append(
        self, request: Request[Any, Any, Any], state: State, pool: Pool, session_id: FromPath[UUID]
    ) -> Response[PostedEvents]:
        sent = _READERS[(body := await read_body(request, *_READERS)).media_type](body)
        if not sent:
            raise EmptyBatch("The batch holds no event.")
        if len(sent) > _MOST_IN_BATCH:
            raise BatchTooLarge(f"At most {_MOST_IN_BATCH} events are taken at once.")
        new = [_checked(event, index, session_id, state) async for index, event in in_turns(enumerate(sent))]
        async with pool.connection() as conn:
            stored = await events.append_events(conn, session_id, new)
        state.hub.wake(session_id)
        made = PostedEvents(events=[PostedEvent(**each._asdict()) for each in stored])
        return Response(made, status_code=201 if any(each.created for each in stored) else 200)

    @post(
        "/chunks",
        operation_id="appendChunks",
        summary="Append pieces of a stream",
        description="NDJSON: each line as the provider or its CLI wrote it. Every line is stored verbatim as a message "
        "of kind `chunk`, `record` or `message`, and becomes events in the same transaction. What is no record of the "
        "format becomes a `raw` event: no line ends a stream.",
        response_description="They are stored.",
        responses=refusals(
            *WRITES, *BODY_REFUSALS, SessionNotFound, MessageTooLarge, BatchTooLarge, EmptyBatch, NulByte
        ),
        operation_class=operation(body={NDJSON: text("The lines of the stream.", line=_LINE)}),
    )
    async def append_chunks(
        self,
        request: Request[Any, Any, Any],
        state: State,
        pool: Pool,
        session_id: FromPath[UUID],
        *,
        source: Annotated[
            Source | None, QueryParameter(description="The format of the lines. Left out, it is recognised.")
        ] = None,
        end: Annotated[
            bool, QueryParameter(description="Whether the stream ends with them: what is open is closed.")
        ] = False,
    ) -> Response[AppendedMessages]:
        lines = read_lines(await read_body(request, NDJSON))
        if not lines and not end:
            raise EmptyBatch
        if len(lines) > _MOST_IN_BATCH:
            raise BatchTooLarge(f"At most {_MOST_IN_BATCH} lines are taken at once.")
        for index, line in enumerate(lines):
            check_size(line.content, state.settings, index)
        describe = partial(_describe, session_id, source)
        new = [await aside(describe, each) async for each in in_turns(lines)]
        async with pool.connection() as conn:
            stored = await messages.append(conn, session_id, new, ends=end)
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
    async def end(self, state: State, pool: Pool, session_id: FromPath[UUID]) -> Ended:
        async with pool.connection() as conn:
            count = await events.end_session(conn, session_id)
        state.hub.wake(session_id)
        return Ended(events=count)


def _page(found: list[events.StoredEvent], ends: Mapping[str, int]) -> bytes:
    told = "".join(f',"{name}":{sequence}' for name, sequence in ends.items())
    return f'{{"events":[{",".join(event.wire() for event in found)}]{told}}}'.encode()


def _describe(session_id: UUID, source: str | None, line: Any) -> messages.NewMessage:
    return new_message(session_id, line.content, source=source)


def _read_json(body: Body) -> list[Event]:
    sent = decode_body(body.text, _decoder)
    return sent if isinstance(sent, list) else [sent]


def _read_lines(body: Body) -> list[Event]:
    return [decode_body(line.content, _line_decoder) for line in read_lines(body)]


_READERS = {JSON: _read_json, NDJSON: _read_lines}


def _checked(sent: Event, index: int, session_id: UUID, state: State) -> Event:
    """The event with what a writer may leave out. Raises InvalidBody, TooDeep or MessageTooLarge."""
    filled = {
        "id": str(uuid7()),
        "timestamp": time.time_ns() // 1_000_000,
        **sent,
        "sessionId": str(session_id),
    }
    if nests_deeper(filled, MAX_DEPTH):
        raise TooDeep(f"At most {MAX_DEPTH} levels are read.", index=index)
    check_size(msgspec.json.encode(filled).decode(), state.settings, index)
    try:
        read_event(filled)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        path = ".".join(["$", *(str(part) for part in first["loc"] if part != filled.get("type"))])
        raise InvalidBody(
            f"{first['msg']} at {path}.", index=index, errors=[{"path": path, "message": first["msg"]}]
        ) from None
    return filled
