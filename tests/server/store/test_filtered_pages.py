"""Pages with filters read a limited number of rows, and have cursors as long as rows follow."""

import json
from collections.abc import Awaitable, Callable
from itertools import chain
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from ash_server.store import message_pages
from ash_server.store.log import events
from ash_server.store.log.events import get_event_page, get_events
from ash_server.store.message_pages import list_page
from ash_server.store.messages import append
from ash_server.store.prepare import prepare_message
from tests.shared.records import claude

_Read = Callable[..., Awaitable[tuple[Any, dict[str, int]]]]


@pytest.fixture
async def session(connection: AsyncConnection, session_id: UUID, monkeypatch: pytest.MonkeyPatch) -> UUID:
    """Twelve prompts; the third has an image, and the last one an image of another size."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}
    lines = [
        claude.line(
            "user",
            [claude.text(f"Prompt {number}"), *([image] if number in (3, 12) else [])],
            uuid=f"u{number}",
        )
        for number in range(1, 13)
    ]
    await append(connection, session_id, [prepare_message(session_id, json.dumps(each)) for each in lines])
    monkeypatch.setattr(message_pages, "MAX_FILTERED", 4)
    monkeypatch.setattr(events, "MAX_FILTERED", 4)
    monkeypatch.setattr(events, "MAX_MATCHED", 2)
    return session_id


async def walk(read: _Read, connection: AsyncConnection, session: UUID, **page: Any) -> list[list[int]]:
    """Return the sequences of each page, in either direction."""
    pages = []
    while True:
        rows, cursors = await read(connection, session, limit=1, **page)
        pages.append([row.sequence for row in rows])
        if not cursors:
            return pages
        [(name, cursor)] = cursors.items()
        page |= {"nextAfter": {"after": cursor}, "prevBefore": {"before": cursor}}[name]


def flat(pages: list[list[int]]) -> list[int]:
    return list(chain.from_iterable(pages))


LAST = 2**53 - 1


async def test_messages_with_a_type_of_block(connection: AsyncConnection, session: UUID) -> None:
    forwards = await walk(list_page, connection, session, type="image")
    backwards = await walk(list_page, connection, session, type="image", before=LAST)
    blocks = await walk(list_page, connection, session, type="image", blocks=True)
    deleted = await walk(list_page, connection, session, kinds=["deleted"])

    assert flat(forwards) == flat(blocks) == [3, 12]
    assert [] in forwards
    assert flat(backwards) == [12, 3]
    assert deleted == [[], [], []]


async def test_events_with_a_type_or_an_agent(connection: AsyncConnection, session: UUID) -> None:
    prompts = await walk(get_event_page, connection, session, types=["user_message"])
    backwards = await walk(get_event_page, connection, session, types=["user_message"], before=LAST)
    errors = await walk(get_event_page, connection, session, types=["error"])
    of_agent = await walk(get_event_page, connection, session, agent="nobody")

    assert len(flat(prompts)) == 12
    assert flat(backwards) == flat(prompts)[::-1]
    assert len(errors) > 2
    assert not any(errors)
    assert len(of_agent) > len(errors)


@pytest.mark.parametrize(
    "place", [{"at": 1}, {"at": 20}, {"at": LAST}, {"message": 1}, {"message": 6}, {"message": 12}]
)
async def test_a_page_around_a_place_reads_a_limited_number_of_rows(
    connection: AsyncConnection, session: UUID, place: Any
) -> None:
    prompts = flat(await walk(get_event_page, connection, session, types=["user_message"]))
    rows, cursors = await get_event_page(connection, session, types=["user_message"], limit=2, **place)
    found = [row.sequence for row in rows]
    later = earlier = list[int]()
    if after := cursors.get("nextAfter"):
        later = flat(await walk(get_event_page, connection, session, types=["user_message"], after=after))
    if before := cursors.get("prevBefore"):
        earlier = flat(await walk(get_event_page, connection, session, types=["user_message"], before=before))

    assert [*earlier[::-1], *found, *later] == prompts
    assert len(found) < 3
    assert earlier or later


@pytest.mark.parametrize("places", [1, 2, 3, 64])
async def test_the_first_event_of_a_message(
    connection: AsyncConnection, session: UUID, places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = await get_events(connection, session, limit=1000)
    expected = {each.message_sequence: each.sequence for each in reversed(stored) if each.message_sequence}
    monkeypatch.setattr(events, "_PLACES", places)
    pages = {message: await get_events(connection, session, message=message, limit=1) for message in expected}

    assert {message: page[0].sequence for message, page in pages.items()} == expected


async def test_pages_without_filters_are_not_short(connection: AsyncConnection, session: UUID) -> None:
    messages, _ = await list_page(connection, session)
    stored, _ = await get_event_page(connection, session)

    assert len(messages) == 12
    assert len(stored) > 12
