"""Sessions in a folder of a few documents that their tool rewrites in place.

The path of one document stands for the session.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_MESSAGES = ".messages.json"
_TASK = ("ui_messages.json", "api_conversation_history.json")


_STATE = "base_state.json"


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
