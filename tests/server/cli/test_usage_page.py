"""docs/usage.md: its commands print the shown output, and it explains every dimension and figure."""

import re
import shlex
from importlib.resources import files
from pathlib import Path

import pytest

from ash_shared.model.usage.report import DIMENSIONS, UsageCounts
from tests.server.cli.test_cli import Ash, ash

__all__ = ["ash"]

PAGE = (Path(__file__).parents[3] / "docs" / "usage.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```\n\$ (ash usage .*)\n((?:.*\n)*?)```$", PAGE, re.MULTILINE)


@pytest.fixture
def samples(ash: Ash) -> None:
    names = [
        str(file)
        for file in files("ash_server").joinpath("samples").iterdir()
        if file.name.endswith(".jsonl")
    ]
    for name in names:
        assert ash("import", name, "--as", f"samples/{Path(name).name}").code == 0


@pytest.mark.slow
def test_commands_print_the_shown_output(ash: Ash, samples: None) -> None:
    assert len(EXAMPLES) == 3
    for command, shown in EXAMPLES:
        printed = ash(*shlex.split(command)[1:]).out
        assert without_ids(matching(printed, shown)) == without_ids(shown), command


def without_ids(text: str) -> str:
    return re.sub("^[0-9a-f]{8} ", "…", text, flags=re.MULTILINE)


def matching(printed: str, shown: str) -> str:
    """Return the output with `…` where the page leaves something out at the end of a line."""
    pairs = zip(printed.splitlines(), shown.splitlines(), strict=True)
    return "".join(f"{_cut(line, pattern)}\n" for line, pattern in pairs)


def _cut(line: str, pattern: str) -> str:
    start, mark, end = pattern.rpartition("…")
    is_cut = mark and end in ("", ")") and line.startswith(start) and line.endswith(end)
    return pattern if is_cut else line


def test_explains_every_dimension_and_figure() -> None:
    figures = [field.alias or name for name, field in UsageCounts.model_fields.items()]
    cells = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    explained = {name for cell in cells for name in re.findall("`(.*?)`", cell)}
    assert [name for name in (*DIMENSIONS, *figures) if name not in explained] == []
