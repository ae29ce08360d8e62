"""Rows of sessions: read by id, by reference, and as a tree.

Functions take a connection in autocommit mode (`connections.pool.open_pool`).
"""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row

from ash_server.errors import SessionNotFound
from ash_server.store.statements import statements
from ash_server.store.text import check_text
from ash_shared.model.session import Session

MAX_MATCHES = 20
"""Sessions returned by `find_sessions`."""

_IDS_PAGE_SIZE = 1000

FACTS_VERSION = 10
"""The first version of the normaliser that derives facts; sessions of earlier ones have none until a reindex."""

SQL = statements(__file__, facts_version=FACTS_VERSION)


class TreeSession(NamedTuple):
    """A session, or a subagent's session at any depth."""

    id: UUID
    agent_id: str | None
    copied_messages: int
    """The number of messages at the beginning that were copied from another stored session."""


async def get_session(conn: AsyncConnection, session_id: UUID) -> Session:
    """Raises SessionNotFound."""
    rows = await fetch_sessions(conn, SQL.get_session, {"id": session_id})
    if not rows:
        raise SessionNotFound
    return rows[0]


async def get_sessions(conn: AsyncConnection, session_ids: Collection[UUID]) -> list[Session]:
    """Return the sessions with these ids, in no particular order; unknown ids are skipped."""
    return await fetch_sessions(conn, SQL.get_sessions, {"ids": list(session_ids)})


async def find_sessions(conn: AsyncConnection, reference: str) -> list[Session]:
    """Return the sessions that match a reference typed by a person, at most 20.

    A reference is an external id or the path of a transcript, else an id or id prefix, else the provider's session id
    (shared by subagents).
    """
    check_text(reference, "the reference")
    matches = await fetch_sessions(conn, SQL.find_by_name, _limited(name=reference))
    digits = reference.replace("-", "").lower()
    if not matches and re.fullmatch("[0-9a-f]{1,32}", digits):
        bounds = _limited(low=UUID(digits.ljust(32, "0")), high=UUID(digits.ljust(32, "f")))
        matches = await fetch_sessions(conn, SQL.find_by_id_prefix, bounds)
    return matches or await _find_by_provider(conn, reference)


async def get_tree(conn: AsyncConnection, session_id: UUID) -> list[TreeSession]:
    """Return the session and the stored sessions of its subagents, each once. An unknown session has none."""
    tree: dict[UUID, tuple[Any, ...]] = {}
    level = await (await conn.execute(SQL.get_root, [session_id])).fetchall()
    while level:
        tree |= {row[0]: row for row in level}
        children = await (await conn.execute(SQL.get_children, [[row[0] for row in level]])).fetchall()
        level = [row for row in children if row[0] not in tree]  # a circle of parents ends
    originals = await existing_ids(conn, [row[3] for row in tree.values() if row[3] is not None])
    return [
        TreeSession(id, agent_id, copied or 0 if original is None or original in originals else 0)
        for id, agent_id, copied, original in (tree[id] for id in sorted(tree))
    ]


async def existing_ids(conn: AsyncConnection, session_ids: Sequence[UUID]) -> set[UUID]:
    """Return the ids that belong to a stored session."""
    cursor = await conn.execute(SQL.existing_ids, [list(session_ids)])
    return {row[0] for row in await cursor.fetchall()}


async def next_session_ids(conn: AsyncConnection, after: UUID) -> list[UUID]:
    """Return up to 1,000 session ids after this one, in ascending order."""
    rows = await (await conn.execute(SQL.next_ids, [after, _IDS_PAGE_SIZE])).fetchall()
    return [row[0] for row in rows]


async def recent_sessions(conn: AsyncConnection) -> dict[UUID, datetime]:
    """Return the sessions changed within the last 10 seconds and the time of the change."""
    return dict(await (await conn.execute(SQL.recent_sessions)).fetchall())


async def _find_by_provider(conn: AsyncConnection, reference: str) -> list[Session]:
    matches = await fetch_sessions(conn, SQL.find_by_provider_id, _limited(name=reference))
    roots = [each for each in matches if each.parent_id is None and each.parent_external_id is None]
    return roots if len(roots) == 1 else matches


def _limited(**params: Any) -> dict[str, Any]:
    return {**params, "limit": MAX_MATCHES}


async def fetch_sessions(conn: AsyncConnection, query: str, params: Mapping[str, Any]) -> list[Session]:
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(query, params)
        return await to_sessions(conn, await cursor.fetchall())


async def to_sessions(conn: AsyncConnection, rows: Sequence[DictRow]) -> list[Session]:
    named = {row[name] for row in rows for name in ("parent_id", "copy_of")} - {None}
    stored = {row["id"] for row in rows} & named
    if named - stored:
        stored |= await existing_ids(conn, list(named - stored))
    models, names = await _read_models(conn, rows), await _read_key_names(conn, rows)
    return [
        _to_session(
            _with_facts(_without_missing(row, stored), models.get(row["id"], []), names.get(row["key_id"]))
        )
        for row in rows
    ]


async def _read_models(conn: AsyncConnection, rows: Sequence[DictRow]) -> dict[UUID, list[str]]:
    """Return the models of sessions in alphabetical order."""
    ids = [row["id"] for row in rows if row["message_count"]]
    models: dict[UUID, list[str]] = {}
    if ids:
        for session_id, model in await (await conn.execute(SQL.list_models, [ids])).fetchall():
            models.setdefault(session_id, []).append(model)
    return models


async def _read_key_names(conn: AsyncConnection, rows: Sequence[DictRow]) -> dict[UUID, str]:
    ids = {row["key_id"] for row in rows} - {None}
    return dict(await (await conn.execute(SQL.list_key_names, [list(ids)])).fetchall()) if ids else {}


_DERIVED_COUNTS = (
    "prompt_count",
    "turn_count",
    "tool_call_count",
    "tool_failure_count",
    "files_changed",
    "lines_added",
    "lines_removed",
)
"""Columns that are unknown for sessions of versions without facts."""


def _with_facts(row: DictRow, models: list[str], person: str | None) -> DictRow:
    """Return the row with values of other tables, and without those that are unknown."""
    first, last = row["first_at"], row["last_at"]
    unknown = () if row["has_facts"] else _DERIVED_COUNTS
    is_active = row["has_facts"] and first is not None
    return {
        **row,
        **dict.fromkeys(unknown),
        "models": models or None,
        "person": person,
        "cause": None if row["agent_id"] else row["cause"],
        "duration_ms": None if first is None else round((last - first).total_seconds() * 1000),
        "active_ms": row["active_ms"] if is_active else None,
    }


def _without_missing(row: DictRow, stored: Collection[UUID]) -> DictRow:
    """Return the row with the id of the parent if the parent is stored, else its external id, else the id as text.

    Only a stored session is the original of a copy. Messages without one are inherited: the transcript says so.
    """
    if row["parent_id"] in stored:
        row["parent_external_id"] = None
    elif row["parent_id"] is not None:
        if row["parent_external_id"] is None:
            row["parent_external_id"] = str(row["parent_id"])
        row["parent_id"] = None
    if row["copy_of"] is not None and row["copy_of"] not in stored:
        row["copy_of"] = row["copied_messages"] = None
    return row


_LABELS = ("starred", "archived", "tags", "note")

_METADATA_COLUMNS = {"sessionId": "provider_session_id", "cliVersion": "client_version"}


def _to_session(row: DictRow) -> Session:
    present = {name: value for name, value in row.items() if value is not None}
    derived = {key: present[name] for key, name in _METADATA_COLUMNS.items() if name in present}
    labels = {name: present.pop(name) for name in _LABELS if name in present}
    if labels:
        present["labels"] = labels
    return Session.model_validate(
        {**present, "metadata": {**derived, **msgspec.json.decode(row["metadata"])}}
    )
