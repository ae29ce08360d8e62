"""Find transcripts that have changed, and report what was deleted before it was stored."""

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from ash_server.cli.common.output.terminal import warn
from ash_server.cli.import_.files import ImportReport, list_files
from ash_server.cli.import_.one_file import UnreadFile
from ash_server.cli.watch.seen_files import SeenFile, SeenFiles
from ash_server.file_access import ANY_FILE, FileAccess, current_user, may_exist
from ash_server.transfer.importing.databases.codex_names import SessionName
from ash_server.transfer.importing.databases.conversation_files import conversation_at
from ash_server.transfer.importing.databases.sessions import Stamps, database_of
from ash_server.transfer.importing.documents.folders import folder_at
from ash_server.transfer.importing.file_import import ImportedFile
from ash_server.transfer.importing.lines import RECENTLY_WRITTEN_SECONDS
from ash_server.transfer.importing.opencode import is_session as is_opencode_session
from ash_server.transfer.importing.transcript import open_transcript, places_of
from ash_server.transfer.importing.transcript_files import (
    SUFFIXES,
    Home,
    KnownFolders,
    find_homes,
    find_transcripts,
    is_compressed,
)
from ash_server.transfer.titles import TitlePlace, name_of, title_place

_MAX_LOSSES = 20
"""Files that were deleted while none watched and are reported one by one."""


RETRY_SECONDS = 30.0
"""Time after which a file that could not be stored is tried again, if it has not changed."""

_MAX_INTEGER = 2**63 - 1
"""The largest integer of SQLite."""


class FileStamps(NamedTuple):
    """Values that change with a transcript."""

    files: Stamps
    name: SessionName | None = None
    inode: int = 0
    """0 for a transcript in several files."""

    @property
    def size(self) -> int:
        return sum(size for _, size in self.files)

    @property
    def changed_at(self) -> int:
        return max((time for time, _ in self.files), default=0)


_NOTHING = FileStamps(())


class _Tracked:
    """A transcript that exists."""

    __slots__ = (
        *("failed", "failed_at", "is_document", "is_file", "rests_at", "seen", "session", "stored"),
        *("stored_bytes", "title", "title_stamps", "unstored"),
    )

    def __init__(self, path: Path) -> None:
        self.is_file = _is_one_file(path)
        """False for a session in several files or in a database."""
        self.is_document = self.is_file and path.suffix == ".json"
        """True for a file that may become one of a session in several files."""
        self.title = title_place(path) if self.is_file else None
        self.title_stamps: Stamps = ()
        self.seen = _NOTHING
        """At the last comparison."""
        self.stored: FileStamps | None = None
        """Before the last time that it was stored; None if it never was."""
        self.stored_bytes = 0
        self.session: UUID | None = None
        self.unstored = 0
        """Bytes that were seen when it was stored, if not all were stored."""
        self.rests_at = 0.0
        """When its last line, which is incomplete, no longer counts as being written; 0 for a complete one."""
        self.failed: FileStamps | None = None
        """When it could not be stored."""
        self.failed_at = 0.0

    @property
    def is_due(self) -> bool:
        """True for an unchanged file with an incomplete last line that is stored as it is now."""
        return 0 < self.rests_at <= time.time()

    def replace(self) -> None:
        """Forget what was stored: the file may have another text."""
        self.session, self.stored_bytes, self.unstored = None, 0, 0


class ChangedFiles:
    """Transcripts below some paths, or of the agents on this machine, that changed since they were remembered."""

    def __init__(
        self,
        paths: Sequence[Path],
        within: Sequence[Path] = (),
        *,
        watches: bool,
        seen: SeenFiles | None = None,
        source: str | None = None,
    ) -> None:
        """`seen` are the files that an earlier watcher has seen, `source` is the declared format of `paths`."""
        self._paths = paths
        self._source = source
        self.homes = find_homes(os.environ, Path.home())
        self.access = _access(paths, within, self.homes, watches=watches)
        self._tracked: dict[Path, _Tracked] = {}
        self._folders = defaultdict[Path, KnownFolders](KnownFolders)
        self._seen = seen
        self._earlier = seen.load() if seen else {}
        self._reported: set[UnreadFile] = set()
        """The errors of the last attempts; each is reported once."""

    def find(self, report: ImportReport) -> dict[Path, FileStamps]:
        """Return the changed files; errors are added to the report."""
        errors_before = len(report.unread)
        titles: dict[TitlePlace, Stamps] = {}
        losses: dict[Path, SeenFile] = {}
        changed: dict[Path, FileStamps] = {}
        paths = dict.fromkeys(self._list(report))
        for path in paths:
            tracked = self._tracked.get(path)
            if tracked is None or (tracked.is_document and folder_at(path) is not None):
                tracked = self._tracked[path] = _Tracked(path)
            before, stamps = tracked.seen, self._stamps(path, tracked, titles)
            if stamps is tracked.stored and not tracked.is_due:
                continue
            tracked.seen, changed[path] = stamps, stamps
            if stamps.size < before.size or (before.inode and stamps.inode != before.inode):
                losses[path] = _seen(before, tracked.stored_bytes)
                tracked.replace()
        unread = tuple(each.path for each in report.unread[errors_before:])
        gone = self._tracked.keys() - paths.keys() if len(self._tracked) > len(paths) else ()
        for path in gone:
            if not (str(path).startswith(unread) or may_exist(path)):
                tracked = self._tracked.pop(path)
                losses[path] = _seen(tracked.seen, tracked.stored_bytes)
        self._report(losses)
        self._report_earlier()
        changed = {path: stamps for path, stamps in changed.items() if self.is_changed(path)}
        self._save(changed, losses)
        return changed

    def is_changed(self, path: Path) -> bool:
        tracked = self._tracked.get(path)
        if tracked is None or (tracked.stored == tracked.seen and not tracked.is_due):
            return False
        return tracked.failed != tracked.seen or time.monotonic() >= tracked.failed_at + RETRY_SECONDS

    def stamps(self, path: Path) -> FileStamps:
        return self._tracked[path].seen

    def remember(self, path: Path, stamps: FileStamps, imported: ImportedFile | None = None) -> None:
        """Remember a file as stored; `stamps` are those that were found before."""
        tracked = self._tracked.get(path)
        if tracked is None:  # deleted meanwhile
            return
        is_measured = tracked.is_file and not is_compressed(path) and imported is not None
        session = imported.session_id if imported is not None and imported.has_session else None
        if tracked.unstored and tracked.session is not None and session != tracked.session:
            _warn_of_loss(path, "rewritten", tracked.unstored, tracked.stored_bytes)
        tracked.stored, tracked.session = stamps, session
        tracked.stored_bytes = imported.stored_bytes if is_measured and imported else stamps.size
        is_incomplete = imported is not None and imported.result.counts["incomplete"] > 0
        tracked.rests_at = stamps.changed_at / 1e9 + RECENTLY_WRITTEN_SECONDS if is_incomplete else 0.0
        tracked.unstored = stamps.size if tracked.stored_bytes < stamps.size else 0
        self._save([path], ())

    def remember_failure(self, path: Path, stamps: FileStamps) -> None:
        """Leave a file out that could not be stored, until it changes or some time has passed."""
        if (tracked := self._tracked.get(path)) is not None:
            tracked.failed, tracked.failed_at = stamps, time.monotonic()

    def remove_reported(self, report: ImportReport) -> None:
        report.unread = [each for each in report.unread if each not in self._reported]
        self._reported |= {*report.unread}

    def _report(self, losses: dict[Path, SeenFile]) -> None:
        """Warn of files that were deleted or truncated before their last seen state was stored."""
        moved = self._places() if losses else set()
        for path, each in losses.items():
            if each.stored < each.size and _place(each) not in moved:
                _warn_of_loss(path, "deleted or truncated", each.size, each.stored)

    def _report_earlier(self) -> None:
        """Warn of files that were deleted or truncated while none watched."""
        if not self._earlier:
            return
        moved, lost = self._places(), []
        for path, each in self._earlier.items():
            tracked = self._tracked.get(path)
            is_kept = may_exist(path) if tracked is None else tracked.seen.size >= each.size
            if tracked is not None and is_kept:
                tracked.stored_bytes = each.stored
            elif not is_kept and _place(each) not in moved:
                lost.append((path, each))
        lost.sort(key=lambda item: item[1].stored - item[1].size)
        for path, each in lost[:_MAX_LOSSES]:
            _warn_of_loss(path, "deleted or truncated while none watched,", each.size, each.stored)
        if len(lost) > _MAX_LOSSES:
            warn(f"and {len(lost) - _MAX_LOSSES} more files, which were stored as far as they were seen")
        if self._seen:
            self._seen.save({path: None for path in self._earlier if path not in self._tracked})
        self._earlier = {}

    def _places(self) -> set[tuple[int, int, int]]:
        """Return what stays of a file that is moved."""
        return {_place(_seen(each.seen, 0)) for each in self._tracked.values() if each.is_file}

    def _save(self, paths: Iterable[Path], lost: Iterable[Path]) -> None:
        if self._seen is None:
            return
        rows: dict[Path, SeenFile | None] = dict.fromkeys(lost)
        for path in paths:
            tracked = self._tracked[path]
            if tracked.is_file:
                rows[path] = _seen(tracked.seen, tracked.stored_bytes)
        self._seen.save(rows)

    def _list(self, report: ImportReport) -> Iterable[Path]:
        if self._paths:
            return list_files(self._paths, self.homes, report, self.access, source=self._source)
        return (
            path
            for home in self.homes
            for path in find_transcripts(home, report.add_unread, self.access, self._folders[home.path])
        )

    def _stamps(self, path: Path, tracked: _Tracked, titles: dict[TitlePlace, Stamps]) -> FileStamps:
        """Return the stamps of a transcript; empty if it cannot be read, which is reported when it is sent."""
        try:
            if not tracked.is_file:
                return FileStamps(open_transcript(path, self.access).stamps(), name_of(path, self.access))
            status = os.stat(path)
        except OSError:
            return _NOTHING
        files, seen, place = ((status.st_mtime_ns, status.st_size),), tracked.seen, tracked.title
        if place is not None:
            if place not in titles:
                titles[place] = place.stamps(self.access)
            is_same_title, tracked.title_stamps = tracked.title_stamps == titles[place], titles[place]
        if (
            seen.files == files
            and seen.inode == status.st_ino & _MAX_INTEGER
            and (place is None or is_same_title)
        ):
            return seen
        name = None if place is None else name_of(path, self.access)
        return FileStamps(files, name, status.st_ino & _MAX_INTEGER)


def _is_one_file(path: Path) -> bool:
    is_session = is_opencode_session(path) or conversation_at(path) is not None or folder_at(path) is not None
    return path.name.endswith(SUFFIXES) and not is_session and database_of(path) is None


def _seen(stamps: FileStamps, stored: int) -> SeenFile:
    return SeenFile(max(stamps.size, stored), stored, stamps.inode, stamps.changed_at)


def _place(file: SeenFile) -> tuple[int, int, int]:
    return file.inode, file.size, file.modified_at


def _warn_of_loss(path: Path, event: str, seen: int, stored: int) -> None:
    warn(f"{path}: {event} after {seen} bytes; {stored} were stored")


def _access(
    paths: Sequence[Path], within: Sequence[Path], homes: Sequence[Home], *, watches: bool
) -> FileAccess:
    """Return the files that may be read. While watching, links cannot lead to others."""
    if within:
        return FileAccess.below(within, current_user())
    if not watches:
        return ANY_FILE
    folders = [folder for home in homes for folder in home.transcript_folders()]
    return FileAccess.below([each for path in paths for each in places_of(path)] or folders)
