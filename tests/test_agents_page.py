"""AGENTS.md: it fits on one screen, and its commands and paths exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "AGENTS.md").read_text()
LINES_OF_A_SCREEN = 50


def test_fits_on_one_screen() -> None:
    assert len(PAGE.splitlines()) <= LINES_OF_A_SCREEN


def test_is_included_for_claude() -> None:
    assert (ROOT / "CLAUDE.md").read_text() == "@AGENTS.md\n"


def test_commands_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)", PAGE))

    assert {"env", "check", "test"} <= named <= targets


def test_paths_exist() -> None:
    paths = re.findall(r"`([\w.]+/[\w./]*)`", PAGE)

    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []
