"""Periods of budgets, also where clocks change."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from ash_server.budgets.periods import period_at
from ash_shared.model.usage.budgets import BudgetPeriod


@pytest.mark.parametrize(
    ("period", "zone", "now", "start", "end"),
    [
        ("day", "UTC", "2026-11-28T00:00:00Z", "2026-11-28T00:00:00+00:00", "2026-11-29T00:00:00+00:00"),
        ("day", "UTC", "2026-11-27T23:59:59Z", "2026-11-27T00:00:00+00:00", "2026-11-28T00:00:00+00:00"),
        (
            "day",
            "Europe/Berlin",
            "2026-11-27T23:30:00Z",
            "2026-11-28T00:00:00+01:00",
            "2026-11-29T00:00:00+01:00",
        ),
        (
            "day",
            "Europe/Berlin",
            "2026-03-29T12:00:00Z",
            "2026-03-29T00:00:00+01:00",
            "2026-03-30T00:00:00+02:00",
        ),
        (
            "day",
            "Asia/Beirut",
            "2026-03-29T12:00:00Z",
            "2026-03-29T01:00:00+03:00",
            "2026-03-30T00:00:00+03:00",
        ),
        (
            "week",
            "Asia/Kathmandu",
            "2026-11-29T18:20:00Z",
            "2026-11-30T00:00:00+05:45",
            "2026-12-07T00:00:00+05:45",
        ),
        ("week", "UTC", "2026-11-29T18:20:00Z", "2026-11-23T00:00:00+00:00", "2026-11-30T00:00:00+00:00"),
        ("month", "UTC", "2026-01-31T12:00:00Z", "2026-01-01T00:00:00+00:00", "2026-02-01T00:00:00+00:00"),
        ("month", "UTC", "2028-02-29T12:00:00Z", "2028-02-01T00:00:00+00:00", "2028-03-01T00:00:00+00:00"),
        ("month", "UTC", "2026-12-31T23:59:59Z", "2026-12-01T00:00:00+00:00", "2027-01-01T00:00:00+00:00"),
    ],
)
def test_periods(period: BudgetPeriod, zone: str, now: str, start: str, end: str) -> None:
    bounds = period_at(datetime.fromisoformat(now), period, ZoneInfo(zone))

    assert [bound.isoformat() for bound in bounds] == [start, end]
