"""The English of the source and of the documents: constructions that are hard to read stay rare.

`python -m tools.language PATH` lists them.
"""

import math
from functools import cache
from pathlib import Path

import pytest

from tools.language import CONSTRUCTIONS, ROOT, Prose, read_prose

# Occurrences in 10,000 words: about twice as many as in well-known Python projects.
LIMITS = {"that of": 1.5, "whose": 3, "of it": 14, "of which": 11, "what is": 4.5}
# One sentence must not fail a small set of files.
ALWAYS_ALLOWED = 2

SETS = {
    "ash_shared": ["ash_shared"],
    "ash_server": sorted(
        str(path.relative_to(ROOT)) for path in (ROOT / "ash_server").iterdir() if path.name != "viewer"
    ),
    "viewer": ["ash_server/viewer"],
    "ash_client": ["ash_client"],
    "ash_stores": ["ash_stores"],
    "clients": ["clients"],
    "alembic": ["alembic"],
    "benchmarks, tools, examples": ["benchmarks", "tools", "examples"],
    "tests": ["tests"],
    "README": ["README.md"],
    "CHANGELOG": ["CHANGELOG.md"],
    "docs": [
        *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
        "CONTRIBUTING.md",
        "SECURITY.md",
    ],
    "decisions": ["docs/decisions"],
}


@cache
def prose(name: str) -> Prose:
    return read_prose(*SETS[name])


@pytest.mark.parametrize("construction", CONSTRUCTIONS)
@pytest.mark.parametrize("name", SETS)
def test_constructions_are_rare(name: str, construction: str) -> None:
    found = prose(name)
    allowed = max(math.ceil(found.words * LIMITS[construction] / 10_000), ALWAYS_ALLOWED)

    listed = found.find(construction)
    assert len(listed) <= allowed, "\n".join(
        map(str, [f"{len(listed)} occurrences, {allowed} allowed:", *listed])
    )


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        (
            "page.md",
            "Costs are those\nof a turn, whose end is\n\n```\nwhose\n```\nAll of it, of\n\nwhich no more.\n",
            [(1, "that of"), (2, "whose"), (7, "of it")],
        ),
        (
            "module.py",
            '"""The text of which it is a part."""\n# What is\n# found in the ä text of\n# these lines.\n'
            'SHORT = "whose"\nRAISED = f"ä The session {SHORT} of those in this list is unknown."\n'
            'SQL = "SELECT 1 FROM a, b WHERE whose OR it"\n',
            [(1, "of which"), (2, "what is"), (3, "of it"), (6, "of it")],
        ),
        (
            "module.js",
            "/**\n * The rows of\n * these hunks.\n */\nconst url = 'http://whose' // By whom, what the\n",
            [(2, "of it"), (5, "of which"), (5, "what is")],
        ),
        ("query.sql", "-- Sessions whose end\nSELECT whose\n", [(1, "whose")]),
    ],
)
def test_constructions_are_found_in_prose(
    tmp_path: Path, name: str, text: str, found: list[tuple[int, str]]
) -> None:
    (tmp_path / name).write_text(text)

    assert [(each.line, each.construction) for each in read_prose(str(tmp_path)).occurrences] == found
