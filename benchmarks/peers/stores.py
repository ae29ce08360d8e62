"""Other conversation stores: each receives its own objects and encodes their JSON itself."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple
from uuid import UUID

Append = Callable[[int, UUID, list[Any]], Awaitable[object]]
"""Arguments: writer, session id, items."""
Load = Callable[[UUID], Awaitable[list[Any]]]


class Opened(NamedTuple):
    append: Append
    load: Load | None = None
    """Read a whole session."""


class Store(NamedTuple):
    name: str
    needs: tuple[str, ...]
    """Required packages."""
    open: Callable[[str, int], AbstractAsyncContextManager[Opened]]
    """Open the store: database URL, number of writers."""
    item: Callable[[str], Any]
    """Convert a line to an item of the store."""


def installed_stores() -> Iterator[Store]:
    return (store for store in STORES if all(map(find_spec, store.needs)))


_AGENT_SDK_SCHEMA = """
    CREATE TABLE IF NOT EXISTS claude_entries (
        project_key text NOT NULL, session_id text NOT NULL, subpath text NOT NULL DEFAULT '',
        seq bigserial, entry jsonb NOT NULL, mtime bigint NOT NULL,
        PRIMARY KEY (project_key, session_id, subpath, seq)
    );
    CREATE INDEX IF NOT EXISTS claude_entries_main ON claude_entries (project_key, session_id) WHERE subpath = ''
"""
_AGENT_SDK_APPEND = """
    INSERT INTO claude_entries (project_key, session_id, entry, mtime)
    SELECT 'project', $1, entry, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM unnest($2::jsonb[]) WITH ORDINALITY AS new (entry, place) ORDER BY place
"""
_AGENT_SDK_LOAD = """
    SELECT entry FROM claude_entries
    WHERE project_key = 'project' AND session_id = $1 AND subpath = '' ORDER BY seq
"""


@asynccontextmanager
async def _agent_sdk(url: str, writers: int) -> AsyncIterator[Opened]:
    """The example Postgres `SessionStore` of claude-agent-sdk's documentation, reimplemented."""
    import asyncpg

    async with asyncpg.create_pool(url, min_size=writers, max_size=writers) as pool:
        await pool.execute(_AGENT_SDK_SCHEMA)

        async def append(_writer: int, session_id: UUID, entries: list[Any]) -> None:
            await pool.execute(_AGENT_SDK_APPEND, str(session_id), [json.dumps(entry) for entry in entries])

        async def load(session_id: UUID) -> list[Any]:
            rows = await pool.fetch(_AGENT_SDK_LOAD, str(session_id))
            return [json.loads(row["entry"]) for row in rows]

        yield Opened(append, load)


@asynccontextmanager
async def _openai_agents(url: str, writers: int) -> AsyncIterator[Opened]:
    from agents.extensions.memory.sqlalchemy_session import SQLAlchemySession
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(url.replace("postgresql", "postgresql+psycopg", 1), pool_size=writers)
    await SQLAlchemySession("first", engine=engine, create_tables=True).get_items()
    sessions: dict[UUID, Any] = {}

    async def append(_writer: int, session_id: UUID, items: list[Any]) -> None:
        if session_id not in sessions:
            sessions[session_id] = SQLAlchemySession(str(session_id), engine=engine)
        await sessions[session_id].add_items(items)

    async def load(session_id: UUID) -> list[Any]:
        items: list[Any] = await SQLAlchemySession(str(session_id), engine=engine).get_items()
        return items

    yield Opened(append, load)
    await engine.dispose()


@asynccontextmanager
async def _langchain(url: str, writers: int) -> AsyncIterator[Opened]:
    from langchain_postgres import PostgresChatMessageHistory
    from psycopg import AsyncConnection

    async with AsyncExitStack() as stack:
        conns = [await stack.enter_async_context(await AsyncConnection.connect(url)) for _ in range(writers)]
        await PostgresChatMessageHistory.acreate_tables(conns[0], "langchain_messages")

        async def append(writer: int, session_id: UUID, messages: list[Any]) -> None:
            history = PostgresChatMessageHistory(
                "langchain_messages", str(session_id), async_connection=conns[writer]
            )
            await history.aadd_messages(messages)

        yield Opened(append)


def _langchain_message(line: str) -> Any:
    from langchain_core.messages import AIMessage

    record = json.loads(line)
    content = record["message"].pop("content")
    return AIMessage(content=content, additional_kwargs=record)


AGENT_SDK = Store("claude-agent-sdk, its example store (asyncpg)", ("asyncpg",), _agent_sdk, json.loads)
OPENAI_AGENTS = Store(
    "openai-agents SQLAlchemySession (psycopg)", ("agents", "sqlalchemy"), _openai_agents, json.loads
)
STORES = (
    AGENT_SDK,
    OPENAI_AGENTS,
    Store("langchain-postgres history", ("langchain_postgres",), _langchain, _langchain_message),
)
