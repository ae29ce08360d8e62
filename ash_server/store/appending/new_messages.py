"""The rows of new messages, and the events derived from them."""

from collections.abc import Mapping, Sequence
from itertools import count, pairwise, starmap
from typing import Any, NamedTuple, TypedDict
from uuid import UUID

from psycopg import AsyncConnection, AsyncCursor

from ash_server.errors import IdConflict
from ash_server.offload import offload_each
from ash_server.store import session_facts
from ash_server.store.connections.pool import is_distributed
from ash_server.store.drift import DescribedMessage, insert_drift
from ash_server.store.log.derived import Derived
from ash_server.store.log.events import Appended
from ash_server.store.log.kept_states import DerivedState, places_within
from ash_server.store.log.writer import PreparedEvent, StreamIds, derive, without_nulls
from ash_server.store.prepare import PreparedMessage
from ash_server.store.session_facts import RecordFacts, collect_facts
from ash_server.store.statements import statements
from ash_shared.eventlog import Normalizer
from ash_shared.parsing.parse import PARSER_VERSION
from ash_shared.records.inherited import InheritedRecords

SQL = statements(__file__, merge=session_facts.SQL.merge)


class AppendOptions(TypedDict, total=False):
    """Options of an append."""

    expected_sequence: int | None
    """The last sequence of the session; checked if any message is new, or if there is none."""
    end: bool
    """Also close everything open, as `EventStore.end` does."""
    ids: StreamIds
    """The turn and the response of the events; a rebuild derives these ids again."""
    now: int | None
    """The time, in milliseconds, for events if their record has none."""
    metadata: Mapping[str, Any] | None
    """Merged into the metadata of the session, key by key, if all messages are new; None removes a key."""


class AppendContext(NamedTuple):
    """Values shared by the events of an append."""

    ids: StreamIds
    now: int
    """The time for events if their record has none, in milliseconds."""


class KnownText(NamedTuple):
    sequence: int
    content: str | None
    """None: deleted."""


def assign_sequences(
    messages: Sequence[PreparedMessage], last: int, stored: dict[str, KnownText]
) -> list[Appended]:
    known = dict(stored)
    places = []
    for index, message in enumerate(messages):
        created = message.id not in known
        if created:
            last += 1
            known[message.id] = KnownText(last, message.content)
        sequence, content = known[message.id]
        if content not in (None, message.content):
            raise IdConflict(index=index)
        places.append(Appended(message.id, sequence, created, deleted=content is None))
    return places


def to_values(
    session_id: UUID,
    last: int,
    new: Sequence[PreparedMessage],
    metadata: str | None,
    facts: RecordFacts,
) -> dict[str, Any]:
    """Return the parameters of the statements for messages with these facts."""
    return {
        "session_id": session_id,
        "last": last,
        "parser_version": PARSER_VERSION,
        "metadata": metadata,
        **message_columns(new),
        **facts._asdict(),
    }


def message_columns(messages: Sequence[PreparedMessage]) -> dict[str, Any]:
    """Return the columns of messages, except those that say where they are stored."""
    described = [message.described for message in messages]
    return {
        "ids": [message.id for message in messages],
        "contents": [message.content for message in messages],
        "roles": [each.role for each in described],
        "kinds": [each.kind for each in described],
        "sources": [each.source for each in described],
        "block_types": [",".join(each.block_types) for each in described],
        "digests": [each.digest for each in described],
        "have_explicit_roles": [message.has_explicit_role for message in messages],
        "have_explicit_sources": [message.has_explicit_source for message in messages],
        "blocks_starts": without_nulls([message.blocks and message.blocks.start for message in messages]),
        "blocks_sizes": without_nulls([message.blocks and message.blocks.size for message in messages]),
    }


async def write_messages(
    conn: AsyncConnection,
    session_id: UUID,
    last: int,
    new: Sequence[PreparedMessage],
    metadata: str | None,
    facts: RecordFacts,
) -> AsyncCursor:
    """Store messages with these facts, and return the result of the statement."""
    values = to_values(session_id, last, new, metadata, facts)
    statement = SQL.write_messages if is_distributed(conn) else SQL.write_messages_of_known_session
    written = await conn.execute(statement, values)
    described = (message.described for message in new)
    await insert_drift(conn, session_id, starmap(DescribedMessage, enumerate(described, last + 1)))
    return written


def facts_of_parts(
    last: int, new: Sequence[PreparedMessage], inherited: InheritedRecords
) -> list[RecordFacts]:
    """Return the facts of the messages up to each place where a state is kept, and of the rest."""
    described = [message.described for message in new]
    ends = [place - last for place in places_within(last, len(new))]
    return [
        collect_facts(described[start:end], inherited) for start, end in pairwise([0, *ends, len(described)])
    ]


class DerivedEvents(NamedTuple):
    """The events of new messages."""

    events: list[PreparedEvent]
    inherited: int
    """The sequence of the last message that is inherited; 0 if none is."""
    states: list[DerivedState]
    """The states to keep, except for the last one."""


async def derive_events(
    normalizer: Normalizer,
    derived: Derived,
    session_id: UUID,
    last: int,
    new: Sequence[PreparedMessage],
    context: AppendContext,
) -> DerivedEvents:
    if not last:
        normalizer.expect((message.line for message in new), context.now)
    sequences, inherited, derived_events = count(last + 1), 0, list[PreparedEvent]()
    places, states = places_within(last, len(new)), list[DerivedState]()

    def derive_next(message: PreparedMessage) -> None:
        nonlocal inherited
        sequence = next(sequences)
        now, ids, text = context.now, context.ids, message.content
        events = derive(normalizer, session_id, sequence, message.line, now, ids, text=text, derived=derived)
        derived_events.extend(events)
        inherited = sequence if normalizer.is_inherited else inherited
        if sequence in places:
            states.append(DerivedState(sequence, len(derived_events), normalizer.state_without_texts()))

    await offload_each(derive_next, new)
    return DerivedEvents(derived_events, inherited, states)
