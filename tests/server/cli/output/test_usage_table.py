"""The table of `ash usage`."""

import random
import re
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from rich.cells import cell_len
from rich.console import Console

from ash_server.cli.usage.figures import add_counts, format_bar, format_cost, format_cost_of, format_count
from ash_server.cli.usage.table import WIDTH, print_report
from ash_shared.model.usage.report import CostMode, Dimension, UsageCounts, UsageReport, UsageSession
from ash_shared.projections.stated_costs import StatedCost, add_stated_costs
from ash_shared.projections.usage_report import (
    ReportOptions,
    UsageItem,
    add_sessions,
    add_subagents,
    build_usage_report,
)

NOW = datetime(2026, 11, 28, 13, 40, tzinfo=UTC)
ZONE = ZoneInfo("Europe/Berlin")
SESSIONS = [UUID(int=number << 96) for number in range(1, 5)]
LONG = "/home/ada/work/" + "very-long-name/" * 6 + "site"


def report(
    items: list[UsageItem],
    *by: Dimension,
    limit: int = 10_000,
    cost: CostMode = "auto",
    title: str = "Fix the path",
    parents: dict[str, str] | None = None,
) -> UsageReport:
    options = ReportOptions(by, "Europe/Berlin", ZONE, NOW, cost, limit, "1.2.3")
    built = build_usage_report(items, options)
    built = add_subagents(built, items, parents) if parents and by == ("session",) else built
    return add_sessions(built, {id: UsageSession(id=id, title=title) for id in SESSIONS})


def used(moment: str | None, tokens: int = 1_000_000, **fields: Any) -> UsageItem:
    quarter = None if moment is None else datetime.fromisoformat(moment).replace(tzinfo=UTC)
    known = {"source": "claude", "model": "opus", "answers": 1, "output_tokens": tokens}
    return UsageItem(**{"quarter": quarter, **known, "computed_cost": tokens * 1000, **fields})


def shown(result: UsageReport) -> list[str]:
    text = StringIO()
    print_report(Console(file=text, width=WIDTH, highlight=False), result)
    return [line.rstrip() for line in text.getvalue().splitlines()]


def test_days() -> None:
    items = [
        used("2026-11-27T12:00", 2_000_000, input_tokens=1234, cache_read_tokens=7_654_321),
        used("2026-11-28T12:00", 500_000, cache_write_5m_tokens=5, cache_write_1h_tokens=6),
        used("2026-11-28T12:00", model="new", computed_cost=None, reason="unknown_model"),
        used(None, 1),
    ]
    assert shown(report(items, "day")) == [
        "                           cache  cache",
        "day         input  output   read  write     cost",
        "total       1.23k   3.50M  7.65M     11   $2.50+",
        "2026-11-27  1.23k   2.00M  7.65M      0   $2.00   ██████████████",
        "2026-11-28      0   1.50M      0     11   $0.50+  ███▌",
        "unknown         0       1      0      0  <$0.01   ▏",
        "",
        "costs at API prices, or as agents report them · Europe/Berlin · prices 1.2.3",
        "+ without the cost of new (claude, 1.00M tokens: no price list has this model under the provider that its "
        "source and name state)",
    ]


def test_two_dimensions_have_subtotals() -> None:
    items = [
        used(f"2026-11-{day}T12:00", count, values={"model": model})
        for day, model, count in [(27, "opus", 3_000), (27, "haiku", 1_000), (28, "opus", 500)]
    ]
    table = shown(report(items, "day", "model"))[1:8]
    assert [re.sub(" +", " ", line) for line in table] == [
        "day / model input output read write cost",
        "total 0 4.50k 0 0 <$0.01",
        "2026-11-27 0 4.00k 0 0 <$0.01 ██████████████",
        " opus 0 3.00k 0 0 <$0.01",
        " haiku 0 1.00k 0 0 <$0.01",
        "2026-11-28 0 500 0 0 <$0.01 █▊",
        " opus 0 500 0 0 <$0.01",
    ]


def test_blocks() -> None:
    items = [used("2026-11-27T08:15"), used("2026-11-28T11:45", 2_300_000)]
    assert shown(report(items, "block"))[2:] == [
        "total                              0   3.30M      0      0  $3.30",
        "2026-11-27 09:00-14:00             0   1.00M      0      0  $1.00  █████▋",
        "  22 h without usage",
        "2026-11-28 12:00-17:00 active      0   2.30M      0      0  $2.30  █████████████",
        "",
        "costs at API prices, or as agents report them · Europe/Berlin · prices 1.2.3",
        "active block: 20.0k tokens per minute, $1.20 per hour; if this continues, 5.10M tokens and $5.10 at 17:00",
    ]


def test_sessions_show_reported_beside_computed_costs() -> None:
    items = [
        used("2026-11-27T12:00", values={"session": str(SESSIONS[0])}),
        used(
            "2026-11-27T12:00",
            values={"session": str(SESSIONS[1])},
            reported_cost=1_100_000_000,
            reported_answers=1,
        ),
    ]
    table = shown(report(items, "session", parents={str(SESSIONS[1]): str(SESSIONS[0])}))
    assert table == [
        "session                 tokens   cost  computed  differs  +subagents",
        "total                    2.00M  $2.10     $2.00",
        "00000002  Fix the path   1.00M  $1.10     $1.00   +10.0%              ██████████",
        "00000001  Fix the path   1.00M  $1.00     $1.00                $2.10  █████████▏",
        "",
        "costs at API prices, or as agents report them · Europe/Berlin · prices 1.2.3",
        "$1.10 as reported for 1 of 2 answers, $1.00 at API prices",
    ]


def test_stated_costs_that_differ() -> None:
    items = [
        used("2026-11-27T12:00", tokens * 1_000_000, values={"session": str(id)}, **fields)
        for id, tokens, fields in [
            (SESSIONS[0], 9, {}),
            (SESSIONS[1], 8, {}),
            (SESSIONS[2], 7, {}),
            (SESSIONS[3], 6, {"computed_cost": None}),
        ]
    ]
    costs = (9_010_000_000, 8_020_000_000, 6_000_000_000, 1_000_000_000)
    stated = {
        id: StatedCost(cost, ["opus", "haiku"], has_copies=False)
        for id, cost in zip(SESSIONS, costs, strict=True)
    }
    assert shown(add_stated_costs(report(items, "session"), stated, items, {}))[-3:] == [
        "00000002: the agent states $8.02, $0.02 above its answers: other requests",
        "00000003: the agent states $6.00, $1.00 below its answers",
        "00000004: the agent states $1.00: answers without a price",
    ]


def test_hours_of_a_change_of_summer_time_have_their_offset() -> None:
    items = [used(f"2026-10-2{moment}") for moment in ("4T23:00", "5T00:00", "5T01:00")]
    labels = [line[:23].rstrip() for line in shown(report(items, "hour"))[3:6]]
    assert labels == ["2026-10-25 01:00", "2026-10-25 02:00 +02:00", "2026-10-25 02:00 +01:00"]


def test_omitted_rows_are_announced() -> None:
    items = [used(f"2026-11-{day}T12:00") for day in (26, 27, 28)]
    assert shown(report(items, "day", limit=2))[-1] == "1 more row: --limit 3"


@pytest.mark.parametrize(
    "by", [("day",), ("hour",), ("block",), ("model",), ("project",), ("session",), ("project", "session")]
)
@pytest.mark.parametrize("cost", ["auto", "reported", "computed"])
def test_tables_fit_80_columns_and_cannot_be_controlled(by: tuple[Dimension, ...], cost: CostMode) -> None:
    chance = random.Random(7)
    items = [
        used(
            (NOW - timedelta(hours=chance.randrange(500))).strftime("%Y-%m-%dT%H:15"),
            chance.randrange(10 ** chance.randrange(1, 12)),
            cache_read_tokens=chance.randrange(10**12),
            values={
                "model": chance.choice(["claude-opus-4-5-20251101-with-a-long-suffix", "\x1b[31mred"]),
                "project": chance.choice([LONG, "/srv/日本語" * 12, None]),
                "session": str(chance.choice(SESSIONS)),
            },
            reported_answers=chance.choice([0, 1]),
            reported_cost=chance.randrange(10**15),
        )
        for _ in range(200)
    ]
    result = report(
        items, *by, cost=cost, title="\x1b[2J日本語 " * 20, parents={str(SESSIONS[1]): str(SESSIONS[0])}
    )
    table = "\n".join(shown(result)).partition("\n\n")[0].splitlines()
    assert [line for line in table if cell_len(line) > WIDTH or "\x1b" in line] == []


def test_table_has_the_numbers_of_the_report() -> None:
    items = [used(f"2026-11-{day}T12:00", day * 12_345, cache_read_tokens=day**5) for day in (26, 27, 28)]
    result = report(items, "day")
    rows = [line.split()[:6] for line in shown(result)[3:6]]
    assert rows == [
        [
            row.day,
            format_count(row.input_tokens),
            format_count(row.output_tokens),
            format_count(row.cache_read_input_tokens),
            format_count(row.cache_creation_input_tokens),
            format_cost(row.cost_usd),
        ]
        for row in result.rows
    ]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.00k"),
        (9_994, "9.99k"),
        (9_996, "10.0k"),
        (99_949, "99.9k"),
        (99_951, "100k"),
        (999_499, "999k"),
        (999_500, "1.00M"),
        (12_345_678, "12.3M"),
        (3_456_000_000, "3.46B"),
        (999_400_000_000, "999B"),
        (2**53, "9,007,199B"),
        (-1500, "-1.50k"),
    ],
)
def test_counts(count: int, text: str) -> None:
    assert format_count(count) == text


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (None, "-"),
        (0.0, "$0.00"),
        (0.0049, "<$0.01"),
        (0.005, "$0.01"),
        (1234.567, "$1,234.57"),
        (-0.001, "-<$0.01"),
        (-2.5, "-$2.50"),
    ],
)
def test_cost(cost: float | None, text: str) -> None:
    assert format_cost(cost) == text


def test_cost_without_prices() -> None:
    shown = [
        format_cost_of(UsageCounts(**fields))
        for fields in (
            {},
            {"unpriced_answers": 1},
            {"cost_usd": 1.0, "unpriced_answers": 1},
            {"cost_usd": 1.0},
        )
    ]
    assert shown == ["- ", "unpriced ", "$1.00+", "$1.00 "]


def test_sum_of_rows() -> None:
    rows = [
        UsageCounts(answers=1, cost_usd=1.0),
        UsageCounts(answers=2, reported_cost_usd=2.0),
        UsageCounts(),
    ]
    assert add_counts(rows) == UsageCounts(answers=3, cost_usd=1.0, reported_cost_usd=2.0)


def test_bar() -> None:
    assert [format_bar(value, 100, 4) for value in (0, 0.1, 25, 40, 100)] == ["", "▏", "█", "█▋", "████"]
