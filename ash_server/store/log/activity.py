"""The current activity of sessions, from the state of their normaliser and their last tool calls."""

import asyncio
from collections.abc import Collection, Iterable
from uuid import UUID

import msgspec
from psycopg import AsyncConnection

from ash_server.redaction import redact
from ash_server.store.connections.pool import one_transaction
from ash_server.store.log.stored_json import event_json
from ash_server.store.statements import statements
from ash_shared.eventlog import Normalizer, OpenTurn
from ash_shared.model.session import SessionActivity
from ash_shared.projections.activity import to_activity

MAX_ARGUMENT = 200
"""Characters of an argument."""

_MAX_READ = 20_000
"""Characters of an argument that are redacted before it is shortened: a cut secret would not be recognised."""

_MAX_EVENTS = 2_000
_MAX_CALLS = 20

SQL = statements(__file__, event_json=event_json(), max_events=_MAX_EVENTS, max_calls=_MAX_CALLS)


async def read_activities(
    conn: AsyncConnection, session_ids: Collection[UUID]
) -> dict[UUID, SessionActivity]:
    """Return the activity of sessions by id, with redacted arguments. Unknown sessions are omitted."""
    rows = await (await conn.execute(SQL.states, [list(session_ids)])).fetchall()
    turns: dict[UUID, OpenTurn | None] = {}
    for id, state in rows:
        turns[id] = Normalizer(state=state).open_turn()
        await asyncio.sleep(0)  # a server has other requests
    calls = await _last_calls(conn, [id for id, turn in turns.items() if turn is not None and turn.calls])
    return {id: _to_activity(turn, calls.get(id, ())) for id, turn in turns.items()}


async def _last_calls(conn: AsyncConnection, session_ids: Collection[UUID]) -> dict[UUID, list[bytes]]:
    """Return the last calls of each session, as JSON, in one round trip."""
    async with one_transaction(conn):
        cursors = {id: await conn.execute(SQL.last_calls, {"session_id": id}) for id in session_ids}
    return {id: [content for (content,) in await rows.fetchall()] for id, rows in cursors.items()}


def _to_activity(turn: OpenTurn | None, calls: Iterable[bytes]) -> SessionActivity:
    activity = to_activity(turn, map(msgspec.json.decode, calls))
    return activity.model_copy(update=_without_secrets(activity))


def _without_secrets(activity: SessionActivity) -> dict[str, str]:
    if not isinstance(activity.argument, str):
        return {}
    line = " ".join(redact(activity.argument[:_MAX_READ]).split())
    return {"argument": line if len(line) <= MAX_ARGUMENT else f"{line[: MAX_ARGUMENT - 1]}…"}
