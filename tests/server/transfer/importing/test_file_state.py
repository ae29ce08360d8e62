"""Files that are rewritten while they are read, and folders that are listed only after a change."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ash_server.store import Store
from ash_server.transfer.importing import file_import
from ash_server.transfer.importing.file_import import import_file
from ash_server.transfer.importing.parents import TranscriptHead, read_head
from ash_server.transfer.importing.transcript_files import KnownFolders, find_files
from tests.server.cli.test_push_command import said, write


async def test_a_file_that_is_rewritten_after_its_first_lines_were_read_is_read_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.jsonl", said(1, "Old.", "old"))
    heads: list[TranscriptHead] = []

    def rewrite(texts: Iterable[Any], source: str | None) -> TranscriptHead:
        heads.append(read_head(texts, source))
        if len(heads) == 1:
            write(path, said(2, "New.", "new"), said(3, "Newer.", "new"))
            os.utime(path, (1, 1))  # the clock of the file system may not have advanced
        return heads[-1]

    monkeypatch.setattr(file_import, "read_head", rewrite)
    imported = await import_file(store, path, "a", identify=True)

    name = (await store.sessions.get(imported.session_id)).metadata["sessionId"]
    messages = await store.messages.list_messages(imported.session_id)
    assert [message.content + "\n" for message in messages] == path.read_text().splitlines(keepends=True)
    assert (name, len(heads)) == ("new", 2)


def test_only_folders_that_have_changed_are_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    scandir = os.scandir

    def record(path: Any) -> Any:
        listed.append(Path(path).name)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", record)
    known, errors = KnownFolders(), list[OSError]()

    def find() -> list[str]:
        listed.clear()
        return [path.name for path in find_files(tmp_path, [], errors.append, known=known)]

    for name in ("old", "new"):
        write(tmp_path / name / "a.jsonl", "")
    for folder in (tmp_path / "old", tmp_path):
        os.utime(folder, (1, 1))
    assert (find(), sorted(listed)) == (["a.jsonl"] * 2, sorted([tmp_path.name, "new", "old"]))
    # The time of the other folder may be rounded.
    assert (find(), listed) == (["a.jsonl"] * 2, ["new"])
    write(tmp_path / "new" / "b.jsonl", "")
    assert (find(), listed) == (["a.jsonl", "b.jsonl", "a.jsonl"], ["new"])
    write(tmp_path / "old" / "b.jsonl", "")
    assert (find(), listed) == (["a.jsonl", "b.jsonl"] * 2, ["new", "old"])
    assert errors == []
