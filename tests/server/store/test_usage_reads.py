"""Each report sums the stored usage once, and reads nothing that it does not show."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from psycopg._cursor_base import BaseCursor

from ash_server import Store
from ash_server.store.usage import groups, reports, trees
from tests.shared.records import claude

OPUS = "claude-opus-4-5"
DEEPSEEK = "deepseek-chat"
"""Its price changed in 2025."""

NAMES = {
    each.SQL[name]: name
    for each in (groups, reports, trees)
    for name in each.SQL
    if name not in each.SQL.fragments
}


def answer(model: str, time: str) -> str:
    record = claude.assistant(claude.text("Done."), id=f"{model} {time}", timestamp=f"{time}T09:00:00Z")
    record["message"] |= {"model": model, "usage": {"input_tokens": 10, "output_tokens": 1}}
    return json.dumps(record)


@pytest.fixture
async def parent(store: Store) -> UUID:
    """A session with a subagent, beside 20 others with one."""
    for number in range(20):
        other = await store.sessions.create(source="claude", external_id=f"other {number}")
        await store.sessions.create(source="claude", external_id=f"child {number}", parent_id=other.id)
    first = await store.sessions.create(source="claude")
    child = await store.sessions.create(source="claude", parent_id=first.id)
    lines = [answer(model, day) for model in (OPUS, DEEPSEEK) for day in ("2025-06-01", "2026-11-01")]
    await store.messages.append(first.id, lines)
    await store.messages.append(child.id, [answer(OPUS, "2026-11-02")])
    return first.id


SINCE = datetime(2026, 11, 1, tzinfo=UTC)
READS: dict[str, tuple[Callable[[Store], Awaitable[Any]], dict[str, int]]] = {
    "without a change of prices": (
        lambda store: store.usage.report(model=OPUS),
        {"list_shared": 1, "read_groups": 1, "count_without_facts": 1},
    ),
    "with a change of prices": (
        lambda store: store.usage.report(by=()),
        {"list_shared": 2, "read_groups": 2, "count_without_facts": 1},
    ),
    "sessions": (
        lambda store: store.usage.report(by=("session",), since=SINCE),
        {
            "list_shared": 1,
            "read_groups": 1,
            "count_without_facts": 1,
            "list_children": 2,
            "get_stated_costs": 1,
        },
    ),
    "budget": (lambda store: store.usage.sum_since(SINCE), {"list_shared": 1, "read_groups": 1}),
    "status": (
        lambda store: store.usage.figures(None, datetime.now(UTC)),
        {"list_shared": 1, "read_groups": 1},
    ),
}


@pytest.mark.parametrize("name", READS)
async def test_reads(name: str, store: Store, parent: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    call, expected = READS[name]
    start, executed = BaseCursor._start_query, Counter[str]()

    def counted(cursor: Any, query: Any = None) -> Any:
        executed.update([NAMES[query]] if query in NAMES else [])
        return start(cursor, query)

    monkeypatch.setattr(BaseCursor, "_start_query", counted)
    await call(store)

    assert executed == expected
