"""A PostgreSQL server for the benchmarks, and its test data."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.ids import uuid7_text
from ash_server.store.embedded.server import EmbeddedPostgres
from ash_server.store.messages import append
from ash_server.store.prepare import PreparedMessage
from ash_server.store.schema.migrations import upgrade
from ash_server.store.sessions import create_session
from ash_shared.model.message import Description, RecordHeader
from ash_shared.parsing.parse import find_blocks

_TABLES = """
    SELECT string_agg(tablename, ', ') FROM pg_tables
    WHERE schemaname = 'public' AND tablename NOT IN ('alembic_version', 'tenants')
"""

_WAL_POSITION = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"


@contextmanager
def cluster(*, durable: bool = True, kept: Path | None = None) -> Iterator[tuple[Path, EmbeddedPostgres]]:
    """Yield a temporary folder, or the one to keep, and a PostgreSQL server in it (`pg`) with the database `ash`."""
    with (
        nullcontext(str(kept)) if kept else _temporary_folder() as folder,
        EmbeddedPostgres(Path(folder) / "pg", durable=durable) as server,
    ):
        server.ensure_database("ash")
        upgrade(server.url("ash"))
        yield Path(folder), server


def _temporary_folder() -> AbstractContextManager[str]:
    return tempfile.TemporaryDirectory(prefix="ash-bench-", ignore_cleanup_errors=True)


@contextmanager
def database(*, durable: bool) -> Iterator[str]:
    with cluster(durable=durable) as (_, server):
        yield server.url("ash")


async def new_session(conn: AsyncConnection) -> UUID:
    return (await create_session(conn)).session.id


async def fill(conn: AsyncConnection, texts: Sequence[str]) -> UUID:
    """Create a session with these messages."""
    session_id = await new_session(conn)
    for start in range(0, len(texts), 1000):
        await append(conn, session_id, [agent_message(text) for text in texts[start : start + 1000]])
    await settle(conn)
    return session_id


async def empty(conn: AsyncConnection) -> None:
    """Delete all rows, except the tenants."""
    ((tables,),) = await (await conn.execute(_TABLES)).fetchall()
    await conn.execute(f"TRUNCATE {tables}")
    await settle(conn)


async def wal_position(conn: AsyncConnection) -> int:
    """Return the number of bytes written to the WAL so far."""
    ((position,),) = await (await conn.execute(_WAL_POSITION)).fetchall()
    return int(position)


async def settle(conn: AsyncConnection) -> None:
    """Run the maintenance that could otherwise start during a measurement."""
    await conn.execute("VACUUM (ANALYZE) messages, events")
    await conn.execute("CHECKPOINT")


def agent_message(text: str) -> PreparedMessage:
    """Describe the text and assign a new id."""
    return PreparedMessage(
        id=uuid7_text(),
        has_explicit_id=False,
        content=text,
        described=_DESCRIBED,
        blocks=find_blocks(text, _DESCRIBED.source),
    )


_DESCRIBED = Description("claude", "message", "assistant", ("text",), RecordHeader(), None, (), bytes(16))
