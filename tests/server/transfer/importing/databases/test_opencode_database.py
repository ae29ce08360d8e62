"""Import of the sessions in OpenCode's database."""

import json
import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ash_server.cli.import_.files import ImportReport, import_discovered, import_paths
from ash_server.cli.import_.options import ImportOptions
from ash_server.file_access import real_path
from ash_server.store import Store
from ash_server.store.sessions import session_id_for
from ash_server.transfer.exporting.in_memory import load_in_memory
from ash_server.transfer.exporting.jsonl import export_messages
from ash_server.transfer.importing.databases.opencode_rows import read_lines, without_ids
from ash_server.transfer.importing.databases.sqlite_snapshot import open_snapshot
from ash_server.transfer.importing.databases.stores import STORES
from ash_server.transfer.importing.transcript_files import find_files, find_homes, find_transcripts
from ash_server.transfer.load import load_session, load_sessions
from tests.server.opencode_database import (
    CHILD,
    PARENT,
    PROJECT,
    SECRET,
    START,
    changing,
    insert,
    insert_row,
    update,
    write_database,
)
from tests.shared.sample_files import CORPUS_NEXT
from tests.waiting import until

NAME = f"opencode.db/{PARENT}"

SAMPLES = sorted(real_path(CORPUS_NEXT / "opencode_sqlite").glob("*.db"))


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return write_database(tmp_path / "home/.local/share/opencode/opencode.db")


def fail(error: OSError) -> None:
    raise error


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line.data or b"") for line in read_lines(path)]


async def exported(store: Store, external_id: str = NAME) -> list[str]:
    session = session_id_for("opencode", external_id)
    parts = [part async for part in export_messages(store, session)]
    return b"".join(parts).decode().splitlines()


def counts(report: ImportReport) -> dict[str, int]:
    assert report.unread == []
    return {name: count for name, count in report.total.counts.items() if count}


def test_a_row_is_one_line_of_json(database: Path) -> None:
    with changing(database) as connection:
        connection.execute("CREATE TABLE session_input (id TEXT PRIMARY KEY, session_id TEXT, prompt, x)")
        insert(connection, "session_input", id="inp_1", session_id=PARENT, prompt='{"a": "é\n"}', x=b"\xff")
        insert(connection, "session_input", id="inp_2", session_id=PARENT, prompt=2**60, x=float("inf"))
    lines = [(line.data or b"").decode() for line in read_lines(database / PARENT)]

    assert lines[0] == (
        '{"table":"session","key":"ses_1a00parent","columns":{"id":"ses_1a00parent","project_id":"0f3c9d",'
        '"parent_id":null,"slug":"brave-otter","directory":"/work/shop","title":"Sort the basket",'
        '"version":"1.2.6","cost":0.25,"revert":null,"time_created":1772000000000,'
        '"time_updated":1772000000000}}'
    )
    assert lines[3] == (
        '{"table":"part","key":"prt_1a","columns":{"id":"prt_1a","message_id":"msg_1a",'
        '"session_id":"ses_1a00parent","time_created":1772000000010,"time_updated":1772000000010,'
        '"data":"{\\"type\\": \\"text\\", \\"text\\": \\"Sort the items by price\\"}"}}'
    )
    assert lines[6:8] == [
        '{"table":"session_input","key":"inp_1","columns":{"id":"inp_1","session_id":"ses_1a00parent",'
        '"prompt":"{\\"a\\": \\"é\\n\\"}","x":{"base64":"/w=="}}}',
        '{"table":"session_input","key":"inp_2","columns":{"id":"inp_2","session_id":"ses_1a00parent",'
        '"prompt":1152921504606846976,"x":{"real":"inf"}}}',
    ]
    assert [json.loads(line)["key"] for line in lines[8:]] == [[PARENT, 0], [PARENT, 1]]


def test_tables_without_row_ids_are_read(database: Path) -> None:
    with changing(database) as connection:
        connection.execute("DROP TABLE todo")
        columns = 'session_id TEXT, "the ""first""" TEXT, PRIMARY KEY (session_id, "the ""first""")'
        connection.execute(f"CREATE TABLE todo ({columns}) WITHOUT ROWID")
        for text in ("sort", "bind"):
            connection.execute("INSERT INTO todo VALUES (?, ?)", (PARENT, text))

    rows = [row["key"] for row in rows_of(database / PARENT) if row["table"] == "todo"]

    assert rows == [[PARENT, "bind"], [PARENT, "sort"]]


def test_rows_are_in_the_order_of_the_conversation(database: Path) -> None:
    with changing(database) as connection:
        insert_row(connection, "message", "msg_0", PARENT, START + 10, {"role": "user"})
        insert_row(connection, "message", "msg_9", PARENT, START + 1, {"role": "user"})
        insert_row(connection, "part", "prt_0", PARENT, START + 99, {"type": "text"}, "msg_1b")
        insert_row(connection, "part", "prt_x", PARENT, START, {"type": "text"}, "msg_deleted")
        insert_row(connection, "part", "prt_y", PARENT, START, {"type": "text"}, None)

    assert [(row["table"], row["key"]) for row in rows_of(database / PARENT)] == [
        ("session", PARENT),
        ("project", PROJECT),
        ("message", "msg_9"),
        ("message", "msg_0"),
        ("message", "msg_1a"),
        ("part", "prt_1a"),
        ("message", "msg_1b"),
        ("part", "prt_0"),
        ("part", "prt_1b"),
        ("part", "prt_x"),
        ("part", "prt_y"),
        ("todo", [PARENT, 0]),
        ("todo", [PARENT, 1]),
    ]


async def test_each_session_is_stored_with_its_rows(store: Store, database: Path) -> None:
    report = await import_discovered(store, ImportOptions())

    assert counts(report) == {"new": 14}
    assert {each.name: each.head.source for each in report.imported.values()} == {
        NAME: "opencode",
        f"opencode.db/{CHILD}": "opencode",
    }
    for id in (PARENT, CHILD):
        lines = [(line.data or b"").decode() for line in read_lines(database / id)]
        assert await exported(store, f"opencode.db/{id}") == lines


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_every_row_of_a_sample_is_read(sample: Path) -> None:
    rows = [row for path in find_files(sample, [], fail) for row in rows_of(path)]

    with open_snapshot(sample) as connection:
        connection.row_factory = sqlite3.Row
        for table in ("session", "project", "message", "part", "todo", "session_message", "session_input"):
            stored = {json.dumps(dict(row)) for row in connection.execute(f"SELECT * FROM {table}")}
            assert {json.dumps(row["columns"]) for row in rows if row["table"] == table} == stored, table
    assert {row["table"] for row in rows} <= {"session", "project", "message", "part", "todo"}


@pytest.mark.slow
@pytest.mark.skipif(not SAMPLES, reason="no ../shared/corpus-next next to the repository")
async def test_samples_have_the_titles_and_parents_of_their_tools(store: Store) -> None:
    await import_paths(store, SAMPLES, ImportOptions())
    stored = {each.id: each for each in (await store.sessions.list_sessions(limit=100)).sessions}

    expected: dict[UUID, tuple[str | None, UUID | None]] = {}
    for sample in SAMPLES:
        with open_snapshot(sample) as connection:
            rows = connection.execute("SELECT id, title, parent_id FROM session").fetchall()
        names = {id: session_id_for("opencode", (sample / id).as_posix()) for id, *_ in rows}
        expected |= {names[id]: (title, names.get(parent)) for id, title, parent in rows}
    assert {id: (each.title, each.parent_id) for id, each in stored.items()} == expected


async def test_secrets_are_never_read(store: Store, database: Path) -> None:
    await import_discovered(store, ImportOptions())

    texts = [*await exported(store), *await exported(store, f"opencode.db/{CHILD}")]
    assert len(texts) == 14
    assert not [text for text in texts if SECRET in text or "evt_1" in text]


@pytest.mark.slow
async def test_importing_again_appends_new_and_changed_rows(store: Store, database: Path) -> None:
    await import_paths(store, [database], ImportOptions())
    first = await exported(store)
    unchanged = await import_paths(store, [database], ImportOptions())
    update(database, "part", "prt_1b", data='{"type": "tool", "tool": "grep"}', time_updated=START + 900)
    with changing(database) as connection:
        insert_row(connection, "message", "msg_1c", PARENT, START + 800, {"role": "user"})
        connection.execute("DELETE FROM message WHERE id = 'msg_1a'")
        connection.execute("UPDATE project SET time_updated = 1")  # at each start of OpenCode

    changed = await import_paths(store, [database], ImportOptions())
    again = await import_paths(store, [database], ImportOptions())

    assert [counts(each) for each in (unchanged, changed, again)] == [
        {"existing": 14},
        {"new": 2, "existing": 12},
        {"existing": 14},
    ]
    lines = {json.dumps(row["key"]): row for row in rows_of(database / PARENT)}
    texts = await exported(store)
    assert texts[: len(first)] == first
    assert [json.loads(text) for text in texts[len(first) :]] == [lines['"prt_1b"'], lines['"msg_1c"']]


async def test_a_row_that_was_deleted_in_ash_stays_deleted(store: Store, database: Path) -> None:
    await import_paths(store, [database], ImportOptions())
    session = session_id_for("opencode", NAME)
    messages = await store.messages.list_messages(session, limit=100)
    prompt = next(each for each in messages if "Sort the items" in (each.content or ""))
    await store.messages.delete(session, prompt.sequence)
    update(database, "part", "prt_1a", data='{"type": "text", "text": "Sort the items"}', time_updated=START)

    report = await import_paths(store, [database], ImportOptions())

    assert counts(report) == {"deleted": 1, "existing": 13}


async def test_a_store_of_an_early_version_lacks_tables_and_columns(store: Store, database: Path) -> None:
    with changing(database) as connection:
        for table in ("todo", "project", "session_message", "event"):
            connection.execute(f"DROP TABLE {table}")
        for table in ("message", "session"):
            connection.execute(f"ALTER TABLE {table} DROP COLUMN time_updated")

    assert counts(await import_paths(store, [database], ImportOptions())) == {"new": 10}


async def test_rows_are_read_from_tables_only(store: Store, database: Path) -> None:
    """Ids are parts of paths, and a view could select from any table."""
    with changing(database) as connection:
        connection.execute("DROP TABLE todo")
        connection.execute(
            f"CREATE VIEW todo AS SELECT '{PARENT}' AS session_id, value AS content FROM credential"
        )
        connection.execute("ALTER TABLE part ADD COLUMN size INTEGER GENERATED ALWAYS AS (length(data))")
        for id in ("../../.ssh", "..", "", "a/b", b"\xff", None):
            insert(connection, "session", id=id, project_id=PROJECT)

    assert counts(await import_discovered(store, ImportOptions())) == {"new": 12}
    parts = [row["columns"] for row in rows_of(database / PARENT) if row["table"] == "part"]
    assert [part["size"] for part in parts] == [len(part["data"]) for part in parts] != []


FOREIGN = (
    "Ash reads databases of OpenCode, Goose, Kiro, Crush, Zed, Google ADK, Cursor, llm, Hermes, Devin CLI,"
    " and this one is of another program"
)


async def test_other_databases_are_refused(store: Store, tmp_path: Path) -> None:
    other, broken = tmp_path / "other.db", tmp_path / "broken.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE session (id)")
        connection.commit()
    broken.write_bytes(other.read_bytes()[:3000])
    paths = [other, broken, other / "ses_1", write_database(tmp_path / "shop.db") / "ses_none"]

    report = await import_paths(store, paths, ImportOptions())

    assert report.imported == {}
    assert [(Path(each.path).name, each.reason) for each in report.unread] == [
        (
            "other.db",
            FOREIGN,
        ),
        ("broken.db", "SQLite cannot read it: database disk image is malformed"),
        (
            "other.db",
            FOREIGN,
        ),
        ("shop.db", "no session ses_none in the database"),
    ]


async def test_a_person_can_name_the_file_or_a_session(store: Store, tmp_path: Path, database: Path) -> None:
    copy = write_database(tmp_path / "copies/old store.sqlite")
    one = await import_paths(store, [database / PARENT], ImportOptions(name="the basket"))
    folder = await import_paths(store, [copy.parent, copy], ImportOptions())

    assert [each.name for each in one.imported.values()] == ["the basket"]
    assert list(folder.imported) == [copy / PARENT, copy / CHILD]
    assert [*find_files(database.parent, [], fail)] == [database / PARENT, database / CHILD]
    loaded = load_in_memory(database / PARENT, NAME)
    assert (loaded.session.message_count, loaded.session.source) == (8, "opencode")
    with pytest.raises(OSError, match="is a database of several sessions; name one"):
        load_in_memory(database, "opencode.db")


def test_sessions_are_loaded_as_they_were_together(database: Path) -> None:
    expected = [load_session(database / id) for id in (PARENT, CHILD)]
    loading = load_sessions([database / PARENT, database / CHILD])
    loaded = [next(loading)]
    with changing(database) as connection:
        connection.execute("DELETE FROM part")

    assert [*loaded, *loading] == expected
    assert [len(messages) for messages in expected] == [2, 2]


@pytest.mark.parametrize(
    "text", [None, "", "[]", "7", '"id"', '{"id": 1', '{"table":"part","key":1,"columns":{"data":"[]"}}']
)
def test_other_texts_have_no_content_to_compare(text: str | None) -> None:
    assert without_ids(text) is None


def write_tree(database: Path) -> list[Path]:
    """Write the files of earlier versions that OpenCode 1.2 has converted to these rows."""
    storage = database.parent / "storage"
    documents: dict[str, dict[str, Any]] = {}
    for id in (PARENT, CHILD):
        documents[f"session/{PROJECT}/{id}"] = {
            "id": id,
            "projectID": PROJECT,
            "directory": "/work/shop",
            "time": {"created": START, "updated": START},
        }
        for row in rows_of(database / id):
            columns = row["columns"]
            if row["table"] == "message":
                document = {"id": row["key"], "sessionID": id, **json.loads(columns["data"])}
                documents[f"message/{id}/{row['key']}"] = document
            elif row["table"] == "part":
                ids = {"id": row["key"], "sessionID": id, "messageID": columns["message_id"]}
                document = {**ids, **json.loads(columns["data"])}
                documents[f"part/{columns['message_id']}/{row['key']}"] = document
    for name, document in documents.items():
        path = storage / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=2))
    return [storage / f"session/{PROJECT}/{id}.json" for id in (PARENT, CHILD)]


def test_migrated_sessions_are_found_once(database: Path, tmp_path: Path) -> None:
    files = write_tree(database)
    kept = files[0].with_name("ses_0000only-a-file.json")
    kept.write_text(files[0].read_text())
    homes = find_homes({}, tmp_path / "home")

    assert [each for home in homes for each in find_transcripts(home, fail)] == [
        database / PARENT,
        database / CHILD,
        kept,
    ]


WRITER = """
import json, sqlite3, sys, time as clock
from pathlib import Path
database, session, stop, progress = sys.argv[1:]
connection = sqlite3.connect(database, timeout=0, isolation_level=None)
connection.execute("PRAGMA wal_autocheckpoint=20")
number = 0
while not Path(stop).exists():
    number += 1
    message, part, time = f"msg_w{number:06}", f"prt_w{number:06}", 1_780_000_000_000 + number
    text = json.dumps({"type": "text", "text": "x" * 500})
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", (message, session, time, time, '{"role": "user"}'))
    connection.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", (part, message, session, time, time, text))
    connection.execute("UPDATE session SET time_updated = ? WHERE id = ?", (time, session))
    connection.execute("COMMIT")
    changed = json.dumps({"type": "text", "text": "y" * 500, "number": number})
    connection.execute("UPDATE part SET data = ?, time_updated = time_updated + 1 WHERE id = ?", (changed, part))
    Path(progress).write_text(str(number))
    clock.sleep(0.002)
"""


@contextmanager
def writing(database: Path, folder: Path) -> Iterator[Path]:
    """Let another process write until the end, and check that it never found the database locked.

    The file that is returned contains the number of its transactions.
    """
    stop, progress = folder / "stop", folder / "progress"
    arguments = (str(database), PARENT, str(stop), str(progress))
    with subprocess.Popen([sys.executable, "-c", WRITER, *arguments], stderr=subprocess.PIPE) as writer:
        try:
            yield progress
        finally:
            stop.touch()
            _, errors = writer.communicate()
    assert (writer.returncode, errors) == (0, b"")


@pytest.mark.slow
async def test_nothing_is_lost_or_locked_while_the_program_writes(
    store: Store, database: Path, tmp_path: Path
) -> None:
    with writing(database, tmp_path) as progress:
        for _ in range(3):
            await until(progress.exists)
            progress.unlink()
            report = await import_paths(store, [database], ImportOptions())
            assert report.complete

    await import_paths(store, [database], ImportOptions())

    newest = {str(row["key"]): row for row in map(json.loads, await exported(store))}
    assert newest == {str(row["key"]): row for row in rows_of(database / PARENT)}
    assert len(newest) > len(rows_of(database / CHILD)) + 3


async def test_sessions_have_titles_times_and_parents(store: Store, database: Path) -> None:
    await import_discovered(store, ImportOptions())
    sessions = (await store.sessions.list_sessions()).sessions

    facts = {each.external_id: each.model_dump(mode="json", by_alias=False) for each in sessions}
    fields = ("title", "first_at", "last_at", "parent_id")
    assert {id: tuple(each.get(name) for name in fields) for id, each in facts.items()} == {
        NAME: ("Sort the basket", "2026-02-25T06:13:20Z", "2026-02-25T06:13:20.020000Z", None),
        f"opencode.db/{CHILD}": (
            "Find the sorting (@explore subagent)",
            "2026-02-25T06:13:20.500000Z",
            "2026-02-25T06:13:20.512000Z",
            str(session_id_for("opencode", NAME)),
        ),
    }


@pytest.mark.slow
async def test_a_session_that_was_moved_into_the_database_stays_one_session(
    store: Store, database: Path
) -> None:
    files = write_tree(database)
    from_files = await import_paths(store, files, ImportOptions())
    update(database, "part", "prt_1b", data='{"type": "text", "text": "Sorted"}', time_updated=START + 900)
    reports = [
        await import_paths(store, paths, ImportOptions())
        for paths in ([database], [database], files, [database.parent])
    ]

    ids = {*from_files.session_ids}
    assert [{*report.session_ids} for report in reports] == [ids] * 4
    assert counts(from_files) == {"new": 10}
    moved = {
        "existing": 7,
        "new": 7,
    }  # the rows of sessions, their projects and the to-dos, and what has changed
    assert [counts(report) for report in reports] == [
        moved,
        {"existing": 14},
        {"existing": 10},
        {"existing": 14},
    ]


async def test_the_files_of_a_session_in_the_database_add_nothing(store: Store, database: Path) -> None:
    files = write_tree(database)
    from_rows = await import_paths(store, [database], ImportOptions())
    from_files = await import_paths(store, files, ImportOptions())

    assert {*from_rows.session_ids} == {*from_files.session_ids}
    assert counts(from_files) == {"existing": 10}


@pytest.mark.parametrize("database", STORES, ids=lambda database: database.name)
def test_other_processes_receive_databases(database: Any) -> None:
    assert pickle.loads(pickle.dumps(database)) == database
