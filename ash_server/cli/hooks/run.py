"""The hooks themselves: they hand the transcript to a process of its own, and return at once."""

import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from errno import ENOENT
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import TYPE_CHECKING, Any, BinaryIO

from ash_server.cli.common.error_messages import error_message
from ash_server.cli.common.private_files import OWNER_ONLY
from ash_server.cli.hooks.agents import AGENTS, HookedCLI
from ash_server.file_access import FileAccess, current_user
from ash_server.settings import Settings

if TYPE_CHECKING:
    from ash_server.transfer.importing.transcript_files import Home

LOG = "hooks.log"
_MAX_LOG_BYTES = 1_000_000

_MAX_RESTS = 15
"""A transcript that never rests is pushed after so many times the rest; its next hook takes the remaining lines."""
_INTERVAL = 0.1

_PATHS = ("transcript_path", "agent_transcript_path", "transcriptPath")
_SESSIONS = ("session_id", "sessionId", "conversation_id")
_ID = re.compile(r"[A-Za-z0-9][\w-]{0,199}")
_SUFFIXES = (".jsonl", ".json")


def start(program: str, agent: str, url: str | None, document: bytes) -> None:
    """Start a process that pushes the transcripts of a hook's input. Raises OSError, ValueError."""
    event = json.loads(document)
    fields = event if isinstance(event, dict) else {}
    paths, session = _transcripts(fields, AGENTS[agent]), _session(fields, AGENTS[agent])
    options = [*(["--url", url] if url else []), *(["--session", session] if session else [])]
    command = [program, "hooks", "send", agent, *options, *paths]
    with open(_open_log(), "ab") as log:
        named = ", ".join(paths) or (f"session {session}" if session else "no transcript")
        hook = f"{agent} {fields.get('hook_event_name', '')}".rstrip()
        heading = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}Z {hook}: {named}\n"
        log.write(heading.encode(errors="backslashreplace"))
        log.flush()
        if paths or session:
            Popen(command, stdin=DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/")


def log_error(error: Exception) -> None:
    reason = error_message(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
    with open(_open_log(), "ab") as log:
        log.write(f"ash: {reason}\n".encode(errors="backslashreplace"))


def send(program: str, agent: str, url: str | None, paths: Sequence[str], session: str | None) -> None:
    """Wait until the transcript rests, then become the command that pushes it, or imports it without a server.

    Reads only this user's transcripts below the folders of the CLI, because another program may have written the input.
    If several processes are started for one transcript, only one waits. Several may push at once: the id of a line is
    its position, so each line is stored once.
    """
    # Imported late, because the hook itself must return immediately.
    from ash_server.transfer.importing.databases.sessions import database_of
    from ash_server.transfer.importing.transcript_files import find_homes

    cli = AGENTS[agent]
    homes = [home for home in find_homes(os.environ, Path.home()) if home.agent.id == agent]
    folders = [folder for home in homes for folder in home.transcript_folders()]
    access = FileAccess.below(folders, current_user())
    found = [*map(Path, paths)]
    _wait_until(lambda: all(path.exists() for path in found), cli)
    if session:
        found += [path for home in homes for path in _files_of(home, cli, session) if path not in found]
    try:
        if not found:
            raise FileNotFoundError(ENOENT, "no transcript", session)
        opened = [database_of(path) or path for path in found if not path.is_dir()]
        files = [access.open(path) for path in opened]
    except OSError as error:
        log_error(error)
        return
    # Locks of SQLite are left alone.
    if files and opened[-1] in found and not _lock(files[-1]):
        return  # the process that waits takes these lines, too
    if files:
        _wait_for_rest(files[-1].fileno(), cli)
    command = ["push", "--url", url] if url else ["import"]
    within = [word for folder in folders for word in ("--within", str(folder))]
    # The new program does not inherit the descriptor, which releases the lock.
    os.execv(program, [program, *command, *within, *_with_subagents([str(path) for path in found])])


def _lock(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return True


def _files_of(home: "Home", cli: HookedCLI, session: str) -> list[Path]:
    """Return the files of a session and the folders of its subagents.

    Cursor's editor has a database, too, but its home has no folder with transcripts.
    """
    if home.database is not None and home.database.is_file() and home.agent.folders:
        return [home.database / session]
    return [path for pattern in cli.sessions for path in sorted(home.path.glob(pattern.format(id=session)))]


def _with_subagents(paths: Sequence[str]) -> list[str]:
    """Add the folder with the subagents of a session, unless the hook names its subagent."""
    folder = paths[0].removesuffix(".jsonl")
    return [*paths, folder] if len(paths) == 1 and os.path.isdir(folder) else [*paths]


def _transcripts(event: Mapping[str, Any], cli: HookedCLI) -> list[str]:
    """Return the transcripts that the input names; the last one has changed."""
    named = [event.get(name) for name in _PATHS]
    paths = [path for path in named if isinstance(path, str) and path.endswith(_SUFFIXES)]
    return [os.path.abspath(path) for path in paths if cli.is_late or os.path.isfile(path)]


def _session(event: Mapping[str, Any], cli: HookedCLI) -> str | None:
    """Return the id of the session if its files can be found by it."""
    named = next((event[name] for name in _SESSIONS if event.get(name)), None)
    return named if cli.sessions and isinstance(named, str) and _ID.fullmatch(named) else None


def _wait_until(condition: Callable[[], bool], cli: HookedCLI) -> None:
    end = time.monotonic() + (_MAX_RESTS * cli.rest_seconds if cli.is_late else 0)
    while not condition() and time.monotonic() < end:
        time.sleep(_INTERVAL)


def _wait_for_rest(file: int, cli: HookedCLI) -> None:
    end = time.monotonic() + _MAX_RESTS * cli.rest_seconds
    size, since = -1, time.monotonic()
    while (now := time.monotonic()) < min(end, since + cli.rest_seconds):
        if (current := os.fstat(file).st_size) != size:
            size, since = current, now
        time.sleep(_INTERVAL)


def _open_log() -> int:
    home = Settings.from_environment().home
    home.mkdir(parents=True, exist_ok=True)
    path = home / LOG
    if path.exists() and path.stat().st_size > _MAX_LOG_BYTES:
        path.replace(home / f"{LOG}.1")
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, OWNER_ONLY)
