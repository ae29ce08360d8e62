"""Sessions in a folder of a few documents that their tool rewrites in place.

The path of one document stands for the session.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_MESSAGES = ".messages.json"
_TASK = ("ui_messages.json", "api_conversation_history.json")


_STATE = "base_state.json"
_CURRENT, _META = "CURRENT", "meta.json"
_GENERATION, _CHUNK = re.compile("[0-9]{1,20}"), re.compile("[0-9a-f]{64}")
_MAX_POINTER_BYTES = 1024 * 1024


class SessionFolder(NamedTuple):
    """The documents of a session."""

    source: str
    main: Path
    documents: tuple[str, ...]
    """Names of the files, relative to the folder, in order; each may be absent."""

    def files(self) -> Iterator[Path]:
        """Yield the documents that exist."""
        folder = self.main.parent
        return (file for name in self.documents if (file := folder / name).is_file())


def folder_at(path: Path) -> SessionFolder | None:
    """Return the session that a document belongs to; None for other files."""
    name, folder = path.name, path.parent
    if (session := _vibe_session_of(path) or _strands_agent_at(path)) is not None:
        return session
    if name in _TASK:
        main = next((folder / each for each in _TASK if (folder / each).is_file()), path)
        return SessionFolder("cline_task", main, _TASK)
    if name == _STATE or name.startswith("event-"):
        return _conversation_at(folder if name == _STATE else folder.parent)
    if not name.endswith(".json") or not name.startswith(folder.name):
        return None
    is_session = name in (f"{folder.name}.json", f"{folder.name}{_MESSAGES}")
    if is_session and (messages := folder / f"{folder.name}{_MESSAGES}").is_file():
        return SessionFolder("cline_session", messages, (f"{folder.name}.json", messages.name))
    return None


def _conversation_at(folder: Path) -> SessionFolder | None:
    """Return the conversation of OpenHands in a folder: a file per event, then its state with the usage of answers."""
    events = folder / "events"
    if not (folder / _STATE).is_file() or not events.is_dir():
        return None
    names = sorted(file.name for file in events.glob("event-*.json"))
    return SessionFolder("openhands", folder / _STATE, (*(f"events/{name}" for name in names), _STATE))


def _strands_agent_at(path: Path) -> SessionFolder | None:
    """Return the messages of a Strands agent, then its state; for `session.json`, the first agent."""
    name, folder = path.name, path.parent
    if name == "session.json" and folder.name.startswith("session_"):
        agents = sorted(folder.glob("agents/agent_*/agent.json"))
        runs = sorted(folder.glob("multi_agents/multi_agent_*/multi_agent.json"))
        main = next(iter([*agents, *runs]), None)
        return None if main is None else _strands_agent_at(main)
    if name == "multi_agent.json" and folder.name.startswith("multi_agent_"):
        return SessionFolder("strands", path, (name,))
    agent = folder.parent if folder.name == "messages" else folder
    is_message = folder.name == "messages" and _STRANDS_MESSAGE.fullmatch(name) is not None
    if not agent.name.startswith("agent_") or not (is_message or name == "agent.json"):
        return None
    if not (agent / "agent.json").is_file():
        return None
    numbers = (_STRANDS_MESSAGE.fullmatch(file.name) for file in (agent / "messages").glob("message_*.json"))
    messages = sorted(int(match[1]) for match in numbers if match is not None)
    documents = (*(f"messages/message_{number}.json" for number in messages), "agent.json")
    return SessionFolder("strands", agent / "agent.json", documents)


_STRANDS_MESSAGE = re.compile(r"message_([0-9]{1,18})\.json")


def _vibe_session_of(path: Path) -> SessionFolder | None:
    folder = _vibe_folder_of(path)
    return None if folder is None else _vibe_session_at(folder)


def _vibe_folder_of(path: Path) -> Path | None:
    """Return the folder of a session of Mistral Vibe that a file is in; None for other files."""
    name, folder = path.name, path.parent
    if name in (_CURRENT, _META, "scheduled-loops.json"):
        session = folder
    elif folder.name in ("chunks", "journal"):
        session = folder.parent
    elif folder.parent.name == "generations":
        session = folder.parent.parent
    else:
        return None
    return session if (session / _CURRENT).is_file() else None


def _vibe_session_at(folder: Path) -> SessionFolder | None:
    """Return the session of Mistral Vibe in a folder: the lists of entries of its current generation, and totals."""
    pointer = _read_json(folder / _CURRENT)
    generation = pointer.get("generation")
    if not isinstance(generation, str) or not _GENERATION.fullmatch(generation):
        return None
    place = f"generations/{generation}"
    state = _read_json(folder / place / "manifest.json").get("projection_state")
    chunks = state.get("chunks") if isinstance(state, dict) else None
    names = [
        f"chunks/{chunk}.json"
        for chunk in (chunks if isinstance(chunks, list) else ())
        if isinstance(chunk, str) and _CHUNK.fullmatch(chunk)
    ]
    documents = (_META, *names, f"{place}/projection-state.json")
    return SessionFolder("mistral_vibe", folder / _META, documents)


def _read_json(file: Path) -> dict[str, Any]:
    """Return a small object; an empty one for any other file."""
    try:
        if not file.is_file() or file.is_symlink():
            return {}
        with open(file, "rb") as opened:
            value = json.loads(opened.read(_MAX_POINTER_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
