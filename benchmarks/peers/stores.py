"""Other conversation stores: each receives its own objects and encodes their JSON itself."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple
from uuid import UUID

Append = Callable[[int, UUID, list[Any]], Awaitable[object]]
"""Arguments: writer, session id, items."""


class Store(NamedTuple):
    name: str
    needs: tuple[str, ...]
    """Required packages."""
    open: Callable[[str, int], AbstractAsyncContextManager[Append]]
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


@asynccontextmanager
async def _agent_sdk(url: str, writers: int) -> AsyncIterator[Append]:
    """The example Postgres `SessionStore` of claude-agent-sdk's documentation, reimplemented."""
    import asyncpg

    async with asyncpg.create_pool(url, min_size=writers, max_size=writers) as pool:
        await pool.execute(_AGENT_SDK_SCHEMA)

        async def append(_writer: int, session_id: UUID, entries: list[Any]) -> None:
            await pool.execute(_AGENT_SDK_APPEND, str(session_id), [json.dumps(entry) for entry in entries])

        yield append


@asynccontextmanager
async def _openai_agents(url: str, writers: int) -> AsyncIterator[Append]:
    from agents.extensions.memory.sqlalchemy_session import SQLAlchemySession
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(url.replace("postgresql", "postgresql+psycopg", 1), pool_size=writers)
    await SQLAlchemySession("first", engine=engine, create_tables=True).get_items()
    sessions: dict[UUID, Any] = {}

    async def append(_writer: int, session_id: UUID, items: list[Any]) -> None:
        if session_id not in sessions:
            sessions[session_id] = SQLAlchemySession(str(session_id), engine=engine)
        await sessions[session_id].add_items(items)

    yield append
    await engine.dispose()


@asynccontextmanager
async def _langchain(url: str, writers: int) -> AsyncIterator[Append]:
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

        yield append


def _langchain_message(line: str) -> Any:
    from langchain_core.messages import AIMessage

    record = json.loads(line)
    content = record["message"].pop("content")
    return AIMessage(content=content, additional_kwargs=record)


STORES = (
    Store("claude-agent-sdk, its example store (asyncpg)", ("asyncpg",), _agent_sdk, json.loads),
    Store("openai-agents SQLAlchemySession (psycopg)", ("agents", "sqlalchemy"), _openai_agents, json.loads),
    Store("langchain-postgres history", ("langchain_postgres",), _langchain, _langchain_message),
)
