"""Totals that are kept when a log changes equal the totals of the whole log."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from ash_server import NewMessage, Store
from ash_server.store.log import totals
from ash_shared.projections.item_counts import ItemCounts
from tests.marking import slow_unless
from tests.server.store.maintenance.test_deletion_samples import SAMPLES, new_session
from tests.shared.records.events import Event, tool_call, tool_result, wire_event

Read = tuple[ItemCounts, dict[str, Any]]


async def read_all(store: Store, tables: AsyncConnection, session: UUID) -> Read:
    """Read without what is kept, which stays as it is."""
    kept = await state_of(tables, session)
    await tables.execute(totals.SQL.set, [*totals.NO_TOTALS, session])
    found = await totals._read(
        store._connections.connection, session, totals.NO_TOTALS, await last_event(tables, session)
    )
    await tables.execute(totals.SQL.set, [*kept, session])
    return found.folds.items.counts(), found.folds.summary.fields()


async def read(store: Store, session: UUID) -> Read:
    counts = await store.conversation.count_items(session)
    connections, copies = store._connections, totals.Copies(0, False)
    summary = await totals.read_summary_of_log(
        connections.connection, connections.changes, session, copies, count_no_models
    )
    return counts, summary.fold.fields()


async def count_no_models(kept: totals.KeptModels) -> totals.CountedModels:
    return totals.CountedModels(Counter(), kept, must_save=False)


async def state_of(tables: AsyncConnection, session: UUID) -> totals.KeptTotals:
    return (await totals._find_place(tables, session)).kept


async def last_event(tables: AsyncConnection, session: UUID) -> int:
    return (await totals._find_place(tables, session)).last


def without_times(read: Read) -> Read:
    """Return totals without times: the places of deleted events have some, but their totals have none."""
    return read[0], {name: value for name, value in read[1].items() if name not in ("firstAt", "lastAt")}


CHANGES: dict[str, Callable[[Store, UUID], Awaitable[object]]] = {
    "append": lambda store, session: asyncio.sleep(0),
    "end": lambda store, session: store.events.end(session),
    "rebuild": lambda store, session: store.events.rebuild(session),
    "delete": lambda store, session: store.messages.delete(session, 5),
    "pop": lambda store, session: store.messages.pop(session),
}


@pytest.mark.parametrize("change", slow_unless("delete".__eq__, CHANGES))
async def test_changes_of_the_log_keep_the_totals(
    store: Store, connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr(totals, "_MAX_LAG", 5)
    for name, lines in SAMPLES.items():
        session = await new_session(store, lines[:60])
        await store.events.append(session, wire_event("hologram"))
        await store.messages.append(session, lines[60:90])
        await CHANGES[change](store, session)

        lag = await last_event(connection, session) - (await state_of(connection, session)).sequence
        kept, whole = await read(store, session), await read_all(store, connection, session)
        assert (name, without_times(kept)) == (name, without_times(whole))
        assert (name, lag <= 6) == (name, True)


def totals_of(codes: str) -> totals.TotalsOfLog:
    """Return the totals of errors with these codes."""
    log = totals.TotalsOfLog()
    log.add(wire_event("error", code=code, id="e", timestamp=1) for code in codes)
    return log


@pytest.mark.parametrize(
    ("full", "later", "without", "expected"),
    [("abab", "c", "bab", "babc"), ("ab", "", "b", "b"), ("ab", "a", "b", None)],
)
def test_corrected_totals_have_the_order_of_the_log(
    full: str, later: str, without: str, expected: str | None
) -> None:
    stored = totals_of(full + later).kept(9)._replace(sequence=9)
    corrected = totals_of(without).corrected(stored, totals_of(full), 9, is_end=False)

    assert corrected == (totals.NO_TOTALS if expected is None else totals_of(expected).kept(9))


def totals_of_turns(*usages: dict[str, int] | None) -> totals.TotalsOfLog:
    """Return the totals of the ends of turns with these usages."""
    log = totals.TotalsOfLog()
    log.add(wire_event("turn_end", usage=usage, id="e", timestamp=1, turnId="t") for usage in usages)
    return log


ONE, TWO = {"input_tokens": 5, "output_tokens": 0}, {"input_tokens": 2, "output_tokens": 3}
OTHER = {"output_tokens": 7}


@pytest.mark.parametrize(
    ("full", "later", "without", "is_known"),
    [
        ((ONE, TWO), (OTHER,), (ONE,), True),
        ((ONE, ONE), (), (ONE, TWO), True),
        ((ONE, OTHER), (ONE,), (OTHER,), False),
        ((ONE,), (ONE,), (None,), False),
    ],
)
def test_corrected_totals_have_the_usage_of_the_log(
    full: tuple[Any, ...], later: tuple[Any, ...], without: tuple[Any, ...], is_known: bool
) -> None:
    """It is unknown if only the message has a count: a later one may have it, too."""
    stored = totals_of_turns(*full, *later).kept(9)
    corrected = totals_of_turns(*without).corrected(stored, totals_of_turns(*full), 9, is_end=False)

    expected = totals_of_turns(*without, *later).kept(9)
    assert corrected == (expected if is_known else totals.NO_TOTALS)


@pytest.mark.slow
async def test_retracted_events(
    store: Store, connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any of the last events, or a much earlier one, may be retracted, also in totals that are kept."""
    for name, value in {"_LAG": 10, "_MAX_LAG": 20, "_MAX_ADDED": 60, "_PAGE": 15}.items():
        monkeypatch.setattr(totals, name, value)
    random, session = Random(5), (await store.sessions.create()).id
    ids = list[str]()
    for number in range(250):
        await store.events.append_batch(session, list(new_events(random, ids, number)))
        if random.random() < 0.3:
            assert await read(store, session) == await read_all(store, connection, session)

    assert (await state_of(connection, session)).sequence > 0


async def test_the_state_is_small(store: Store, connection: AsyncConnection) -> None:
    session = (await store.sessions.create()).id
    for lines in SAMPLES.values():
        await store.messages.append(session, [NewMessage(line) for line in lines])

    assert len((await state_of(connection, session)).totals) < 6000


def new_events(random: Random, ids: list[str], number: int) -> list[Event]:
    call = str(number // 2)
    kinds = [
        wire_event("assistant_done", text="Done"),
        tool_call(call),
        tool_result(call),
        wire_event("user_message", text="Go"),
    ]
    place = {"id": str(number), "turnId": str(number // 6), "recordId": str(number // 2)}
    new = [{**random.choice(kinds), **place}]
    ids.append(str(number))
    if number > 40 and random.random() < 0.2:
        near = random.sample(ids[-5:], 2) if random.random() < 0.6 else random.sample(ids, 1)
        payload: dict[str, Any] = random.choice(
            [
                {"eventIds": near, "reason": "superseded"},
                {"eventIds": near},
                {"messageIds": [str(int(near[0]) // 2)]},
                {"fromMessageId": str(int(ids[-1]) // 2)},
                {"turns": 1},
            ]
        )
        new.append(wire_event("retraction", **payload, id=f"r{number}"))
    return new


async def test_posted_events_are_added_by_readers_and_appends(
    store: Store, connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(totals, "_MAX_LAG", 20)
    session = (await store.sessions.create()).id
    notices = [wire_event("system_message", text="x", variant="hook")] * 30
    await store.events.append_batch(session, notices)
    assert (await state_of(connection, session)).sequence == 0

    assert (await store.conversation.count_items(session)).system == 30
    assert (await state_of(connection, session)).sequence == 30

    await store.events.append_batch(session, notices)
    await store.messages.append(session, ["text"])
    last = await last_event(connection, session)
    assert (await state_of(connection, session)).sequence == last > 60


async def test_a_reader_keeps_nothing_of_a_log_that_has_changed(
    store: Store, connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(totals, "_MAX_LAG", 0)
    session = await new_session(store, SAMPLES["bird-counter"][:5])
    await connection.execute(totals.SQL.set, [*totals.NO_TOTALS, session])
    original = totals._read

    async def read(*args: Any) -> Any:
        found = await original(*args)
        await store.messages.delete(session, 1)
        await connection.execute(totals.SQL.set, [*totals.NO_TOTALS, session])
        return found

    monkeypatch.setattr(totals, "_read", read)
    await store.conversation.count_items(session)

    assert await state_of(connection, session) == totals.NO_TOTALS


async def test_events_that_earlier_versions_did_not_check(store: Store, connection: AsyncConnection) -> None:
    session = (await store.sessions.create()).id
    await store.messages.append(session, SAMPLES["bird-counter"][:5])
    await connection.execute(
        "UPDATE events SET stored_json = '\"payload\":{}}', text_ranges = NULL WHERE session_id = %s",
        [session],
    )
    await connection.execute(totals.SQL.set, [*totals.NO_TOTALS, session])

    counts, summary = await read(store, session)
    assert (counts.system, summary["sessionId"]) == (0, str(session))


async def test_a_fault_of_totals_is_reported_and_the_next_reader_derives_them(
    store: Store,
    connection: AsyncConnection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    session = await new_session(store, SAMPLES["bird-counter"][:5])
    with monkeypatch.context() as patch:
        patch.setattr(
            "ash_shared.projections.summary_fold.SummaryFold.add",
            lambda self, event, **options: event["missing"],
        )
        await store.messages.append(session, [SAMPLES["bird-counter"][5]])

    assert "cannot be added to the totals" in caplog.text
    assert await state_of(connection, session) == totals.NO_TOTALS
    assert await read(store, session) == await read_all(store, connection, session)
