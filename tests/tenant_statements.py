"""A check of each statement that tests execute: those on tables of sessions run for one tenant.

It covers the connections of the pools. Tests also use connections of the owner, and the modules that open others are
listed in `test_tenants.py`.
"""

import re
from typing import Any

import pytest
from psycopg._cursor_base import BaseCursor

from ash_server.store import drift
from ash_server.store.connections.tenant_connections import SharedConnection, TenantConnection
from ash_server.store.schema.tables import metadata
from ash_server.store.search import index
from ash_server.store.usage import reports

OWNED_BY_SERVER = {
    "alembic_version",
    "tenants",
    "keys",
    "sign_ins",
    "sign_in_codes",
    "audit",
    "shares",
    "budgets",
    "budget_notices",
    "retention_policies",
    "scheduled_deletions",
    "cold_policies",
}
"""Tables without a tenant: the role of statements on sessions has no rights, except to read the version."""

VIEWS = {"events_full", "tenant_search", "tenant_lineages", "tenant_keys", "tenant_files", "tenant_sessions"}

OF_ALL_TENANTS = {drift.SQL.count_drift, index.SQL.count_pending_events, reports.SQL.count_models}
"""Figures of `/metrics`, without ids and texts."""

_RELATIONS = "|".join(sorted((metadata.tables.keys() - OWNED_BY_SERVER) | VIEWS))
_NAMES_RELATION = re.compile(rf"\b(FROM|JOIN|INTO|UPDATE|ONLY|TABLE|TRUNCATE|COPY)\s+({_RELATIONS})\b", re.I)


def is_on_sessions(query: str) -> bool:
    """True if a statement names a table or view of sessions."""
    return query not in OF_ALL_TENANTS and _NAMES_RELATION.search(query) is not None


def check_statements(patch: pytest.MonkeyPatch) -> None:
    """Let statements on tables of sessions fail on a connection of a pool without a tenant."""
    start = BaseCursor._start_query

    def checked(cursor: Any, query: Any = None) -> Any:
        connection = cursor.connection
        if isinstance(connection, TenantConnection) and connection.tenant is None:
            assert not is_on_sessions(str(query)), f"without a tenant: {query}"
        if isinstance(connection, SharedConnection):
            assert not connection.is_idle, f"outside a transaction, so without a tenant: {query}"
        return start(cursor, query)

    patch.setattr(BaseCursor, "_start_query", checked)
