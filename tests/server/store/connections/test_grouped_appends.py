"""Appends that wait for another one to the same session share its next transaction."""

import asyncio
from collections.abc import Sequence
from contextvars import Context
from copy import copy
from itertools import chain
from uuid import UUID, uuid4

import pytest

from ash_server import NewMessage, Store
from ash_server.errors import (
    ArchiveDamaged,
    DatabaseUnavailable,
    DuplicateInBatch,
    IdConflict,
    SessionNotFound,
    WriteUnconfirmed,
)
from ash_server.logs import request_id
from ash_server.store.connections import grouped_appends
from ash_server.store.connections.deferral import current_deferral
from ash_server.store.connections.grouped_appends import GroupedAppends
from ash_server.store.log.events import Appended
from ash_server.store.prepare import PreparedMessage
from tests.server.store.test_messages import message
from tests.waiting import TIMEOUT


class Transactions:
    """Appends that store nothing, and end when they may."""

    def __init__(self, *, ends: bool = True) -> None:
        self.ids: list[list[str]] = []
        self.may_end = asyncio.Event()
        self.error: Exception | None = None
        self.errors: dict[str, Exception] = {}
        """By the id of the message that is refused."""
        if ends:
            self.may_end.set()

    async def append(self, _session_id: UUID, messages: Sequence[PreparedMessage]) -> list[Appended]:
        self.ids.append([each.id for each in messages])
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        for index, each in enumerate(messages):
            if error := self.errors.get(each.id):
                error = copy(error)
                if isinstance(error, IdConflict):
                    error.index = index
                raise error
        return [Appended(each.id, number, created=True) for number, each in enumerate(messages)]


async def test_appends_that_wait_share_a_transaction() -> None:
    session_id = uuid4()
    transactions = Transactions(ends=False)
    groups = GroupedAppends(transactions.append)

    writers = [asyncio.create_task(groups.append(session_id, [message(name)])) for name in "abcd"]
    await asyncio.sleep(0)
    writers[2].cancel()
    transactions.may_end.set()
    answers = await asyncio.gather(*writers, return_exceptions=True)
    await groups.append(session_id, [message("e")])

    assert list(map(len, transactions.ids)) == [1, 2, 1]
    assert isinstance(answers[2], asyncio.CancelledError)
    stored = [each.id for answer in answers if isinstance(answer, list) for each in answer]
    assert stored == ["a", "b", "d"]


async def test_all_appends_of_a_lost_transaction_are_unconfirmed() -> None:
    session_id, transactions = uuid4(), Transactions(ends=False)
    groups = GroupedAppends(transactions.append)
    transactions.error = WriteUnconfirmed()

    writers = [asyncio.create_task(groups.append(session_id, [message(name)])) for name in "abc"]
    await asyncio.sleep(0)
    transactions.may_end.set()
    answers = await asyncio.gather(*writers, return_exceptions=True)

    assert list(map(type, answers)) == [WriteUnconfirmed] * 3
    assert list(map(len, transactions.ids)) == [1, 2]


async def test_an_append_that_waits_too_long_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouped_appends, "POOL_TIMEOUT", 0.001)
    session_id, transactions = uuid4(), Transactions(ends=False)
    groups = GroupedAppends(transactions.append)

    first = asyncio.create_task(groups.append(session_id, [message("a")]))
    await asyncio.sleep(0)
    with pytest.raises(DatabaseUnavailable):
        await asyncio.wait_for(groups.append(session_id, [message("b")]), TIMEOUT)
    transactions.may_end.set()
    await first
    await groups.append(session_id, [message("c")])

    assert transactions.ids == [["a"], ["c"]]


async def test_each_append_of_a_group_has_its_own_result(store: Store) -> None:
    session = (await store.sessions.create()).id
    batches: list[list[str | NewMessage]] = [
        ["first"],
        [NewMessage("x", id="1"), NewMessage("y", id="2")],
        [NewMessage("another", id="1")],
        [NewMessage("x", id="3"), NewMessage("x", id="3")],
        [NewMessage("x", id="1"), NewMessage("z", id="4")],
    ]

    prepared = [await store.messages.prepare(session, batch) for batch in batches]
    appends = (store.messages.append_prepared(session, each) for each in prepared)
    answers = await asyncio.gather(*appends, return_exceptions=True)

    assert [type(answer) for answer in answers] == [list, list, IdConflict, DuplicateInBatch, list]
    places = [
        [(each.sequence, each.created) for each in answer] for answer in answers if isinstance(answer, list)
    ]
    assert places == [[(1, True)], [(2, True), (3, True)], [(2, False), (4, True)]]
    stored = await store.messages.list_messages(session)
    assert [each.content for each in stored] == ["first", "x", "y", "z"]
    assert isinstance(answers[2], IdConflict)
    assert answers[2].index == 0


async def test_concurrent_appends_need_few_transactions(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = (await store.sessions.create()).id
    counts, alone = list[int](), store.messages._groups._append

    async def count(session_id: UUID, messages: Sequence[PreparedMessage]) -> list[Appended]:
        counts.append(len(messages))
        return await alone(session_id, messages)

    monkeypatch.setattr(store.messages._groups, "_append", count)

    async def write(name: int) -> list[int]:
        answers = [await store.messages.append(session, [f"{name} {number}"]) for number in range(3)]
        return [answer[0].sequence for answer in answers]

    written = await asyncio.gather(*map(write, range(8)))

    assert all(own == sorted(own) for own in written)
    assert sorted(chain.from_iterable(written)) == list(range(1, 25))
    assert len(counts) <= 12  # a group of 1 and of 7 in turn, unless the machine is busy


async def append_at_once(
    transactions: Transactions, names: Sequence[str]
) -> list[list[Appended] | BaseException]:
    """Append each text by a writer of its own, all but the first one in a group."""
    session_id, groups = uuid4(), GroupedAppends(transactions.append)
    writers = [asyncio.create_task(groups.append(session_id, [message(name)])) for name in names]
    await asyncio.sleep(0)
    transactions.may_end.set()
    return await asyncio.gather(*writers, return_exceptions=True)


async def test_appends_before_and_after_a_refused_one_are_stored_together() -> None:
    transactions = Transactions(ends=False)
    transactions.errors["g"] = IdConflict()

    answers = await append_at_once(transactions, "abcdefghijkl")

    assert transactions.ids[2:] == [list("bcdef"), ["g"], list("hijkl")]
    refused = answers.pop(6)
    assert isinstance(refused, IdConflict)
    assert refused.index == 0
    assert all(isinstance(answer, list) for answer in answers)


async def test_parts_of_a_refused_group_end_with_the_database() -> None:
    transactions = Transactions(ends=False)
    transactions.errors.update(c=SessionNotFound(), d=DatabaseUnavailable())

    answers = await append_at_once(transactions, "abcdefgh")

    assert transactions.ids[2:] == [["b"], ["c"], ["d"]]
    assert list(map(type, answers)) == [list, list, SessionNotFound, *[DatabaseUnavailable] * 5]


async def test_cancelled_appends_of_a_refused_group_are_not_stored() -> None:
    session_id, transactions = uuid4(), Transactions(ends=False)

    async def append(session_id: UUID, messages: Sequence[PreparedMessage]) -> list[Appended]:
        appended = await transactions.append(session_id, messages)
        if len(messages) > 1:
            writers[2].cancel()
            await asyncio.wait([writers[2]])
            raise SessionNotFound
        return appended

    groups = GroupedAppends(append)
    writers = [asyncio.create_task(groups.append(session_id, [message(name)])) for name in "abcd"]
    await asyncio.sleep(0)
    transactions.may_end.set()
    await asyncio.gather(*writers, return_exceptions=True)

    assert transactions.ids[2:] == [["b"], ["d"]]


async def test_each_writer_raises_its_own_error_with_the_cause() -> None:
    transactions, cause = Transactions(ends=False), OSError("unreadable")
    transactions.error = ArchiveDamaged("The archive is damaged.")
    transactions.error.__cause__ = cause

    _, *errors = await append_at_once(transactions, "abc")

    assert len(set(map(id, errors))) == 2
    assert [str(error) for error in errors] == [str(transactions.error)] * 2
    assert all(isinstance(error, ArchiveDamaged) and error.__cause__ is cause for error in errors)


async def test_groups_of_short_messages_are_limited() -> None:
    session_id, transactions = uuid4(), Transactions(ends=False)
    groups = GroupedAppends(transactions.append)
    batches = [[message(f"{writer} {number}") for number in range(400)] for writer in range(4)]

    writers = [asyncio.create_task(groups.append(session_id, batch)) for batch in batches]
    await asyncio.sleep(0)
    transactions.may_end.set()
    await asyncio.gather(*writers)

    assert list(map(len, transactions.ids)) == [400, 800, 400]


async def test_a_group_does_not_belong_to_the_request_before() -> None:
    ids, transactions = list[str | None](), Transactions(ends=False)

    async def append(session_id: UUID, messages: Sequence[PreparedMessage]) -> list[Appended]:
        ids.append(request_id.get())
        return await transactions.append(session_id, messages)

    groups, session_id = GroupedAppends(append), uuid4()
    token = request_id.set("first")
    writers = [asyncio.create_task(groups.append(session_id, [message(name)])) for name in "ab"]
    request_id.reset(token)
    await asyncio.sleep(0)
    transactions.may_end.set()
    await asyncio.gather(*writers)

    assert ids == ["first", None]


async def test_appends_whose_flush_is_deferred_stay_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = (await store.sessions.create()).id
    are_deferred, alone = list[bool](), store.messages._groups._append

    async def note(session_id: UUID, messages: Sequence[PreparedMessage]) -> list[Appended]:
        are_deferred.append(current_deferral() is not None)
        return await alone(session_id, messages)

    monkeypatch.setattr(store.messages._groups, "_append", note)

    async with store.flushing_once():
        deferred = [asyncio.create_task(store.messages.append(session, ["deferred"])) for _ in range(3)]
        flushed = [
            asyncio.create_task(store.messages.append(session, ["flushed"]), context=Context())
            for _ in range(3)
        ]
        await asyncio.gather(*deferred, *flushed)

    assert await store.messages.list_messages(session, after=5)
    assert are_deferred
    assert not any(are_deferred)
