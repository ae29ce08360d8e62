"""docs/architecture.md: each row of its table leads to a line of the source, and its paths exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
ROWS = dict(re.findall(r"^\| (.+?) \| (.+) \|$", PAGE.split("## Where to change what\n")[1], re.MULTILINE))
SOURCE_LINK = re.compile(r"\[`(\w+)`\]\(\.\./([^)]+)\)")
LONGEST_ROW = 200
"""Characters of a row, without the addresses of links."""

QUESTIONS = {
    "a field of a tool result": "ToolResultContent",
    "a query parameter, in the API": "MessageController",
    "a provider": "PROVIDER",
    "an event type": "CATALOGUE",
    "a command": "COMMANDS",
    "a tool card": "TOOLS",
    "a setting": "Settings",
    "a projection": "PROJECTIONS",
    "a migration": "REVISION",
    "a limit": "limits.md",
    "the end of a session": "EndController",
    "the start and end of a turn": "end_turn",
    "recognition of duplicates": "find_shadows",
    "server-sent events of a session": "EventStreamController",
    "the title of a session": "RecordFacts",
}
"""Questions of newcomers, with a name that the answer contains."""


def line_of_definition(name: str, path: Path) -> int | None:
    """Return the number of the line that defines a function, class, constant or SQL statement."""
    definition = re.compile(
        rf"^\s*(?:(?:async )?def|class|(?:export )?(?:async )?function|(?:export )?const) {name}\b"
        rf"|^{name}\b.* = |^-- (?:name|fragment): {name}$"
    )
    lines = path.read_text().splitlines()
    return next((number for number, line in enumerate(lines, 1) if definition.match(line)), None)


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_have_an_answer(question: str) -> None:
    assert QUESTIONS[question] in ROWS[question]


@pytest.mark.parametrize(("name", "path"), SOURCE_LINK.findall(PAGE))
def test_links_lead_to_a_definition(name: str, path: str) -> None:
    assert line_of_definition(name, ROOT / path), f"{path} does not define {name}"


def test_rows_are_one_line() -> None:
    shown = [re.sub(r"\]\([^)]*\)", "]", f"| {what} | {where} |") for what, where in ROWS.items()]

    assert len(shown) > 25
    assert [row for row in shown if len(row) > LONGEST_ROW] == []


def test_paths_exist() -> None:
    paths = {
        *re.findall(r"`((?:ash_|alembic|tests|docs)[\w.]*/[\w./]*)`", PAGE),
        *re.findall(r"^([a-z_]+/)", PAGE, re.MULTILINE),
    }

    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_packages_exist() -> None:
    """The folders of the tree, each below the folder with less indentation."""
    tree = PAGE.split("## The packages\n")[1].split("```")[1]
    parents: dict[int, Path] = {-2: ROOT}
    missing = []
    for indent, names in re.findall(r"^( *)((?:\w+/)+)", tree, re.MULTILINE):
        depth = len(indent)
        parents[depth] = parents[max(each for each in parents if each < depth)] / names
        missing += [] if parents[depth].is_dir() else [parents[depth]]

    assert missing == []
