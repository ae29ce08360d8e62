"""Which files hold transcripts, and what the sessions in them are called."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from errno import EINVAL
from pathlib import Path
from typing import NamedTuple

SUFFIXES = (".jsonl", ".json")


class Home(NamedTuple):
    """The folder of a CLI; what lies there beside the transcripts is its own affair."""

    path: Path
    transcripts: tuple[str, ...]
    """The folders below it that hold them."""


class _CLI(NamedTuple):
    variable: str | None
    """Of the environment; names the CLI's home."""
    default: str
    """Below the user's home."""
    transcripts: tuple[str, ...]


_CLIS = (
    _CLI("CLAUDE_CONFIG_DIR", ".claude", ("projects",)),
    _CLI("CODEX_HOME", ".codex", ("archived_sessions", "sessions")),
    _CLI(None, ".cursor", ("projects",)),
    _CLI(None, ".gemini", ("tmp",)),
    _CLI(None, ".local/share/opencode", ("storage",)),
)


def find_homes(environ: Mapping[str, str], user_home: Path) -> list[Home]:
    return [_home(cli, environ, user_home) for cli in _CLIS]


def _home(cli: _CLI, environ: Mapping[str, str], user_home: Path) -> Home:
    named = environ.get(cli.variable) if cli.variable else None
    path = Path(named).expanduser() if named else user_home / cli.default
    return Home(real(path), cli.transcripts)


def external_id(path: Path, homes: Iterable[Home]) -> str:
    """What the session of a file is called: its path below the home of its CLI, else its absolute path."""
    place = real(path)
    for home in homes:
        if place.is_relative_to(home.path):
            return _text(place.relative_to(home.path))
    return _text(place)


def find_files(path: Path, homes: Iterable[Home], on_error: Callable[[OSError], None]) -> Iterator[Path]:
    """The file that is named, or the transcripts below the folder that is named, in order.

    Links are followed, into each folder once. What begins with a dot is left alone below a folder, and of a
    CLI's home only the transcripts are taken: the rest holds settings and credentials.
    """
    if path.is_dir():
        yield from _Walk({home.path: home.transcripts for home in homes}, on_error).files(path)
    elif path.exists() and not path.is_file():
        on_error(OSError(EINVAL, "not a regular file", str(path)))
    else:
        yield path


def real(path: Path) -> Path:
    """The one absolute path of a file that has many; a loop of links is left as it is."""
    return Path(os.path.realpath(path))


class _Walk:
    """One way through a tree of folders."""

    def __init__(
        self, transcripts: Mapping[Path, tuple[str, ...]], on_error: Callable[[OSError], None]
    ) -> None:
        self._transcripts = transcripts
        self._on_error = on_error
        self._seen: set[Path] = set()

    def files(self, folder: Path) -> Iterator[Path]:
        place = real(folder)
        if place in self._seen:
            return
        self._seen.add(place)
        for entry, is_folder in self._entries(folder, self._transcripts.get(place)):
            if is_folder:
                yield from self.files(entry)
            elif entry.suffix in SUFFIXES and self._is_regular(entry):
                yield entry

    def _is_regular(self, entry: Path) -> bool:
        """Pipes and devices are not read: they may have no end."""
        if not entry.exists() or entry.is_file():
            return True
        self._on_error(OSError(EINVAL, "not a regular file", str(entry)))
        return False

    def _entries(self, folder: Path, names: tuple[str, ...] | None) -> list[tuple[Path, bool]]:
        try:
            entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
            return [(entry, entry.is_dir()) for entry in entries if names is None or entry.name in names]
        except OSError as error:
            self._on_error(error)
            return []


def _text(path: Path) -> str:
    return os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")
