"""Find transcript files in the folders of agents, and the external ids of their sessions."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import Enum, auto
from errno import EINVAL
from pathlib import Path
from typing import NamedTuple

from ash_server.file_access import ANY_FILE, FileAccess, real_path
from ash_server.transfer.agents import AGENTS, COMPRESSED, DeclaredSource, KnownAgent, Root, declare
from ash_server.transfer.importing import prompt_history
from ash_server.transfer.importing.databases.conversation_files import conversation_at
from ash_server.transfer.importing.databases.sessions import OtherDatabase, expand
from ash_server.transfer.importing.databases.sqlite_snapshot import (
    COMPANION_SUFFIXES,
    companions,
    is_database,
)
from ash_server.transfer.importing.documents import chat_histories, exports
from ash_server.transfer.importing.documents.folders import folder_at

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

    def folders(self) -> list[Path]:
        """Return the folders with transcripts; each may be a link."""
        return [self.path / folder for folder in self.agent.folders]

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
        return any(not folder or relative.startswith(f"{folder}/") for folder in self.agent.folders)


def find_homes(environ: Mapping[str, str], user_home: Path) -> list[Home]:
    """List the homes of all agents, without those in the transcript folders of another home with the same format."""
    homes: list[Home] = []
    for agent in AGENTS:
        listed = {
            real_path(each) for home in homes if home.agent.source == agent.source for each in home.folders()
        }
        paths = (_home(root, environ, user_home) for root in agent.roots)
        homes += (Home(path, agent) for path in paths if path is not None and path not in listed)
    return homes


def _home(root: Root, environ: Mapping[str, str], user_home: Path) -> Path | None:
    configured = environ.get(root.variable) if root.variable else None
    if configured:
        return real_path(Path(configured).expanduser() / root.path)
    return None if root.base is None else real_path(user_home / root.base / root.path)


def external_id(path: Path, homes: Iterable[Home]) -> str:
    """Return the external id of a file's session: its path relative to the home of its CLI, else its absolute path.

    The suffix of compression is dropped, since a CLI may compress a transcript later. A conversation of Antigravity has
    the path of its folder, whichever of its files exist. Prompts and
    conversations of an export have the provider's id of their session.
    """
    resolved = uncompressed(real_path(path))
    if prompt_history.history_of(resolved) is not None or exports.export_of(resolved) is not None:
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
    return os.fspath(path).endswith(f".jsonl{COMPRESSED}")


def find_files(  # noqa: PLR0913  # all but the first three have defaults
    path: Path,
    homes: Iterable[Home],
    on_error: Callable[[OSError], None],
    access: FileAccess = ANY_FILE,
    known: "KnownFolders | None" = None,
    *,
    source: str | None = None,
    on_skipped: Callable[[Path], None] = lambda _: None,
) -> Iterator[Path]:
    """Yield a file, or the transcripts in a folder, in order.

    Follows links and visits each folder once. Skips hidden files and, in a CLI's home, all files but transcripts: the
    others contain settings and credentials. Outside of homes, files with other names are passed to `on_skipped`.
    `source` is the declared format of a file.
    """
    if path.is_dir():
        yield from _FolderWalk(homes, on_error, access, known or KnownFolders(), on_skipped).walk(path)
    elif path.exists() and not path.is_file():
        on_error(OSError(EINVAL, "not a regular file", str(path)))
    else:
        yield from _expand(path, on_error, access, source)


def _expand(
    path: Path, on_error: Callable[[OSError], None], access: FileAccess, source: str | None = None
) -> list[Path]:
    """Return the sessions in a database, a history or an export, or the one that a file belongs to.

    Any other file stands for itself.
    """
    if (conversation := conversation_at(path)) is not None:
        return [conversation.main]
    if (folder := folder_at(path)) is not None:
        return [folder.main]
    try:
        return _sessions_in(path, access, source)
    except OSError as error:
        on_error(error)
        return []


def _sessions_in(path: Path, access: FileAccess, source: str | None) -> list[Path]:
    """Raises OSError."""
    if prompt_history.is_history(path, access):
        return prompt_history.list_sessions(path, access)
    if exports.is_export(path, access):
        return exports.list_conversations(path, access)
    is_declared = source == chat_histories.SOURCE and chat_histories.has_suffix(path) and path.is_file()
    if is_declared or chat_histories.is_chat_history(path, access):
        return chat_histories.list_chats(path, access)
    return expand(path, access)


def find_transcripts(
    home: Home,
    on_error: Callable[[OSError], None],
    access: FileAccess = ANY_FILE,
    known: "KnownFolders | None" = None,
) -> Iterator[Path]:
    """Yield the transcripts of a CLI. Of a plain and a compressed copy, yield the plain one, which may still grow."""
    transcripts: dict[Path, Path] = {}
    if home.path.is_dir():
        for path in find_files(home.path, [home], on_error, access, known):
            transcripts.setdefault(uncompressed(path), path)
    yield from without_repeated(transcripts.values())


def without_repeated(paths: Iterable[Path]) -> Iterator[Path]:
    """Leave out the files of sessions of OpenCode and Hermes that are in their database, too. Leave out the
    transcripts of Cursor's chats that are in a database, which has more of them, and the prompts of sessions with a
    transcript."""
    paths = list(prompt_history.without_transcripts(paths))
    databases = {folder for folder in {path.parent for path in paths} if folder.is_file()}
    migrated = {(path.parent.parent, path.name) for path in paths if path.parent in databases}
    if not migrated:
        yield from paths
        return
    chats = {
        path.name for path in paths if path.parent in databases and path.parent.name in _CURSOR_DATABASES
    }
    for path in paths:
        storage = path.parents[2] if len(path.parents) > _STORAGE_DEPTH else path
        id = path.stem.removeprefix("session_")
        is_migrated = path.suffix == ".json" and (
            (storage.parent, path.stem) in migrated or (path.parent.parent, id) in migrated
        )
        is_chat = path.stem in chats and "agent-transcripts" in path.parts
        if not is_migrated and not is_chat:
            yield path


_CURSOR_DATABASES = frozenset({"state.vscdb", "store.db"})


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


class _Kind(Enum):
    FOLDER = auto()
    FILE = auto()
    """A transcript."""
    DATABASE = auto()
    """May be a database of sessions now or later."""
    SESSIONS = auto()
    """One or more transcripts, see `_expand`."""
    LINK = auto()
    """May lead elsewhere later, without a change of its folder."""


class _Entry(NamedTuple):
    path: Path
    kind: _Kind
    inode: int


class _Listing(NamedTuple):
    stamp: tuple[int, int, int]
    listed_at: int
    """In nanoseconds since 1970."""
    entries: Mapping[str, _Entry]

    def is_current(self, stamp: tuple[int, int, int]) -> bool:
        """True if the folder cannot have changed since; its time may be rounded to seconds."""
        return stamp == self.stamp and stamp[0] < self.listed_at - _ROUNDED_NS


_ROUNDED_NS = 2_000_000_000


class KnownFolders:
    """The contents of the folders of one walk: the next one lists only those that have changed."""

    def __init__(self) -> None:
        self.listings: dict[Path, _Listing] = {}


class _FolderWalk:
    """One walk through a tree of folders."""

    def __init__(
        self,
        homes: Iterable[Home],
        on_error: Callable[[OSError], None],
        access: FileAccess,
        known: KnownFolders,
        on_skipped: Callable[[Path], None],
    ) -> None:
        self._homes = list(homes)
        self._allowed = _allowed_entries(self._homes)
        self._on_error = on_error
        self._access = access
        self._known = known
        self._on_skipped = on_skipped
        self._visited: dict[Path, _Listing] = {}
        self._above: dict[Path, list[Home]] = {}

    def walk(self, folder: Path) -> Iterator[Path]:
        yield from self._files(folder, real_path(folder))
        self._known.listings = self._visited

    def _files(self, folder: Path, resolved: Path) -> Iterator[Path]:
        if resolved in self._visited:
            return
        listing = self._visited[resolved] = self._list(folder, resolved)
        for path, kind, _ in listing.entries.values():
            if kind is _Kind.FILE:
                yield path
            elif kind is _Kind.LINK:
                yield from self._linked(path)
            elif kind is _Kind.FOLDER:
                yield from self._files(path, resolved / path.name)
            elif kind is _Kind.SESSIONS or is_database(path, self._access):
                yield from _expand(path, self._report, self._access)

    def _linked(self, path: Path) -> Iterator[Path]:
        resolved = real_path(path)
        try:
            kind = self._kind_of(path, resolved)
        except OSError as error:
            self._on_error(error)
            return
        if kind is _Kind.FOLDER:
            yield from self._files(path, resolved)
        elif kind is not None and (kind is not _Kind.DATABASE or is_database(path, self._access)):
            yield from _expand(path, self._report, self._access)

    def _report(self, error: OSError) -> None:
        """Other programs have databases with the same names."""
        if not isinstance(error, OtherDatabase):
            self._on_error(error)

    def _list(self, folder: Path, resolved: Path) -> _Listing:
        known = self._known.listings.get(resolved)
        now = time.time_ns()
        try:
            status = os.stat(resolved)
            stamp = (status.st_mtime_ns, status.st_ino, status.st_dev)
            if known is not None and known.is_current(stamp):
                return known
            with os.scandir(resolved) as scanned:
                items = sorted(scanned, key=lambda each: each.name)
            entries = self._entries(folder, resolved, items, known.entries if known else {})
        except OSError as error:
            self._on_error(error)
            return _Listing((0, 0, 0), 0, {})
        return _Listing(stamp, now, entries)

    def _entries(
        self, folder: Path, resolved: Path, items: list[os.DirEntry[str]], known: Mapping[str, _Entry]
    ) -> dict[str, _Entry]:
        names = self._allowed.get(resolved)
        if resolved.name == "storage" and {each.name for each in items} >= _OPENCODE_STORAGE:
            names = {"session"}
        entries: dict[str, _Entry] = {}
        for item in items:
            if names is not None and item.name not in names:
                continue
            entry = known.get(item.name)
            if entry is None or not _is_same(entry, item):
                entry = self._entry(folder / item.name, resolved / item.name, item)
            if entry is not None:
                entries[item.name] = entry
        return entries

    def _entry(self, path: Path, resolved: Path, item: os.DirEntry[str]) -> _Entry | None:
        if not self._is_shown(path, resolved):
            return None
        kind = _Kind.LINK if item.is_symlink() else self._kind_of(path, resolved)
        return None if kind is None else _Entry(path, kind, item.inode())

    def _kind_of(self, path: Path, resolved: Path) -> _Kind | None:
        """Return None for other files than transcripts. Raises OSError."""
        if path.is_dir():
            return _Kind.FOLDER if self._is_in_place(path, resolved) else None
        is_named = path.name.endswith(SUFFIXES)
        is_conversation = conversation_at(path) is not None
        is_known = is_named or is_conversation or path.name in _NAMES
        if not (is_known or path.suffix in _MARKDOWN):
            is_companion = path.name.endswith(COMPANION_SUFFIXES)
            if not is_companion and not self._homes_above(resolved.parent):
                self._on_skipped(path)
            return None
        is_allowed = all(home.allows(resolved) for home in self._homes_above(resolved.parent))
        if not (is_allowed and self._is_in_place(path, resolved) and self._is_regular(path)):
            return None
        if not is_known:
            return _Kind.SESSIONS if chat_histories.is_chat_history(path, self._access) else None
        return self._kind_of_transcript(path, is_named=is_named, is_conversation=is_conversation)

    def _homes_above(self, folder: Path) -> list[Home]:
        """Return the homes that contain a folder: the others allow all its files."""
        homes = self._above.get(folder)
        if homes is None:
            homes = self._above[folder] = [home for home in self._homes if folder.is_relative_to(home.path)]
        return homes

    def _kind_of_transcript(self, path: Path, *, is_named: bool, is_conversation: bool) -> _Kind | None:
        if (folder := folder_at(path)) is not None:
            return _Kind.FILE if folder.main == path else None
        has_sessions = is_conversation or path.name in (prompt_history.NAME, chat_histories.NAME)
        if has_sessions or exports.is_export(path, self._access):
            return _Kind.SESSIONS
        if not is_named:
            return _Kind.DATABASE
        return _Kind.SESSIONS if is_database(path, self._access) else _Kind.FILE

    def _is_shown(self, entry: Path, resolved: Path) -> bool:
        is_visible = not entry.name.startswith(".") or entry.name == chat_histories.NAME
        return is_visible or any(home.shows(resolved) for home in self._homes)

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


def _is_same(entry: _Entry, item: os.DirEntry[str]) -> bool:
    """True if the entry need not be examined again. A file may have become one of a session in several files."""
    if entry.kind is _Kind.FILE and folder_at(entry.path) is not None:
        return False
    is_kept = (
        item.is_dir(follow_symlinks=False)
        if entry.kind is _Kind.FOLDER
        else item.is_file(follow_symlinks=False)
    )
    return is_kept and entry.inode == item.inode()


_NAMES = frozenset(
    name
    for names in ((agent.database, agent.session_database) for agent in AGENTS)
    for name in (chat_histories.NAME, *names)
    if name is not None
)
"""Names of databases and histories that are read in any folder; other databases have to be named."""

_MARKDOWN = frozenset({".md", ".markdown"})
"""Suffixes of files in folders that may be copies of a history of Aider."""

_OPENCODE_STORAGE = frozenset({"message", "session"})
"""Folders that identify OpenCode's storage or a copy. Session files are only in `session`."""


def _allowed_entries(homes: Iterable[Home]) -> dict[Path, set[str]]:
    """Return the names of the subfolders to visit, by folder: from each CLI's home down to its transcripts."""
    allowed: dict[Path, set[str]] = {}
    for home in homes:
        for folder in filter(None, home.agent.folders):
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
