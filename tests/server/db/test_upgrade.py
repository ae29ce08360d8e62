"""A store of an earlier version opens after the usual migration and reads the same."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ash_server import NewMessage, Store
from ash_server.db.connection import REVISION, upgrade
from ash_server.db.sessions import session_id_for
from ash_server.db.vacuum import vacuum
from ash_server.errors import SchemaMismatch
from ash_server.repositories.connections import translate_errors
from ash_server.transfer.importing.file_import import import_file
from ash_server.transfer.importing.transcript_files import modification_time
from ash_server.transfer.load import load_session
from tests.server.db.test_reindex import alembic

ROOT = Path(__file__).parents[3]
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


@pytest.fixture(params=STORES, ids=lambda path: path.stem)
def old_store(request: pytest.FixtureRequest, bare_database_url: str) -> str:
    """A database with the schema and the data of an earlier version."""
    path: Path = request.param
    revision = path.stem.removeprefix("schema_")
    command = [sys.executable, "-m", "alembic", "upgrade", revision]
    environment = {**os.environ, "ASH_DATABASE_URL": bare_database_url}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    with psycopg.connect(bare_database_url) as conn:
        conn.execute(path.read_bytes())
    return bare_database_url


async def test_reads_store_of_earlier_version(old_store: str) -> None:
    upgrade(old_store)
    async with Store.open(old_store) as store:
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


async def test_appends_to_store_of_earlier_version(old_store: str) -> None:
    upgrade(old_store)
    async with Store.open(old_store) as store:
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


async def test_imports_into_store_of_earlier_version(old_store: str) -> None:
    upgrade(old_store)
    async with Store.open(old_store) as store:
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
    with psycopg.connect(database_url, autocommit=True) as conn:
        vacuum(conn)

    assert whole == events != []
    assert upgraded == events
    assert read_events(database_url, "events_full") == events
    assert events_size(database_url) < 0.5 * size


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
    line = {"type": "user", "uuid": f"u-{number}", "message": {"role": "user", "content": [block]}}
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n"


def events_size(url: str) -> int:
    with psycopg.connect(url) as conn:
        ((size,),) = conn.execute("SELECT pg_total_relation_size('events')").fetchall()
    return int(size)


async def test_running_server_of_earlier_version_refuses_the_schema(database_url: str) -> None:
    """It stops at a column that it does not find, instead of returning events without their values."""
    with pytest.raises(SchemaMismatch), translate_errors(), psycopg.connect(database_url) as conn:
        conn.execute("SELECT sequence, type, content FROM events")


async def test_finds_session_of_earlier_version_from_another_folder(old_store: str, tmp_path: Path) -> None:
    copy = tmp_path / SAMPLE.name
    copy.write_bytes(SAMPLE.read_bytes())
    upgrade(old_store)
    async with Store.open(old_store) as store:
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
