"""The changes of files in a stored session, read page by page."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from ash_server.errors import SessionTooLarge
from ash_server.store.connections.pool import Connect
from ash_server.store.conversation.redacted_rows import redact_event
from ash_server.store.log.events import StoredEvent, check_cursor, get_events
from ash_server.store.session_rows import get_session
from ash_shared.model.reports.changes import SessionChanges
from ash_shared.projections.changes import EVENT_TYPES, CallEdits, EditLog, may_change, to_session_changes

_PAGE = 500
MAX_CHARACTERS = 16 * 1024 * 1024
"""Total length of the changed lines, with their context, and the commands of a report. The rest of a session is not
kept in memory."""


class _Payload(msgspec.Struct):
    toolCallId: Any = None  # noqa: N815 - the names in the JSON
    toolName: Any = None  # noqa: N815
    args: Any = None


class _ResultPayload(msgspec.Struct):
    toolCallId: Any = None  # noqa: N815


class _Call(msgspec.Struct):
    payload: _Payload


class _Result(msgspec.Struct):
    payload: _ResultPayload


_decode_call = msgspec.json.Decoder(_Call).decode
_decode_result = msgspec.json.Decoder(_Result).decode


async def read_changes(
    connect: Connect,
    session_id: UUID,
    *,
    turn: int | None = None,
    path: str | None = None,
    diffs: bool = True,
    redacts: bool = False,
) -> SessionChanges:
    """Return the files that the tools of a session changed, or a selection by turn and path.

    `path`: a whole path, or its last segments. `diffs`: with the lines. `redacts`: without secrets; the path is
    compared with redacted paths. Raises SessionNotFound, SessionTooLarge.
    """
    calls = await read_call_edits(connect, session_id, turn=turn, redacts=redacts)
    return await asyncio.to_thread(
        to_session_changes, str(session_id), calls, turn=turn, path=path, with_diffs=diffs
    )


async def read_call_edits(
    connect: Connect, session_id: UUID, *, turn: int | None = None, redacts: bool = False
) -> Sequence[CallEdits]:
    """Return the calls of a session that change files, without those copied from another session."""
    async with connect() as conn:
        await check_cursor(conn, session_id, 0)
        session = await get_session(conn, session_id)
    log, after = EditLog(session.copied_messages or 0, turn), 0
    while True:
        async with connect() as conn:
            page = await get_events(conn, session_id, after=after, limit=_PAGE, types=list(EVENT_TYPES))
        if not page:
            return log.calls
        await asyncio.to_thread(_add_page, log, page, redacts=redacts)
        if log.size > MAX_CHARACTERS:
            raise SessionTooLarge("`turn` selects a part")
        after = page[-1].sequence


def _add_page(log: EditLog, page: Sequence[StoredEvent], *, redacts: bool) -> None:
    for stored in page:
        if not _is_needed(log, stored):
            continue
        shown = redact_event(stored) if redacts else stored
        log.add(msgspec.json.decode(shown.wire_bytes()))


def _is_needed(log: EditLog, stored: StoredEvent) -> bool:
    """True unless the event is a call that changes no file, or its result. Most are, and redaction takes long."""
    if stored.type == "tool_call":
        call = _decode_call(stored.content).payload
        return may_change(call.toolName, call.args)
    if stored.type == "tool_result":
        return log.expects(_decode_result(stored.content).payload.toolCallId)
    return True
