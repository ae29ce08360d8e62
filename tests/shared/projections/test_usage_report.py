"""Rows and totals of usage: time zones, blocks, costs, order, and the CSV."""

import csv
import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from ash_shared.model.usage.report import (
    DIMENSIONS,
    CostMode,
    Dimension,
    UsageCounts,
    UsageReport,
    UsageRow,
    UsageSession,
)
from ash_shared.projections.usage_csv import to_csv
from ash_shared.projections.usage_report import (
    ReportOptions,
    UsageItem,
    add_sessions,
    add_subagents,
    build_usage_report,
)

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
ONE, TWO, THREE = (UUID(int=number) for number in (1, 2, 3))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def used(moment: str | None, tokens: int = 1, **fields: Any) -> UsageItem:
    """Return an answer with this many input tokens, at a nano-dollar per token."""
    known = {"source": "claude", "model": "opus", "answers": 1, "input_tokens": tokens}
    quarter = None if moment is None else at(moment)
    return UsageItem(quarter=quarter, **{"computed_cost": tokens, **known, **fields})


def of(dimension: str, value: str, tokens: int = 1, **fields: Any) -> UsageItem:
    return used("2026-11-28T10:00", tokens, values={dimension: value}, **fields)


def report(
    *items: UsageItem,
    by: tuple[Dimension, ...] = ("day",),
    zone: str = "UTC",
    cost: CostMode = "auto",
    limit: int = 10_000,
    **others: Any,
) -> UsageReport:
    options = ReportOptions(by, zone, ZoneInfo(zone), NOW, cost, limit)
    return build_usage_report(items, options, **others)


def tokens(result: UsageReport) -> dict[str, int]:
    (name,) = result.by
    return {getattr(row, name): row.input_tokens for row in result.rows}


@pytest.mark.parametrize(
    ("zone", "dimension", "moments", "rows"),
    [
        ("UTC", "day", ["2026-11-27T23:45", "2026-11-28T00:00"], {"2026-11-27": 1, "2026-11-28": 1}),
        (
            "Asia/Kathmandu",
            "day",
            ["2026-11-27T18:00", "2026-11-27T18:15"],
            {"2026-11-27": 1, "2026-11-28": 1},
        ),
        ("Pacific/Chatham", "hour", ["2026-11-27T10:15"], {"2026-11-28T00+13:45": 1}),
        # 23 hours, then 25.
        ("Europe/Berlin", "day", ["2026-03-28T23:00", "2026-03-29T21:45"], {"2026-03-29": 2}),
        (
            "Europe/Berlin",
            "day",
            ["2026-03-28T22:45", "2026-03-29T22:00"],
            {"2026-03-28": 1, "2026-03-30": 1},
        ),
        ("Europe/Berlin", "day", ["2026-10-24T22:00", "2026-10-25T22:45"], {"2026-10-25": 2}),
        (
            "Europe/Berlin",
            "hour",
            ["2026-10-25T00:15", "2026-10-25T01:15"],
            {"2026-10-25T02+02:00": 1, "2026-10-25T02+01:00": 1},
        ),
        ("America/New_York", "month", ["2026-11-01T03:45", "2026-11-01T04:00"], {"2026-10": 1, "2026-11": 1}),
        ("UTC", "week", ["2027-01-03T12:00", "2027-01-04T00:00"], {"2026-W53": 1, "2027-W01": 1}),
        ("UTC", "day", [None, "2026-11-28T00:00"], {"2026-11-28": 1, "unknown": 1}),
    ],
)
def test_times(zone: str, dimension: Dimension, moments: list[str | None], rows: dict[str, int]) -> None:
    result = report(*map(used, moments), by=(dimension,), zone=zone)
    assert list(tokens(result).items()) == list(rows.items())
    assert (result.totals.input_tokens, result.timezone) == (len(moments), zone)


def test_blocks_begin_with_the_hour_of_the_first_answer_after_the_last_one() -> None:
    moments = [
        "2026-11-27T08:45",
        "2026-11-27T12:45",
        "2026-11-27T13:00",
        "2026-11-28T09:15",
        "2026-11-28T11:00",
    ]
    result = report(*map(used, moments), used(None), by=("block",))
    rows = [(row.block, row.input_tokens, row.window and row.window.is_active) for row in result.rows]
    assert rows == [
        ("2026-11-27T08+00:00", 2, False),
        ("2026-11-27T13+00:00", 1, False),
        ("2026-11-28T09+00:00", 2, True),
        ("unknown", 1, None),
    ]
    assert result.rows[2].window is not None
    assert result.rows[2].window.end == at("2026-11-28T14:00")


def test_earlier_activity_decides_where_blocks_begin() -> None:
    earlier = [at("2026-11-28T06:30")]
    (row,) = report(used("2026-11-28T09:15"), by=("block",), activity=earlier).rows
    assert row.block == "2026-11-28T06+00:00"


def test_block_begins_with_an_hour_of_utc() -> None:
    (row,) = report(used("2026-11-28T09:15"), by=("block",), zone="Asia/Kathmandu").rows
    assert row.block == "2026-11-28T14+05:45"


def test_active_block_is_projected_to_its_end() -> None:
    items = [used("2026-11-28T10:00", 600, cache_read_tokens=600), used("2026-11-28T11:30", 1200)]
    (row,) = report(*items, by=("block",)).rows
    assert row.burn is not None
    assert row.burn.model_dump() == {
        "minutes": 120.0,
        "tokensPerMinute": 20.0,
        "costUsdPerMinute": 1800e-9 / 120,
        "projectedTokens": 6000,
        "projectedCostUsd": pytest.approx(4500e-9),
    }


def test_burn_of_models_adds_up() -> None:
    items = [
        used("2026-11-28T10:00", 600, values={"model": "opus"}),
        used("2026-11-28T11:30", 600, values={"model": "haiku"}),
    ]
    rows = report(*items, by=("block", "model")).rows
    assert [row.burn and row.burn.tokens_per_minute for row in rows] == [5.0, 5.0]


PRICED = used("2026-11-28T10:00", 100)
REPORTED = used("2026-11-28T10:00", 100, reported_cost=130, reported_answers=1)
MIXED = used("2026-11-28T10:00", 100, answers=4, reported_cost=30, reported_answers=1)
UNPRICED = used("2026-11-28T10:00", 100, model="new", computed_cost=None, reason="unknown_model")
REPORTED_ONLY = used("2026-11-28T10:00", 100, computed_cost=None, reported_cost=7, reported_answers=1)
SETTLED = used("2026-11-28T10:00", 100, reported_answers=1)
TURN = used("2026-11-28T10:00", 0, computed_cost=None, reported_cost=90, reported_answers=1)
EMPTY = used("2026-11-28T10:00", 0, model=None, computed_cost=None)


@pytest.mark.parametrize(
    ("items", "costs"),
    [
        ([], (None, None, None, None, 0)),
        ([PRICED], (100, None, 100, 100, 0)),
        ([REPORTED], (130, 130, 100, 130, 0)),
        ([PRICED, REPORTED], (230, 130, 200, 230, 0)),
        ([MIXED], (105, 30, 100, 105, 0)),
        ([UNPRICED], (None, None, None, None, 1)),
        ([UNPRICED, PRICED], (100, None, 100, 100, 1)),
        ([REPORTED_ONLY], (7, 7, None, 7, 0)),
        ([SETTLED, TURN], (90, 90, 100, 90, 0)),
        ([EMPTY], (None, None, None, None, 0)),
    ],
)
def test_costs(items: list[UsageItem], costs: tuple[int | None, ...]) -> None:
    """Costs are absent, not 0, if no answer has one."""
    modes: list[CostMode] = ["auto", "reported", "computed", "auto"]
    totals = [report(*items, cost=mode).totals for mode in modes]
    shown = [total.cost_usd and round(total.cost_usd * 1e9) for total in totals]
    assert (*shown, totals[0].unpriced_answers) == costs


def test_computed_and_reported_costs_are_apart_in_every_mode() -> None:
    for mode in ("auto", "reported", "computed"):
        totals = report(REPORTED, cost=mode).totals
        assert (totals.computed_cost_usd, totals.reported_cost_usd) == (100e-9, 130e-9)


def test_unpriced_models_are_listed_with_their_tokens() -> None:
    other = used(None, 500, source="codex", model=None, computed_cost=None, reason="no_model")
    unpriced = report(UNPRICED, UNPRICED, other, PRICED).unpriced
    assert [(each.model, each.source, each.reason, each.answers, each.input_tokens) for each in unpriced] == [
        ("unknown", "codex", "no_model", 1, 500),
        ("new", "claude", "unknown_model", 2, 200),
    ]


def test_estimates_are_listed() -> None:
    estimate = used("2026-11-28T10:00", 100, reason="several_requests")
    estimated = report(estimate, PRICED, UNPRICED).estimated
    shown = [(each.model, each.reason, each.input_tokens, each.computed_cost_usd) for each in estimated]
    assert shown == [("opus", "several_requests", 100, 100e-9)]


@pytest.mark.parametrize(
    ("items", "difference"),
    [
        ([REPORTED], 30),
        ([REPORTED, PRICED], None),
        ([REPORTED_ONLY], None),
        ([SETTLED, TURN], -10),
        ([PRICED], None),
    ],
)
def test_difference_of_a_session(items: list[UsageItem], difference: int | None) -> None:
    """Sums that cover other answers are not compared."""
    in_session = [_in_session(item, ONE) for item in items]
    (row,) = report(*in_session, by=("session",)).rows
    assert (row.difference_usd and round(row.difference_usd * 1e9)) == difference


def _in_session(item: UsageItem, session: UUID) -> UsageItem:
    fields = {name: getattr(item, name) for name in item.__struct_fields__}
    return UsageItem(**{**fields, "values": {"session": str(session)}})


def test_values_are_sorted_by_cost() -> None:
    items = [
        of("project", "/a", 1),
        of("project", "/b", 5),
        of("project", "/c", 9, computed_cost=None),
        of("project", "", 2),
    ]
    assert tokens(report(*items, by=("project",))) == {"/b": 5, "unknown": 2, "/a": 1, "/c": 9}


def test_two_dimensions_are_sorted_by_the_first_one() -> None:
    items = [
        used(f"2026-11-{day}T10:00", count, values={"model": model})
        for day, model, count in [(28, "opus", 1), (27, "haiku", 1), (27, "opus", 2), (28, "haiku", 4)]
    ]
    by_day, by_model = report(*items, by=("day", "model")), report(*items, by=("model", "day"))
    assert [(row.day, row.model, row.input_tokens) for row in by_day.rows] == [
        ("2026-11-27", "opus", 2),
        ("2026-11-27", "haiku", 1),
        ("2026-11-28", "haiku", 4),
        ("2026-11-28", "opus", 1),
    ]
    assert [(row.model, row.day) for row in by_model.rows] == [
        ("haiku", "2026-11-27"),
        ("haiku", "2026-11-28"),
        ("opus", "2026-11-27"),
        ("opus", "2026-11-28"),
    ]


def test_sessions_have_totals_with_subagents() -> None:
    """Parents may be missing, and may form a circle."""
    items = [of("session", str(session), count) for session, count in ((ONE, 1), (TWO, 10), (THREE, 100))]
    parents = {str(THREE): str(TWO), str(TWO): str(ONE), str(ONE): str(THREE)}
    chain = {**parents, str(ONE): str(UUID(int=9))}
    expected = {ONE: 111, TWO: 110, THREE: None}
    by_session = report(*items, by=("session",))
    rows = add_subagents(by_session, items, chain).rows
    totals = {row.session and row.session.id: row.with_subagents for row in rows}
    assert {id: total and total.input_tokens for id, total in totals.items()} == expected
    circle = add_subagents(by_session, items, parents).rows
    assert [row.with_subagents and row.with_subagents.input_tokens for row in circle] == [111, 111, 111]


def test_no_dimension_has_totals_only() -> None:
    result = report(PRICED, by=())
    assert (result.rows, result.totals.input_tokens) == ([], 100)


def test_rows_are_limited_and_totals_are_not() -> None:
    days = report(*(used(f"2026-11-{day}T10:00") for day in (24, 25, 26)), limit=2)
    models = report(
        *(of("model", name, count) for name, count in (("a", 1), ("b", 3), ("c", 2))), by=("model",), limit=2
    )
    assert (tokens(days), days.omitted_rows, days.totals.answers) == (
        {"2026-11-25": 1, "2026-11-26": 1},
        1,
        3,
    )
    assert (tokens(models), models.omitted_rows, models.totals.input_tokens) == ({"b": 3, "c": 2}, 1, 6)
    assert report(PRICED).omitted_rows is None


def test_rows_of_a_value_are_not_cut() -> None:
    items = [
        used(f"2026-11-{day}T10:00", values={"model": model}) for day in (24, 25, 26) for model in ("a", "b")
    ]
    kept = {
        limit: [row.day for row in report(*items, by=("day", "model"), limit=limit).rows]
        for limit in (1, 3, 4)
    }
    assert kept == {
        1: ["2026-11-26"],
        3: ["2026-11-26", "2026-11-26"],
        4: ["2026-11-25", "2026-11-25", "2026-11-26", "2026-11-26"],
    }


def test_ten_years_of_hours() -> None:
    start = at("2016-11-28T00:00")
    hours = [
        used((start + timedelta(hours=hour)).strftime("%Y-%m-%dT%H:%M")) for hour in range(0, 87_600, 10)
    ]
    result = report(*hours, by=("month",), zone="Europe/Berlin")
    assert (len(result.rows), sum(row.answers for row in result.rows)) == (121, len(hours))


def test_csv_has_the_numbers_of_the_json() -> None:
    items = [used(None, 7), REPORTED, UNPRICED, _in_session(PRICED, ONE)]
    for by in (("day",), ("block",), ("session",), ("project", "model")):
        items = [_in_session(item, ONE) for item in items]
        result = report(*items, by=by)
        written = list(csv.DictReader(StringIO(to_csv(result))))
        sent = json.loads(result.model_dump_json())["rows"]
        names = [name for name in written[0] if name not in ("session", "title", "blockEnd")]
        assert [{name: row[name] for name in names} for row in written] == [
            {name: _as_text(row.get(name)) for name in names} for row in sent
        ]


def _as_text(value: Any) -> str:
    return "" if value is None else str(value)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1"])
def test_formulas_are_escaped_in_csv(text: str) -> None:
    titled = add_sessions(
        report(of("session", str(ONE)), by=("session",)), {ONE: UsageSession(id=ONE, title=text)}
    )
    named = report(of("project", text), by=("project",))
    (session,), (project,) = (
        list(csv.DictReader(StringIO(to_csv(each), newline=""))) for each in (titled, named)
    )
    assert (session["title"], project["project"]) == (f"'{text}", f"'{text}")


def test_negative_numbers_stay_numbers_in_csv() -> None:
    items = [_in_session(item, ONE) for item in (SETTLED, TURN)]
    (row,) = csv.DictReader(StringIO(to_csv(report(*items, by=("session",)))))
    assert float(row["differenceUsd"]) == pytest.approx(-10e-9)


def test_rows_have_a_field_per_dimension() -> None:
    assert UsageRow.model_fields.keys() - UsageCounts.model_fields.keys() >= set(DIMENSIONS)
