"""Import of the threads in Zed's database."""

import json
from pathlib import Path
from typing import Any

import pytest

from ash_server.cli.import_.files import import_paths
from ash_server.cli.import_.options import ImportOptions
from ash_server.store import Store
from ash_server.transfer.importing import zstd
from ash_server.transfer.importing.databases.opencode_rows import read_lines
from ash_server.transfer.importing.databases.sessions import stored_session
from ash_server.transfer.importing.transcript import open_transcript
from tests.server.agent_homes import insert_thread, write_zed_database
from tests.server.opencode_database import changing


def columns_of(database: Path, id: str) -> dict[str, Any]:
    [line] = read_lines(database / id)
    columns: dict[str, Any] = json.loads(line.data or b"")["columns"]
    return columns


def test_documents_are_decompressed(tmp_path: Path) -> None:
    database = write_zed_database(tmp_path / "copy.db", first="Count")

    assert json.loads(columns_of(database, "first")["data"])["messages"] == [
        {"User": {"id": "first-1", "content": [{"Text": "Count"}]}}
    ]
    assert open_transcript(database / "first").source == "zed"
    assert stored_session(database / "first").updated_at == 1_772_442_000_500


def test_documents_that_cannot_be_read_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = write_zed_database(tmp_path / "threads.db")
    with changing(database) as connection:
        insert_thread(connection, "json", data_type="json", data=b'{"messages": []}')
        insert_thread(connection, "no-zstd", data=b"oars")
        insert_thread(connection, "no-text", data_type="json", data=b"\xff")
        insert_thread(connection, "long")
    decompress = zstd.decompress
    monkeypatch.setattr(zstd, "decompress", lambda data, _: decompress(data, 9))

    assert columns_of(database, "json")["data"] == '{"messages": []}'
    for id in ("no-zstd", "no-text", "long"):
        assert columns_of(database, id)["data"].keys() == {"base64"}


async def test_importing_again_appends_a_changed_thread(store: Store, tmp_path: Path) -> None:
    database = write_zed_database(tmp_path / "threads.db", first="Count", second="Sort")
    first = await import_paths(store, [database], ImportOptions())
    with changing(database) as connection:
        connection.execute("DELETE FROM threads WHERE id = 'first'")
        insert_thread(connection, "first", {"Agent": {"content": [{"Text": "None."}]}})

    second = await import_paths(store, [database], ImportOptions())

    assert (first.total.counts["new"], first.unread) == (2, [])
    assert (second.total.counts["new"], second.total.counts["existing"]) == (1, 1)
