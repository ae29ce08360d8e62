"""Import of the sessions in Crush's database."""

import json
from pathlib import Path

from ash_server.cli.import_.files import import_paths
from ash_server.cli.import_.options import ImportOptions
from ash_server.store import Store
from ash_server.transfer.importing.databases.opencode_rows import read_lines
from ash_server.transfer.importing.databases.sessions import stored_session
from ash_server.transfer.importing.transcript import open_transcript
from tests.server.agent_homes import write_crush_database
from tests.server.opencode_database import changing, insert


def test_rows_of_a_session(tmp_path: Path) -> None:
    """The messages have the order of their times, and then of their insertion: ids are random, times are in seconds."""
    database = write_crush_database(tmp_path / "copy.db", first="Count", second="Sort")
    with changing(database) as connection:
        connection.execute("CREATE INDEX by_id ON messages (session_id, id)")  # SQLite would use its order
        for id, time in (("b", 1_772_442_001), ("a", 1_772_442_001)):
            insert(connection, "messages", id=id, session_id="first", role="assistant", created_at=time)
        insert(connection, "files", id="f1", session_id="first", path="a.txt", content="Oars", version=0)

    rows = [json.loads(line.data or b"") for line in read_lines(database / "first")]

    assert [(row["table"], row["key"]) for row in rows] == [
        ("sessions", "first"),
        ("messages", "first-1"),
        ("messages", "b"),
        ("messages", "a"),
        ("files", "f1"),
    ]
    assert open_transcript(database / "first").source == "crush"
    assert stored_session(database / "first").updated_at == 1_772_442_000_000


async def test_importing_again_appends_changed_rows(store: Store, tmp_path: Path) -> None:
    database = write_crush_database(tmp_path / "crush.db", first="Count")
    first = await import_paths(store, [database], ImportOptions())
    with changing(database) as connection:
        connection.execute("UPDATE messages SET parts = '[]'")

    second = await import_paths(store, [database], ImportOptions())

    assert (first.total.counts["new"], first.unread) == (2, [])
    assert (second.total.counts["new"], second.total.counts["existing"]) == (1, 1)
