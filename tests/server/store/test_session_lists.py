"""Pages of sessions, compared with a model in Python."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, NamedTuple, get_args
from uuid import UUID, uuid4

import pytest
from psycopg import AsyncConnection

from ash_server import Store
from ash_server.errors import InvalidParameter
from ash_server.store.lists import session_lists
from ash_server.store.lists.session_lists import MAX_VALUES, SessionSort, list_sessions
from ash_shared.model.session import Session, active_at
from tests.marking import slow_after

FIRST = datetime(2026, 3, 1, tzinfo=UTC)
SOURCES, PROJECTS = ("claude", "codex"), ("/home/ada/site", "/home/ada/docs", "/srv/site")
MACHINES, MODELS = ("laptop", "server"), ("claude-opus-4-5", "claude-haiku-4-5")
PRICE = {"claude-opus-4-5": 25_000, "claude-haiku-4-5": 5_000}
"""Nano-dollars per output token."""

Is = Callable[["Known"], bool]


class Known(NamedTuple):
    """A session, as the model knows it."""

    session: Session
    model: str
    cost: int


FILTERS: Mapping[str, tuple[Mapping[str, Any], Is]] = {
    "one source": ({"source": "claude"}, lambda it: it.session.source == "claude"),
    "two sources": ({"source": SOURCES}, lambda it: True),
    "a path": ({"project": "/home/ada/"}, lambda it: str(it.session.project).startswith("/home/ada/")),
    "a name": ({"project": ["site"]}, lambda it: str(it.session.project).endswith("/site")),
    "no project": ({"project": "/nowhere"}, lambda it: False),
    "a machine": ({"machine": ["server"]}, lambda it: it.session.machine == "server"),
    "a model": ({"model": "claude-haiku-4-5"}, lambda it: it.model == "claude-haiku-4-5"),
    "errors": ({"errors": True}, lambda it: it.session.error_count > 0),
    "no errors": ({"errors": False}, lambda it: it.session.error_count == 0),
    "since": (
        {"since": FIRST + timedelta(days=4)},
        lambda it: active_at(it.session) >= FIRST + timedelta(days=4),
    ),
    "until": (
        {"until": FIRST + timedelta(days=6)},
        lambda it: active_at(it.session) < FIRST + timedelta(days=6),
    ),
    "text": ({"q": "even"}, lambda it: "even" in str(it.session.title)),
    "stars": ({"starred": True}, lambda it: it.session.labels is not None and it.session.labels.starred),
}
ORDERS: Mapping[SessionSort, Callable[[Known], Any]] = {
    "activity": lambda it: active_at(it.session),
    "start": lambda it: it.session.first_at,
    "duration": lambda it: it.session.duration_ms,
    "errors": lambda it: it.session.error_count,
    "cost": lambda it: it.cost,
}


async def fill(store: Store, random: Random, count: int) -> list[Known]:
    return [await create(store, random, number) for number in range(count)]


async def create(store: Store, random: Random, number: int) -> Known:
    title = ("even" if number % 2 == 0 else "odd") + f" {number}"
    session = await store.sessions.create(
        source=random.choice(SOURCES), title=title, machine=random.choice(MACHINES)
    )
    model, tokens, errors = random.choice(MODELS), random.randrange(3), random.randrange(3)
    start = FIRST + timedelta(hours=random.randrange(240))
    lines = [
        record("user", start, message={"content": "hi"}, cwd=random.choice(PROJECTS)),
        record(
            "assistant",
            start + timedelta(hours=random.randrange(3)),
            message={
                "id": "m",
                "model": model,
                "content": [{"type": "text", "text": "yes"}],
                "usage": {"input_tokens": 0, "output_tokens": tokens},
            },
        ),
        *(
            record(
                "user",
                start,
                message={
                    "content": [
                        {"type": "tool_result", "tool_use_id": f"t{n}", "content": "", "is_error": True}
                    ]
                },
            )
            for n in range(errors)
        ),
    ]
    await store.messages.append(session.id, lines)
    if random.random() < 0.3:
        await store.sessions.update_labels(session.id, starred=True)
    return Known(await store.sessions.get(session.id), model, tokens * PRICE[model])


def record(type: str, at: datetime, **fields: Any) -> str:
    return json.dumps({"type": type, "uuid": str(uuid4()), "timestamp": at.isoformat(), **fields})


def expected(known: Sequence[Known], filters: Sequence[str], sort: SessionSort) -> list[UUID]:
    matching = [it for it in known if all(FILTERS[name][1](it) for name in filters)]
    ordered = sorted(matching, key=lambda it: (ORDERS[sort](it), it.session.id), reverse=True)
    return [it.session.id for it in ordered]


@pytest.mark.slow
async def test_pages_contain_each_matching_session_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the filters, the order and the size of pages, also if pages read few sessions."""
    random = Random(32)
    known = await fill(store, random, 40)
    different = {}
    for number in range(120):
        monkeypatch.setattr(session_lists, "MAX_READ", random.choice((3, 2_000)))
        monkeypatch.setattr(session_lists, "_FIRST_READ", random.choice((1, 500)))
        sort = random.choice(get_args(SessionSort))
        names = random.sample(sorted(FILTERS), random.randrange(4))
        names = [
            name
            for name in names
            if not any(
                key in FILTERS[other][0] for other in names if other != name for key in FILTERS[name][0]
            )
        ]
        filters = {key: value for name in names for key, value in FILTERS[name][0].items()}
        listed = await list_all(store, sort=sort, limit=random.choice((1, 7, 100)), **filters)
        if listed != expected(known, names, sort):
            different[number] = sort, names

    assert different == {}


async def list_all(store: Store, **filters: Any) -> list[UUID]:
    listed, after = list[UUID](), None
    while True:
        page = await store.sessions.list_sessions(after=after, **filters)
        listed += [session.id for session in page.sessions]
        if page.next_after is None:
            return listed
        after = page.next_after


@pytest.mark.parametrize("sort", slow_after(2, get_args(SessionSort)))
async def test_sessions_that_stay_are_listed_once_while_others_change(
    store: Store, sort: SessionSort
) -> None:
    random = Random(33)
    known = await fill(store, random, 20)
    changing = {it.session.id for it in known[::3]}
    listed, after = list[UUID](), None
    for number in range(100):
        page = await store.sessions.list_sessions(sort=sort, limit=3, after=after)
        listed += [session.id for session in page.sessions]
        if page.next_after is None:
            break
        after = page.next_after
        changed = random.choice(sorted(changing))
        failed = [{"type": "tool_result", "tool_use_id": f"x{number}", "content": "", "is_error": True}]
        late = FIRST + timedelta(days=20, hours=number)
        await store.messages.append(changed, [record("user", late, message={"content": failed})])
        await create(store, random, 100 + number)

    staying = [id for id in expected(known, [], sort) if id not in changing]
    assert [id for id in listed if id in staying] == staying
    assert len(listed) == len(set(listed))


async def test_a_page_that_reads_its_limit_says_where_to_go_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_lists, "MAX_READ", 2)
    monkeypatch.setattr(session_lists, "_FIRST_READ", 1)
    for title in ("wanted", "b", "c", "d"):
        await store.sessions.create(title=title)
    sizes, after = list[int](), None
    while not sizes or after:
        page = await store.sessions.list_sessions(q="wanted", after=after)
        sizes.append(len(page.sessions))
        after = page.next_after

    assert sizes == [0, 1, 0]


INVALID: Sequence[Mapping[str, Any]] = [
    {"sort": "size"},
    {"limit": 0},
    {"archived": "never"},
    {"source": ["x"] * (MAX_VALUES + 1)},
]


@pytest.mark.parametrize("filters", INVALID, ids=str)
async def test_rejects_invalid_filters(connection: AsyncConnection, filters: Mapping[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        await list_sessions(connection, **filters)
