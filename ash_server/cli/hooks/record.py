"""The record of an installation, used to undo its change byte for byte."""

import json
from pathlib import Path

from ash_server.cli.common.private_files import write_file


def write_record(home: Path, name: str, path: Path, before: str | None, after: str) -> None:
    home.mkdir(parents=True, exist_ok=True)
    write_file(_path(home, name), json.dumps({"path": str(path), "before": before, "after": after}))


def read_original(home: Path, name: str, path: Path, current: str | None) -> str | None:
    """Return the text before the installation; the current one if it has changed since, or without a record."""
    try:
        record = json.loads(_path(home, name).read_text())
    except (FileNotFoundError, ValueError):
        return current
    is_installed = (record["path"], record["after"]) == (str(path), current)
    before: str | None = record["before"] if is_installed else current
    return before


def delete_record(home: Path, name: str) -> None:
    _path(home, name).unlink(missing_ok=True)


def _path(home: Path, name: str) -> Path:
    return home / f"hooks-{name}.json"
