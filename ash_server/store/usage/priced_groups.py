"""Groups of usage with their costs."""

import asyncio
from bisect import bisect_right
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias, TypeVar
from uuid import UUID

from msgspec.structs import asdict

from ash_server.prices import Prices
from ash_server.store.session_facts import to_datetime
from ash_server.store.usage.answers import PlacedUsage, band_of_answer
from ash_server.store.usage.groups import UsageFilter, UsageGroup
from ash_shared.model.usage.report import UsageCounts
from ash_shared.projections.usage_report import UsageItem, auto_cost, sum_items

_Priced = TypeVar("_Priced")

ReadGroups: TypeAlias = Callable[[UsageFilter], Awaitable[list[UsageGroup]]]

_QUARTER = timedelta(minutes=15)


async def read_priced(read: ReadGroups, usage: UsageFilter, prices: Prices) -> list[UsageItem]:
    """Return the groups with their costs. Only models with a change of their price in a group are read again."""
    return await _read_and_price(read, usage, prices, _to_item)


async def read_session_costs(
    read: ReadGroups, sessions: Collection[UUID] | None, prices: Prices
) -> Counter[UUID]:
    """Return the costs of sessions in nano-dollars, as `auto_cost` computes them; None reads all sessions."""
    usage, costs = UsageFilter(by=["session"], sessions=sessions), Counter[UUID]()
    for session_id, cost in await _read_and_price(read, usage, prices, _session_cost):
        costs[session_id] += cost
    return costs


async def _read_and_price(
    read: ReadGroups, usage: UsageFilter, prices: Prices, priced: Callable[[UsageGroup, Prices], _Priced]
) -> list[_Priced]:
    found = await read(usage)
    is_split = usage.period == "quarter"  # prices change between quarters
    groups = found if is_split else await _split(found, read, usage, prices)
    return await asyncio.to_thread(lambda: [priced(group, prices) for group in groups])


def _session_cost(group: UsageGroup, prices: Prices) -> tuple[UUID, int]:
    assert group.session_id is not None
    item = UsageItem(
        quarter=None,
        source=group.source,
        model=group.model,
        answers=group.answers,
        reported_cost=group.reported_cost,
        reported_answers=group.reported_answers,
        computed_cost=prices.cost(group).nano_dollars,
    )
    return group.session_id, auto_cost(item) or 0


async def _split(
    groups: Sequence[UsageGroup], read: ReadGroups, usage: UsageFilter, prices: Prices
) -> Sequence[UsageGroup]:
    """Return groups that do not cross a change of the prices of their models."""
    changes = await asyncio.to_thread(_changes_within, groups, prices)
    if not changes:
        return groups
    moments = sorted({at for times in changes.values() for at in times})
    split = await read(usage._replace(models=list(changes), price_changes=moments))
    return [*(group for group in groups if group.model not in changes), *split]


def _changes_within(groups: Iterable[UsageGroup], prices: Prices) -> dict[str, set[datetime]]:
    """Return when prices change within groups, by model."""
    spans: dict[tuple[str, str], set[tuple[datetime, datetime]]] = {}
    for group in groups:
        first, last = group.quarter, group.last_quarter
        if group.model and first is not None and last is not None and first < last:
            spans.setdefault((group.source, group.model), set()).add((first, last))
    found: dict[str, set[datetime]] = {}
    for (source, model), pairs in spans.items():
        first, last = min(pairs)[0], max(last for _, last in pairs)
        times = prices.changes([(source, model)], first, last + _QUARTER)
        if any(bisect_right(times, start) < bisect_right(times, end) for start, end in pairs):
            found.setdefault(model, set()).update(times)
    return found


def price_answers(answers: Iterable[PlacedUsage], source: str, prices: Prices) -> UsageCounts:
    """Return the usage of answers that are not stored, with its cost."""
    return sum_items(_to_item(_group_of(answer, source), prices) for answer in answers)


def _group_of(answer: PlacedUsage, source: str) -> UsageGroup:
    usage, at = answer.usage, to_datetime(answer.time)
    values = {**dict.fromkeys(UsageGroup._fields), **asdict(usage)}
    shared = {name: values[name] for name in UsageGroup._fields}
    return UsageGroup(
        **shared
        | {
            "quarter": at,
            "last_quarter": at,
            "source": source,
            "band": band_of_answer(usage),
            "answers": 1,
            "reported_cost": usage.reported_cost or 0,
            "reported_answers": int(usage.reported_cost is not None),
        }
    )


def _to_item(group: UsageGroup, prices: Prices) -> UsageItem:
    cost = prices.cost(group)
    return UsageItem(
        quarter=group.quarter,
        source=group.source,
        model=group.model,
        values=_values(group),
        answers=group.answers,
        input_tokens=group.input_tokens,
        cache_read_tokens=group.cache_read_tokens,
        cache_write_5m_tokens=group.cache_write_5m_tokens,
        cache_write_1h_tokens=group.cache_write_1h_tokens,
        output_tokens=group.output_tokens,
        reasoning_tokens=group.reasoning_tokens,
        web_searches=group.web_searches,
        reported_cost=group.reported_cost,
        reported_answers=group.reported_answers,
        computed_cost=cost.nano_dollars,
        reason=cost.reason,
    )


def _values(group: UsageGroup) -> Mapping[str, str | None]:
    return {
        "session": _text(group.session_id),
        "project": group.project,
        "model": group.model,
        "source": group.source,
        "machine": group.machine,
        "agent": group.agent,
        "key": _text(group.key_id),
    }


def _text(id: UUID | None) -> str | None:
    return None if id is None else str(id)
