"""Sums of usage: their groups, filters, copies, and lines of subagents in other transcripts."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg import AsyncConnection

from ash_server import Store
from ash_server.errors import NulByte
from ash_server.store.transcripts import Copy
from ash_server.store.usage.groups import (
    SQL,
    UsageFilter,
    UsageGroup,
    count_sessions_without_facts,
    read_groups,
)
from ash_shared.eventlog import NORMALIZER_VERSION
from tests.server.api.conftest import create_key
from tests.shared.records import claude

NINE = datetime(2026, 11, 1, 9, tzinfo=UTC)


def answer(hours: float, tokens: int = 100, **message: Any) -> claude.Record:
    """Return an answer some hours after nine."""
    time = (NINE + timedelta(hours=hours)).isoformat().replace("+00:00", "Z")
    record = claude.assistant(claude.text("Done."), id=f"m{uuid4()}", timestamp=time, cwd="/work/app")
    usage = {"input_tokens": tokens, "output_tokens": 1}
    record["message"] |= {"model": "claude-opus-4-5", "usage": usage, **message}
    return record


async def store_session(store: Store, records: Sequence[claude.Record], **fields: Any) -> UUID:
    session = await store.sessions.create(source="claude", **fields)
    await store.messages.append(session.id, [json.dumps(record) for record in records])
    return session.id


async def read(store: Store, **fields: Any) -> list[UsageGroup]:
    async with store._connections.connection() as conn:
        return await read_groups(conn, UsageFilter(**fields))


def at(hours: int) -> dict[str, datetime]:
    return dict.fromkeys(("quarter", "last_quarter"), NINE + timedelta(hours=hours))


def tokens_by(groups: Sequence[UsageGroup], name: str) -> dict[Any, int]:
    sums: dict[Any, int] = {}
    for group in groups:
        value = getattr(group, name)
        sums[value] = sums.get(value, 0) + group.input_tokens
    return sums


async def test_sums_everything_that_prices_depend_on(store: Store) -> None:
    fast: dict[str, Any] = {
        "usage": {"input_tokens": 8, "output_tokens": 2, "service_tier": "priority", "speed": "fast"}
    }
    await store_session(store, [answer(0), answer(1), answer(2, 40_000), answer(3, **fast)])
    groups = await read(store)
    no_field = dict.fromkeys(UsageGroup._fields)
    opus: dict[str, Any] = {
        **no_field,
        **at(0),
        "source": "claude",
        "model": "claude-opus-4-5",
        "is_request": True,
        **dict.fromkeys(UsageGroup._fields[UsageGroup._fields.index("answers") :], 0),
    }

    assert sorted(groups, key=lambda group: group.input_tokens) == [
        UsageGroup(
            **opus
            | {
                **at(3),
                "service_tier": "priority",
                "speed": "fast",
                "band": 0,
                "answers": 1,
                "input_tokens": 8,
                "output_tokens": 2,
            }
        ),
        UsageGroup(
            **opus
            | {
                "last_quarter": NINE + timedelta(hours=1),
                "band": 0,
                "answers": 2,
                "input_tokens": 200,
                "output_tokens": 2,
            }
        ),
        UsageGroup(
            **opus
            | {
                **at(2),
                "band": 1,
                "answers": 1,
                "input_tokens": 40_000,
                "output_tokens": 1,
            }
        ),
    ]


async def test_usage_with_reported_costs_is_a_group_of_its_own(store: Store) -> None:
    """So that its part of the computed cost is known, and not estimated from the number of answers."""
    usage = {"input_tokens": 10, "output_tokens": 1}
    await store_session(store, [answer(0, 10), claude.result(usage=usage, total_cost_usd=0.5)])
    await store_session(store, [answer(0, 1000), answer(0, 1000)])

    groups = await read(store)

    assert {(group.input_tokens, group.answers, group.reported_answers) for group in groups} == {
        (10, 1, 1),
        (0, 1, 1),  # the cost of the turn, which names no model
        (2000, 2, 0),
    }


PERIODS: dict[str, tuple[dict[str, Any], dict[Any, int]]] = {
    "all": ({}, {None: 1111}),
    "quarters": (
        {"period": "quarter"},
        {
            NINE: 1,
            NINE + timedelta(hours=14): 10,
            NINE + timedelta(hours=15): 100,
            NINE + timedelta(hours=40): 1000,
        },
    ),
    "days in UTC": (
        {"period": "day"},
        {datetime(2026, 11, 1, tzinfo=UTC): 11, datetime(2026, 11, 2, tzinfo=UTC): 100}
        | {datetime(2026, 11, 3, tzinfo=UTC): 1000},
    ),
    "days in Berlin": (
        {"period": "day", "timezone": "Europe/Berlin"},
        {datetime(2026, 10, 31, 23, tzinfo=UTC): 1, datetime(2026, 11, 1, 23, tzinfo=UTC): 110}
        | {datetime(2026, 11, 2, 23, tzinfo=UTC): 1000},
    ),
    "weeks from Monday": (
        {"period": "week"},
        {datetime(2026, 10, 26, tzinfo=UTC): 11, datetime(2026, 11, 2, tzinfo=UTC): 1100},
    ),
    "since": ({"since": NINE + timedelta(hours=14, minutes=10)}, {None: 1110}),
    "until": ({"until": NINE + timedelta(hours=14)}, {None: 1}),
}


@pytest.mark.parametrize(("fields", "expected"), PERIODS.values(), ids=PERIODS)
async def test_periods(fields: dict[str, Any], expected: dict[Any, int], store: Store) -> None:
    await store_session(store, [answer(0, 1), answer(14, 10), answer(15, 100), answer(40, 1000)])

    assert tokens_by(await read(store, **fields), "start") == expected


async def test_groups_end_where_prices_change(store: Store) -> None:
    await store_session(store, [answer(0, 1), answer(1, 10), answer(2, 100)])
    changes = [NINE + timedelta(hours=1), NINE + timedelta(hours=9)]

    assert tokens_by(await read(store, price_changes=changes), "quarter") == {NINE: 1, changes[0]: 110}


async def test_unknown_times_are_a_group_of_their_own(store: Store) -> None:
    old = "1999-01-01T00:00:00Z"
    await store_session(store, [answer(0, 1), answer(0, 10) | {"timestamp": old}])

    assert tokens_by(await read(store, period="day"), "start") == {
        datetime(2026, 11, 1, tzinfo=UTC): 1,
        None: 10,
    }
    assert tokens_by(await read(store), "quarter") == {NINE: 1, None: 10}
    for bounds in ({"since": NINE}, {"until": NINE + timedelta(days=1)}):
        assert tokens_by(await read(store, **bounds), "quarter") == {NINE: 1}


KEY = UUID(int=5)

FILTERS: dict[str, tuple[dict[str, Any], int]] = {
    "source": ({"sources": ["claude"]}, 111),
    "other source": ({"sources": ["codex"]}, 0),
    "model": ({"models": ["small"]}, 10),
    "without a model": ({"models": [""]}, 0),
    "project": ({"projects": ["/work/app"]}, 11),
    "project above": ({"projects": ["/work"]}, 111),
    "project by name": ({"projects": ["app"]}, 11),
    "no project": ({"projects": []}, 0),
    "project with a pattern": ({"projects": ["/work/.*"]}, 0),
    "machine": ({"machines": ["laptop"]}, 1),
    "agent": ({"agents": ["cowork"]}, 10),
    "agent is the format": ({"agents": ["claude"]}, 101),
    "key": ({"keys": [KEY]}, 100),
    "unknown session": ({"sessions": [UUID(int=1)]}, 0),
}


@pytest.mark.parametrize(("fields", "expected"), FILTERS.values(), ids=FILTERS)
async def test_filters(fields: dict[str, Any], expected: int, store: Store) -> None:
    await store_session(store, [answer(0, 1)], machine="laptop")
    await store_session(store, [answer(0, 10, model="small")], metadata={"agent": "cowork"})
    await store_session(store, [answer(0, 100) | {"cwd": "/work/other"}], key_id=KEY)

    assert sum(group.input_tokens for group in await read(store, **fields)) == expected


async def test_dimensions(store: Store) -> None:
    first = await store_session(store, [answer(0, 1)], machine="laptop", key_id=KEY)
    second = await store_session(store, [answer(0, 10)], metadata={"agent": "cowork"})
    groups = await read(store, by=["session", "project", "machine", "agent", "key", "cause"])
    names = ("session_id", "project", "machine", "agent", "key_id", "cause", "input_tokens")

    assert {tuple(getattr(group, name) for name in names) for group in groups} == {
        (first, "/work/app", "laptop", "claude", KEY, None, 1),
        (second, "/work/app", None, "cowork", None, None, 10),
    }


async def test_copies_count_once(store: Store) -> None:
    records = [answer(0, 1), answer(0, 10)]
    original = await store_session(store, records)
    copy = await store_session(store, [*records, answer(0, 100)])
    await store.transcripts.set_copy(copy, Copy(original, 2))
    with_original = tokens_by(await read(store, by=["session"]), "session_id")
    await store.transcripts.set_copy(copy, Copy(uuid4(), 2))  # not stored

    assert with_original == {original: 11, copy: 100}
    assert tokens_by(await read(store, by=["session"]), "session_id") == {original: 11, copy: 111}


async def test_stated_cost_of_a_copy_includes_the_original(store: Store) -> None:
    records: list[claude.Record] = [answer(0), answer(0)]
    original = await store_session(store, records)
    total = {"type": "cost-state", "totalCostUSD": 9}
    copy = await store_session(store, [*records, answer(0), total])

    async def reasons() -> dict[UUID, str | None]:
        report = await store.usage.report(by=("session",))
        return {row.session.id: row.difference_reason for row in report.rows if row.session}

    await store.transcripts.set_copy(copy, Copy(original, 2))
    assert await reasons() == {original: None, copy: "resumed_runs"}
    await store.transcripts.set_copy(copy, Copy(uuid4(), 2))  # not stored: the copied answers count here
    assert await reasons() == {original: None, copy: None}


def agent_lines(agent: str, tokens: int) -> list[claude.Record]:
    """Return lines of a subagent as Claude Code repeats them in its parent's transcript."""
    record = answer(0, tokens)
    progress = {"type": "agent_progress", "agentId": agent, "message": record, "prompt": "Go"}
    return [
        claude.assistant(claude.call("t1", "Task", prompt="Go"), id="call"),
        {
            "type": "progress",
            "data": progress,
            "parentToolUseID": "t1",
            "toolUseID": "x",
            "uuid": str(uuid4()),
        },
    ]


def own_lines(agent: str, *records: claude.Record) -> list[claude.Record]:
    return [{**record, "isSidechain": True, "agentId": agent} for record in records]


@pytest.mark.parametrize("has_usage", [True, False])
async def test_lines_of_a_subagent_count_once(has_usage: bool, store: Store) -> None:
    """In its own session, if that has usage; it may be a child of another subagent."""
    parent = await store_session(store, [claude.user("Go"), *agent_lines("a1", 5), answer(0, 1)])
    middle = await store_session(store, own_lines("a0", answer(0, 10)), parent_id=parent)
    records = [answer(0, 100)] if has_usage else [claude.user("Go")]
    agent = await store_session(store, own_lines("a1", *records), parent_id=middle)
    stranger = await store_session(store, own_lines("a1", answer(0, 1000)))
    summary = await store.conversation.read_summary(parent)
    groups = await read(store, by=["session"])
    repeated = await read(store, by=["session"], with_repeated=True)

    assert tokens_by(groups, "session_id") == {
        parent: 1 if has_usage else 6,
        middle: 10,
        **({agent: 100} if has_usage else {}),
        stranger: 1000,
    }
    assert summary.total_usage is not None
    assert sum(tokens_by(groups, "session_id").values()) - 1000 == summary.total_usage.input_tokens
    assert tokens_by(repeated, "session_id")[parent] == 6


async def test_tenants_see_their_own_usage(store: Store) -> None:
    await create_key(store, "all", "red", "read", "write")
    red = store.for_tenant(await store.get_tenant("red"))
    await store_session(store, [answer(0, 1)])
    await store_session(red, [answer(0, 10)])

    assert tokens_by(await read(store), "source") == {"claude": 1}
    assert tokens_by(await read(red), "source") == {"claude": 10}


async def test_counts_sessions_of_earlier_versions(store: Store, connection: AsyncConnection) -> None:
    sessions = [await store_session(store, [answer(0)]) for _ in range(3)]
    await store.sessions.create()
    await connection.execute(
        "UPDATE session_counters SET normalizer_version = 8 WHERE session_id = ANY(%s)", [sessions[:2]]
    )

    counts = [await count_sessions_without_facts(connection, ids) for ids in (None, sessions[1:], [])]
    params = {"version": NORMALIZER_VERSION, "sessions": None}
    await connection.execute("SET enable_seqscan = off")
    plan = await (await connection.execute(f"EXPLAIN {SQL.count_without_facts}", params)).fetchall()

    assert counts == [2, 1, 0]
    assert "session_counters_version_idx" in str(plan)


async def test_empty_store_has_no_groups(store: Store) -> None:
    assert await read(store, period="day", by=["session"]) == []


async def test_refuses_names_that_cannot_be_stored(store: Store) -> None:
    with pytest.raises(NulByte):
        await read(store, models=["\0"])
