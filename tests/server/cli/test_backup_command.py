"""`ash backup` and `ash restore`: the restored store is the same, byte for byte."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID
from zipfile import ZipFile

import psycopg
import pytest

import ash_server
from ash_server.store import Store
from ash_server.store.connections.pool import libpq_url
from ash_server.store.embedded.binaries import find_binaries, major_version
from ash_server.store.maintenance.backup import restore_backup, write_backup
from ash_server.store.schema.migrations import REVISION, upgrade
from ash_server.transfer.exporting.jsonl import FORMATS
from ash_server.transfer.importing.file_import import import_file
from tests.conftest import at_database, new_database
from tests.server.cli.test_cli import Ran, ran_here
from tests.shared.records.events import wire_event

SAMPLES = sorted((Path(ash_server.__file__).parent / "samples").glob("*.jsonl"))[:3]
OLD_STORE = Path(__file__).parents[1] / "store" / "upgrade" / "schema_0004.sql"


def run(tmp_path: Path, url: str | None, *arguments: str | Path, **variables: str) -> Ran:
    database = {} if url is None else {"ASH_DATABASE_URL": url}
    environment = {"HOME": str(tmp_path), "ASH_HOME": str(tmp_path / "home"), **database, **variables}
    return ran_here([str(each) for each in arguments], environment, tmp_path)


@pytest.fixture
async def filled(store: Store, database_url: str, tmp_path: Path) -> str:
    """The URL of a store with imported, posted and titled sessions."""
    for path in SAMPLES:
        await import_file(store, path, path.stem, identify=True)
    unterminated = tmp_path / "unterminated.jsonl"
    unterminated.write_bytes('{"n": 1}\n\\N\ttab, \\ and \u2028 näive'.encode())
    await import_file(store, unterminated, "unterminated")
    posted = await store.sessions.create(external_id="posted", title="Posted", metadata={"team": ["field"]})
    await store.events.append(posted.id, wire_event("house", text="a\n\\."))
    await store.search.index_pending()
    assert await store.cold.archive(posted.id, datetime.now(UTC) + timedelta(days=1))
    return database_url


@pytest.fixture
def other_url(server_url: str) -> Iterator[str]:
    with new_database(server_url) as name:
        yield at_database(server_url, name)


def rows(url: str) -> dict[str, list[str]]:
    """Return the rows of all tables, as text."""
    with psycopg.connect(libpq_url(url)) as conn:
        names = [
            row[0] for row in conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        ]
        return {
            name: sorted(row[0] for row in conn.execute(f"SELECT entry::text FROM {name} AS entry"))
            for name in names
        }


def has_statistics(url: str) -> bool:
    with psycopg.connect(libpq_url(url)) as conn:
        row = conn.execute("SELECT count(*) FROM pg_stats WHERE tablename = 'messages'").fetchone()
        return row != (0,)


async def exports(url: str) -> dict[tuple[UUID, str], bytes]:
    async with Store.open(url) as store:
        return {
            (session_id, name): b"".join([chunk async for chunk in form.export(store, session_id)])
            async for session_id in store.sessions.list_ids()
            for name, form in FORMATS.items()
        }


@pytest.mark.slow
async def test_restored_store_is_the_same(filled: str, bare_database_url: str, tmp_path: Path) -> None:
    file = tmp_path / "backups" / "ash.backup"
    written = run(tmp_path, filled, "backup", file)
    restored = run(tmp_path, bare_database_url, "restore", file)

    assert (written.code, written.out.partition(",")[0]) == (0, f"5 sessions in {file}")
    assert restored == Ran(0, "5 sessions restored\n", "")
    assert rows(bare_database_url) == rows(filled)
    assert has_statistics(bare_database_url)
    assert await exports(bare_database_url) == await exports(filled)
    assert len(await exports(filled)) == 10
    assert oct(file.stat().st_mode & 0o777) == "0o600"
    async with Store.open(bare_database_url) as store:
        assert (await store.search.search("wren")).results
        await import_file(store, SAMPLES[0], SAMPLES[0].stem, identify=True)
    refused = run(tmp_path, bare_database_url, "restore", file)
    assert (refused.code, refused.err.partition(": restore")[0]) == (
        1,
        "ash: the database is not empty (sessions: 5)",
    )


@pytest.mark.slow
async def test_restores_into_an_embedded_store(filled: str, tmp_path: Path) -> None:
    file = tmp_path / "ash.backup"
    run(tmp_path, filled, "backup", file)

    assert run(tmp_path, None, "restore", file).out == "5 sessions restored\n"
    assert run(tmp_path, None, "restore", file).code == 1
    listed = json.loads(run(tmp_path, None, "sessions", "--json").out)
    assert {each["externalId"] for each in listed["sessions"]} == {
        *(path.stem for path in SAMPLES),
        "unterminated",
        "posted",
    }


@pytest.mark.slow
def test_empty_database_of_this_version_can_be_filled(
    database_url: str, bare_database_url: str, tmp_path: Path
) -> None:
    upgrade(bare_database_url)
    file = tmp_path / "empty.backup"

    assert run(tmp_path, bare_database_url, "backup", file).code == 0
    assert run(tmp_path, database_url, "restore", file).out == "0 sessions restored\n"


@pytest.mark.slow
def test_backup_of_an_earlier_version_is_migrated(
    bare_database_url: str, other_url: str, tmp_path: Path
) -> None:
    upgrade(bare_database_url, "0004")
    file = tmp_path / "old.backup"
    with psycopg.connect(bare_database_url, autocommit=True) as conn, file.open("wb") as target:
        conn.execute(OLD_STORE.read_bytes())
        assert write_backup(conn, target).revision == "0004"
    restore_backup(other_url, file)
    upgrade(bare_database_url)

    assert rows(other_url) == rows(bare_database_url)
    assert rows(other_url)["alembic_version"] == [f"({REVISION})"]


def damage(file: Path, **changes: Any) -> None:
    """Change the manifest."""
    with ZipFile(file) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    entries["backup.json"] = json.dumps({**json.loads(entries["backup.json"]), **changes}).encode()
    with ZipFile(file, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)


def test_refuses_other_files(database_url: str, bare_database_url: str, tmp_path: Path) -> None:
    file = tmp_path / "ash.backup"
    run(tmp_path, database_url, "backup", file)
    newer, cut, other = tmp_path / "newer", tmp_path / "cut", tmp_path / "other"
    newer.write_bytes(file.read_bytes())
    damage(newer, revision="9999")
    cut.write_bytes(file.read_bytes()[:-100])
    other.write_text("no backup")

    errors = [run(tmp_path, bare_database_url, "restore", each).err for each in (newer, cut, other)]

    assert errors == [
        f"ash: the backup is of a newer Ash: it has schema 9999, and this Ash needs {REVISION}\n",
        f"ash: {cut} is damaged, or is not a backup of Ash: nothing is restored\n",
        f"ash: {other} is damaged, or is not a backup of Ash: nothing is restored\n",
    ]
    assert rows(bare_database_url) == {}
    assert run(tmp_path, bare_database_url, "restore", tmp_path / "missing").code == 2


async def test_damaged_rows_restore_nothing(filled: str, bare_database_url: str, tmp_path: Path) -> None:
    file = tmp_path / "ash.backup"
    run(tmp_path, filled, "backup", file)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)

    assert run(tmp_path, bare_database_url, "restore", file).code == 1
    assert rows(bare_database_url).get("sessions", []) == []


@pytest.mark.slow
def test_moves_an_embedded_store_to_a_newer_version(tmp_path: Path) -> None:
    """A store of an older PostgreSQL opens with its binaries; the documented commands move it to the newest ones."""
    newest = find_binaries()
    older = find_binaries(major_version(newest) - 2)
    if older == newest:
        pytest.skip("there is one version of PostgreSQL")
    sample, home = SAMPLES[0], tmp_path / "home"
    imported = run(tmp_path, None, "import", sample, ASH_PG_BIN=str(older))
    before = run(tmp_path, None, "export", sample)
    backed_up = run(tmp_path, None, "backup", tmp_path / "ash.backup")
    version = (home / "postgres" / "PG_VERSION").read_text()
    (home / "postgres").rename(home / "postgres-old")
    restored = run(tmp_path, None, "restore", tmp_path / "ash.backup")
    after = run(tmp_path, None, "export", sample)

    assert (imported.code, backed_up.code, restored.code) == (0, 0, 0)
    assert before.out == after.out == sample.read_text()
    assert (version, (home / "postgres" / "PG_VERSION").read_text()) == (
        f"{major_version(older)}\n",
        f"{major_version(newest)}\n",
    )
