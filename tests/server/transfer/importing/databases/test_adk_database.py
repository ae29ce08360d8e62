"""Import of sessions of Google ADK, from the database that its server wrote."""

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
from tests.server.opencode_database import changing
from tests.shared.databases import sessions_of
from tests.shared.sample_files import RECORDINGS

ADK = RECORDINGS / "google_adk"


def create_database(path: Path, name: str = "api_server") -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((ADK / f"{name}.sql").read_text())
    return path


@pytest.mark.parametrize("name", ["api_server", "columns", "database_service"])
def test_sessions_of_a_database(tmp_path: Path, name: str) -> None:
    database = create_database(tmp_path / "session.db", name)

    rows = [[json.loads(line.data or b"") for line in read_lines(path)] for path in expand(database)]

    expected = [[json.loads(line) for line in lines] for _, lines in sessions_of(ADK / f"{name}.sql")]
    assert [[row["columns"] for row in session] for session in rows] == [
        [row["columns"] for row in session] for session in expected
    ]
    assert {open_transcript(path).source for path in expand(database)} == {"google_adk"}


def test_sessions_of_two_users_may_have_one_id(tmp_path: Path) -> None:
    database = create_database(tmp_path / "session.db")
    with changing(database) as connection:
        connection.execute(
            "INSERT INTO sessions SELECT app_name, 'a/b:c%', id, state, create_time, update_time FROM sessions"
            " WHERE id = 's-1'"
        )
        connection.execute(
            "INSERT INTO events SELECT id, app_name, 'a/b:c%', session_id, invocation_id, timestamp, event_data"
            " FROM events WHERE session_id = 's-1' LIMIT 1"
        )

    names = [path.name for path in expand(database)]

    assert names == ["harbour:a%2Fb%3Ac%25:s-1", "harbour:mate:s-1", "harbour:mate:s-2"]
    assert stored_session(database / names[0]).rows == 2
    assert len([*read_lines(database / names[0])]) == 2


async def test_importing_again_adds_new_events(store: Store, tmp_path: Path) -> None:
    database = create_database(tmp_path / "session.db")
    first = await import_paths(store, [database], ImportOptions())
    with changing(database) as connection:
        connection.execute(
            "INSERT INTO events SELECT 'new', app_name, user_id, session_id, invocation_id, timestamp + 9,"
            " json_set(event_data, '$.id', 'new', '$.timestamp', timestamp + 9) FROM events"
            " WHERE session_id = 's-1' ORDER BY timestamp LIMIT 1"
        )

    second = await import_paths(store, [database], ImportOptions())

    assert (first.unread, second.unread) == ([], [])
    assert second.total.counts["new"] == 1
    assert second.total.counts["existing"] == first.total.counts["new"]
