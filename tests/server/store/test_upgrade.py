"""A store of an earlier version opens after the usual migration and reads the same."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from ash_server import NewMessage, Store
from ash_server.errors import SchemaMismatch
from ash_server.store.borrowed import translate_errors
from ash_server.store.maintenance.vacuum import vacuum
from ash_server.store.schema.migrations import REVISION, upgrade
from ash_server.store.sessions import session_id_for
from ash_server.transfer.exporting.jsonl import FORMATS
from ash_server.transfer.importing.file_import import import_file
from ash_server.transfer.importing.transcript_files import modification_time
from ash_server.transfer.load import load_session
from tests.alembic_commands import alembic
from tests.cluster import not_on_cluster
from tests.conftest import at_database, new_database
from tests.server.store.upgrade.write_store import PATHS, external_name
from tests.shared.records import claude
from tests.waiting import wait_until

pytestmark = not_on_cluster("distributed tables are not downgraded")

ROOT = Path(__file__).parents[3]
WRITTEN_STORES = sorted((Path(__file__).parent / "upgrade").glob("store_*.sql"))
STORES = sorted((Path(__file__).parent / "upgrade").glob("schema_*.sql"))
SAMPLES = sorted((ROOT / "ash_server" / "samples").glob("*.jsonl"))
SAMPLE = ROOT / "ash_server" / "samples" / "bird-counter.jsonl"

BIRDS = session_id_for("gemini_cli", "bird-counter")
STREAM = session_id_for("claude", "run-7")
POSTED = session_id_for("unknown", "posted")

STREAM_TEXTS = [
    '[{"not": "any format", "n": 1e400}]',
    "plain words, näive\r",
    '{"broken": ',
]
STREAM_EVENTS = ["turn_start", "assistant_chunk", "raw", "raw", "raw"]


@pytest.fixture(scope="module", params=STORES, ids=lambda path: path.stem)
def old_template(request: pytest.FixtureRequest, server_url: str) -> Iterator[str]:
    """The name of a database with the schema and the data of an earlier version, which tests copy."""
    path: Path = request.param
    with new_database(server_url) as name:
        url = at_database(server_url, name)
        upgrade(url, path.stem.removeprefix("schema_"))
        with psycopg.connect(url) as conn:
            conn.execute(path.read_bytes())
        yield name


@pytest.fixture(scope="module")
def upgraded_template(old_template: str, server_url: str) -> Iterator[str]:
    with new_database(server_url, f"TEMPLATE {old_template}") as name:
        upgrade(at_database(server_url, name))
        yield name


@pytest.fixture
def old_store(old_template: str, server_url: str) -> Iterator[str]:
    with new_database(server_url, f"TEMPLATE {old_template} STRATEGY FILE_COPY") as name:
        yield at_database(server_url, name)


@pytest.fixture
def upgraded_store(upgraded_template: str, server_url: str) -> Iterator[str]:
    """The store of the earlier version after the migration."""
    with new_database(server_url, f"TEMPLATE {upgraded_template} STRATEGY FILE_COPY") as name:
        yield at_database(server_url, name)


async def test_reads_store_of_earlier_version(upgraded_store: str) -> None:
    async with Store.open(upgraded_store) as store:
        birds = await store.sessions.get(BIRDS)
        texts = [message.content async for message in store.messages.stream_messages(BIRDS)]
        page = await store.conversation.get_page(BIRDS)

        assert (birds.title, birds.metadata["team"], birds.source) == ("Birds", "field", "gemini_cli")
        assert texts == SAMPLE.read_text().splitlines()
        assert page.messages == load_session(SAMPLE)

        stream = await store.messages.list_messages_parsed(STREAM, after=3)
        assert [message.content for message in stream] == STREAM_TEXTS
        assert [event.type for event in await store.events.get_events(STREAM)] == STREAM_EVENTS
        assert (await store.sessions.get(STREAM)).parent_id == BIRDS

        posted = await store.events.get_stored_events(POSTED)
        assert [(event.sequence, event.type) for event in posted[:2]] == [(1, "user_message"), (2, "house")]
        assert [result.session_id for result in (await store.search.search("indexed")).results] == [POSTED]


async def test_appends_to_store_of_earlier_version(upgraded_store: str) -> None:
    async with Store.open(upgraded_store) as store:
        before = [event.type for event in await store.events.get_events(BIRDS, limit=1000)]
        await store.events.rebuild(BIRDS)
        after = [event.type for event in await store.events.get_events(BIRDS, limit=1000)]
        last = (await store.sessions.get(BIRDS)).message_count
        [appended] = await store.messages.append(BIRDS, ["more"])
        third = await store.messages.get_message(BIRDS, 3)
        [again] = await store.messages.append(BIRDS, [NewMessage(third.content, id=third.id)])

    assert after == ["reset", *before]
    assert appended.sequence == last + 1
    assert (again.sequence, again.created) == (3, False)


async def test_imports_into_store_of_earlier_version(upgraded_store: str) -> None:
    async with Store.open(upgraded_store) as store:
        before = await store.sessions.get(BIRDS)
        imported = await import_file(store, SAMPLE, "bird-counter")
        after = await store.sessions.get(BIRDS)

    assert (imported.session_id, set(imported.result.counts)) == (BIRDS, {"existing"})
    assert (before.file_modified_at, after.file_modified_at) == (None, modification_time(SAMPLE))


def read_events(url: str, table: str) -> list[tuple[Any, ...]]:
    columns = "session_id, type, message_sequence, origin, given_id, piece_of, content"
    with psycopg.connect(url) as conn:
        query = f"SELECT {columns} FROM {table} WHERE type <> 'reset' ORDER BY session_id, sequence"
        return conn.execute(query).fetchall()


def test_events_of_earlier_version_stay_the_same(old_store: str) -> None:
    before = read_events(old_store, "events")
    upgrade(old_store)

    assert read_events(old_store, "events_full") == before != []


@pytest.mark.slow
async def test_store_of_whole_events_shrinks(database_url: str, tmp_path: Path) -> None:
    """A downgrade stores events whole; after an upgrade, a rebuild and a vacuum they refer, and are the same."""
    transcript = tmp_path / "large-results.jsonl"
    transcript.write_text("".join(map(_large_result, range(100))))
    async with Store.open(database_url) as store:
        for path in (transcript, *SAMPLES):
            await import_file(store, path, path.stem)
        ids = [session_id async for session_id in store.sessions.list_ids()]
    events = read_events(database_url, "events_full")
    alembic(database_url, "downgrade", "0006")
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute("VACUUM FULL events")
    whole, size = read_events(database_url, "events"), events_size(database_url)

    upgrade(database_url)
    async with Store.open(database_url) as store:
        upgraded = read_events(database_url, "events_full")
        for session_id in ids:
            await store.events.rebuild(session_id)

    assert whole == events != []
    assert upgraded == events
    with psycopg.connect(database_url, autocommit=True) as conn:
        wait_until(lambda: events_size_after_vacuum(conn, database_url) < 0.5 * size)
    assert read_events(database_url, "events_full") == events


async def test_events_that_refer_survive_a_downgrade(database_url: str, tmp_path: Path) -> None:
    """Schema 0012 has references, but no events without their beginning."""
    transcript = tmp_path / "large-results.jsonl"
    transcript.write_text("".join(map(_large_result, range(3))))
    async with Store.open(database_url) as store:
        await import_file(store, transcript, transcript.stem)
    stored = read_events(database_url, "events_full")
    alembic(database_url, "downgrade", "0012")
    downgraded = read_events(database_url, "events_full")
    with psycopg.connect(database_url) as conn:
        references = conn.execute("SELECT count(places), count(*) FILTER (WHERE body LIKE '{%') FROM events")
        counts = references.fetchall()
    upgrade(database_url)

    assert counts == [(3, len(stored))]
    assert downgraded == read_events(database_url, "events_full") == stored


def _large_result(number: int) -> str:
    block = {"type": "tool_result", "tool_use_id": f"t-{number}", "content": f"{number}é" * 1000}
    line = claude.line("user", [block], uuid=f"u-{number}")
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n"


def events_size_after_vacuum(conn: psycopg.Connection, url: str) -> int:
    """Return the size after a vacuum, which leaves rows that an older transaction can see."""
    vacuum(conn)
    return events_size(url)


def events_size(url: str) -> int:
    with psycopg.connect(url) as conn:
        ((size,),) = conn.execute("SELECT pg_total_relation_size('events')").fetchall()
    return int(size)


STATEMENTS_BEFORE = {
    "events of 0009": "SELECT sequence, type, content FROM events",
    "events of 0023": "SELECT sequence, type, fields, places FROM events",
    "lock of 0023": "SELECT normalizer_state, has_chunks FROM session_counters FOR UPDATE",
    "search of 0023": "SELECT events_dropped FROM search_progress",
}


@pytest.mark.parametrize("statement", STATEMENTS_BEFORE.values(), ids=STATEMENTS_BEFORE)
def test_running_server_of_earlier_version_refuses_the_schema(statement: str, database_url: str) -> None:
    """It stops at a column that it does not find, instead of reading or writing half of an event or a state."""
    with pytest.raises(SchemaMismatch), translate_errors(), psycopg.connect(database_url) as conn:
        conn.execute(statement)


async def test_finds_session_of_earlier_version_from_another_folder(
    upgraded_store: str, tmp_path: Path
) -> None:
    copy = tmp_path / SAMPLE.name
    copy.write_bytes(SAMPLE.read_bytes())
    async with Store.open(upgraded_store) as store:
        imported = [await import_file(store, copy, name, identify=True) for name in ("one", "two")]
        birds = await store.sessions.get(BIRDS)

    assert [(each.session_id, set(each.result.counts)) for each in imported] == [(BIRDS, {"existing"})] * 2
    assert (birds.external_id, birds.path, birds.copy_of) == ("bird-counter", "two", None)


async def test_rejects_older_schema(old_store: str) -> None:
    with psycopg.connect(old_store) as conn:
        conn.execute("UPDATE alembic_version SET version_num = '0003'")

    with pytest.raises(SchemaMismatch, match=f"needs {REVISION}"):
        async with Store.open(old_store):
            pass


def load_store(url: str, path: Path) -> None:
    """Create a database with the schema of a store, and only its rows."""
    upgrade(url, path.stem.rpartition("_")[2])
    load_rows(url, path)


def load_rows(url: str, path: Path) -> None:
    """Replace all rows by the rows of a store with the same schema."""
    with psycopg.connect(url) as conn:
        tables = conn.execute(
            "SELECT string_agg(tablename, ',') FROM pg_tables "
            "WHERE schemaname = 'public' AND tablename <> 'alembic_version'"
        )
        conn.execute(f"TRUNCATE {tables.fetchall()[0][0]}")
        conn.execute(path.read_bytes())


@pytest.fixture(scope="module")
def schemas(server_url: str) -> Iterator[Callable[[str], str]]:
    """Return the name of a database with the schema of a revision, migrated from the last one before it."""
    names: dict[str, str] = {}
    with ExitStack() as databases:

        def schema_of(revision: str) -> str:
            if revision not in names:
                before = max((each for each in names if each < revision), default=None)
                template = "" if before is None else f"TEMPLATE {names[before]} STRATEGY FILE_COPY"
                name = databases.enter_context(new_database(server_url, template))
                upgrade(at_database(server_url, name), revision)
                names[revision] = name
            return names[revision]

        yield schema_of


@pytest.fixture
def written_store(path: Path, schemas: Callable[[str], str], server_url: str) -> Iterator[str]:
    """A store that the version with a schema has written."""
    template = schemas(path.stem.rpartition("_")[2])
    with new_database(server_url, f"TEMPLATE {template} STRATEGY FILE_COPY") as name:
        load_rows(url := at_database(server_url, name), path)
        yield url


@pytest.mark.slow
@pytest.mark.parametrize("path", WRITTEN_STORES, ids=lambda path: path.stem)
async def test_store_of_each_schema_reads_the_same(path: Path, written_store: str) -> None:
    """Stores written by the version with each schema: texts, messages, events, and the next import."""
    url = written_store
    before = read_messages(url), read_all_events(url)
    upgrade(url)
    after = read_messages(url), read_all_events(url)
    async with Store.open(url) as store:
        by_name = {session.external_id: session async for session in store.sessions.list_all()}
        sessions = [by_name[external_name(each)] for each in PATHS]
        read = [await read_session(store, each.id) for each in sessions]
        imported = [await import_file(store, each, external_name(each), identify=True) for each in PATHS]
        appended = [await store.messages.append(each.id, ["more"]) for each in by_name.values()]
        for session_id in [id async for id in store.sessions.list_ids()]:
            await store.events.rebuild(session_id)
        rebuilt = [await store.events.get_events(each.id) for each in sessions]

    assert after == before
    assert bool(before[1]) == (path.stem >= "store_0003")
    assert read == [(each.read_bytes(), load_session(each)) for each in PATHS]
    assert [set(each.result.counts) for each in imported] == [{"existing"}] * len(PATHS)
    assert [each.session_id for each in imported] == [each.id for each in sessions]
    assert all(each.created for [each] in appended)
    assert all(rebuilt)
    if path.stem > "store_0002":  # the first ones had no parents
        assert sessions[1].parent_id == sessions[0].id


def read_messages(url: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as conn:
        query = "SELECT session_id, sequence, id, role, kind, source, content FROM messages ORDER BY 1, 2"
        return conn.execute(query).fetchall()


async def read_session(store: Store, session_id: UUID) -> tuple[bytes, Any]:
    exported = [chunk async for chunk in FORMATS["jsonl"].export(store, session_id)]
    return b"".join(exported), (await store.conversation.get_page(session_id)).messages


def read_all_events(url: str) -> list[tuple[Any, ...]]:
    """Return the events of any schema."""
    with psycopg.connect(url) as conn:
        views = conn.execute("SELECT to_regclass('events_full') IS NULL, to_regclass('events') IS NULL")
        has_no_view, has_none = views.fetchall()[0]
    return [] if has_none else read_events(url, "events" if has_no_view else "events_full")


def test_keys_that_could_delete_still_can(bare_database_url: str) -> None:
    """Up to schema 0021, `write` included `delete`."""
    url = bare_database_url
    before = [["read"], ["write"], ["read", "write"], ["read", "write", "admin"], ["admin"]]
    upgrade(url, "0021")
    with psycopg.connect(url) as conn:
        conn.cursor().executemany(
            "INSERT INTO keys (id, tenant, name, prefix, digest, scopes) "
            "VALUES (gen_random_uuid(), 1, %(name)s, 'ash_', decode(%(name)s, 'hex'), %(scopes)s)",
            [{"name": f"{number:02}", "scopes": scopes} for number, scopes in enumerate(before)],
        )
    upgrade(url)
    after = read_scopes(url)
    alembic(url, "downgrade", "0021")

    assert after == [each + ["delete"] * ("write" in each) for each in before]
    assert read_scopes(url) == before


def read_scopes(url: str) -> list[list[str]]:
    with psycopg.connect(url) as conn:
        return [scopes for (scopes,) in conn.execute("SELECT scopes FROM keys ORDER BY name")]


async def test_newest_schema_can_be_left_and_entered_again(database_url: str) -> None:
    """The newest migration keeps a store's content, in both directions, except for what `ash reindex` derives."""
    async with Store.open(database_url) as store:
        for path in (*PATHS, *SAMPLES[:2]):
            await import_file(store, path, path.name, identify=True)
    before = read_rows(database_url)
    alembic(database_url, "downgrade", "-1")
    upgrade(database_url)

    assert read_rows(database_url) == before


NEW_COLUMNS = ["machine", "key_id", "project"]
"""The columns of sessions that the newest migration adds."""


def read_rows(url: str) -> list[Any]:
    with psycopg.connect(url) as conn:
        tables = ("sessions", "messages", "events_full")
        return [
            conn.execute(
                f"SELECT to_jsonb(each) - %s::text[] AS row FROM {name} AS each ORDER BY 1", [NEW_COLUMNS]
            ).fetchall()
            for name in tables
        ]
