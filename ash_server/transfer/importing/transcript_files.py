"""Find transcript files in the folders of agents, and the external ids of their sessions."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from errno import EINVAL
from pathlib import Path
from typing import NamedTuple

from ash_server.file_access import ANY_FILE, FileAccess, real_path
from ash_server.transfer.agents import AGENTS, COMPRESSED, DeclaredSource, KnownAgent, Root, declare
from ash_server.transfer.importing import prompt_history
from ash_server.transfer.importing.databases.conversation_files import conversation_at
from ash_server.transfer.importing.databases.sessions import database_of, expand
from ash_server.transfer.importing.databases.sqlite_snapshot import companions, is_database

SUFFIXES = (".jsonl", ".json", ".jsonl.zst")


class Home(NamedTuple):
    """The folder of an agent on this machine. Only transcripts, and files with their titles, are read from it."""

    path: Path
    agent: KnownAgent

    def allows(self, path: Path) -> bool:
        """True for transcripts, and for any path outside of the transcript folders."""
        relative = _relative(path, self.path)
        return relative is None or not self._is_in_transcript_folder(relative) or self.is_transcript(path)

    def is_transcript(self, path: Path) -> bool:
        """True for a transcript in a folder of the agent."""
        relative = _relative(path, self.path)
        return relative is not None and bool(self.agent.transcript.fullmatch(relative))

    def shows(self, path: Path) -> bool:
        """True for a hidden folder on the way to transcripts."""
        return path.name in self.agent.hidden and path.is_relative_to(self.path)

    def transcript_folders(self) -> list[Path]:
        """Return the folders and files that contain all transcripts and their names; each may be a link."""
        folders = [self.path / folder.partition("/")[0] for folder in self.agent.folders]
        databases = [] if self.database is None else [self.database]
        prompts = [] if self.agent.prompts is None else [self.path / self.agent.prompts]
        if self.agent.names is not None:
            databases += self.path.glob(self.agent.names)
        return [*folders, *prompts, *databases, *(file for each in databases for file in companions(each))]

    @property
    def database(self) -> Path | None:
        return self.path / self.agent.database if self.agent.database else None

    def _is_in_transcript_folder(self, relative: str) -> bool:
        return any(relative.startswith(f"{folder}/") for folder in self.agent.folders)


def find_homes(environ: Mapping[str, str], user_home: Path) -> list[Home]:
    return [Home(_home(root, environ, user_home), agent) for agent in AGENTS for root in agent.roots]


def _home(root: Root, environ: Mapping[str, str], user_home: Path) -> Path:
    configured = environ.get(root.variable) if root.variable else None
    base = Path(configured).expanduser() if configured else user_home / root.base
    return real_path(base / root.path)


def external_id(path: Path, homes: Iterable[Home]) -> str:
    """Return the external id of a file's session: its path relative to the home of its CLI, else its absolute path.

    The suffix of compression is dropped, since a CLI may compress a transcript later. A conversation of Antigravity has
    the path of its folder, whichever of its files exist. Prompts have the provider's id of their session.
    """
    resolved = uncompressed(real_path(path))
    if prompt_history.history_of(resolved) is not None:
        return resolved.name
    conversation = conversation_at(resolved)
    resolved = conversation.folder if conversation else resolved
    for home in homes:
        if (relative := _relative(resolved, home.path)) is not None:
            return _decode_path(relative)
    return _decode_path(resolved.as_posix())


def declared_at(path: Path, homes: Iterable[Home], name: str | None = None) -> DeclaredSource:
    """Return the format and the agent of a file by the name that a person gives, else by its folder.

    Neither depends on the lines, which may be of no known format.
    """
    resolved = real_path(path)
    if prompt_history.history_of(resolved) is not None:
        return DeclaredSource(prompt_history.SOURCE, has_folder=True)
    agent = next((home.agent for home in homes if home.is_transcript(resolved)), None)
    at_path = DeclaredSource(agent.source, agent.label, has_folder=True) if agent else DeclaredSource()
    declared = declare(name)
    return at_path._replace(source=declared.source or at_path.source, agent=declared.agent or at_path.agent)


def uncompressed(path: Path) -> Path:
    """Return the path without the suffix of compression."""
    return path.with_suffix("") if is_compressed(path) else path


def is_compressed(path: Path) -> bool:
    return path.name.endswith(f".jsonl{COMPRESSED}")


def find_files(
    path: Path, homes: Iterable[Home], on_error: Callable[[OSError], None], access: FileAccess = ANY_FILE
) -> Iterator[Path]:
    """Yield a file, or the transcripts in a folder, in order.

    Follows links and visits each folder once. Skips hidden files and, in a CLI's home, all files but transcripts: the
    others contain settings and credentials.
    """
    if path.is_dir():
        yield from _FolderWalk(homes, on_error, access).files(path)
    elif path.exists() and not path.is_file():
        on_error(OSError(EINVAL, "not a regular file", str(path)))
    else:
        yield from _expand(path, on_error, access)


def _expand(path: Path, on_error: Callable[[OSError], None], access: FileAccess) -> list[Path]:
    """Return the sessions in a database or a history of prompts, or the conversation that a file belongs to; any other
    file by itself."""
    if (conversation := conversation_at(path)) is not None:
        return [conversation.main]
    try:
        if prompt_history.is_history(path, access):
            return prompt_history.list_sessions(path, access)
        return expand(path, access)
    except OSError as error:
        on_error(error)
        return []


def find_transcripts(
    home: Home, on_error: Callable[[OSError], None], access: FileAccess = ANY_FILE
) -> Iterator[Path]:
    """Yield the transcripts of a CLI. Of a plain and a compressed copy, yield the plain one, which may still grow."""
    transcripts: dict[Path, Path] = {}
    if home.path.is_dir():
        for path in find_files(home.path, [home], on_error, access):
            transcripts.setdefault(uncompressed(path), path)
    yield from without_repeated(transcripts.values())


def without_repeated(paths: Iterable[Path]) -> Iterator[Path]:
    """Leave out the files of OpenCode sessions that are in its database, too: it has moved them there. Leave out the
    prompts of sessions with a transcript."""
    paths = list(prompt_history.without_transcripts(paths))
    migrated = {(database.parent, path.name) for path in paths if (database := database_of(path))}
    for path in paths:
        storage = path.parents[2] if len(path.parents) > _STORAGE_DEPTH else path
        if path.suffix != ".json" or (storage.parent, path.stem) not in migrated:
            yield path


_STORAGE_DEPTH = 3
"""Folders above `storage/session/<project>/<session>.json`, with the one that contains the database."""


def modification_time(path: Path, access: FileAccess = ANY_FILE) -> datetime:
    """Return when the file was modified, but no time in the future: the clock of a file server may differ."""
    with access.open(path) as file:
        modified_at = os.fstat(file.fileno()).st_mtime
    return past_time(modified_at)


def past_time(seconds: float) -> datetime:
    """Return a time, at most now."""
    return datetime.fromtimestamp(min(seconds, time.time()), UTC)


class _FolderWalk:
    """One walk through a tree of folders."""

    def __init__(
        self, homes: Iterable[Home], on_error: Callable[[OSError], None], access: FileAccess
    ) -> None:
        self._homes = list(homes)
        self._allowed = _allowed_entries(self._homes)
        self._on_error = on_error
        self._access = access
        self._visited: set[Path] = set()

    def files(self, folder: Path) -> Iterator[Path]:
        resolved = real_path(folder)
        if resolved in self._visited:
            return
        self._visited.add(resolved)
        for entry, is_folder in self._list_entries(folder, self._allowed.get(resolved)):
            if is_folder and self._is_in_place(entry, real_path(entry)):
                yield from self.files(entry)
            elif not is_folder and self._is_transcript(entry):
                yield from _expand(entry, self._on_error, self._access)

    def _is_shown(self, entry: Path) -> bool:
        return not entry.name.startswith(".") or any(home.shows(real_path(entry)) for home in self._homes)

    def _is_transcript(self, entry: Path) -> bool:
        is_named = entry.name.endswith(SUFFIXES) or conversation_at(entry) is not None
        if not (is_named or (entry.name in _DATABASES and is_database(entry))):
            return False
        resolved = real_path(entry)
        is_allowed = all(home.allows(resolved) for home in self._homes)
        return is_allowed and self._is_in_place(entry, resolved) and self._is_regular(entry)

    def _is_in_place(self, entry: Path, resolved: Path) -> bool:
        """Return False for entries outside the folders to read, and report them."""
        try:
            self._access.check_place(entry, resolved)
        except OSError as error:
            self._on_error(error)
            return False
        return True

    def _is_regular(self, entry: Path) -> bool:
        """Skip pipes and devices: they may never end."""
        if not entry.exists() or entry.is_file():
            return True
        self._on_error(OSError(EINVAL, "not a regular file", str(entry)))
        return False

    def _list_entries(self, folder: Path, names: set[str] | None) -> list[tuple[Path, bool]]:
        try:
            entries = sorted(entry for entry in folder.iterdir() if self._is_shown(entry))
            if folder.name == "storage" and {entry.name for entry in entries} >= _OPENCODE_STORAGE:
                names = {"session"}
            return [(entry, entry.is_dir()) for entry in entries if names is None or entry.name in names]
        except OSError as error:
            self._on_error(error)
            return []


_DATABASES = frozenset(agent.database for agent in AGENTS if agent.database)
"""Names of databases that are read in any folder; others have to be named."""

_OPENCODE_STORAGE = frozenset({"message", "session"})
"""Folders that identify OpenCode's storage or a copy. Session files are only in `session`."""


def _allowed_entries(homes: Iterable[Home]) -> dict[Path, set[str]]:
    """Return the names of the subfolders to visit, by folder: from each CLI's home down to its transcripts."""
    allowed: dict[Path, set[str]] = {}
    for home in homes:
        for folder in home.agent.folders:
            parent = home.path
            for name in folder.split("/"):
                allowed.setdefault(parent, set()).add(name)
                parent /= name
        for name in filter(None, (home.agent.database, home.agent.prompts)):
            allowed.setdefault(home.path, set()).add(name)
    return allowed


def _relative(path: Path, folder: Path) -> str | None:
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else None


def _decode_path(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
