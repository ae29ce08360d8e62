"""Lend one connection, as a pool does."""

from contextlib import nullcontext

from psycopg import AsyncConnection

from ash_server.store.connections.pool import Connect


def lending(connection: AsyncConnection) -> Connect:
    return lambda: nullcontext(connection)
