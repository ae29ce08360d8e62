"""The hooks themselves: they hand the transcript to a process of its own, and return at once."""

import fcntl
import json
import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Any

from ash_server.cli.common.error_messages import error_message
from ash_server.cli.common.private_files import OWNER_ONLY
from ash_server.file_access import FileAccess, current_user
from ash_server.settings import Settings

LOG = "hooks.log"
_MAX_LOG_BYTES = 1_000_000

_QUIET_SECONDS = 1.0
"""CLIs write the last lines of a turn after its hooks have begun."""
_MAX_QUIET_SECONDS = 15.0
"""A transcript that never rests is pushed nevertheless; its next hook takes the rest."""
_INTERVAL = 0.1

_PATHS = ("transcript_path", "agent_transcript_path")


def start(program: str, agent: str, url: str | None, document: bytes) -> None:
    """Start a process that pushes the transcripts of a hook's input. Raises OSError, ValueError."""
    event = json.loads(document)
    paths = _transcripts(event) if isinstance(event, dict) else []
    name = event.get("hook_event_name") if isinstance(event, dict) else None
    arguments = ["--url", url] if url else []
    command = [program, "hooks", "send", agent, *arguments, *paths]
    with open(_open_log(), "ab") as log:
        heading = (
            f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}Z {agent} {name}: {', '.join(paths) or 'no transcript'}\n"
        )
        log.write(heading.encode(errors="backslashreplace"))
        log.flush()
        if paths:
            Popen(command, stdin=DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/")


def log_error(error: Exception) -> None:
    reason = error_message(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
    with open(_open_log(), "ab") as log:
        log.write(f"ash: {reason}\n".encode(errors="backslashreplace"))


def send(program: str, agent: str, url: str | None, paths: Sequence[str]) -> None:
    """Wait until the transcript rests, then become the command that pushes it, or imports it without a server.

    Reads only this user's transcripts below the folders of the CLI, because another program may have written the input.
    If several processes are started for one transcript, only one waits. Several may push at once: the id of a line is
    its position, so each line is stored once.
    """
    # Imported late, because the hook itself must return immediately.
    from ash_server.transfer.importing.transcript_files import find_homes

    homes = [home for home in find_homes(os.environ, Path.home()) if home.agent.id == agent]
    folders = [folder for home in homes for folder in home.transcript_folders()]
    try:
        files = [FileAccess.below(folders, current_user()).open(Path(path)) for path in paths]
    except OSError as error:
        log_error(error)
        return
    try:
        fcntl.flock(files[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # the process that waits takes these lines, too
    except OSError:
        pass  # a file system without locks
    _wait_for_rest(files[-1].fileno())
    command = ["push", "--url", url] if url else ["import"]
    within = [word for folder in folders for word in ("--within", str(folder))]
    # The new program does not inherit the descriptor, which releases the lock.
    os.execv(program, [program, *command, *within, *_with_subagents(paths)])


def _with_subagents(paths: Sequence[str]) -> list[str]:
    """Add the folder with the subagents of a session, unless the hook names its subagent."""
    folder = paths[0].removesuffix(".jsonl")
    return [*paths, folder] if len(paths) == 1 and os.path.isdir(folder) else [*paths]


def _transcripts(event: Mapping[str, Any]) -> list[str]:
    """Return the transcripts that the input names; the last one has changed."""
    named = [event.get(name) for name in _PATHS]
    return [os.path.abspath(path) for path in named if isinstance(path, str) and os.path.isfile(path)]


def _wait_for_rest(file: int) -> None:
    end = time.monotonic() + _MAX_QUIET_SECONDS
    size, since = -1, time.monotonic()
    while (now := time.monotonic()) < min(end, since + _QUIET_SECONDS):
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
