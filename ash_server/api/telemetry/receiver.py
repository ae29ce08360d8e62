"""The routes of OTLP/HTTP: spans and log records become messages of sessions."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from litestar import Controller, Request, Response, post
from litestar.datastructures import State
from msgspec import json
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from ash_server.api.http.bodies import JSON
from ash_server.api.http.dependencies import InjectedStore
from ash_server.api.http.guards.access import record, record_each
from ash_server.api.metrics import count_appended, count_created
from ash_server.api.sessions.sessions import creator_of
from ash_server.api.telemetry.bodies import PROTOBUF, read_export
from ash_server.api.telemetry.encoding import (
    LOGS,
    SPANS,
    OtlpItem,
    Signal,
    has_more_items,
    items_of,
    partial_success,
)
from ash_server.api.telemetry.exports import SOURCE, TelemetryExport, read_logs, read_spans
from ash_server.errors import BatchTooLarge, DatabaseUnavailable, DiskFull, IdConflict, SessionNotFound
from ash_server.store.bulk.new_sessions import MAX_MESSAGES, FilledSession
from ash_server.store.prepare import NewMessage

MAX_ITEMS = 10_000
"""Spans or log records of a request, and also resources and scopes."""
_MAX_APPENDED = 1000
"""Messages in a transaction."""
_MAX_WRITERS = 4
"""Sessions of a request that are written at the same time: some wait for the disk while others are read."""


class TelemetryController(Controller):
    include_in_schema = False

    @post("/v1/traces", status_code=200)
    async def export_spans(
        self, request: Request[Any, Any, Any], state: State, store: InjectedStore
    ) -> Response[bytes]:
        """Store the spans of agents and models; others are rejected in a partial success."""
        return await _receive(_TRACES, request, state, store)

    @post("/v1/logs", status_code=200)
    async def export_logs(
        self, request: Request[Any, Any, Any], state: State, store: InjectedStore
    ) -> Response[bytes]:
        """Store the log records of agents and models; others are rejected in a partial success."""
        return await _receive(_LOGS, request, state, store)


class _Route(NamedTuple):
    signal: Signal
    request: type[Message]
    response: type[Message]
    read: Callable[[Iterator[OtlpItem], int], TelemetryExport]


_TRACES = _Route(SPANS, ExportTraceServiceRequest, ExportTraceServiceResponse, read_spans)
_LOGS = _Route(LOGS, ExportLogsServiceRequest, ExportLogsServiceResponse, read_logs)


async def _receive(
    route: _Route, request: Request[Any, Any, Any], state: State, store: InjectedStore
) -> Response[bytes]:
    message, media_type = await read_export(request, route.request())
    if has_more_items(message, route.signal, MAX_ITEMS):
        raise BatchTooLarge(
            f"A request contains at most {MAX_ITEMS} spans or log records, resources, and scopes."
        )
    items = items_of(message, route.signal)
    export = await asyncio.to_thread(lambda: route.read(items, state.settings.max_message_bytes))
    await _store(request, store, export)
    response = partial_success(route.response(), route.signal, export.rejected, export.message)
    return _answer(response, media_type)


async def _store(request: Request[Any, Any, Any], store: InjectedStore, export: TelemetryExport) -> None:
    """Store the messages of each session. If one fails, a repeated request stores the rest."""
    try:
        ids = await store.sessions.find_named(SOURCE, export.sessions)
        new = {name: messages for name, messages in export.sessions.items() if name not in ids}
        created = await _create_with_messages(request, store, new)
        others = [(name, messages) for name, messages in export.sessions.items() if name not in created]
        await _append_to_each(request, store, export, ids, others)
    except DiskFull as error:  # exporters repeat a request after 503, but not after 507
        raise DatabaseUnavailable("The disk of the database is full.") from error
    except SessionNotFound as error:
        raise DatabaseUnavailable("A session was deleted meanwhile; repeat the request.") from error


async def _create_with_messages(
    request: Request[Any, Any, Any], store: InjectedStore, sessions: Mapping[str, Sequence[NewMessage]]
) -> set[str]:
    """Create sessions with their messages, and return the names of the sessions that are stored."""
    key_id, done = creator_of(request, None).key_id, set[str]()
    for batch in _batches(sessions):
        created = await store.bulk.create_sessions(SOURCE, batch, key_id=key_id)
        await record_each(request, "session.create", list(created.values()))
        count_created("messages", sum(len(each.messages) for each in batch if each.external_id in created))
        done |= created.keys()
    return done


def _batches(sessions: Mapping[str, Sequence[NewMessage]]) -> Iterator[list[FilledSession]]:
    """Yield the sessions with few messages, up to `_MAX_APPENDED` messages at a time."""
    few = (FilledSession(*each) for each in sessions.items() if len(each[1]) <= MAX_MESSAGES)
    batch, size = list[FilledSession](), 0
    for session in few:
        if size + len(session.messages) > _MAX_APPENDED:
            yield batch
            batch, size = [], 0
        batch.append(session)
        size += len(session.messages)
    if len(batch) > 1:  # a single session is created as fast by itself
        yield batch


async def _append_to_each(
    request: Request[Any, Any, Any],
    store: InjectedStore,
    export: TelemetryExport,
    ids: Mapping[str, UUID],
    sessions: Iterable[tuple[str, Sequence[NewMessage]]],
) -> None:
    pending = iter(sessions)

    async def write() -> None:
        for name, messages in pending:
            session_id = ids.get(name) or await _create(request, store, name)
            for start in range(0, len(messages), _MAX_APPENDED):
                await _append(store, session_id, messages[start : start + _MAX_APPENDED], export)

    # If a writer fails, the others finish: a cancelled one may have stored its messages.
    results = await asyncio.gather(*(write() for _ in range(_MAX_WRITERS)), return_exceptions=True)
    for error in results:
        if error is not None:
            raise error


async def _create(request: Request[Any, Any, Any], store: InjectedStore, name: str) -> UUID:
    session, created = await store.sessions.get_or_create(
        source=SOURCE, external_id=name, key_id=creator_of(request, None).key_id
    )
    if created:
        await record(request, "session.create", session.id)
    return session.id


async def _append(
    store: InjectedStore, session_id: UUID, messages: Sequence[NewMessage], export: TelemetryExport
) -> None:
    """Reject the messages with an id that is stored with another text. Each conflict leaves fewer messages."""
    while messages:
        try:
            stored = await store.messages.append(session_id, messages)
        except IdConflict:
            contents = await store.messages.get_contents(session_id, [str(each.id) for each in messages])
            kept = [each for each in messages if contents.get(str(each.id)) in (None, each.content)]
            export.reject("A span with the same id is stored.", len(messages) - len(kept))
            messages = kept
        else:
            count_appended("messages", stored)
            return


def _answer(response: Message, media_type: str) -> Response[bytes]:
    """Return the response in the encoding of the request."""
    if media_type == PROTOBUF:
        return Response(response.SerializeToString(), media_type=PROTOBUF)
    return Response(json.encode(MessageToDict(response)), media_type=JSON)
