"""Create many sessions with their first messages, in one transaction and few statements.

Creating a session and appending to it take ten statements and two transactions, most of the work for a session with one
message. A session that is not stored yet needs no lock and no lookup, so its events are derived before the transaction.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from psycopg import AsyncConnection

from ash_server.offload import offload_each
from ash_server.store.appending.new_messages import message_columns
from ash_server.store.borrowed import Resource
from ash_server.store.connections.pool import is_distributed, one_transaction
from ash_server.store.connections.tenants import Tenant
from ash_server.store.drift import DescribedMessage, insert_drift
from ash_server.store.facts.replacements import session_id_for
from ash_server.store.log import kept_states, open_texts
from ash_server.store.log.derived import Derived
from ash_server.store.log.tool_calls import encode_calls, write_calls
from ash_server.store.log.totals import TotalsOfLog
from ash_server.store.log.writer import PreparedEvent, columns, derive, milliseconds, without_nulls
from ash_server.store.messages import check_messages
from ash_server.store.prepare import NewMessage, PreparedMessage, prepare_message
from ash_server.store.session_facts import collect_facts
from ash_server.store.statements import statements
from ash_server.store.usage.answers import add_to_new_sessions, to_rows
from ash_shared.eventlog import NORMALIZER_VERSION, Normalizer
from ash_shared.eventlog.normalizer import SavedState
from ash_shared.eventlog.state import OpenTextMissing
from ash_shared.model.session import PROMPTS_OF
from ash_shared.parsing.parse import PARSER_VERSION

MAX_MESSAGES = 20
"""Messages of a session; with more, an append to the session takes no longer."""

SQL = statements(__file__)

_encode = msgspec.json.Encoder().encode

_SPARSE_COLUMNS = ("explicit_ids", "chunk_groups", "text_ranges")
"""Columns of events that are often NULL in all rows."""


class FilledSession(NamedTuple):
    """A session to create, with its messages."""

    external_id: str
    messages: Sequence[NewMessage]

    @property
    def content(self) -> str:
        """All texts: their size decides whether a thread parses them."""
        return "".join(each.content for each in self.messages)


class PreparedSession(NamedTuple):
    """A session with the rows to store for it."""

    name: str
    id: UUID
    messages: Sequence[PreparedMessage]
    row: Mapping[str, Any]
    counters: Mapping[str, Any]
    events: Mapping[str, Any]
    answers: Sequence[Mapping[str, Any]]
    calls: Sequence[str]
    saved: SavedState


class BulkStore(Resource):
    """Writes of many sessions at once."""

    async def create_sessions(
        self, source: str, sessions: Iterable[FilledSession], *, key_id: UUID | None = None
    ) -> dict[str, UUID]:
        """Create sessions with their messages, all or none, and return the ids of the new ones by external id.

        Stored sessions, and those that need other statements, are left to `sessions.create` and `messages.append`.
        Raises InvalidId, DuplicateInBatch, InvalidUtf8, NulByte.
        """
        async with self._connections.changes() as conn:
            if is_distributed(conn):
                return {}
        prepared = await prepare_sessions(source, sessions, self.tenant)
        if not prepared:
            return {}
        async with self._connections.changes() as conn:
            created = await write_sessions(conn, prepared, key_id)
        for id in created:
            self._wake(id)
        return {each.name: each.id for each in prepared if each.id in created}


async def prepare_sessions(
    source: str, sessions: Iterable[FilledSession], tenant: Tenant
) -> list[PreparedSession]:
    """Parse the sessions and derive their rows, except for sessions that these statements cannot create."""
    few = [each for each in sessions if 0 < len(each.messages) <= MAX_MESSAGES]
    prepared = await offload_each(partial(_prepare, source=source, now=milliseconds(), tenant=tenant), few)
    return [each for each in prepared if each is not None]


def _prepare(new: FilledSession, *, source: str, now: int, tenant: Tenant) -> PreparedSession | None:
    """Parse a session and derive its rows; None if these statements cannot create it."""
    id = session_id_for(source, new.external_id, tenant)
    messages = [_prepare_message(id, each) for each in new.messages]
    check_messages(messages)
    normalizer, derived = Normalizer(), Derived()
    try:
        events = _derive(normalizer, derived, id, messages, now)
    except OpenTextMissing:
        return None
    facts = collect_facts([message.described for message in messages])
    if any(each.has_own_id for each in events) or normalizer.is_inherited or facts.source in PROMPTS_OF:
        return None
    totals = TotalsOfLog()
    totals.add(each.event for each in events)
    kept, stored, saved = totals.kept(len(events)), columns(events), normalizer.save()
    last = kept_states.KeptState(len(messages), kept.sequence, saved.state, kept.totals, facts="")
    chain, _ = kept_states.follow(kept_states.Chain(), 0, [last], [facts])
    own_source = facts.source if source == "unknown" else source
    counters = {
        "session_id": id,
        "message_sequence": len(messages),
        "event_sequence": len(events),
        "normalizer_state": saved.state,
        **{name: stored.pop(name) for name in ("errors", "unrecognised", "may_have_chunks")},
        "prompts": derived.facts.prompts,
        "turns": derived.facts.turns,
        "active_ms": derived.facts.active_ms,
        "totals": kept.totals,
        "totals_sequence": kept.sequence,
        "kept_sequence": chain.sequence,
        "kept_facts": chain.facts,
    }
    return PreparedSession(
        new.external_id,
        id,
        messages,
        {**facts._asdict(), "id": id, "external_id": new.external_id, "source": own_source},
        counters,
        stored,
        [{**row, "session_id": id} for row in to_rows(derived.answers, now)],
        encode_calls(derived.facts, now),
        saved,
    )


def _prepare_message(session_id: UUID, new: NewMessage) -> PreparedMessage:
    return prepare_message(
        session_id,
        new.content,
        id=new.id,
        role=new.role,
        source=new.source,
        fallback_id=new.fallback_id,
    )


def _derive(
    normalizer: Normalizer, derived: Derived, id: UUID, messages: Sequence[PreparedMessage], now: int
) -> list[PreparedEvent]:
    normalizer.expect((message.line for message in messages), now)
    sequences = count(1)
    return [
        event
        for message in messages
        for event in derive(
            normalizer, id, next(sequences), message.line, now, text=message.content, derived=derived
        )
    ]


async def write_sessions(
    conn: AsyncConnection, sessions: Iterable[PreparedSession], key_id: UUID | None = None
) -> set[UUID]:
    """Store the sessions with ids that are not taken, and return their ids.

    Writers add sessions in the same order, so that they wait for each other without a deadlock.
    """
    sessions = sorted(sessions, key=lambda each: each.id)
    async with one_transaction(conn):
        rows = _encode([each.row for each in sessions]).decode()
        added = await conn.execute(SQL.add_sessions, {"sessions": rows, "key_id": key_id})
        created = {id for (id,) in await added.fetchall()}
        new = [each for each in sessions if each.id in created]
        if new:
            await _write_new(conn, new)
    return created


async def _write_new(conn: AsyncConnection, new: Sequence[PreparedSession]) -> None:
    counters = _encode([each.counters for each in new]).decode()
    await conn.execute(SQL.add_counters, {"counters": counters, "normalizer_version": NORMALIZER_VERSION})
    await conn.execute(SQL.add_messages, {**_message_columns(new), "parser_version": PARSER_VERSION})
    events = _event_columns(new)
    if events["sequences"]:
        await conn.execute(SQL.add_events, events)
    await add_to_new_sessions(conn, [row for each in new for row in each.answers])
    for each in new:
        await write_calls(conn, each.id, each.calls)
        await open_texts.write(conn, each.id, each.saved)
        described = (message.described for message in each.messages)
        await insert_drift(conn, each.id, map(DescribedMessage, count(1), described))


def _message_columns(sessions: Sequence[PreparedSession]) -> dict[str, Any]:
    placed = [(each.id, *pair) for each in sessions for pair in enumerate(each.messages, 1)]
    return {
        "session_ids": [id for id, _, _ in placed],
        "sequences": [sequence for _, sequence, _ in placed],
        **message_columns([message for _, _, message in placed]),
    }


def _event_columns(sessions: Sequence[PreparedSession]) -> dict[str, Any]:
    sizes = [len(each.events["types"]) for each in sessions]
    joined = {
        name: [value for each in sessions for value in each.events[name]] for name in sessions[0].events
    }
    return {
        "session_ids": [each.id for each, size in zip(sessions, sizes, strict=True) for _ in range(size)],
        "sequences": [number for size in sizes for number in range(1, size + 1)],
        **{name: without_nulls(joined[name]) if name in _SPARSE_COLUMNS else joined[name] for name in joined},
    }
