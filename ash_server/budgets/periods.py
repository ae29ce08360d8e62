"""The days, weeks and months of budgets."""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from ash_shared.model.usage.budgets import BudgetPeriod


class PeriodBounds(NamedTuple):
    start: datetime
    end: datetime


def period_at(now: datetime, period: BudgetPeriod, zone: ZoneInfo) -> PeriodBounds:
    """Return the period that contains a time. It begins and ends at midnight in its zone; weeks begin on Mondays."""
    first, following = _DAYS[period](now.astimezone(zone).date())
    return PeriodBounds(_midnight(first, zone), _midnight(following, zone))


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    # Via UTC, since clocks may be set forward at midnight: then the day begins at one o'clock.
    return datetime.combine(day, time.min, zone).astimezone(UTC).astimezone(zone)


def _month(day: date) -> tuple[date, date]:
    first = day.replace(day=1)
    return first, (first + timedelta(days=31)).replace(day=1)


def _week(day: date) -> tuple[date, date]:
    first = day - timedelta(days=day.weekday())
    return first, first + timedelta(days=7)


_DAYS: Mapping[BudgetPeriod, Callable[[date], tuple[date, date]]] = {
    "day": lambda day: (day, day + timedelta(days=1)),
    "week": _week,
    "month": _month,
}
"""The first day of the period that contains a day, and the day after it."""
