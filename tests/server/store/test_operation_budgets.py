"""Statements, round trips and rows read of each operation, compared with `operation_budgets.toml`, not by time."""

import json
import os
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import pytest
from psycopg import AsyncConnection, AsyncCursor, AsyncServerCursor

from ash_server.errors import InvalidParameter
from ash_server.store import message_pages
from ash_server.store.appending.known_sessions import KnownSessions
from ash_server.store.bulk.new_sessions import FilledSession, prepare_sessions, write_sessions
from ash_server.store.connections.pool import Connect
from ash_server.store.connections.tenants import APP_ROLE, DEFAULT
from ash_server.store.conversation.projection_inputs import read_summary
from ash_server.store.conversation.standard_pages import get_conversation
from ash_server.store.conversation.standing_events import stream_standing
from ash_server.store.facts.report import read_facts
from ash_server.store.lists.session_lists import list_sessions
from ash_server.store.log import events
from ash_server.store.log.events import (
    append_events,
    end_session,
    get_event_page,
    get_events_since,
    resolve_cursor,
)
from ash_server.store.log.rebuild import rebuild_events
from ash_server.store.log.totals import count_items
from ash_server.store.maintenance.deletion import delete_last_message, delete_message
from ash_server.store.message_pages import get_message, list_page
from ash_server.store.messages import append, append_and_know
from ash_server.store.prepare import NewMessage, PreparedMessage, prepare_message
from ash_server.store.search.index import index_pending
from ash_server.store.search.query import find
from ash_server.store.search.within import find_in_session
from ash_server.store.session_rows import get_session
from ash_server.store.transcripts import TranscriptNames, find_candidate, list_relatives
from ash_server.store.usage.reports import default_prices
from ash_server.store.usage.session_usage import read_session_usage
from tests.cluster import not_on_cluster
from tests.shared.records import claude
from tests.shared.records.events import wire_event

BUDGETS = tomllib.loads(Path(__file__).with_name("operation_budgets.toml").read_text())

SESSIONS = 500
TURNS = 250
"""Each has four messages: a prompt, a call, its result, and an answer with usage."""

LIMITS = [
    (message_pages, "MAX_FILTERED", 300),
    (events, "MAX_FILTERED", 300),
    (events, "MAX_COLLAPSED", 300),
    (events, "MAX_MATCHED", 100),
    (events, "MAX_NAMED", 300),
]
"""Smaller than the session, so that the pages with filters need them."""

KNOWN_SESSIONS = KnownSessions()

LONG = UUID("0a000000-0000-7000-8000-000000000001")

FILL = f"""
    INSERT INTO sessions (id, source, external_id) VALUES ('{LONG}', 'claude', 'long');
    INSERT INTO sessions (id, source, title)
    SELECT gen_random_uuid(), 'claude', 'Session ' || number FROM generate_series(1, {SESSIONS}) AS number;
    INSERT INTO session_counters (session_id) SELECT id FROM sessions;
    INSERT INTO search_progress (session_id) SELECT id FROM sessions;
"""  # constants

ROWS = "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_user_tables"


class Cost(NamedTuple):
    statements: int
    round_trips: int
    rows: int


class Meter:
    """Counts the work of one connection."""

    def __init__(self, conn: AsyncConnection) -> None:
        self.conn = conn
        self.statements = self.round_trips = 0
        self._is_reading = False

    def add_statement(self, conn: AsyncConnection) -> None:
        if conn is not self.conn:  # of a server that another test runs
            return
        self.statements += 1
        self._is_reading = False
        self.round_trips += conn._pipeline is None

    def add_read(self, conn: AsyncConnection) -> None:
        if conn is not self.conn:
            return
        self.round_trips += conn._pipeline is not None and not self._is_reading
        self._is_reading = True

    async def measure(self, run: Callable[[AsyncConnection], Awaitable[object]]) -> Cost:
        before = await self._rows()
        self.statements = self.round_trips = 0
        await run(self.conn)
        statements, round_trips = self.statements, self.round_trips
        return Cost(statements, round_trips, await self._rows() - before)

    async def _rows(self) -> int:
        await self.conn.execute("SELECT pg_stat_force_next_flush()")
        row = await (await self.conn.execute(ROWS)).fetchone()
        assert row is not None
        return int(row[0])


@pytest.fixture
async def meter(connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch) -> Meter:
    meter = Meter(connection)
    for kind in (AsyncCursor, AsyncServerCursor):
        monkeypatch.setattr(kind, "execute", counting(kind.execute, meter.add_statement))
    for module, name, limit in LIMITS:
        monkeypatch.setattr(module, name, limit)
    for name in ("fetchone", "fetchall"):
        monkeypatch.setattr(AsyncCursor, name, counting(getattr(AsyncCursor, name), meter.add_read))
    await connection.execute(FILL)
    for first in range(0, TURNS, 50):
        await append_turns(connection, first, first + 50)
    await read_summary(connecting(connection), LONG, connecting(connection))
    while not await index_pending(connection, seconds=10):
        pass
    await connection.execute("VACUUM ANALYZE")
    return meter


def counting(function: Callable[..., Any], count: Callable[[AsyncConnection], None]) -> Callable[..., Any]:
    async def counted(self: Any, *args: Any, **options: Any) -> Any:
        count(self.connection)
        return await function(self, *args, **options)

    return counted


def connecting(conn: AsyncConnection) -> Connect:
    @asynccontextmanager
    async def connect() -> AsyncIterator[AsyncConnection]:
        yield conn

    return connect


def turn(number: int) -> list[dict[str, Any]]:
    usage = {"id": f"a{number}", "model": "claude-opus-4-8", "usage": claude.USAGE}
    return [
        claude.user(f"task {number} heron{number}"),
        claude.assistant(claude.call(f"t{number}", file_path=f"/f{number}"), id=f"c{number}"),
        claude.user([claude.tool_result(f"t{number}", "fine")]),
        claude.line("assistant", [claude.text(f"done {number}")], usage),
    ]


async def append_turns(conn: AsyncConnection, first: int, end: int) -> None:
    lines = [line for number in range(first, end) for line in turn(number)]
    await append_lines(conn, *lines)


async def append_lines(conn: AsyncConnection, *lines: dict[str, Any]) -> None:
    await append(conn, LONG, prepare(lines))


async def append_known(conn: AsyncConnection, *lines: dict[str, Any]) -> None:
    """Append to a session that the process knows since it has appended with this function."""
    await append_and_know(conn, LONG, prepare(lines), KNOWN_SESSIONS)


def prepare(lines: Iterable[dict[str, Any]]) -> list[PreparedMessage]:
    return [prepare_message(LONG, json.dumps(line), id=str(uuid4())) for line in lines]


async def read_usage(conn: AsyncConnection) -> None:
    await read_session_usage(conn, await default_prices(), [LONG])


async def create_sessions(conn: AsyncConnection) -> None:
    """As an OTLP request with a conversation for each span does."""
    values = {"gen_ai.operation.name": "chat", "gen_ai.prompt": "Go", "gen_ai.usage.output_tokens": 3}
    span = {"attributes": [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]}
    text = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
    sessions = [FilledSession(f"s{number}", [NewMessage(text, id="1")]) for number in range(100)]
    prepared = await prepare_sessions("otel", sessions, DEFAULT)
    assert len(await write_sessions(conn, prepared)) == 100


async def start_projection(conn: AsyncConnection) -> None:
    async with aclosing(stream_standing(connecting(conn), LONG)) as parts:
        await anext(parts)


async def find_missing_event(conn: AsyncConnection) -> None:
    with pytest.raises(InvalidParameter):
        await resolve_cursor(conn, LONG, "no event has this id")


PROMPT, CALL, RESULT, ANSWER = turn(TURNS)
NOTICE = wire_event("system_message", text="Note", variant="hook", id="n1")

OPERATIONS: dict[str, Callable[[AsyncConnection], Awaitable[object]]] = {
    "read a session": lambda conn: get_session(conn, LONG),
    "list sessions": lambda conn: list_sessions(conn, limit=50),
    "read a message": lambda conn: get_message(conn, LONG, 700),
    "page of messages": lambda conn: list_page(conn, LONG, after=600, limit=100),
    "last messages": lambda conn: list_page(conn, LONG, before=2**53 - 1, limit=100),
    "page of standard messages": lambda conn: get_conversation(connecting(conn), LONG, after=600, limit=100),
    "page of events": lambda conn: get_event_page(conn, LONG, after=600, limit=100),
    "page of events around one": lambda conn: get_event_page(conn, LONG, at=600, limit=100),
    "live tail without news": lambda conn: get_events_since(conn, LONG, 10**6),
    "search a rare word": lambda conn: find(conn, "heron7"),
    "search a frequent word": lambda conn: find(conn, "task", limit=20),
    "page of events around a message": lambda conn: get_event_page(conn, LONG, message=700, limit=100),
    "page of events of a type": lambda conn: get_event_page(conn, LONG, types=["error"]),
    "page of events of a type around one": lambda conn: get_event_page(conn, LONG, at=600, types=["error"]),
    "page of events of an agent": lambda conn: get_event_page(conn, LONG, agent="nobody"),
    "page of events without chunks": lambda conn: get_event_page(conn, LONG, collapse=True, limit=1000),
    "cursor of no event": find_missing_event,
    "page of messages with an image": lambda conn: list_page(conn, LONG, type="image"),
    "list sessions by a text": lambda conn: list_sessions(conn, q="no title has this"),
    "search a word of no event": lambda conn: find(conn, "quince"),
    "search a word of no event in a session": lambda conn: find_in_session(conn, LONG, "quince"),
    "search a frequent word in a session": lambda conn: find_in_session(conn, LONG, "task"),
    "search in a session": lambda conn: find_in_session(conn, LONG, "heron7"),
    "facts of a session": lambda conn: read_facts(conn, LONG),
    "counts of items": lambda conn: count_items(connecting(conn), None, LONG),
    "summary of a session": lambda conn: read_summary(connecting(conn), LONG),
    "usage of a session": read_usage,
    "first messages of a projection": start_projection,
    "append to an unknown session": lambda conn: append_known(conn, PROMPT),
    "append a prompt": lambda conn: append_known(conn, PROMPT),
    "append a call": lambda conn: append_known(conn, CALL),
    "append a result": lambda conn: append_known(conn, RESULT),
    "append an answer with usage": lambda conn: append_known(conn, ANSWER),
    "append 200 messages": lambda conn: append_turns(conn, TURNS + 1, TURNS + 51),
    "post an event": lambda conn: append_events(conn, LONG, [NOTICE]),
    "pop the last message": lambda conn: delete_last_message(conn, LONG),
    "end a session": lambda conn: end_session(conn, LONG),
    "delete a message": lambda conn: delete_message(conn, LONG, 700),
    "delete a prompt": lambda conn: delete_message(conn, LONG, 697),
    "create 100 sessions with spans": create_sessions,
    "rebuild a session": lambda conn: rebuild_events(conn, LONG),
}


@pytest.mark.slow
@pytest.mark.skipif("ASH_DIRECT_URL" in os.environ, reason="a pooler changes connections")
@not_on_cluster("rows are counted on one server")
async def test_operations_keep_their_budgets(meter: Meter) -> None:
    costs = {name: await meter.measure(run) for name, run in OPERATIONS.items()}

    limits = {name: Cost(*(BUDGETS[name][field] for field in Cost._fields)) for name in BUDGETS}
    assert limits.keys() == costs.keys()
    exceeded = {
        name: (costs[name], limit)
        for name, limit in limits.items()
        if any(map(int.__gt__, costs[name], limit))
    }
    assert exceeded == {}


MAX_ROWS_OF_AN_IDENTITY = 5 * SESSIONS
"""Each statement may read all sessions, but not all of them for each one."""


@not_on_cluster("rows are counted on one server")
async def test_a_transcript_is_identified_with_statistics_of_an_empty_store(
    connection: AsyncConnection,
) -> None:
    """During a first import, PostgreSQL chooses plans for few sessions."""
    await connection.execute("ANALYZE")
    await connection.execute(FILL)
    await connection.execute("UPDATE sessions SET lineage = ARRAY['session:' || id, 'transcript:' || id]")
    await connection.execute(f"SET ROLE {APP_ROLE}")
    key = f"transcript:{LONG}"
    names = TranscriptNames(str(LONG), key, lineage=(key,))

    candidate = await Meter(connection).measure(
        lambda conn: find_candidate(conn, names, "claude", "/f.jsonl", [])
    )
    relatives = await Meter(connection).measure(lambda conn: list_relatives(conn, LONG))

    assert candidate.rows < MAX_ROWS_OF_AN_IDENTITY
    assert relatives.rows < MAX_ROWS_OF_AN_IDENTITY
