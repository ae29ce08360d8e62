"""Search for a frequent word in a long session: pages of the events near a place, and a total with a limit."""

import json
from collections.abc import Callable
from itertools import chain
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from ash_server.store.messages import append
from ash_server.store.prepare import prepare_message
from ash_server.store.search import newest, within
from ash_server.store.search.index import index_pending
from ash_server.store.search.within import SessionHitPage, find_in_session
from ash_server.store.sessions import create_session
from tests.shared.records import claude


@pytest.fixture
async def session(connection: AsyncConnection) -> UUID:
    """Forty messages about cranes; every third one from the 10th to the 30th is about a heron."""
    session_id = (await create_session(connection)).session.id
    texts = ["A heron." if 10 <= n <= 30 and n % 3 == 0 else "A crane." for n in range(1, 41)]
    lines = [claude.line("user", text, {}, uuid=f"u{n}") for n, text in enumerate(texts)]
    await append(connection, session_id, [prepare_message(session_id, json.dumps(each)) for each in lines])
    await index_pending(connection)
    return session_id


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """No word is rare, no session short, and a page reads six rows in a direction."""
    for name, value in {"_RARE": -1, "MAX_EVENTS": 0}.items():
        monkeypatch.setattr(newest, name, value)
    monkeypatch.setattr(within, "MAX_ROWS", 6)


FORWARDS: tuple[str, Callable[[SessionHitPage], int | None]] = ("after", lambda page: page.next_after)
BACKWARDS: tuple[str, Callable[[SessionHitPage], int | None]] = ("before", lambda page: page.prev_before)


async def read_all(
    connection: AsyncConnection,
    session: UUID,
    q: str,
    *,
    limit: int = 2,
    direction: tuple[str, Callable[[SessionHitPage], int | None]],
    **first: Any,
) -> list[list[int]]:
    """Return the sequences of the messages of each page."""
    name, cursor = direction
    page = await find_in_session(connection, session, q, limit=limit, **first)
    pages = [page]
    while place := cursor(page):
        further: Any = {name: place}
        page = await find_in_session(connection, session, q, limit=limit, **further)
        pages.append(page)
    return [[hit.sequence or 0 for hit in page.hits] for page in pages]


PLACE = "SELECT min(sequence) FROM events WHERE session_id = %s AND message_sequence = 21"
HERONS = [12, 15, 18, 21, 24, 27, 30]


@pytest.mark.parametrize("is_long", [False, True])
async def test_pages_have_all_hits_in_both_directions(
    connection: AsyncConnection, session: UUID, is_long: bool, request: pytest.FixtureRequest
) -> None:
    if is_long:
        request.getfixturevalue("few_rows")
    forwards = await read_all(connection, session, "heron", direction=FORWARDS)
    backwards = await read_all(connection, session, "heron", direction=BACKWARDS, before=2**53 - 1)

    assert [*chain(*forwards)] == HERONS
    assert [*chain(*reversed(backwards))] == HERONS
    assert ([] in forwards, [] in backwards) == (is_long, is_long)


@pytest.mark.usefixtures("few_rows")
async def test_a_page_around_a_place_continues_in_both_directions(
    connection: AsyncConnection, session: UUID
) -> None:
    row = await connection.execute(PLACE, [session])
    ((at,),) = await row.fetchall()
    around = await find_in_session(connection, session, "heron", limit=2, at=at)
    following = await read_all(connection, session, "heron", direction=FORWARDS, at=at)
    preceding = await read_all(connection, session, "heron", direction=BACKWARDS, at=at)

    assert [hit.sequence for hit in around.hits] == [18, 21]
    assert [*chain(*following)] == HERONS[2:]
    assert [*chain(*reversed(preceding))] == HERONS[:4]


@pytest.mark.usefixtures("few_rows")
async def test_pages_backwards_end_after_a_place(connection: AsyncConnection, session: UUID) -> None:
    """A client that keeps `after` on all pages gets the last one."""
    row = await connection.execute(PLACE, [session])
    ((after,),) = await row.fetchall()
    sequences, before = list[int | None](), 2**53 - 1
    for _ in range(20):
        page = await find_in_session(connection, session, "heron", limit=2, after=after, before=before)
        sequences += [hit.sequence for hit in reversed(page.hits)]
        if not isinstance(page.prev_before, int):
            break
        before = page.prev_before

    assert (sequences, page.prev_before) == ([30, 27, 24], None)


@pytest.mark.parametrize("is_long", [False, True])
async def test_events_may_disappear_before_their_texts_are_read(
    connection: AsyncConnection, session: UUID, is_long: bool, request: pytest.FixtureRequest
) -> None:
    if is_long:
        request.getfixturevalue("few_rows")
    await connection.execute("DELETE FROM events WHERE session_id = %s", [session])
    page = await find_in_session(connection, session, "crane")

    assert page.hits == []


@pytest.mark.usefixtures("few_rows")
async def test_hits_of_a_frequent_word_are_counted_up_to_a_limit(
    connection: AsyncConnection, session: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(within, "MAX_COUNTED", 3)
    page = await find_in_session(connection, session, "crane", limit=2)

    assert (page.total, page.at_least, page.hits[0].number) == (3, True, None)
