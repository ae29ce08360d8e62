"""Titles that agents store apart from their transcripts: in a database, or in a file beside them.

They are read at each import, because a person may have renamed the session since. Only the files named here are read.
"""

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ash_server.file_access import ANY_FILE, FileAccess
from ash_server.store.text import storable
from ash_server.transfer.importing.databases import antigravity_titles, codex_names
from ash_server.transfer.importing.databases.codex_names import SessionName
from ash_server.transfer.importing.databases.sessions import Stamps

MAX_BYTES = 64 * 1024
"""Larger files are not read: they have no title of a session."""


def name_of(path: Path, access: FileAccess = ANY_FILE) -> SessionName | None:
    """Return the title of a transcript in the folder of its agent; None if there is none that can be read."""
    located = next(((each, file) for each in _TITLE_FILES if (file := each.locate(path.absolute()))), None)
    if located is None:
        return codex_names.name_of(path, access) or antigravity_titles.title_of(path, access)
    title_file, file = located
    try:
        with access.open(file) as opened:
            data = opened.read(MAX_BYTES + 1)
        return title_file.read(data.decode()) if len(data) <= MAX_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None


class TitlePlace(NamedTuple):
    """Where the title of a transcript may be."""

    path: Path
    stamps_of: Callable[[Path, FileAccess], Stamps]

    def stamps(self, access: FileAccess) -> Stamps:
        """Return times and sizes, which change with the titles."""
        return self.stamps_of(self.path, access)


def title_place(path: Path) -> TitlePlace | None:
    """Return where the title of a transcript may be, unless it is a conversation of Antigravity; None for no place."""
    files = (file for each in _TITLE_FILES if (file := each.locate(path.absolute())))
    if (file := next(files, None)) is not None:
        return TitlePlace(file, _file_stamps)
    home = codex_names.home_of(path)
    return None if home is None else TitlePlace(home, codex_names.stamps)


def _file_stamps(path: Path, _: FileAccess) -> Stamps:
    try:
        status = path.stat()
    except OSError:  # there is none, or it was deleted meanwhile
        return ()
    return ((status.st_mtime_ns, status.st_size),)


class _TitleFile(NamedTuple):
    locate: Callable[[Path], Path | None]
    """Return the path of the file beside a transcript of the agent."""
    read: Callable[[str], SessionName | None]
    """Return the title in the text of the file. Raises ValueError for other texts."""


def _find_workspace(path: Path) -> Path | None:
    is_log = path.name == "events.jsonl" and path.parent.parent.name == "session-state"
    return path.with_name("workspace.yaml") if is_log else None


def _read_workspace(text: str) -> SessionName | None:
    """Read the name in Copilot's `workspace.yaml`, a list of keys with scalars."""
    values = {name: _read_scalar(value) for name, value in _YAML_ITEM.findall(text)}
    name = values.get("name", "")
    return SessionName(storable(name), values.get("user_named") == "true") if name.strip() else None


_YAML_ITEM = re.compile(r"^([a-z_]+):[ \t]*(.*(?:\n[ \t]+.*)*)", re.MULTILINE)
"""A key, and its value with the indented lines after it."""


def _read_scalar(value: str) -> str:
    """Return a scalar as one line: it is quoted, plain, or folded over several lines."""
    words = " ".join(re.sub(r"^[>|][+-]?$", "", value, count=1, flags=re.MULTILINE).split())
    if words.startswith("'") and words.endswith("'"):
        return words[1:-1].replace("''", "'")
    return str(json.loads(words)) if words.startswith('"') else words


def _find_cowork_session(path: Path) -> Path | None:
    """Return `local_ID.json`, next to the folder `local_ID` with the transcript."""
    if not any(each.name == "local-agent-mode-sessions" for each in path.parents):
        return None
    folder = next((each for each in path.parents if each.name.startswith("local_")), None)
    return folder.with_name(f"{folder.name}.json") if folder else None


def _read_cowork_session(text: str) -> SessionName | None:
    return _title_in(json.loads(text), "title")


def _title_in(document: Any, *names: str) -> SessionName | None:
    """Return the first title at these keys."""
    values = (document.get(name) for name in names) if isinstance(document, dict) else ()
    title = next((value for value in values if isinstance(value, str) and value.strip()), None)
    return None if title is None else SessionName(storable(title), is_typed=False)


def _find_grok_summary(path: Path) -> Path | None:
    return path.with_name("summary.json") if path.name == "chat_history.jsonl" else None


def _read_grok_summary(text: str) -> SessionName | None:
    return _title_in(json.loads(text), "generated_title", "session_summary")


def _find_kimi_state(path: Path) -> Path | None:
    """Return `state.json` of a session, in its folder above `agents/main`, or beside its log in earlier versions."""
    if path.name != "wire.jsonl":
        return None
    folder = path.parent
    if folder.parent.name != "agents":
        return folder / "state.json"
    return folder.parent.parent / "state.json" if folder.name == "main" else None


def _read_kimi_state(text: str) -> SessionName | None:
    state = json.loads(text)
    name = _title_in(state, "title", "custom_title")
    return name and name._replace(is_typed=state.get("isCustomTitle") is True)


def _find_vibe_meta(path: Path) -> Path | None:
    return path.with_name("meta.json") if path.name == "messages.jsonl" else None


def _read_vibe_meta(text: str) -> SessionName | None:
    return _title_in(json.loads(text), "title")


def _find_gptme_settings(path: Path) -> Path | None:
    return path.with_name("config.toml") if path.name == "conversation.jsonl" else None


def _read_gptme_settings(text: str) -> SessionName | None:
    return _title_in(tomllib.loads(text).get("chat"), "name")


_TITLE_FILES = (
    _TitleFile(_find_workspace, _read_workspace),
    _TitleFile(_find_cowork_session, _read_cowork_session),
    _TitleFile(_find_grok_summary, _read_grok_summary),
    _TitleFile(_find_kimi_state, _read_kimi_state),
    _TitleFile(_find_vibe_meta, _read_vibe_meta),
    _TitleFile(_find_gptme_settings, _read_gptme_settings),
)
