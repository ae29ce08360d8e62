"""Which files hold transcripts, where each CLI keeps them, and what the sessions in them are called."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from errno import EINVAL
from pathlib import Path
from typing import NamedTuple

SUFFIXES = (".jsonl", ".json", ".jsonl.zst")
COMPRESSED = ".zst"


class CLI(NamedTuple):
    """Where a tool keeps its transcripts."""

    name: str
    source: str
    """The format it writes."""
    variable: str | None
    """Of the environment; names the folder that `home` lies in, or is."""
    base: str
    """That folder below the user's home, where the variable is not set."""
    home: str
    """The tool's own folder in it."""
    folders: tuple[str, ...]
    """The folders below its home that hold transcripts, and other things."""
    transcript: re.Pattern[str]
    """The paths below its home that are transcripts."""
    not_read: str | None = None
    """What other versions keep their transcripts in, below its home, which Ash does not read."""


_CLIS = (
    CLI(
        "Claude Code",
        "claude",
        "CLAUDE_CONFIG_DIR",
        ".claude",
        "",
        ("projects",),
        re.compile(r"projects/[^/]+/(?:[^/]+|[^/]+/subagents/(?:[^/]+/)*agent-[^/]+)\.jsonl"),
    ),
    CLI(
        "Codex",
        "codex",
        "CODEX_HOME",
        ".codex",
        "",
        ("sessions", "archived_sessions"),
        re.compile(r"(?:archived_sessions|sessions)/(?:[^/]+/)*rollout-[^/]+\.(?:jsonl|jsonl\.zst|json)"),
    ),
    CLI(
        "Gemini CLI",
        "gemini_cli",
        "GEMINI_CLI_HOME",
        "",
        ".gemini",
        ("tmp",),
        # Those of subagents lie in a folder that is called after the session that started them.
        re.compile(r"tmp/[^/]+/chats/(?:session-[^/]+|[^/]+/[^/]+)\.jsonl?"),
    ),
    CLI(
        "Cursor",
        "cursor",
        None,
        ".cursor",
        "",
        ("projects",),
        re.compile(r"projects/[^/]+/agent-transcripts/(?:[^/]+/)*[^/]+\.jsonl?"),
    ),
    CLI(
        "OpenCode",
        "opencode",
        "XDG_DATA_HOME",
        ".local/share",
        "opencode",
        ("storage/session",),
        # The messages of a session lie elsewhere: `opencode`.
        re.compile(r"storage/session/[^/]+/[^/]+\.json"),
        not_read="opencode.db",
    ),
)


class Home(NamedTuple):
    """The folder of a CLI; what lies there beside the transcripts is its own affair."""

    path: Path
    cli: CLI

    def lets_in(self, place: Path) -> bool:
        """Of what lies in the folders of the transcripts, only these; of any other place, everything."""
        below = _below(place, self.path)
        return below is None or not self._is_among(below) or self.keeps(place)

    def keeps(self, place: Path) -> bool:
        """Whether it is a transcript of this CLI, where it keeps them."""
        below = _below(place, self.path)
        return below is not None and bool(self.cli.transcript.fullmatch(below))

    def _is_among(self, below: str) -> bool:
        return any(below.startswith(f"{folder}/") for folder in self.cli.folders)


def find_homes(environ: Mapping[str, str], user_home: Path) -> list[Home]:
    return [_home(cli, environ, user_home) for cli in _CLIS]


def _home(cli: CLI, environ: Mapping[str, str], user_home: Path) -> Home:
    named = environ.get(cli.variable) if cli.variable else None
    base = Path(named).expanduser() if named else user_home / cli.base
    return Home(real(base / cli.home), cli)


def external_id(path: Path, homes: Iterable[Home]) -> str:
    """What the session of a file is called: its path below the home of its CLI, else its absolute path.

    A file that its CLI compressed later holds the same session, so it is called as it was before.
    """
    place = uncompressed(real(path))
    for home in homes:
        if (below := _below(place, home.path)) is not None:
            return _text(below)
    return _text(place.as_posix())


def source_at(path: Path, homes: Iterable[Home]) -> str | None:
    """The format of a transcript that lies where its CLI keeps it: also of lines that nobody recognises."""
    place = real(path)
    return next((home.cli.source for home in homes if home.keeps(place)), None)


def uncompressed(path: Path) -> Path:
    """The path without the suffix of compression."""
    return path.with_suffix("") if is_compressed(path) else path


def is_compressed(path: Path) -> bool:
    return path.name.endswith(f".jsonl{COMPRESSED}")


def find_files(path: Path, homes: Iterable[Home], on_error: Callable[[OSError], None]) -> Iterator[Path]:
    """The file that is named, or the transcripts below the folder that is named, in order.

    Links are followed, into each folder once. What begins with a dot is left alone below a folder, and of a
    CLI's home only the transcripts are taken: the rest holds settings and credentials.
    """
    if path.is_dir():
        yield from _Walk(homes, on_error).files(path)
    elif path.exists() and not path.is_file():
        on_error(OSError(EINVAL, "not a regular file", str(path)))
    else:
        yield path


def discover(home: Home, on_error: Callable[[OSError], None]) -> Iterator[Path]:
    """The transcripts of a CLI. Of a plain file and its compressed copy only the plain one, which may still grow."""
    found: dict[Path, Path] = {}
    if home.path.is_dir():
        for path in find_files(home.path, [home], on_error):
            found.setdefault(uncompressed(path), path)
    yield from found.values()


def real(path: Path) -> Path:
    """The one absolute path of a file that has many; a loop of links is left as it is."""
    return Path(os.path.realpath(path))


class _Walk:
    """One way through a tree of folders."""

    def __init__(self, homes: Iterable[Home], on_error: Callable[[OSError], None]) -> None:
        self._homes = list(homes)
        self._ways = _ways(self._homes)
        self._on_error = on_error
        self._seen: set[Path] = set()

    def files(self, folder: Path) -> Iterator[Path]:
        place = real(folder)
        if place in self._seen:
            return
        self._seen.add(place)
        for entry, is_folder in self._entries(folder, self._ways.get(place)):
            if is_folder:
                yield from self.files(entry)
            elif entry.name.endswith(SUFFIXES) and self._is_transcript(entry) and self._is_regular(entry):
                yield entry

    def _is_transcript(self, entry: Path) -> bool:
        place = real(entry)
        return all(home.lets_in(place) for home in self._homes)

    def _is_regular(self, entry: Path) -> bool:
        """Pipes and devices are not read: they may have no end."""
        if not entry.exists() or entry.is_file():
            return True
        self._on_error(OSError(EINVAL, "not a regular file", str(entry)))
        return False

    def _entries(self, folder: Path, names: set[str] | None) -> list[tuple[Path, bool]]:
        try:
            entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
            if folder.name == "storage" and {entry.name for entry in entries} >= _OPENCODES:
                names = {"session"}
            return [(entry, entry.is_dir()) for entry in entries if names is None or entry.name in names]
        except OSError as error:
            self._on_error(error)
            return []


_OPENCODES = frozenset({"message", "session"})
"""The folders of OpenCode's storage, wherever it was copied to: what a session holds lies in the others, and is no
session of its own."""


def _ways(homes: Iterable[Home]) -> dict[Path, set[str]]:
    """What is entered of the homes, and of the folders on the way from there to the transcripts."""
    ways: dict[Path, set[str]] = {}
    for home in homes:
        for folder in home.cli.folders:
            place = home.path
            for name in folder.split("/"):
                ways.setdefault(place, set()).add(name)
                place /= name
    return ways


def _below(place: Path, folder: Path) -> str | None:
    return place.relative_to(folder).as_posix() if place.is_relative_to(folder) else None


def _text(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
