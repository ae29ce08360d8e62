"""The kept numbers of answers by model, compared with a count of all messages."""

import json
from collections.abc import Awaitable, Callable, Mapping
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from ash_server import Store
from ash_server.store.conversation import model_counts, standard_pages
from ash_server.store.log import totals
from ash_server.store.transcripts import Copy
from ash_shared.projections import count_models
from tests.marking import slow_unless
from tests.shared.records import codex
from tests.shared.records.events import wire_event

MODELS = ("opus", "haiku", "<synthetic>")
LENGTHS = (130, 1, 99, 3, 120, 150)
SETTLED = 400
"""Fewer messages than settle, whatever the length of turns."""


@pytest.fixture(autouse=True)
def few_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read fewer messages again, so that short sessions have many that are settled."""
    for name, number in (("_MAX_UNSETTLED", 60), ("_MIN_UNSETTLED", 20), ("_DISTANCE", 20)):
        monkeypatch.setattr(model_counts, name, number)
    monkeypatch.setattr(standard_pages, "_PAGE", 300)


@pytest.fixture
def turn() -> int:
    """Messages of a turn."""
    return 7


@pytest.fixture
def line_of(turn: int) -> Callable[[int], str]:
    def line(number: int) -> str:
        if number % turn == 0:
            return record("user", f"u{number}", {"role": "user", "content": f"Go on {number}"})
        answer = number // 3  # three lines each
        message = {
            "id": f"msg_{answer}",
            "role": "assistant",
            "model": MODELS[answer % 7 % 3],
            "content": [{"type": "text", "text": f"part {number}"}],
        }
        return record("assistant", f"a{number}", message)

    return line


def record(kind: str, uuid: str, message: Mapping[str, object]) -> str:
    return json.dumps({"type": kind, "uuid": uuid, "sessionId": "s", "message": message})


async def count_all(store: Store, session: UUID, after: int = 0) -> dict[str, int]:
    messages = [each async for page in store.conversation.stream_pages(session, after=after) for each in page]
    return dict(count_models(messages))


async def kept_models(tables: AsyncConnection, session: UUID) -> totals.KeptModels:
    return totals._totals((await totals._find_place(tables, session)).kept).models


@pytest.fixture
async def session(store: Store, line_of: Callable[[int], str]) -> UUID:
    session = (await store.sessions.create()).id
    first = 0
    for length in LENGTHS:
        await store.messages.append(session, [line_of(number) for number in range(first, first + length)])
        first += length
        assert (await store.conversation.read_summary(session)).models == await count_all(store, session)
    return session


async def mark_copies(store: Store, session: UUID, messages: int) -> None:
    parent = (await store.sessions.create()).id
    await store.transcripts.set_copy(session, Copy(parent, messages))


CHANGES: dict[str, Callable[[Store, UUID], Awaitable[object]]] = {
    "delete an early message": lambda store, session: store.messages.delete(session, 5),
    "delete a late message": lambda store, session: store.messages.delete(session, 501),
    "delete the last message": lambda store, session: store.messages.pop(session),
    "rebuild": lambda store, session: store.events.rebuild(session),
    "post an event": lambda store, session: store.events.append(session, wire_event("retraction", turns=1)),
    "copies of a parent": lambda store, session: mark_copies(store, session, 30),
}


@pytest.mark.parametrize("turn", slow_unless((7).__eq__, [7, 56, 10_000]))
async def test_changes_keep_the_counts(store: Store, session: UUID, connection: AsyncConnection) -> None:
    assert SETTLED < (await kept_models(connection, session)).settled < sum(LENGTHS)
    for name, change in CHANGES.items():
        await change(store, session)
        counted = await count_all(store, session)
        for _ in range(2):
            models = (await store.conversation.read_summary(session)).models
            assert (name, models) == (name, counted)
        assert (name, (await kept_models(connection, session)).settled > SETTLED) == (name, True)


@pytest.mark.slow
async def test_a_deletion_keeps_what_is_settled_before(
    store: Store, session: UUID, connection: AsyncConnection
) -> None:
    before = await kept_models(connection, session)
    await store.messages.delete(session, before.settled + 1)
    after = await kept_models(connection, session)
    assert (after.counts, after.last) == (before.counts, 0)

    await store.messages.delete(session, before.settled)
    assert (await kept_models(connection, session)).counts == {}


@pytest.mark.slow
async def test_other_parsers_count_again(
    store: Store, session: UUID, connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_counts, "PARSER_VERSION", 10_000)
    assert (await store.conversation.read_summary(session)).models == await count_all(store, session)
    assert (await kept_models(connection, session)).parser_version == 10_000


@pytest.mark.slow
async def test_answers_that_state_no_model_have_the_last_one_of_the_session(store: Store) -> None:
    session = (await store.sessions.create(source="codex")).id
    for model in ("gpt-x", "gpt-y"):
        lines = [codex.line("turn_context", model=model), codex.message_item("user", "Go on")]
        for first in range(0, 180, 60):
            for number in range(first, first + 60):
                lines += [codex.call_item(f"{model}-{number}"), codex.output_item(f"{model}-{number}")]
            await store.messages.append(session, [json.dumps(each) for each in lines])
            lines = []
            assert (await store.conversation.read_summary(session)).models == await count_all(store, session)

    assert (await store.conversation.read_summary(session)).models == {"gpt-x": 180, "gpt-y": 180}


@pytest.mark.slow
async def test_requests_leave_many_messages_to_the_server(
    store: Store, session: UUID, connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of these answers has usage."""
    monkeypatch.setattr(model_counts, "MAX_COUNTED", 300)
    read = store.conversation.read_summary
    await store.events.rebuild(session)

    before = (await read(session, is_bounded=True)).models
    counted = await count_all(store, session)
    assert (before, (await read(session)).models) == ({}, counted)
    assert (await read(session, is_bounded=True)).models == counted


async def test_requests_skip_the_copies_of_a_subagent(
    store: Store, line_of: Callable[[int], str], connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_counts, "MAX_COUNTED", 100)
    session = (await store.sessions.create()).id
    await store.messages.append(session, list(map(line_of, range(200))))
    await connection.execute("UPDATE sessions SET agent_id = 'a1' WHERE id = %s", [session])
    await mark_copies(store, session, 140)

    counted = await count_all(store, session, after=140)
    assert (await store.conversation.read_summary(session, is_bounded=True)).models == counted != {}


async def test_many_models_are_counted_and_not_kept(store: Store, connection: AsyncConnection) -> None:
    session = (await store.sessions.create()).id
    messages = [
        record(
            "assistant", f"a{number}", {"id": f"m{number}", "role": "assistant", "model": f"model {number}"}
        )
        for number in range(150)
    ]
    await store.messages.append(session, messages)

    assert len((await store.conversation.read_summary(session)).models) == 150
    assert await kept_models(connection, session) == totals.KeptModels()
