"""Import of the sessions in Hermes' database."""

import json
from pathlib import Path

from ash_server.cli.import_.files import import_paths
from ash_server.cli.import_.options import ImportOptions
from ash_server.store import Store
from ash_server.transfer.importing.databases.opencode_rows import read_lines
from ash_server.transfer.importing.databases.sessions import stored_session
from ash_server.transfer.importing.transcript_files import find_homes, find_transcripts
from tests.server.agent_homes import write_hermes_database
from tests.server.opencode_database import changing, insert


def fail(error: OSError) -> None:
    raise error


def test_rows_of_a_session(tmp_path: Path) -> None:
    database = write_hermes_database(tmp_path / "copy.db", h1="Count", h2="Sort")

    rows = [json.loads(line.data or b"") for line in read_lines(database / "h1")]

    assert [(row["table"], row["key"]) for row in rows] == [
        ("sessions", "h1"),
        ("system_prompts", "ab"),
        ("messages", 1),
        ("session_model_usage", ["h1", "m1"]),
    ]
    assert stored_session(database / "h1").updated_at == 1_772_442_008_500


async def test_importing_again_appends_changed_rows(store: Store, tmp_path: Path) -> None:
    """The counts in the row of the session change with each answer, and are in another table, too."""
    database = write_hermes_database(tmp_path / "state.db", h1="Count")
    first = await import_paths(store, [database], ImportOptions())
    with changing(database) as connection:
        connection.execute("UPDATE sessions SET api_call_count = 3, ended_at = 1772442020.5")
        connection.execute("UPDATE session_model_usage SET input_tokens = 70")
        insert(
            connection, "messages", session_id="h1", role="assistant", content="9", timestamp=1_772_442_010.5
        )

    second = await import_paths(store, [database], ImportOptions())

    assert (first.total.counts["new"], first.unread) == (4, [])
    assert (second.total.counts["new"], second.total.counts["existing"]) == (2, 3)
    [session] = (await store.sessions.list_sessions()).sessions
    summary = await store.conversation.read_summary(session.id)
    assert summary.usage is not None
    assert (summary.usage.input_tokens, summary.cost_usd, session.title) == (70, 0.25, "h1")


def test_documents_of_sessions_in_the_database_are_left_out(tmp_path: Path) -> None:
    write_hermes_database(tmp_path / ".hermes/state.db", h1="Count")
    folder = tmp_path / ".hermes/sessions"
    folder.mkdir()
    for id in ("h1", "h2"):
        (folder / f"session_{id}.json").touch()
    [home] = [home for home in find_homes({}, tmp_path) if home.agent.id == "hermes"]

    assert [path.name for path in find_transcripts(home, fail)] == ["session_h2.json", "h1"]
