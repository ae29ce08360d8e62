"""Import of the sessions in Goose's database."""

import json
from pathlib import Path

from ash_server.cli.import_.files import import_paths
from ash_server.cli.import_.options import ImportOptions
from ash_server.store import Store
from ash_server.transfer.importing.databases.opencode_rows import read_lines
from ash_server.transfer.importing.databases.sessions import stored_session
from ash_server.transfer.importing.transcript import open_transcript
from tests.server.agent_homes import write_goose_database
from tests.server.opencode_database import changing, insert


def test_usage_follows_the_messages_of_its_time(tmp_path: Path) -> None:
    """The file may have any name; the tables say whose it is."""
    database = write_goose_database(tmp_path / "copy.db", first="Count", second="Sort")
    with changing(database) as connection:
        insert(
            connection,
            "messages",
            session_id="first",
            role="assistant",
            content_json="[]",
            created_timestamp=1_772_442_009,
        )
        for time in (1_772_442_001, 1_772_442_009, 1_772_442_009):
            insert(connection, "usage_ledger", session_id="first", created_timestamp=time, input_tokens=1)

    rows = [json.loads(line.data or b"") for line in read_lines(database / "first")]

    assert [(row["table"], row["key"]) for row in rows] == [
        ("sessions", "first"),
        ("messages", 1),
        ("usage_ledger", 1),
        ("messages", 3),
        ("usage_ledger", 2),
        ("usage_ledger", 3),
    ]
    assert open_transcript(database / "first").source == "goose"
    session = stored_session(database / "first")
    assert (session.rows, session.updated_at) == (6, 1_772_442_009_000)


async def test_importing_again_appends_new_and_changed_rows(store: Store, tmp_path: Path) -> None:
    database = write_goose_database(tmp_path / "sessions.db", first="Count")
    first = await import_paths(store, [database], ImportOptions())
    with changing(database) as connection:
        connection.execute("UPDATE messages SET content_json = '[]'")
        insert(
            connection,
            "messages",
            session_id="first",
            role="assistant",
            content_json="[]",
            created_timestamp=1,
        )

    second = await import_paths(store, [database], ImportOptions())

    assert (first.total.counts["new"], first.unread) == (2, [])
    assert (second.total.counts["new"], second.total.counts["existing"]) == (2, 1)
