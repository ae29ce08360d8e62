"""`ash usage`, on the local store and on a server."""

import csv
import json
import re
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from ash_client import AshClient
from tests.server.cli.test_cli import Ash, ash, written
from tests.server.cli.test_cli_serve import running
from tests.shared.records import claude

__all__ = ["ash"]

FORMATS = ((), ("--json",), ("--csv",))


def line(number: int, moment: str, tokens: int, model: str = "claude-sonnet-4-5") -> str:
    return json.dumps(
        claude.line(
            "assistant",
            [claude.text("Done.")],
            {"id": f"m{number}", "model": model, "usage": {"input_tokens": tokens, "output_tokens": 1}},
            uuid=f"u{number}",
            timestamp=moment,
            cwd="/srv/site",
        )
    )


@pytest.fixture
def transcript(ash: Ash, tmp_path: Path) -> Path:
    lines = [
        line(1, "2026-11-02T22:30:00Z", 1_000_000),
        line(2, "2026-11-02T23:30:00Z", 2_000_000),
        line(3, "2026-11-04T09:00:00Z", 4_000_000, "unheard-of"),
    ]
    path = written(tmp_path / "site.jsonl", "\n".join(lines))
    assert ash("import", str(path), "--as", "site").code == 0
    return path


def days(ash: Ash, *options: str) -> dict[str, int]:
    done = ash("usage", "--json", *options)
    assert done.code == 0, done.err
    return {row["day"]: row["input_tokens"] for row in json.loads(done.out)["rows"]}


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ((), {"2026-11-02": 3_000_000, "2026-11-04": 4_000_000}),
        (
            ("--timezone", "Europe/Berlin"),
            {"2026-11-02": 1_000_000, "2026-11-03": 2_000_000, "2026-11-04": 4_000_000},
        ),
        (("--since", "2026-11-03"), {"2026-11-04": 4_000_000}),
        (
            ("--since", "2026-11-03", "--timezone", "Europe/Berlin"),
            {"2026-11-03": 2_000_000, "2026-11-04": 4_000_000},
        ),
        (("--until", "2026-11-02"), {"2026-11-02": 3_000_000}),
        (("--until", "2026-11-02T23:00"), {"2026-11-02": 1_000_000}),
        (("--project", "site"), {"2026-11-02": 3_000_000, "2026-11-04": 4_000_000}),
        (("--project", "other"), {}),
        (("--model", "unheard-of"), {"2026-11-04": 4_000_000}),
        (("--session", "site"), {"2026-11-02": 3_000_000, "2026-11-04": 4_000_000}),
        (("--limit", "1"), {"2026-11-04": 4_000_000}),
    ],
)
def test_days(ash: Ash, transcript: Path, options: tuple[str, ...], rows: dict[str, int]) -> None:
    assert days(ash, *options) == rows


def test_time_zone_of_the_person(ash: Ash, transcript: Path) -> None:
    done = ash("usage", "--json", TZ="Asia/Kathmandu")
    report = json.loads(done.out)
    assert (report["timezone"], [row["day"] for row in report["rows"]]) == (
        "Asia/Kathmandu",
        ["2026-11-03", "2026-11-04"],
    )


def test_table(ash: Ash, transcript: Path) -> None:
    done = ash("usage", "--breakdown")
    table, _, notes = done.out.partition("\n\n")
    assert [line.split() for line in table.splitlines()[1:]] == [
        ["day", "/", "model", "input", "output", "read", "write", "cost"],
        ["total", "7.00M", "3", "0", "0", "$18.00+"],
        ["2026-11-02", "3.00M", "2", "0", "0", "$18.00", "█" * 14],
        ["claude-sonnet-4-5", "3.00M", "2", "0", "0", "$18.00"],
        ["2026-11-04", "4.00M", "1", "0", "0", "unpriced"],
        ["unheard-of", "4.00M", "1", "0", "0", "unpriced"],
    ]
    assert re.sub(r"prices .*", "prices …", notes.splitlines()[0]) == (
        "costs at API prices, or as agents report them · Etc/UTC · prices …"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--by", "day,model,source"), "at most 2 of hour, day, week"),
        (("--by", "day", "--by", "model", "--by", "source"), "at most 2 of hour, day, week"),
        (("--by", "year"), "'year': choose at most 2 of hour, day, week"),
        (("--by", "day,project", "--breakdown"), "--breakdown adds the dimension model"),
        (("--json", "--csv"), "Give --json or --csv, not both"),
        (("--timezone", "Mars"), "The time zone is not an IANA name"),
        (("--since", "yesterday"), "it is a date, a time such as"),
        (("--cost", "free"), "auto"),
        (("--limit", "0"), "--limit"),
    ],
)
def test_refused_options(ash: Ash, options: tuple[str, ...], message: str) -> None:
    done = ash("usage", *options)
    assert (done.code, done.out, message in done.err) == (2, "", True), done.err


def test_empty_store(ash: Ash) -> None:
    done = ash("usage")
    as_json = json.loads(ash("usage", "--json").out)
    assert (done.code, done.out) == (0, "")
    assert done.err == ("ash: no usage is stored yet; `ash import --discover` lists transcripts to import\n")
    assert (as_json["rows"], as_json["totals"]["answers"]) == ([], 0)


@pytest.mark.parametrize("format", FORMATS, ids=str)
def test_no_usage_matches(ash: Ash, transcript: Path, format: tuple[str, ...]) -> None:
    for options in (
        ("--model", "none"),
        ("--until", "2026-01-01"),
        ("--project", "/none", "--by", "session"),
    ):
        done = ash("usage", *options, *format)
        assert (done.code, done.err) == (0, "ash: no usage matches\n")


@pytest.mark.parametrize(
    ("options", "passed"),
    [
        ((), ["all", "/srv/site"]),
        (("--since", "2026-11-01"), ["all", "/srv/site"]),
        (("--project", "/srv/site"), ["/srv/site"]),
        (("--project", "/srv"), []),
        (("--model", "claude-sonnet-4-5"), []),
        (("--session", "site"), []),
        (("--until", "2026-11-05"), []),
    ],
)
def test_warns_of_passed_budgets_that_the_report_concerns(
    ash: Ash, tmp_path: Path, options: tuple[str, ...], passed: list[str]
) -> None:
    path = written(tmp_path / "now.jsonl", line(1, datetime.now(UTC).isoformat(), 1_000_000))
    ash("import", str(path), "--as", "site")
    ash("budget", "set", "0.01/week")
    ash("budget", "set", "0.01/week", "--project", "/srv/site")
    done = ash("usage", *options)
    assert re.findall(r"passed: the budget(?: of (\S+))? is", done.err) == [
        each.replace("all", "") for each in passed
    ]


def test_unknown_session(ash: Ash, transcript: Path) -> None:
    done = ash("usage", "--session", "nothing")
    assert (done.code, done.out) == (1, "")
    assert "no session matches 'nothing'" in done.err


@pytest.mark.slow
def test_store_server_and_client_have_the_same_numbers(
    ash: Ash, transcript: Path, database_url: str, tmp_path: Path
) -> None:
    """Store and server print the same in each format, and JSON and CSV have the same rows."""
    database = {"ASH_DATABASE_URL": database_url}
    for by in ("day", "session", "block,model"):
        local = [ash("usage", "--by", by, *options).out for options in FORMATS]
        with running("serve", "--port", "0", home=tmp_path, **database) as server:
            at_url = [ash("usage", "--by", by, "--url", server.address, *options).out for options in FORMATS]
            at_variable = [
                ash("usage", "--by", by, *options, ASH_URL=server.address).out for options in FORMATS
            ]
            of_session = ash("usage", "--by", by, "--session", "site", "--url", server.address)
            with AshClient(server.address) as client:
                report = client.get_usage(by=by.split(","), timezone="Etc/UTC")  # type: ignore[arg-type]
        assert at_url == at_variable == local
        assert of_session.out == local[0]
        rows = json.loads(local[1])["rows"]
        assert json.loads(report.model_dump_json())["rows"] == rows
        table = list(csv.DictReader(StringIO(local[2], newline="")))
        names = [name for name in table[0] if name not in ("session", "title", "blockEnd")]
        assert [[row[name] for name in names] for row in table] == [
            [_as_text(row.get(name)) for name in names] for row in rows
        ]


def _as_text(value: Any) -> str:
    return "" if value is None else str(value)


def test_unreachable_server_is_an_error(ash: Ash, transcript: Path) -> None:
    done = ash("usage", ASH_URL="http://127.0.0.1:9")
    assert (done.code, done.out) == (1, "")
    assert "http://127.0.0.1:9" in done.err
