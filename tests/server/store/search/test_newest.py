"""Search of frequent words: pages of the newest events that were read, and counts with a limit."""

import json
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from ash_server.store.messages import append
from ash_server.store.prepare import prepare_message
from ash_server.store.search import newest
from ash_server.store.search.index import index_pending
from ash_server.store.search.query import find
from ash_server.store.sessions import create_session
from ash_shared.model.pages import SearchPage
from tests.shared.records import claude


@pytest.fixture
async def sessions(connection: AsyncConnection) -> list[UUID]:
    """Three sessions with 12 messages each, at the same times; every third one is about a heron."""
    ids = []
    for _ in range(3):
        session_id = (await create_session(connection)).session.id
        lines = [
            claude.line(
                "user" if second % 2 else "assistant",
                [claude.text("A heron." if second % 3 == 0 else "A crane.")],
                {"id": f"m{second}"},
                uuid=f"u{second}",
                timestamp=f"2026-11-02T09:00:{second:02}Z",
            )
            for second in range(12)
        ]
        await append(
            connection, session_id, [prepare_message(session_id, json.dumps(each)) for each in lines]
        )
        ids.append(session_id)
    await index_pending(connection)
    return ids


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """No word is rare, no session short, and a page reads eight rows."""
    for name, value in {"FIRST_ROWS": 2, "MAX_ROWS": 6, "_RARE": -1, "MAX_EVENTS": 0}.items():
        monkeypatch.setattr(newest, name, value)


async def read_all(
    connection: AsyncConnection, q: str, *, limit: int = 3, **filters: Any
) -> list[SearchPage]:
    pages = [await find(connection, q, limit=limit, **filters)]
    while after := pages[-1].next_after:
        pages.append(await find(connection, q, limit=limit, after=after, **filters))
    return pages


def places(pages: list[SearchPage]) -> list[tuple[UUID, int]]:
    return [(each.session_id, each.event_sequence) for page in pages for each in page.results]


FILTERS: dict[str, dict[str, Any]] = {
    "all": {},
    "two per session": {"per_session": 2},
    "a role": {"role": "user"},
    "a source": {"source": "claude"},
    "everything": {"place": "everything"},
}


@pytest.mark.parametrize("name", FILTERS)
async def test_limited_pages_have_all_results(
    connection: AsyncConnection, sessions: list[UUID], name: str, request: pytest.FixtureRequest
) -> None:
    expected = places(await read_all(connection, "heron", **FILTERS[name]))
    request.getfixturevalue("few_rows")

    pages = await read_all(connection, "heron", **FILTERS[name])

    assert places(pages) == expected != []
    assert len(pages) > 1
    assert all(page.results[0].matches for page in pages if page.results)


@pytest.mark.usefixtures("few_rows")
async def test_one_session_is_read_in_the_order_of_its_log(
    connection: AsyncConnection, sessions: list[UUID]
) -> None:
    pages = await read_all(connection, "heron", session_id=sessions[1])

    found = [sequence for _, sequence in places(pages)]
    assert len(found) == 4
    assert found == sorted(found, reverse=True)


@pytest.mark.usefixtures("few_rows")
async def test_a_page_without_results_has_a_cursor(connection: AsyncConnection, sessions: list[UUID]) -> None:
    pages = await read_all(connection, "quince")

    assert len(pages) > 1
    assert not any(page.results for page in pages)


async def test_a_rare_word_is_sorted_at_once(
    connection: AsyncConnection, sessions: list[UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newest, "FIRST_ROWS", 2)
    monkeypatch.setattr(newest, "MAX_ROWS", 2)

    page = await find(connection, "heron")

    assert (len(page.results), page.next_after) == (12, None)


async def test_counts_have_a_limit(
    connection: AsyncConnection, sessions: list[UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = (await find(connection, "heron")).results[0]
    monkeypatch.setattr(newest, "MAX_COUNTED", 2)
    limited = (await find(connection, "heron")).results[0]
    monkeypatch.setattr(newest, "_COUNTED_ROWS", 9)
    some = (await find(connection, "heron")).results[0]

    assert (exact.matches, exact.at_least) == (4, None)
    assert (limited.matches, limited.at_least) == (2, True)
    assert some.at_least is True


@pytest.mark.usefixtures("few_rows")
async def test_sessions_with_enough_results_leave_room_for_others(
    connection: AsyncConnection, sessions: list[UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Further events of the newest session are in the same rows as the first ones of the others."""
    newer = (await create_session(connection)).session.id
    lines = [
        claude.line("user", "A heron.", {}, uuid=f"u{second}", timestamp=f"2026-11-02T09:01:{second:02}Z")
        for second in range(6)
    ]
    await append(connection, newer, [prepare_message(newer, json.dumps(each)) for each in lines])
    await index_pending(connection)
    monkeypatch.setattr(newest, "FIRST_ROWS", 80)
    found = places(await read_all(connection, "heron", limit=1, per_session=2))

    assert sorted(id for id, _ in found) == sorted([*sessions, newer] * 2)


@pytest.mark.usefixtures("few_rows")
async def test_pages_of_a_session_have_one_order_for_rare_and_frequent_words(
    connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The times of its messages are not in the order of its log."""
    session = (await create_session(connection)).session.id
    lines = [
        claude.line(
            "user", f"A {bird}.", {}, uuid=f"u{number}", timestamp=f"2026-11-02T09:00:{59 - number:02}Z"
        )
        for number, bird in enumerate(["heron", "crane", "crane", "heron"] * 4)
    ]
    await append(connection, session, [prepare_message(session, json.dumps(each)) for each in lines])
    await index_pending(connection)
    expected = places(await read_all(connection, "heron", session_id=session))
    monkeypatch.setattr(newest, "_RARE", 0)
    found = places(await read_all(connection, "heron", session_id=session))

    assert (found, len(expected)) == (expected, 8)
