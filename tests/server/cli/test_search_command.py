"""`ash search`, and the search index in `ash reindex`."""

import json
import re
from pathlib import Path

import psycopg
import pytest

from tests.server.api.test_api_search import CALL, PROMPT
from tests.server.cli.test_cli import Ash, ash, written

__all__ = ["ash"]

RESULT = (
    '{"type":"user","timestamp":"2026-11-02T09:00:03Z","message":{"role":"user","content":'
    '[{"type":"tool_result","tool_use_id":"t","content":"birds.txt:\\u001b[31m grey heron \\u202egnihtemos"}]}}'
)


@pytest.fixture
def birds(ash: Ash, tmp_path: Path) -> Path:
    path = written(tmp_path / "birds.jsonl", f"{PROMPT}\n{CALL}\n{RESULT}")
    assert ash("import", str(path), "--as", "birds").code == 0
    return path


def lines(out: str) -> list[str]:
    """Remove ids and times, which depend on where and when the test runs."""
    return [re.sub(r"^[0-9a-f]{8}|2026-\d\d-\d\d \d\d:\d\d", "…", line) for line in out.splitlines()]


def test_finds_imported_texts(ash: Ash, birds: Path) -> None:
    done = ash("search", "heron")

    assert (done.code, lines(done.out), done.err) == (
        0,
        [
            "…  claude  Where is the 🙂 heron? · 2 matching events",
            "  #2     …  assistant  Grep: heron",
            "  #1     …  user       Where is the 🙂 heron?",
        ],
        "",
    )


def test_finds_titles(ash: Ash, birds: Path, tmp_path: Path) -> None:
    """Sessions are found by title and by name, even if their texts do not match; those with results are listed once."""
    other = written(tmp_path / "other.jsonl", '{"type":"user","message":{"role":"user","content":"Hello."}}')
    assert ash("import", str(other), "--as", "heron-diary").code == 0
    runs = [ash("search", *words) for words in (["HERON"], ["heron-d"], ["Where is", "--in", "results"])]
    as_json = json.loads(ash("search", "heron", "--json").out)
    narrowed = [["--role", "user"], ["--session", "birds"], ["--source", "pi"]]

    assert [lines(each.out) for each in runs] == [
        [
            "…  claude  Hello. · title or name",
            "…  claude  Where is the 🙂 heron? · 2 matching events",
            "  #2     …  assistant  Grep: heron",
            "  #1     …  user       Where is the 🙂 heron?",
        ],
        ["…  claude  Hello. · title or name"],
        ["…  claude  Where is the 🙂 heron? · title or name"],
    ]
    assert [each["externalId"] for each in as_json["sessions"]] == ["heron-diary"]
    assert [each["sequence"] for each in as_json["results"]] == [2, 1]
    assert not any("title or name" in ash("search", "heron", *options).out for options in narrowed)


def test_sessions_without_a_title_have_their_name(ash: Ash, tmp_path: Path) -> None:
    assert ash("import", str(written(tmp_path / "calls.jsonl", CALL)), "--as", "diary").code == 0

    assert lines(ash("search", "heron").out) == [
        "…  claude  diary · 1 matching event",
        "  #1     …  assistant  Grep: heron",
    ]


def test_escapes_control_characters(ash: Ash, birds: Path) -> None:
    done = ash("search", "heron", "grey", "--in", "everything")

    assert lines(done.out)[1:] == ["  #3     …  tool       birds.txt:␛[31m grey heron \\u202egnihtemos"]


@pytest.mark.parametrize(
    ("args", "sequences"),
    [
        (["heron"], [2, 1]),
        (["heron", "where"], [1]),
        (["heron where"], [1]),
        (['"grey heron"', "--in", "results"], [3]),
        (["heron -where", "--in", "everything"], [3, 2]),
        (["--in", "everything", "--role", "tool", "--", "heron", "-where"], [3]),
        (["heron", "--source", "pi"], []),
        (["heron", "--session", "birds"], [2, 1]),
        (["heron", "--limit", "1"], [2]),
        (["heron", "--per-session", "1"], [2]),
    ],
)
def test_options_select_results(ash: Ash, birds: Path, args: list[str], sequences: list[int]) -> None:
    done = json.loads(ash("search", "--json", *args).out)

    assert [result["sequence"] for result in done["results"]] == sequences


def test_pages(ash: Ash, birds: Path) -> None:
    first = ash("search", "heron", "--limit", "1")
    cursor = first.err.strip().removeprefix("more: --after ")
    second = ash("search", "heron", "--limit", "1", "--after", cursor)

    assert [lines(page.out)[1][:8] for page in (first, second)] == ["  #2    ", "  #1    "]
    assert second.err == ""


@pytest.mark.parametrize(
    ("args", "code", "err"),
    [
        (["egret"], 0, "ash: no results"),
        (["hernon", "where"], 0, "ash: no results\nash: did you mean: heron where?"),
        (["-", "…"], 1, "ash: q needs a word that is not excluded, also on each side of an `or`."),
        (
            ["heron", "--session", "egret"],
            1,
            "ash: no session matches 'egret'; `ash sessions` lists them",
        ),
        (
            [],
            2,
            "ash: Missing words, or one of --source, --project, --person, --tool, --edited (see `ash search --help`)",
        ),
        (["heron", "--in", "all"], 2, None),
    ],
)
def test_reports_no_results_and_bad_queries(
    ash: Ash, birds: Path, args: list[str], code: int, err: str | None
) -> None:
    done = ash("search", *args)

    assert (done.code, done.out) == (code, "")
    assert err is None or done.err.strip() == err


def test_reindex_rebuilds_the_search_index(ash: Ash, birds: Path, database_url: str) -> None:
    ash("search", "heron")
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute("UPDATE search SET words = ''")
    before = ash("search", "heron")
    ash("reindex", "birds")
    after = ash("search", "heron")

    assert (len(lines(before.out)), len(lines(after.out))) == (1, 3)
