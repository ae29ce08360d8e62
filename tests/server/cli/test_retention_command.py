"""`ash retention`: set, show, run and end the policy."""

import json
import re
from pathlib import Path

import psycopg
import pytest

from ash_server.cli.retention import describe_retention
from ash_server.store.connections.pool import direct_url
from ash_shared.model.reports.retention import RetentionPolicy
from tests.server.cli.test_cli import Ash, ash, written
from tests.shared.records import claude

__all__ = ["ash"]


def test_set_show_run_and_off(ash: Ash, tmp_path: Path) -> None:
    line = claude.line("user", "Hi")
    ash("import", str(written(tmp_path / "s.jsonl", json.dumps(line) + "\n")))
    policy = "sessions without a change for 2y are deleted 30 days after they are scheduled"

    assert ash("retention", "show").out == (
        "sessions are kept; delete old ones with `ash retention set 2y`\n"
    )
    assert ash("retention", "set", "2y", "--keep", "starred").out.splitlines() == [
        policy,
        "no session is as old now",
    ]
    assert ash("retention", "show").out.splitlines() == [
        f"{policy} (--keep starred)",
        "0 sessions scheduled for deletion",
        "not run yet; the first run of a server only counts",
    ]
    assert ash("retention", "run", "--dry-run").out == (
        "0 sessions would be scheduled for deletion, 0 would be deleted\n"
    )
    assert ash("retention", "run").out == "0 sessions scheduled for deletion, 0 deleted\n"
    assert re.search(r"\nlast run \d{4}-\d\d-\d\d \d\d:\d\d\n", ash("retention", "show").out)
    assert ash("retention", "off").out == "sessions are kept\n"
    again = ash("retention", "run")
    assert (again.code, again.out) == (1, "")
    assert "set one with `ash retention set 2y`" in again.err


def test_waiting_for_confirmation() -> None:
    policy = RetentionPolicy(age="2y", keep=[], scheduled=0, sessions=[], waiting=12, held="share")

    assert describe_retention(policy).splitlines()[-1] == (
        "waiting for `ash retention run`: more than 10% of the sessions would be scheduled at once"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["2"], "such as 90d, 8w, 18mo or 2y"),
        (["12h"], "at least a day"),
        (["0d"], "from 1d to 100y"),
        (["2y", "--keep", "archived"], "is not one of 'starred', 'tagged'"),
    ],
)
def test_refused_policies(ash: Ash, arguments: list[str], message: str) -> None:
    done = ash("retention", "set", *arguments)

    assert (done.code, done.out) == (2, "")
    assert message in " ".join(done.err.split())


def test_cold_sessions(ash: Ash, tmp_path: Path) -> None:
    line = claude.line("user", "Hi")
    file = written(tmp_path / "s.jsonl", json.dumps(line) + "\n")
    ash("import", str(file), "--as", "s")

    assert ash("cold", "show").out == ("no session becomes cold; archive old ones with `ash cold set 180d`\n")
    assert ash("cold", "set", "180d").out.splitlines() == [
        "sessions without a change for 180d become cold",
        "no session is as old now",
    ]
    assert ash("cold", "run", "--dry-run").out == "0 sessions would be archived, 0 cold in all\n"
    assert ash("cold", "run").out == "0 sessions archived, 0 cold in all\n"
    assert re.search(r"\nno cold sessions\nlast run \d{4}-\d\d-\d\d \d\d:\d\d\n", ash("cold", "show").out)
    assert ash("cold", "restore", "s").out == ash("cold", "restore", "--all").out == "0 sessions restored\n"
    assert ash("cold", "restore").code == 2
    assert ash("cold", "verify").out == "0 archives read, 0 damaged\n"
    assert ash("cold", "off").out.startswith("no session becomes cold")
    assert "set one with `ash cold set 180d`" in ash("cold", "run").err


def test_an_unchanged_file_leaves_its_session_cold(ash: Ash, tmp_path: Path, database_url: str) -> None:
    lines = [json.dumps(claude.line("user", "Hi", uuid=uuid)) + "\n" for uuid in ("u1", "u2", "u3")]
    file = written(tmp_path / "s.jsonl", "".join(lines[:2]))
    ash("import", str(file))
    ash("cold", "set", "180d")
    with psycopg.connect(direct_url(database_url)) as conn:
        conn.execute("UPDATE sessions SET updated_at = updated_at - interval '200 days'")
    assert ash("cold", "run").out == "1 session archived, 1 cold in all\n"
    assert (
        ash("search", "hello").err
        == "ash: no results\nash: 1 cold session not searched; see `ash cold --help`\n"
    )

    again = ash("import", str(file))
    assert "0 new, 2 already there" in again.err + again.out
    assert ash("cold", "run").out == "0 sessions archived, 1 cold in all\n"
    written(file, "".join(lines))
    more = ash("import", str(file))
    assert "1 new, 2 already there" in more.err + more.out
    assert ash("cold", "run").out == "0 sessions archived, 1 restored, 0 cold in all\n"
