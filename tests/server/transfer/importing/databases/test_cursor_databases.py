"""Import of the conversations in Cursor's databases."""

import json
from pathlib import Path
from typing import Any

import pytest

from ash_server.cli.import_.files import import_paths
from ash_server.cli.import_.options import ImportOptions
from ash_server.store import Store
from ash_server.transfer.importing.databases.opencode_rows import read_lines
from ash_server.transfer.importing.databases.sessions import expand, stored_session
from ash_server.transfer.importing.parents import TranscriptHead, find_parent
from ash_server.transfer.importing.transcript import open_transcript
from ash_server.transfer.importing.transcript_files import find_files, find_homes, find_transcripts
from tests.server.cursor_databases import add_messages, put, write_chat_database, write_editor_database
from tests.server.opencode_database import changing
from tests.shared.records import cursor_rows as cursor

PROMPT = {"role": "user", "content": "Count the oars"}
ANSWER = {"role": "assistant", "content": [{"type": "text", "text": "Nine."}]}


def fail(error: OSError) -> None:
    raise error


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line.data or b"") for line in read_lines(path)]


def test_rows_of_a_conversation(tmp_path: Path) -> None:
    database = write_editor_database(tmp_path / "copy.vscdb")

    assert expand(database) == [database / "c1"]
    assert [row["key"] for row in rows_of(database / "c1")] == [
        "composerData:c1",
        "bubbleId:c1:b1",
        "bubbleId:c1:b2",
    ]
    assert open_transcript(database / "c1").source == "cursor"
    assert stored_session(database / "c1").updated_at == 1_772_442_009_000


def test_values_in_bytes_are_texts(tmp_path: Path) -> None:
    database = write_editor_database(tmp_path / "state.vscdb")
    texts = rows_of(database / "c1")
    with changing(database) as connection:
        for row in texts:
            put(connection, row, as_blob=True)

    assert rows_of(database / "c1") == texts


async def test_importing_again_appends_changed_rows(store: Store, tmp_path: Path) -> None:
    """A conversation is stored again only if more than the state of its window has changed."""
    database = write_editor_database(tmp_path / "state.vscdb")
    first = await import_paths(store, [database], ImportOptions())
    with changing(database) as connection:
        put(connection, cursor.conversation("b1", "b2", hasUnreadMessages=True, lastUpdatedAt=1772442010000))
        put(connection, cursor.message("b2", type=2, text="Nine oars."))
    second = await import_paths(store, [database], ImportOptions())
    with changing(database) as connection:
        put(connection, cursor.conversation("b1", "b2", "b3"))
        put(connection, cursor.message("b3", type=1, text="Sure?"))
    third = await import_paths(store, [database], ImportOptions())

    assert (first.total.counts["new"], first.unread) == (3, [])
    assert (second.total.counts["new"], second.total.counts["existing"]) == (1, 2)
    assert third.total.counts["new"] == 2
    [session] = (await store.sessions.list_sessions()).sessions
    page = await store.conversation.get_page(session.id)
    texts = [block.text for message in page.messages for block in message.content]  # type: ignore[union-attr]
    assert texts == ["Count the oars", "Nine oars.", "Sure?"]
    assert (session.title, session.source) == ("Count the oars", "cursor")


async def test_messages_of_a_chat_are_in_the_order_of_its_list(store: Store, tmp_path: Path) -> None:
    database = write_chat_database(tmp_path / "chats/1/a1/store.db", PROMPT, ANSWER)
    first = await import_paths(store, [database], ImportOptions())
    with changing(database) as connection:
        add_messages(connection, [PROMPT, ANSWER, {**PROMPT, "content": "Sure?"}])
    second = await import_paths(store, [database], ImportOptions())

    assert [row["table"] for row in rows_of(database / "a1")] == ["meta", "blobs", "blobs", "blobs"]
    assert (first.total.counts["new"], second.total.counts["new"]) == (3, 1)
    [session] = (await store.sessions.list_sessions()).sessions
    page = await store.conversation.get_page(session.id)
    assert [message.role for message in page.messages] == ["user", "assistant", "user"]


def test_transcripts_of_stored_chats_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transcript of a chat lacks what its database has."""
    write_chat_database(tmp_path / ".cursor/chats/1/a1/store.db", PROMPT)
    for id in ("a1", "a2"):
        path = tmp_path / f".cursor/projects/work/agent-transcripts/{id}/{id}.jsonl"
        path.parent.mkdir(parents=True)
        path.touch()
    write_editor_database(tmp_path / ".config/Cursor/User/globalStorage/state.vscdb")
    homes = [home for home in find_homes({}, tmp_path) if home.agent.id == "cursor"]

    found = [path for home in homes for path in find_transcripts(home, fail)]

    assert [path.relative_to(tmp_path).as_posix() for path in found] == [
        ".cursor/chats/1/a1/store.db/a1",
        ".cursor/projects/work/agent-transcripts/a2/a2.jsonl",
        ".config/Cursor/User/globalStorage/state.vscdb/c1",
    ]


def test_databases_of_other_programs_are_no_errors(tmp_path: Path) -> None:
    """VS Code has a `state.vscdb`, too."""
    with changing(tmp_path / "state.vscdb") as connection:
        connection.execute("CREATE TABLE ItemTable (key TEXT, value BLOB)")

    assert list(find_files(tmp_path, [], fail)) == []
    with pytest.raises(OSError, match="another program"):
        expand(tmp_path / "state.vscdb")


@pytest.mark.parametrize(
    ("path", "parent"),
    [
        ("globalStorage/state.vscdb/c1", "globalStorage/state.vscdb/p1"),
        ("chats/1/c1/store.db/c1", "chats/1/p1/store.db/p1"),
    ],
)
def test_parent_of_a_subagent(tmp_path: Path, path: str, parent: str) -> None:
    database = (tmp_path / path).parent
    database.parent.mkdir(parents=True)
    database.touch()

    found = find_parent(tmp_path / path, TranscriptHead("cursor", "c1", "p1"), [])

    assert found is not None
    assert found.external_id == (tmp_path / parent).as_posix()
