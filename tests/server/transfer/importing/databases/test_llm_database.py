"""Import of the sessions in the database of `llm`."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ash_server.cli.import_.files import import_paths
from ash_server.cli.import_.options import ImportOptions
from ash_server.store import Store
from ash_server.transfer.importing.databases.opencode_rows import read_lines
from ash_server.transfer.importing.databases.sessions import expand, stored_session
from ash_server.transfer.importing.transcript import open_transcript
from tests.server.agent_homes import insert_turn, write_llm_database
from tests.server.opencode_database import changing, insert
from tests.shared.databases import sessions_of
from tests.shared.sample_files import RECORDINGS


@pytest.mark.parametrize("name", ["conversations", "threads"])
def test_sessions_of_a_database(tmp_path: Path, name: str) -> None:
    recording, database = RECORDINGS / "llm" / f"{name}.sql", tmp_path / "logs.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript(recording.read_text())

    rows = [[json.loads(line.data or b"") for line in read_lines(path)] for path in expand(database)]

    assert rows == [[json.loads(line) for line in lines] for _, lines in sessions_of(recording)]
    assert {open_transcript(path).source for path in expand(database)} == {"llm"}


def test_a_database_with_both_stores(tmp_path: Path) -> None:
    """Conversations of earlier versions stay; one that was continued is a thread, too."""
    database = write_llm_database(tmp_path / "logs.db", first="Count")
    with changing(database) as connection:
        for id in ("first", "earlier"):
            insert(connection, "conversations", id=id, name=id, model="m1")
            insert(connection, "responses", id=id, conversation_id=id, prompt="Sort", response="Sorted")

    tables = {
        path.name: [json.loads(line.data or b"")["table"] for line in read_lines(path)]
        for path in expand(database)
    }

    assert tables == {
        "earlier": ["conversations", "responses"],
        "first": ["threads", "messages", "messages"],
    }


def test_messages_that_follow_one_another_in_a_circle(tmp_path: Path) -> None:
    database = write_llm_database(tmp_path / "logs.db", first="Count")
    with changing(database) as connection:
        connection.execute("UPDATE messages SET parent_hash = 'b2:1' WHERE hash = 'b2:0'")

    assert len([*read_lines(database / "first")]) == 3


async def test_importing_again_appends_the_messages_of_new_turns(store: Store, tmp_path: Path) -> None:
    database = write_llm_database(tmp_path / "logs.db", first="Count")
    first = await import_paths(store, [database], ImportOptions())
    before = stored_session(database / "first")
    with changing(database) as connection:
        insert_turn(connection, "first", "And now?", "Five")

    second = await import_paths(store, [database], ImportOptions())

    assert (first.total.counts["new"], first.unread) == (3, [])
    assert (second.total.counts["new"], second.total.counts["existing"]) == (2, 3)
    assert stored_session(database / "first").rows > before.rows
