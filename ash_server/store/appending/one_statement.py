"""Appends to known sessions: their events are derived without a lock, and one statement stores everything.

The statement changes nothing if the session is not as it is known, or contains one of the messages or answers already.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.errors import AshError
from ash_server.store.appending import new_messages
from ash_server.store.appending.known_sessions import KnownSession, Revision
from ash_server.store.appending.new_messages import (
    AppendContext,
    AppendOptions,
    assign_sequences,
    derive_events,
    to_values,
)
from ash_server.store.connections.driver import execute_numbered
from ash_server.store.connections.pool import one_transaction
from ash_server.store.drift import DescribedMessage, insert_drift
from ash_server.store.log import kept_states, open_texts, tool_calls, writer
from ash_server.store.log.derived import Derived
from ash_server.store.log.events import Appended
from ash_server.store.log.writer import Saved
from ash_server.store.prepare import PreparedMessage
from ash_server.store.session_facts import collect_facts
from ash_server.store.sessions import check_sequence, merge_metadata
from ash_server.store.statements import number_parameters, statements
from ash_server.store.usage import answers
from ash_shared.eventlog import Normalizer, inherited_records
from ash_shared.eventlog.state import OpenTextMissing

MAX_MESSAGES = 20
"""Messages of an append. PostgreSQL writes more of them while their events are derived, but only after the lock."""

SQL = statements(
    __file__,
    insert_messages=new_messages.SQL.insert_messages,
    update_session=new_messages.SQL.update_session,
    insert_events=writer.SQL.insert_events,
    counters_after=writer.SQL.counters_after,
    added_answers=answers.SQL.added_answers,
    stored_calls=tool_calls.SQL.stored_calls,
    delete_surplus=tool_calls.SQL.delete_surplus,
    counter_sums=tool_calls.SQL.counter_sums,
)

_STATEMENTS = {
    (False, False): number_parameters(SQL.append),
    (True, False): number_parameters(SQL.append_answers),
    (False, True): number_parameters(SQL.append_calls),
    (True, True): number_parameters(SQL.append_answers_and_calls),
}
"""By whether there are new answers and calls."""


class NeedsLockError(Exception):
    """The append may need a value that is not known, so it must lock the session and read it."""


class SessionChangedError(Exception):
    """The session is not as it is known. Nothing is stored."""


class _PreparedAppend(NamedTuple):
    """The rows of an append."""

    values: dict[str, Any]
    """The parameters of the statement."""
    after: KnownSession
    """The session after the append, with the revision before it."""
    answers: Sequence[answers.AnswerRow]
    """New answers."""
    restated: Sequence[answers.AnswerRow]
    """Answers that earlier messages have stated."""
    saved: Saved
    states: Sequence[kept_states.KeptState]
    drift: Sequence[DescribedMessage]

    @property
    def needs_more(self) -> bool:
        """True if one statement is not enough."""
        texts = self.saved.state
        return bool(
            self.restated or self.states or self.drift or self.saved.calls[1:] or texts.added or texts.ended
        )


async def append_to_known(
    conn: AsyncConnection,
    session_id: UUID,
    known: KnownSession,
    messages: Sequence[PreparedMessage],
    context: AppendContext,
    options: AppendOptions,
) -> tuple[list[Appended], KnownSession]:
    """Return the places of new messages, and the session after them. Raises NeedsLockError, SessionChangedError."""
    places, metadata = _place(known, messages, options)
    prepared = await _prepare(conn, session_id, known, messages, context, metadata)
    if prepared.needs_more:
        async with one_transaction(conn):
            revision = await _write(conn, prepared)
            if revision is not None:
                await _write_more(conn, session_id, prepared)
    else:
        revision = await _write(conn, prepared)
    if revision is None:
        raise SessionChangedError
    return places, prepared.after._replace(revision=revision)


def _place(
    known: KnownSession, messages: Sequence[PreparedMessage], options: AppendOptions
) -> tuple[list[Appended], str | None]:
    """Return the places of the messages, and the metadata if they change."""
    last, changes = known.counters.message_sequence, options.get("metadata")
    is_unknown = changes is not None and known.metadata is None
    if is_unknown or options.get("end") or not last or not 0 < len(messages) <= MAX_MESSAGES:
        raise NeedsLockError
    try:
        places = assign_sequences(messages, last, {})
        check_sequence(options.get("expected_sequence"), last)
        metadata = None if changes is None else merge_metadata(known.metadata or "{}", changes)
    except AshError:  # the session may have changed
        raise NeedsLockError from None
    if not all(place.created for place in places):
        raise NeedsLockError
    return places, metadata


async def _prepare(
    conn: AsyncConnection,
    session_id: UUID,
    known: KnownSession,
    messages: Sequence[PreparedMessage],
    context: AppendContext,
    metadata: str | None,
) -> _PreparedAppend:
    counters, last = known.counters, known.counters.message_sequence
    inherited = inherited_records(counters.normalizer_state)
    facts = collect_facts([message.described for message in messages], inherited)
    values = to_values(session_id, last, messages, metadata, facts)
    normalizer, derived = Normalizer(state=counters.normalizer_state), Derived()
    try:
        events, copied, _ = await derive_events(normalizer, derived, session_id, last, messages, context)
    except OpenTextMissing:
        raise NeedsLockError from None
    is_renamed = facts.provider_session_id not in (None, known.name)
    has_own_ids = any(event.has_own_id for event in events)
    if copied or is_renamed or has_own_ids or derived.answers.settled_turns:
        raise NeedsLockError
    now = writer.milliseconds()  # the time of the context may be long past
    stated = answers.to_rows(derived.answers, now)
    new = [row for row in stated if row["key"] not in known.answers]
    calls = tool_calls.encode_calls(derived.facts, now)
    saved = Saved(normalizer.save(), (), calls, derived.facts, changes_usage=bool(stated))
    rows, states = await writer.to_rows(
        conn, session_id, counters, events, saved, messages=len(messages), facts=[facts]
    )
    after = known._replace(
        counters=counters.after(rows), metadata=known.metadata if metadata is None else metadata
    )
    return _PreparedAppend(
        values={**values, **rows, **_more_values(known.revision, new, calls)},
        after=after.with_answers(row["key"] for row in stated),
        answers=new,
        restated=[row for row in stated if row["key"] in known.answers],
        saved=saved,
        states=states,
        drift=[
            DescribedMessage(sequence, message.described)
            for sequence, message in enumerate(messages, last + 1)
            if message.described.drift
        ],
    )


def _more_values(
    revision: Revision, new: Sequence[answers.AnswerRow], calls: Sequence[str]
) -> dict[str, Any]:
    return {
        **revision._asdict(),
        "answer_keys": [row["key"] for row in new],
        **({"answers": answers.encode_rows(new)} if new else {}),
        **({"calls": calls[0]} if calls else {}),
    }


async def _write(conn: AsyncConnection, prepared: _PreparedAppend) -> Revision | None:
    """Return the revision after the append; None if the session has changed."""
    statement = _STATEMENTS[bool(prepared.answers), bool(prepared.saved.calls)]
    row = await (await execute_numbered(conn, statement, prepared.values)).fetchone()
    return Revision(*row) if row else None


async def _write_more(conn: AsyncConnection, session_id: UUID, prepared: _PreparedAppend) -> None:
    """Write the rows that few appends have."""
    await insert_drift(conn, session_id, prepared.drift)
    await tool_calls.write_calls(conn, session_id, prepared.saved.calls[1:])
    await open_texts.write(conn, session_id, prepared.saved.state)
    await kept_states.insert(conn, session_id, prepared.states)
    if prepared.restated:
        await answers.revise(conn, session_id, prepared.restated)
