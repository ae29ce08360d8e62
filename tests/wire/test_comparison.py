"""Unknown names are those that no provider reads and no review ignores."""

import re
from pathlib import Path

import pytest

from tools.wire.comparison import (
    IGNORED_FILE,
    Compared,
    Ignored,
    compare,
    find_stale,
    is_unknown,
    read_ignored,
)
from tools.wire.download import Package
from tools.wire.literals import Literal, union
from tools.wire.page import to_page
from tools.wire.sources import LISTS, NameList

RECORDS = NameList(
    "Records",
    Package("npm", "@example/agent"),
    "types.d.ts",
    union("Line"),
    "claude",
    lambda name: {"type": name},
)
NAMES = [Literal(name, f"{name.title()}Line") for name in ("user", "hologram", "toast", "summary")]
IGNORED = """
[[ignored]]
lists = ["Records", "Events"]
reason = "drawn on the screen"
names = { toast = "ToastLine", gone = "GoneLine", user = "UserLine" }
"""


def compared() -> Compared:
    return compare(RECORDS, "1.2.3", NAMES, read_ignored(IGNORED))


def test_names_are_known_ignored_or_unknown() -> None:
    assert compared() == Compared(
        RECORDS, "1.2.3", ["summary", "user"], ["toast"], [Literal("hologram", "HologramLine")]
    )


def test_ignored_names_that_are_gone_or_known_are_stale() -> None:
    assert find_stale([compared()], read_ignored(IGNORED)) == [
        "Records and Events: gone",
        "Records and Events: user",
    ]


def test_page_says_what_is_unknown() -> None:
    page = to_page([compared()], read_ignored(IGNORED), "2026-11-24")

    assert "| Records | npm `@example/agent` | 1.2.3 | 2 | 1 | 1 |" in page
    assert "| `hologram` | Records | 1.2.3 | `HologramLine` |" in page
    assert (
        "**Records, Events**: drawn on the screen.\n\n| name | shown by |\n|---|---|\n| `toast` | `ToastLine` |\n"
        in page
    )
    assert "**Records**: `summary`, `user`" in page
    assert "Unknown: none." not in page
    assert "Unknown: none." in to_page([compared()._replace(unknown=[])], [], "2026-11-24")


REFUSED = {
    "a name twice": IGNORED + IGNORED,
    "no place": IGNORED.replace("ToastLine", ""),
    "no reason": IGNORED.replace("drawn on the screen", ""),
}


@pytest.mark.parametrize("title", REFUSED)
def test_ignored_names_need_a_reason_and_a_place(title: str) -> None:
    with pytest.raises(ValueError, match="ignored"):
        read_ignored(REFUSED[title])


def test_reviewed_names_are_of_lists_that_exist() -> None:
    groups: list[Ignored] = read_ignored(IGNORED_FILE.read_text())

    assert {title for group in groups for title in group.lists} <= {each.title for each in LISTS}


@pytest.mark.parametrize("each", LISTS, ids=[each.title for each in LISTS])
def test_an_invented_name_is_unknown(each: NameList) -> None:
    """Otherwise, a list could not have unknown names."""
    assert is_unknown(each.to_record("holo.frame"), each.source)


PAGE = (Path(__file__).parents[2] / "docs" / "wire.md").read_text()
KNOWN = dict(re.findall(r"^\*\*(.+)\*\*: (`.+`)$", PAGE.split("## Known")[1], re.MULTILINE))


@pytest.mark.parametrize("each", LISTS, ids=[each.title for each in LISTS])
def test_names_of_the_last_comparison_are_known(each: NameList) -> None:
    """The page is a list of everything that the packages had when it was written."""
    names = re.findall("`([^`]+)`", KNOWN[each.title])

    assert names
    assert [name for name in names if is_unknown(each.to_record(name), each.source)] == []


def test_last_comparison_found_nothing_unknown() -> None:
    rows = re.findall(
        r"^\| ([^|]+) \| (?:npm|PyPI) `[^|]+` \| \S+ \| \d+ \| \d+ \| (\d+) \|$", PAGE, re.MULTILINE
    )

    assert rows == [(each.title, "0") for each in LISTS]
    assert "Unknown: none." in PAGE
