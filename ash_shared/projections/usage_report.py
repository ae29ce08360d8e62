"""Build reports of usage and cost from sums by quarter of an hour."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from msgspec import Struct

from ash_shared.model.usage.costs import NANO_DOLLARS
from ash_shared.model.usage.reasons import REASONS
from ash_shared.model.usage.report import (
    UNKNOWN,
    CostMode,
    Dimension,
    EstimatedModel,
    UnpricedModel,
    UsageCounts,
    UsageReport,
    UsageRow,
    UsageSession,
)
from ash_shared.projections.usage_blocks import Blocks

MAX_ROWS = 10_000
"""Rows of a report; its totals include the others."""


class UsageItem(Struct, frozen=True, kw_only=True):
    """A sum of usage with its costs in nano-dollars."""

    quarter: datetime | None
    """The start of a quarter of an hour; None if the time is unknown."""
    source: str
    model: str | None
    values: Mapping[str, str | None] = {}
    """The values of the requested dimensions that are not times."""
    answers: int = 0
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    web_searches: int = 0
    reported_cost: int = 0
    reported_answers: int = 0
    """Number of answers with a reported cost, of their own or in the cost of their turn."""
    computed_cost: int | None = None
    """None if it has no price."""
    reason: str | None = None
    """Why it has no price, or why its cost is an estimate."""


class ReportOptions(NamedTuple):
    """The dimensions, time and costs of a report."""

    by: Sequence[Dimension]
    timezone: str
    """The IANA name of the zone."""
    zone: tzinfo
    now: datetime
    cost: CostMode = "auto"
    limit: int = MAX_ROWS
    prices: str = ""
    """The revision of the prices."""


M = TypeVar("M", bound=UnpricedModel)
_Id = TypeVar("_Id", str, UUID)

_Key: TypeAlias = tuple[str, ...]
"""A value for each dimension."""


class _Sum:
    """The sum of items. A cost is None until an item has one."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(_COUNTS, 0)
        self.costs: dict[CostMode, int | None] = dict.fromkeys(_COSTS)
        self.first: datetime | None = None
        self.is_computed = True
        """True if all usage has a computed cost."""

    def add(self, item: UsageItem) -> None:
        for name, read in _COUNTS.items():
            self.counts[name] += read(item)
        for mode, cost_of in _COSTS.items():
            self.costs[mode] = _plus(self.costs[mode], cost_of(item))
        self._note(item.quarter)
        self.is_computed = self.is_computed and (item.computed_cost is not None or not _has_usage(item))

    def merge(self, other: "_Sum") -> None:
        for name, count in other.counts.items():
            self.counts[name] += count
        for mode, cost in other.costs.items():
            self.costs[mode] = _plus(self.costs[mode], cost)
        self._note(other.first)
        self.is_computed = self.is_computed and other.is_computed

    def _note(self, quarter: datetime | None) -> None:
        if quarter is not None and (self.first is None or quarter < self.first):
            self.first = quarter

    @property
    def tokens(self) -> int:
        """Tokens of all kinds."""
        names = ("total_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        return sum(self.counts[name] for name in names)

    @property
    def difference(self) -> int | None:
        """The reported cost less the computed one; None unless both cover all answers."""
        reported, computed = self.costs["reported"], self.costs["computed"]
        covers_all = self.counts["reported_answers"] >= self.counts["answers"] and self.is_computed
        return reported - computed if covers_all and reported is not None and computed is not None else None

    def fields(self, mode: CostMode) -> dict[str, Any]:
        """Return the fields of `UsageCounts`."""
        costs = {
            "cost_usd": to_dollars(self.costs[mode]),
            "computed_cost_usd": to_dollars(self.costs["computed"]),
            "reported_cost_usd": to_dollars(self.costs["reported"]),
        }
        return {**self.counts, **costs}


def build_usage_report(
    items: Iterable[UsageItem],
    options: ReportOptions,
    *,
    activity: Iterable[datetime] = (),
) -> UsageReport:
    """Return the report of these items.

    `activity` are earlier quarters of an hour with an answer, so that a filter by time does not move blocks.
    """
    items = list(items)
    blocks = _blocks(items, activity, options)
    labels = _Labels(options, blocks)
    total, rows = _Sum(), dict[_Key, _Sum]()
    for item in items:
        total.add(item)
        if options.by:
            rows.setdefault(labels.of(item), _Sum()).add(item)
    keys = _sorted(rows, options)
    kept = _limited(keys, options)
    return UsageReport(
        rows=[_to_row(key, rows[key], options, blocks) for key in kept],
        totals=UsageCounts(**total.fields(options.cost)),
        by=list(options.by),
        timezone=options.timezone,
        cost=options.cost,
        prices=options.prices,
        unpriced=_by_model(items, UnpricedModel, options.cost, _unpriced_answers),
        estimated=_by_model(items, EstimatedModel, options.cost, _is_estimated),
        omitted_rows=len(keys) - len(kept) or None,
    )


def sum_items(items: Iterable[UsageItem], cost: CostMode = "auto") -> UsageCounts:
    total = _Sum()
    for item in items:
        total.add(item)
    return UsageCounts(**total.fields(cost))


def add_sessions(report: UsageReport, sessions: Mapping[UUID, UsageSession]) -> UsageReport:
    """Return the report with these sessions in its rows instead of their ids."""
    return report.model_copy(update={"rows": [_with_session(row, sessions) for row in report.rows]})


def _with_session(row: UsageRow, sessions: Mapping[UUID, UsageSession]) -> UsageRow:
    known = None if row.session is None else sessions.get(row.session.id)
    return row if known is None else row.model_copy(update={"session": known})


def add_subagents(report: UsageReport, items: Iterable[UsageItem], parents: Mapping[str, str]) -> UsageReport:
    """Return a report by session with the totals of sessions and their subagents, at any depth.

    `items` are the items of the report, `parents` the sessions that started subagents, by the session of the subagent.
    """
    related = parents.keys() | set(parents.values())
    own, trees = dict[str, _Sum](), dict[str, _Sum]()
    for item in items:
        if (session := item.values["session"]) in related:
            own.setdefault(session, _Sum()).add(item)
    for session, total in own.items():
        for ancestor in ancestors_of(session, parents):
            trees.setdefault(ancestor, _Sum()).merge(total)
    for session in trees.keys() & own.keys():
        trees[session].merge(own[session])
    return report.model_copy(
        update={"rows": [_with_subagents(row, trees, report.cost) for row in report.rows]}
    )


def _with_subagents(row: UsageRow, trees: Mapping[str, _Sum], mode: CostMode) -> UsageRow:
    tree = None if row.session is None else trees.get(str(row.session.id))
    if tree is None:
        return row
    return row.model_copy(update={"with_subagents": UsageCounts(**tree.fields(mode))})


def to_dollars(nano_dollars: int | None) -> float | None:
    return None if nano_dollars is None else nano_dollars / NANO_DOLLARS


def _plus(cost: int | None, other: int | None) -> int | None:
    return cost if other is None else (cost or 0) + other


def auto_cost(item: UsageItem) -> int | None:
    """Return the reported cost of the answers that have one, and the computed cost of the others."""
    others = max(0, item.answers - item.reported_answers)
    if not others or item.computed_cost is None:
        return _reported_cost(item)
    return _plus(_reported_cost(item), item.computed_cost * others // item.answers)


def _reported_cost(item: UsageItem) -> int | None:
    return item.reported_cost if item.reported_answers else None


_COSTS: Mapping[CostMode, Callable[[UsageItem], int | None]] = {
    "auto": auto_cost,
    "reported": _reported_cost,
    "computed": lambda item: item.computed_cost,
}


def _unpriced_answers(item: UsageItem) -> int:
    is_priced = item.computed_cost is not None or not _has_usage(item)
    return 0 if is_priced else max(0, item.answers - item.reported_answers)


def _has_usage(item: UsageItem) -> bool:
    return any(_COUNTS[name](item) for name in _PRICED)


_PRICED = ("total_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "web_searches")

_COUNTS: Mapping[str, Callable[[UsageItem], int]] = {
    "answers": lambda item: item.answers,
    "input_tokens": lambda item: item.input_tokens,
    "output_tokens": lambda item: item.output_tokens,
    "total_tokens": lambda item: item.input_tokens + item.output_tokens,
    "cache_read_input_tokens": lambda item: item.cache_read_tokens,
    "cache_creation_input_tokens": lambda item: item.cache_write_5m_tokens + item.cache_write_1h_tokens,
    "cache_creation_1h_input_tokens": lambda item: item.cache_write_1h_tokens,
    "reasoning_tokens": lambda item: item.reasoning_tokens,
    "web_searches": lambda item: item.web_searches,
    "reported_answers": lambda item: item.reported_answers,
    "unpriced_answers": _unpriced_answers,
}
"""The counts of a row, by the field of `UsageCounts`."""


def _week(local: datetime) -> str:
    year, week, _ = local.isocalendar()
    return f"{year}-W{week:02}"


def _hour(local: datetime) -> str:
    """Return the hour with the offset from UTC, which tells two hours of a change of summer time apart."""
    return local.isoformat(timespec="hours")


TIMES: Mapping[str, Callable[[datetime], str]] = {
    "hour": _hour,
    "day": lambda local: local.date().isoformat(),
    "week": _week,
    "month": lambda local: f"{local:%Y-%m}",
    "block": _hour,
}
"""The dimensions of time, and their values for a local time."""


def _is_time(by: Sequence[Dimension]) -> bool:
    return bool(TIMES.keys() & set(by))


def _blocks(
    items: Sequence[UsageItem], activity: Iterable[datetime], options: ReportOptions
) -> Blocks | None:
    if "block" not in options.by:
        return None
    own = (item.quarter for item in items if item.quarter is not None)
    return Blocks([*activity, *own], options.now)


class _Labels:
    """The values of the dimensions of an item."""

    def __init__(self, options: ReportOptions, blocks: Blocks | None) -> None:
        self._by = options.by
        self._zone = options.zone
        self._blocks = blocks
        self._of_quarters = dict[datetime | None, dict[str, str]]()

    def of(self, item: UsageItem) -> _Key:
        if item.quarter not in self._of_quarters:
            self._of_quarters[item.quarter] = self._times(item.quarter)
        times = self._of_quarters[item.quarter]
        return tuple(times.get(name) or item.values.get(name) or UNKNOWN for name in self._by)

    def _times(self, quarter: datetime | None) -> dict[str, str]:
        names = [name for name in self._by if name in TIMES]
        if quarter is None:
            return dict.fromkeys(names, UNKNOWN)
        return {name: TIMES[name](self._start(name, quarter).astimezone(self._zone)) for name in names}

    def _start(self, name: str, quarter: datetime) -> datetime:
        return self._blocks.start(quarter) if self._blocks is not None and name == "block" else quarter


def _sorted(rows: Mapping[_Key, _Sum], options: ReportOptions) -> list[_Key]:
    """Return the keys by the order of their first value, then of the second one."""
    first = dict[str, _Sum]()
    for key, row in rows.items():
        first.setdefault(key[0], _Sum()).merge(row)
    orders = [_ORDERS[name in TIMES] for name in options.by]

    def order(key: _Key) -> tuple[Any, ...]:
        sums = (first[key[0]], rows[key])
        return tuple(
            of(total, options.cost, value) for of, total, value in zip(orders, sums, key, strict=False)
        )

    return sorted(rows, key=order)


def _limited(keys: list[_Key], options: ReportOptions) -> list[_Key]:
    """Return the newest or the most expensive keys, and of two dimensions only complete values of the first one."""
    is_time = _is_time(options.by[:1])
    if is_time:
        omitted, kept = keys[: -options.limit], keys[-options.limit :]
    else:
        kept, omitted = keys[: options.limit], keys[options.limit :]
    incomplete = {key[0] for key in omitted}
    complete = [key for key in kept if key[0] not in incomplete]
    return complete or kept


def _by_time(total: _Sum, _: CostMode, value: str) -> tuple[Any, ...]:
    return (total.first is None, total.first, value)


def _by_cost(total: _Sum, mode: CostMode, value: str) -> tuple[Any, ...]:
    return (-(total.costs[mode] or 0), -total.tokens, value)


_ORDERS = {True: _by_time, False: _by_cost}
"""The order of the values of a dimension; True: of time."""


def _to_row(key: _Key, row: _Sum, options: ReportOptions, blocks: Blocks | None) -> UsageRow:
    fields = row.fields(options.cost)
    values: dict[str, Any] = dict(zip(options.by, key, strict=True))
    if "session" in values:
        values["session"] = UsageSession(id=UUID(values["session"]))
        values["difference_usd"] = to_dollars(row.difference)
    if blocks is not None and row.first is not None:
        values |= blocks.fields(row.first, row.tokens, fields["cost_usd"])
    return UsageRow(**fields, **values)


def ancestors_of(session: _Id, parents: Mapping[_Id, _Id]) -> list[_Id]:
    """Return the parents at any depth, the nearest first. They may form a circle, since a parent need not exist."""
    ancestors: list[_Id] = []
    passed = {session}
    while (parent := parents.get(session)) is not None and parent not in passed:
        ancestors.append(parent)
        passed.add(parent)
        session = parent
    return ancestors


def _by_model(
    items: Iterable[UsageItem], kind: type[M], mode: CostMode, matches: Callable[[UsageItem], object]
) -> list[M]:
    """Return the matching usage by model and reason, most tokens first."""
    sums = dict[tuple[str, str, str], _Sum]()
    for item in filter(matches, items):
        sums.setdefault((item.model or UNKNOWN, item.source, item.reason or ""), _Sum()).add(item)
    ranked = sorted(sums.items(), key=lambda pair: (-pair[1].tokens, pair[0]))
    return [
        kind(
            model=model,
            source=source,
            reason=reason or None,
            explanation=REASONS.get(reason),  # type: ignore[call-overload]  # an item may have another one
            **total.fields(mode),
        )
        for (model, source, reason), total in ranked
    ]


def _is_estimated(item: UsageItem) -> bool:
    is_needed = item.reported_answers < item.answers
    return is_needed and item.computed_cost is not None and item.reason is not None
