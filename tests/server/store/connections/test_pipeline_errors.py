"""After a PostgreSQL error in the pipeline of an append, the connection stores further messages."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import NamedTuple
from uuid import UUID

import psycopg
import pytest
from psycopg import AsyncConnection, errors, sql

from ash_server.errors import DatabaseUnavailable, DiskFull, WriteUnconfirmed
from ash_server.store import Store, messages
from ash_server.store.connections.pool import connect
from ash_server.store.message_pages import list_messages
from ash_server.store.prepare import NewMessage, prepare_message
from tests.cluster import on_citus
from tests.waiting import until

Append = Callable[[NewMessage], Awaitable[object]]
Execute = Callable[[str], Awaitable[object]]
Fault = Callable[[AsyncConnection, UUID], AbstractAsyncContextManager[object]]


@asynccontextmanager
async def locked(conn: AsyncConnection, session_id: UUID) -> AsyncIterator[None]:
    """Lock the session in another transaction."""
    async with conn.transaction():
        await conn.execute("SELECT 1 FROM session_counters WHERE session_id = %s FOR UPDATE", [session_id])
        yield


@asynccontextmanager
async def signalled(conn: AsyncConnection, session_id: UUID, *, function: str) -> AsyncIterator[None]:
    """Call a PostgreSQL function with the process id of the append once it waits for a lock."""
    call = sql.SQL("SELECT {}(pid) FROM pg_locks WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))").format(
        sql.Identifier(function)
    )

    async def has_signalled() -> bool:
        return (await conn.execute(call)).rowcount > 0

    async with locked(conn, session_id), asyncio.TaskGroup() as tasks:
        tasks.create_task(until(has_signalled))
        yield


@asynccontextmanager
async def occupied(conn: AsyncConnection, session_id: UUID) -> AsyncIterator[None]:
    """Decrease the message counter, so that the next message gets the sequence of the last one."""
    count = "UPDATE session_counters SET message_sequence = message_sequence + %s WHERE session_id = %s"
    await conn.execute(count, [-1, session_id])
    yield
    await conn.execute(count, [1, session_id])


@asynccontextmanager
async def raising(
    conn: AsyncConnection, session_id: UUID, *, sqlstate: str, message: str = "refused"
) -> AsyncIterator[None]:
    """Make PostgreSQL refuse new messages with an error that is hard to provoke otherwise."""
    await conn.execute(
        f"""
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$BEGIN RAISE EXCEPTION '{message}' USING ERRCODE = '{sqlstate}'; END$$;
        CREATE TRIGGER refuse BEFORE INSERT ON messages EXECUTE FUNCTION refuse()
        """
    )
    yield
    await conn.execute("DROP FUNCTION refuse CASCADE")


class Kind(NamedTuple):
    """An error, and the exceptions that the driver and the store raise for it."""

    fault: Fault
    driver: type[psycopg.Error]
    store: type[Exception] = DatabaseUnavailable
    setting: str = ""
    """The setting of the timeout that the fault exceeds."""


ON_CITUS = ("statement timeout", "unique violation")
"""Kinds for a cluster: it has no triggers, and its workers ignore the lock timeout of the connection."""

KINDS = {
    "lock timeout": Kind(locked, errors.LockNotAvailable, setting="lock_timeout"),
    "statement timeout": Kind(locked, errors.QueryCanceled, setting="statement_timeout"),
    "cancelled statement": Kind(partial(signalled, function="pg_cancel_backend"), errors.QueryCanceled),
    "terminated backend": Kind(
        partial(signalled, function="pg_terminate_backend"), errors.AdminShutdown, WriteUnconfirmed
    ),
    "unique violation": Kind(occupied, errors.UniqueViolation, errors.UniqueViolation),
    "disk full": Kind(partial(raising, sqlstate="53100"), errors.DiskFull, DiskFull),
    "out of memory": Kind(partial(raising, sqlstate="53200"), errors.OutOfMemory),
    "deadlock": Kind(partial(raising, sqlstate="40P01"), errors.DeadlockDetected),
    "lost worker": Kind(
        partial(raising, sqlstate="XX000", message="failure on connection marked as essential: worker:5432"),
        errors.InternalError_,
    ),
    "unconfirmed commit on a worker": Kind(
        partial(raising, sqlstate="XX000", message="could not commit transaction for shard 1"),
        errors.InternalError_,
        WriteUnconfirmed,
    ),
}

if on_citus():
    KINDS = {name: KINDS[name] for name in ON_CITUS}

BEFORE = [f"before-{number}" for number in range(5)]
"""The number of appends without prepared statements; the next append prepares them."""
AFTER = [f"after-{number}" for number in range(12)]


def new_message(id: str) -> NewMessage:
    return NewMessage('{"type": "user", "message": {"role": "user", "content": "text"}}', id=id)


async def append_around(
    fault: AbstractAsyncContextManager[object], setting: str, execute: Execute, append: Append
) -> Exception | None:
    """Append messages, then one that fails, then the same one and others; return the error."""
    failure = None
    for id in BEFORE:
        await append(new_message(id))
    if setting:
        await execute(f"SET {setting} = '300ms'")
    async with fault:
        try:
            await append(new_message(AFTER[0]))
        except Exception as error:  # noqa: BLE001  # compared by the caller
            failure = error
    if setting:
        await execute(f"RESET {setting}")
    for id in AFTER:
        await append(new_message(id))
    return failure


DETAILS = {
    "cancelled statement": "A statement took longer than ASH_STATEMENT_TIMEOUT allows, or was cancelled. Nothing is "
    "stored; ",
    "terminated backend": "The connection was lost, so the write may or may not be stored; ",
    "disk full": "The disk of the database is full. Nothing is stored; ",
}
REMEDY = "the request may be repeated with the same ids, and is stored once."


@pytest.mark.parametrize("kind", KINDS)
async def test_store_appends_after_an_error(
    kind: str, database_url: str, connection: AsyncConnection, session_id: UUID
) -> None:
    fault, _, expected, setting = KINDS[kind]
    async with Store.connect(database_url, lock_timeout=None, pool_size=1) as store:

        async def execute(query: str) -> None:
            async with store._connections.connection() as conn:
                await conn.execute(query.encode())

        async def append(new: NewMessage) -> None:
            await store.messages.append(session_id, [new])

        failure = await append_around(fault(connection, session_id), setting, execute, append)
        stored = [message.id for message in await store.messages.list_messages(session_id)]

    assert type(failure) is expected
    if kind in DETAILS:
        assert str(failure) == DETAILS[kind] + REMEDY
    assert stored == BEFORE + AFTER


@pytest.mark.parametrize(
    "kind", [name for name, kind in KINDS.items() if kind.driver is not errors.AdminShutdown]
)
async def test_single_connection_appends_after_an_error(
    kind: str, database_url: str, connection: AsyncConnection, session_id: UUID
) -> None:
    fault, expected, _, setting = KINDS[kind]
    async with await connect(database_url) as conn:

        async def execute(query: str) -> None:
            await conn.execute(query.encode())

        async def append(new: NewMessage) -> None:
            prepared = prepare_message(session_id, str(new.content), id=new.id)
            await messages.append(conn, session_id, [prepared])

        failure = await append_around(fault(connection, session_id), setting, execute, append)
        stored = [message.id for message in await list_messages(conn, session_id)]

    assert type(failure) is expected
    assert stored == BEFORE + AFTER
