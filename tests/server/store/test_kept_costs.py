"""Costs kept with the counters of sessions, compared with computed ones."""

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from ash_server import Store
from ash_server.cli.common.local_store import LocalStore
from ash_server.prices import Prices
from ash_server.store.lists import session_lists
from ash_server.store.lists.session_lists import list_sessions
from ash_server.store.transcripts import Copy
from ash_server.store.usage.groups import read_groups
from ash_server.store.usage.kept_costs import revision_of
from ash_server.store.usage.priced_groups import read_session_costs
from tests.cluster import not_on_cluster
from tests.shared.records import claude
from tests.shared.records.events import token_usage, turn_start, wire_event

MODEL = "claude-opus-4-5"
PRICES = Prices.load()

Change = Callable[[Store, UUID], Awaitable[Any]]


def answer(number: int, tokens: int = 10, **fields: Any) -> str:
    message = {"id": f"m{number}", "model": MODEL, "usage": {"input_tokens": 0, "output_tokens": tokens}}
    content = [claude.text(f"answer {number}")]
    return json.dumps(claude.line("assistant", content, message, uuid=f"u{number}", **fields))


async def create(store: Store, *lines: str, **fields: Any) -> UUID:
    session = await store.sessions.create(source="claude", **fields)
    await store.messages.append(session.id, lines)
    return session.id


async def post_usage(store: Store, session: UUID) -> None:
    end = wire_event("turn_end", costUsd=0.5, usage=token_usage(1, 5), turnId="t")
    for event in (turn_start(turnId="t"), end):
        await store.events.append(session, event)


async def copy_to_new(store: Store, session: UUID) -> None:
    copy = await create(store, answer(1), answer(2))
    await store.transcripts.set_copy(copy, Copy(session, 2))


async def delete_original(store: Store, session: UUID) -> None:
    copy = await create(store, answer(1), answer(2), answer(9, 90))
    for each in (session, copy):
        await store.transcripts.set_names(each, "/f.jsonl", ["transcript:1"])
    await store.transcripts.set_copy(copy, Copy(session, 2))
    await store.usage.keep_costs(prices=PRICES)
    await store.sessions.delete(session)


CHANGES: Mapping[str, Change] = {
    "an answer": lambda store, session: store.messages.append(session, [answer(3, 30)]),
    "another count of an answer": lambda store, session: store.messages.append(session, [answer(2, 30)]),
    "a prompt": lambda store, session: store.messages.append(session, ['{"type":"user","message":"hi"}']),
    "a posted turn": post_usage,
    "a deleted answer": lambda store, session: store.messages.delete(session, 1),
    "a deleted last answer": lambda store, session: store.messages.pop(session),
    "a rebuild": lambda store, session: store.events.rebuild(session),
    "a copy": copy_to_new,
    "an original that is deleted": delete_original,
    "a deleted session": lambda store, session: store.sessions.delete(session),
}


async def read_kept(connection: AsyncConnection) -> dict[UUID, int]:
    query = "SELECT session_id, cost FROM session_counters WHERE cost_revision = %s"
    rows = await connection.execute(query, [revision_of(PRICES)])
    return dict(await rows.fetchall())


async def read_computed(connection: AsyncConnection) -> dict[UUID, int]:
    costs = await read_session_costs(partial(read_groups, connection), None, PRICES)
    ids = await (await connection.execute("SELECT id FROM sessions")).fetchall()
    return {id: costs.get(id, 0) for (id,) in ids}


async def list_by_cost(connection: AsyncConnection, limit: int) -> list[UUID]:
    """Return the sessions of all pages."""
    listed, after = list[UUID](), None
    while True:
        page = await list_sessions(connection, sort="cost", prices=PRICES, limit=limit, after=after)
        listed += [each.id for each in page.sessions]
        if (after := page.next_after) is None:
            return listed


@pytest.mark.parametrize("change", CHANGES)
async def test_kept_costs_follow_each_change(store: Store, connection: AsyncConnection, change: str) -> None:
    sessions = [await create(store, answer(1), answer(2)) for _ in range(3)]
    assert await store.usage.keep_costs(prices=PRICES)
    await CHANGES[change](store, sessions[0])
    kept, computed = await read_kept(connection), await read_computed(connection)
    assert {id: kept[id] for id in kept if id in computed} == {
        id: cost for id, cost in computed.items() if id in kept
    }

    assert await store.usage.keep_costs(prices=PRICES)

    assert await read_kept(connection) == await read_computed(connection)


async def test_messages_without_usage_leave_the_cost_as_it_is(
    store: Store, connection: AsyncConnection
) -> None:
    session = await create(store, answer(1))
    await store.usage.keep_costs(prices=PRICES)
    kept = await read_kept(connection)
    await store.messages.append(session, ['{"type":"user","message":"hi"}'])

    assert await read_kept(connection) == kept


async def test_costs_of_sessions_in_use_wait(store: Store, connection: AsyncConnection) -> None:
    """Keeping a cost changes the row of the session, so the next append could not use one statement."""
    session = await create(store, answer(1))

    assert await store.usage.keep_costs(prices=PRICES, quiet=3600)
    assert await read_kept(connection) == {}
    await connection.execute("UPDATE sessions SET updated_at = updated_at - interval '2 hours'")
    assert await store.usage.keep_costs(prices=PRICES, quiet=3600)
    assert list(await read_kept(connection)) == [session]


@pytest.mark.parametrize("outdated", [0, 1, 5])
async def test_lists_by_cost_are_right_while_costs_are_outdated(
    store: Store, connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch, outdated: int
) -> None:
    """With no outdated cost, with one, and with as many as a list computes."""
    monkeypatch.setattr(session_lists, "_MAX_OUTDATED", 5)
    sessions = [await create(store, answer(1, tokens)) for tokens in (5, 60, 0, 40, 20, 30, 10, 50)]
    await store.usage.keep_costs(prices=PRICES)
    for number in range(outdated):
        await store.messages.append(sessions[number], [answer(2, 100 - number)])
    expected = sorted((await read_computed(connection)).items(), key=lambda each: (each[1], each[0]))

    listed = await list_by_cost(connection, 3)

    assert listed == [id for id, _ in reversed(expected)]


async def test_a_list_by_cost_uses_kept_costs_if_too_many_are_outdated(
    store: Store, connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_lists, "_MAX_OUTDATED", 2)
    sessions = [await create(store, answer(1, tokens)) for tokens in (10, 20, 30, 40)]
    await store.usage.keep_costs(prices=PRICES)
    for number, session in enumerate(sessions[:3]):
        await store.messages.append(session, [answer(2, 100 * (3 - number))])

    pages = [await list_sessions(connection, sort="cost", prices=PRICES, limit=limit) for limit in (100, 2)]
    listed = await list_by_cost(connection, 3)
    await store.usage.keep_costs(prices=PRICES)
    kept = await list_sessions(connection, sort="cost", prices=PRICES)

    first, second, third, fourth = sessions
    assert [([each.id for each in page.sessions], page.costs_outdated) for page in pages] == [
        ([first, second, third, fourth], True),
        ([third, fourth], True),
    ]
    assert listed == [second, third, fourth, first]
    assert ([each.id for each in kept.sessions], kept.costs_outdated) == (sessions, None)


async def test_a_list_by_cost_contains_sessions_without_kept_costs(
    store: Store, connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_lists, "_MAX_OUTDATED", 2)
    sessions = [await create(store, answer(1, tokens)) for tokens in (10, 20, 30, 40)]

    assert sorted(await list_by_cost(connection, 1)) == sorted(sessions)


@not_on_cluster("it computes costs without looking for writers")
async def test_a_command_keeps_no_costs_between_pages(
    store: Store, connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, sessions would move to a page before."""
    monkeypatch.setattr(session_lists, "_MAX_OUTDATED", 0)
    cheap, expensive = [await create(store, answer(1, tokens)) for tokens in (10, 20)]
    local = LocalStore(store)
    async with connection.transaction():
        query = "SELECT FROM session_counters WHERE session_id = %s FOR UPDATE"
        await connection.execute(query, [expensive])
        first = await local.list_sessions(sort="cost", limit=1)
    second = await local.list_sessions(sort="cost", limit=1, after=first.next_after)

    assert [each.id for page in (first, second) for each in page.sessions] == [cheap, expensive]


async def test_other_prices_make_costs_outdated(store: Store, connection: AsyncConnection) -> None:
    cheap, expensive = [await create(store, answer(1, tokens)) for tokens in (10, 20)]
    await store.usage.keep_costs(prices=PRICES)

    free = await list_sessions(connection, sort="cost", prices=Prices.none())
    await store.usage.keep_costs(prices=Prices.none())

    assert [each.id for each in free.sessions] == sorted([cheap, expensive], reverse=True)
    assert await read_kept(connection) == {}
    priced = await list_sessions(connection, sort="cost", prices=PRICES)
    assert [each.id for each in priced.sessions] == [expensive, cheap]


async def test_lists_follow_costs_that_other_sessions_change(
    store: Store, connection: AsyncConnection
) -> None:
    """The lines of a subagent in another transcript cost nothing once its own session is stored."""
    record = json.loads(answer(1, 50))
    progress = {"type": "agent_progress", "agentId": "a1", "message": record, "prompt": "Go"}
    call = claude.call("t1", "Task", prompt="Go")
    lines = [
        claude.line("assistant", [call], {"id": "c", "model": MODEL}, uuid="c"),
        {"type": "progress", "data": progress, "parentToolUseID": "t1", "toolUseID": "x", "uuid": "p"},
    ]
    parent, other = await create(store, *map(json.dumps, lines)), await create(store, answer(3, 20))
    await store.usage.keep_costs(prices=PRICES)
    before = await list_sessions(connection, sort="cost", prices=PRICES)

    own = await create(store, answer(1, 50, isSidechain=True, agentId="a1"), parent_id=parent)
    after, pages = await list_by_cost(connection, 100), await list_by_cost(connection, 1)
    await store.usage.keep_costs(prices=PRICES)

    assert [each.id for each in before.sessions] == [parent, other]
    assert after == [own, other, parent]
    assert sorted(pages) == sorted(after)
    assert await list_by_cost(connection, 1) == after
    assert await read_kept(connection) == await read_computed(connection)


@not_on_cluster("row locks of several shards")
async def test_costs_of_sessions_with_a_writer_are_kept_later(
    store: Store, connection: AsyncConnection
) -> None:
    busy, idle = [await create(store, answer(1)) for _ in range(2)]
    async with connection.transaction():
        await connection.execute("SELECT FROM session_counters WHERE session_id = %s FOR UPDATE", [busy])
        assert not await store.usage.keep_costs(prices=PRICES)

    assert list(await read_kept(connection)) == [idle]
    assert await store.usage.keep_costs(prices=PRICES)
    assert await read_kept(connection) == await read_computed(connection)
