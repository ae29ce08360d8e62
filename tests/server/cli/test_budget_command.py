"""`ash budget`: set, list and delete budgets."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.server.cli.test_cli import Ash, ash, written
from tests.shared.records import claude

__all__ = ["ash"]


def test_set_list_and_delete(ash: Ash) -> None:
    assert ash("budget", "list").out == "no budgets; set one with `ash budget set 50/month`\n"

    first = ash("budget", "set", "50/month", "--timezone", "Europe/Berlin")
    second = ash(
        "budget", "set", "$2.5/day", "--project", "/work/site", "--webhook", "https://hooks.example.com/a"
    )
    assert re.sub(r"\d{4}-\d\d-\d\d", "DAY", first.out) == (
        "the budget is $50.00 per month; $0.00 since DAY (0%)\n"
    )
    assert re.sub(r"\d{4}-\d\d-\d\d", "DAY", second.out).splitlines()[0] == (
        "the budget of /work/site is $2.50 per day; $0.00 since DAY (0%)"
    )
    assert re.fullmatch(
        "the secret of its webhook, shown only now: ash_webhook_[0-9a-f]{64}", second.out.splitlines()[1]
    )

    _, *rows = ash("budget", "list").out.splitlines()
    assert [re.split(r" {2,}", row.strip())[:1] + re.split(r" {2,}", row.strip())[4:-1] for row in rows] == [
        ["$50.00/month", "all"],
        ["$2.50/day", "/work/site", "yes"],
    ]
    ids = [row.split()[-1] for row in rows]
    assert ash("budget", "delete", ids[0]).out == "deleted\n"
    missing = ash("budget", "delete", ids[0])
    assert (missing.code, missing.out) == (1, "")
    assert "no budget has an id that begins with" in missing.err
    assert len(ash("budget", "list").out.splitlines()) == 2


def test_project_as_a_path_relative_to_the_current_folder(
    ash: Ash, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    done = [ash("budget", "set", "5/day", "--project", project).out for project in (".", "./site/", "site")]

    assert [line.split(" is $")[0] for line in done] == [
        f"the budget of {tmp_path.resolve()}",
        f"the budget of {tmp_path.resolve() / 'site'}",
        "the budget of site",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["50"], "such as 50/month"),
        (["50/year"], "such as 50/month"),
        (["0/month"], "such as 50/month"),
        (["0.009/month"], "such as 50/month"),
        (["-5/month"], "No such option"),
        (["1e3/month"], "such as 50/month"),
        (["nan/day"], "such as 50/month"),
        (["9999999999/day"], "such as 50/month"),
        (["1/day", "--timezone", "Mars"], "time zone"),
        (["1/day", "--webhook", "http://hooks.example.com"], "begins with https://"),
        (["1/day", "--project", ""], "empty"),
    ],
)
def test_refused_budgets(ash: Ash, arguments: list[str], message: str) -> None:
    done = ash("budget", "set", *arguments)

    assert (done.code in (1, 2), done.out) == (True, "")
    assert message in done.err


def test_usage_warns_of_passed_budgets(ash: Ash, tmp_path: Path) -> None:
    usage = {"input_tokens": 1_000_000, "output_tokens": 0}
    answer = claude.line(
        "assistant",
        [claude.text("Hi")],
        {"id": "m", "model": "claude-opus-4-5-20251101", "usage": usage},
        timestamp=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
    )
    transcript = written(tmp_path / "s.jsonl", json.dumps(answer) + "\n")
    assert ash("import", str(transcript)).code == 0
    assert ash("budget", "set", "50/month").code == 0
    assert ash("usage").err == ""

    ash("budget", "set", "1/day")
    warning = re.sub(r"\d{4}-\d\d-\d\d", "DAY", ash("usage").err)
    assert warning == "ash: passed: the budget is $1.00 per day; $5.00 since DAY (500%, passed)\n"
    assert ash("usage", "--json").err == ""
