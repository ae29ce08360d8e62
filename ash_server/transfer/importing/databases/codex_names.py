"""The names of Codex's sessions, which are in its database `state_5.sqlite` and not in the transcripts.

Source: the table `threads` of Codex. A person typed `name`; Codex writes `title`, which is at first the first prompt,
as in the transcript, and later a summary of the conversation.
"""

import re
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ash_server.file_access import ANY_FILE, FileAccess, real_path
from ash_server.store.text import storable
from ash_server.transfer.importing.databases.sessions import Stamps, read_once_or, states_at_reading
from ash_server.transfer.importing.databases.sqlite_snapshot import columns_of, open_snapshot

_DATABASES = "state_*.sqlite"
"""The number is the version of the tables."""
_FOLDERS = frozenset({"archived_sessions", "sessions"})
_THREAD = re.compile(r"rollout-.*?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl?(?:\.zst)?")
_QUERY = "SELECT id, {name}, title, first_user_message FROM threads"


class SessionName(NamedTuple):
    text: str
    is_typed: bool
    """True if a person typed it; False if the agent wrote it."""


def name_of(path: Path, access: FileAccess = ANY_FILE) -> SessionName | None:
    """Return the name of the session of a rollout file, if its folder is next to a readable database with one."""
    thread = _thread_of(path)
    if thread is None:
        return None
    id, home = thread
    database = _find_database(home)
    return None if database is None else _read_names(database, access).get(id)


def stamps(home: Path, access: FileAccess) -> Stamps:
    """Return times and sizes that change with what `name_of` returns, which may be older than the database."""
    database = _find_database(home)
    if database is None:
        return ()
    _read_names(database, access)
    return states_at_reading(database)


def home_of(path: Path) -> Path | None:
    """Return the folder that may contain the database with the name of a rollout file; None for other files."""
    thread = _thread_of(path)
    return None if thread is None else thread[1]


def _thread_of(path: Path) -> tuple[str, Path] | None:
    """Return the id of the session of a rollout file, and the home of its agent."""
    resolved = real_path(path)
    match = _THREAD.fullmatch(resolved.name)
    home = next((each.parent for each in resolved.parents if each.name in _FOLDERS), None)
    return None if match is None or home is None else (match[1], home)


def _find_database(home: Path) -> Path | None:
    return max(home.glob(_DATABASES), key=_version, default=None)


def _version(database: Path) -> int:
    number = database.stem.rpartition("_")[2]
    return int(number) if number.isdecimal() else -1


def _read_names(database: Path, access: FileAccess) -> Mapping[str, SessionName]:
    """Return the names by thread; none if the database cannot be read, because sessions do without."""

    def read() -> Mapping[str, SessionName]:
        with open_snapshot(database, access) as copy:
            return _names_in(copy)

    return read_once_or({}, database, read)


def _names_in(copy: sqlite3.Connection) -> dict[str, SessionName]:
    """Raises sqlite3.Error."""
    columns = {name for name, _ in columns_of(copy, "threads")}
    if not columns:
        return {}
    rows = copy.execute(_QUERY.format(name="name" if "name" in columns else "NULL"))
    return {id: chosen for id, *texts in rows if (chosen := _choose(*texts)) is not None}


def _choose(name: object, title: object, first_prompt: object) -> SessionName | None:
    if isinstance(name, str) and name.strip():
        return SessionName(storable(name), is_typed=True)
    is_summary = isinstance(title, str) and title.strip() and title != first_prompt
    return SessionName(storable(str(title)), is_typed=False) if is_summary else None
