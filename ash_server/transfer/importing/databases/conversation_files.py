"""The files of a conversation of Antigravity.

Its CLI, editor and app have a home each, all with the same layout:

- `brain/<id>/.system_generated/logs/transcript_full.jsonl`, and `transcript.jsonl`, the same with cut fields;
- `conversations/<id>.db`, an SQLite database;
- `history.jsonl`, the prompts of all conversations.

Any of the first three stands for the conversation, which is read from the first one that exists, and from the database.
The same id may occur in two homes: these are two conversations.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ash_server.transfer.importing.databases.sqlite_snapshot import companions

LOGS = ".system_generated"
"""The hidden folder with the transcripts of a conversation."""
TRANSCRIPTS = ("transcript_full.jsonl", "transcript.jsonl")
"""In order of precedence."""

_HOME_DEPTH = 4
"""Folders from a transcript up to the home."""


class ConversationFiles(NamedTuple):
    """The paths of a conversation; only some of the files may exist."""

    home: Path
    id: str

    @property
    def folder(self) -> Path:
        """Identifies the conversation, whichever of its files exist."""
        return self.home / "brain" / self.id

    @property
    def transcript(self) -> Path | None:
        paths = (self.folder / LOGS / "logs" / name for name in TRANSCRIPTS)
        return next((path for path in paths if path.is_file()), None)

    @property
    def database(self) -> Path:
        return self.home / "conversations" / f"{self.id}.db"

    @property
    def history(self) -> Path:
        return self.home / "history.jsonl"

    @property
    def main(self) -> Path:
        """The file that stands for the conversation in lists of files."""
        return self.transcript or self.database

    def places(self) -> list[Path]:
        """Return the files and folders to read."""
        return [self.folder, self.database, *companions(self.database), self.history]

    def existing(self) -> Iterator[Path]:
        """Yield the transcript, and the database with the files beside it, as far as they exist."""
        files = (self.transcript, self.database, *companions(self.database))
        yield from (file for file in files if file is not None and file.is_file())


def conversation_at(path: Path) -> ConversationFiles | None:
    """Return the conversation of a transcript or database; None for other paths."""
    path = path.absolute()
    folders = path.parents
    if path.name in TRANSCRIPTS and len(folders) > _HOME_DEPTH:
        names = [folder.name for folder in folders[:_HOME_DEPTH]]
        is_own = names[:2] == ["logs", LOGS] and names[3] == "brain"
        return ConversationFiles(folders[_HOME_DEPTH], names[2]) if is_own else None
    if path.suffix == ".db" and len(folders) > 1 and folders[0].name == "conversations":
        is_home = folders[1].name.startswith("antigravity") or (folders[1] / "brain").is_dir()
        return ConversationFiles(folders[1], path.stem) if is_home else None
    return None
