"""Rows of sessions: read by id, by reference, as a tree, and as pages of a list.

Functions take a connection in autocommit mode (`connections.pool.open_pool`).
"""

import asyncio
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, TypedDict, Unpack
from uuid import UUID

import msgspec
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row

from ash_server.errors import InvalidParameter, SessionNotFound
from ash_server.redaction.session_filters import Match, project_patterns, redacted_match, select_matching
from ash_server.store.statements import statements
from ash_server.store.text import check_text
from ash_shared.model.keywords import check_keywords
from ash_shared.model.session import Session, SessionPage, active_at

MAX_MATCHES = 20
"""Sessions returned by `find_sessions`."""

_MAX_PROJECT_LINES, _MAX_PROJECT_CHARACTERS = 10, 20_000
"""Where a transcript names its folder: in the first characters of the first lines."""

_REDACTED_BATCH = 100
"""Sessions compared at a time."""

_IDS_PAGE_SIZE = 1000

FACTS_VERSION = 10
"""The first version of the normaliser that derives facts; sessions of earlier ones have none until a reindex."""

SQL = statements(
    __file__,
    max_project_lines=_MAX_PROJECT_LINES,
    max_project_characters=_MAX_PROJECT_CHARACTERS,
    facts_version=FACTS_VERSION,
)


Archived = Literal["exclude", "only", "include"]
"""Whether a list contains archived sessions."""


class TreeSession(NamedTuple):
    """A session, or a subagent's session at any depth."""

    id: UUID
    agent_id: str | None
    copied_messages: int
    """The number of messages at the beginning that were copied from another stored session."""


class SessionFilter(TypedDict, total=False):
    """Options of a page of sessions."""

    after: str | None
    """The `next_after` of the previous page."""
    limit: int
    """100 by default, at most 1,000."""
    source: str | None
    q: str | None
    """Text in the title, external id, tags or note, in any case, or the beginning of the id."""
    parent_id: UUID | None
    provider_session_id: str | None
    """The provider's session id in the last message that names one."""
    since: datetime | None
    """Only sessions with activity at this time or later."""
    until: datetime | None
    """Only sessions last active before this time."""
    errors: bool | None
    """True: only sessions with errors; False: only those without."""
    external_id: str | None
    external_id_prefix: str | None
    """The beginning of the external id."""
    project: str | None
    """The agent's working folder or a folder above it, by path or only by name."""
    reference: str | None
    """Only sessions that `find_sessions` returns for this reference."""
    tag: str | Sequence[str] | None
    """Only sessions with this tag, or all of these."""
    starred: bool | None
    archived: Archived | None
    """`exclude` by default, but `include` for a list of named sessions: with an external id or its beginning, a
    parent, a provider's session id or a reference."""
    redact: bool
    """Compare parts of texts with redacted texts, so that a prefix of a secret finds nothing."""


_NAMES = ("reference", "external_id", "external_id_prefix", "parent_id", "provider_session_id")
"""Filters that name sessions."""

_ARCHIVED: Mapping[Archived, bool | None] = {"exclude": False, "only": True, "include": None}

_TEXT_FILTERS = ("source", "q", "provider_session_id", "external_id", "external_id_prefix", "project")
_NO_FILTERS = dict.fromkeys((*_TEXT_FILTERS, "parent_id", "since", "until", "errors", "starred"))


async def get_session(conn: AsyncConnection, session_id: UUID) -> Session:
    """Raises SessionNotFound."""
    rows = await fetch_sessions(conn, SQL.get_session, {"id": session_id})
    if not rows:
        raise SessionNotFound
    return rows[0]


async def get_sessions(conn: AsyncConnection, session_ids: Collection[UUID]) -> list[Session]:
    """Return the sessions with these ids, in no particular order; unknown ids are skipped."""
    return await fetch_sessions(conn, SQL.get_sessions, {"ids": list(session_ids)})


async def list_sessions(conn: AsyncConnection, **filters: Unpack[SessionFilter]) -> SessionPage:
    """Return a page of sessions, most recent activity first; `next_after` is the cursor of the next page.

    Raises InvalidParameter for a limit outside 1 to 1,000 or an unknown cursor.
    """
    check_keywords("list_sessions", filters, SessionFilter)
    limit, after = filters.get("limit", 100), filters.get("after")
    for name in _TEXT_FILTERS:
        check_text(str(filters.get(name) or ""), name)
    if not 1 <= limit <= 1000:
        raise InvalidParameter("limit must be 1 to 1000")
    moment, last_id = _read_cursor(after) if after else ("infinity", UUID(int=2**128 - 1))
    position = {"active_at": moment, "id": last_id, "limit": limit + 1}
    patterns = {**project_patterns(filters.get("project")), "id_prefix": _id_prefix(filters.get("q"))}
    reference = filters.get("reference")
    referenced = None if reference is None else await find_sessions(conn, reference)
    ids = None if referenced is None else [session.id for session in referenced]
    params = {**_NO_FILTERS, **filters, **position, **patterns, **_label_params(filters), "ids": ids}
    matches = redacted_match(filters) if filters.get("redact") else None
    if matches is None:
        return _to_page(await fetch_sessions(conn, SQL.list_sessions, params), limit)
    return _to_page([row async for row in _list_redacted(conn, params, matches)], limit)


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


async def _list_redacted(
    conn: AsyncConnection, params: dict[str, Any], matches: Match
) -> AsyncGenerator[Session, None]:
    """Yield up to `limit` sessions that match by their redacted texts.

    Sessions that match only unredacted are skipped, however many there are: a short page would reveal them.
    """
    count = 0
    while rows := await fetch_sessions(conn, SQL.list_sessions, {**params, "limit": _REDACTED_BATCH}):
        heads = await _read_heads(conn, [row.id for row in rows]) if params["folder"] else {}
        shown = await asyncio.to_thread(select_matching, rows, heads, matches)
        for row in shown[: params["limit"] - count]:
            yield row
        count += len(shown)
        if count >= params["limit"] or len(rows) < _REDACTED_BATCH:
            return
        params = {**params, "active_at": active_at(rows[-1]).isoformat(), "id": rows[-1].id}


async def _read_heads(conn: AsyncConnection, session_ids: Sequence[UUID]) -> dict[UUID, list[str]]:
    """Return the first lines of transcripts, which contain their folders."""
    heads: dict[UUID, list[str]] = {}
    for session_id, text in await (await conn.execute(SQL.read_heads, [session_ids])).fetchall():
        heads.setdefault(session_id, []).append(text)
    return heads


def _label_params(filters: SessionFilter) -> dict[str, Any]:
    """Return the parameters for labels. Raises InvalidParameter, NulByte, InvalidUtf8."""
    tag = filters.get("tag") or ()
    tags = [tag] if isinstance(tag, str) else list(tag)
    for each in tags:
        check_text(each, "tag")
    is_named = any(filters.get(name) is not None for name in _NAMES)
    archived = filters.get("archived") or ("include" if is_named else "exclude")
    if archived not in _ARCHIVED:
        raise InvalidParameter(f"archived is one of {', '.join(_ARCHIVED)}")
    return {"tags": tags or None, "archived": _ARCHIVED[archived]}


def _id_prefix(q: str | None) -> str | None:
    """Return the text as the beginning of an id, if it is long enough to mean one."""
    prefix = (q or "").lower()
    return prefix if re.fullmatch(r"[0-9a-f]{4}[0-9a-f-]{0,32}", prefix) else None


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


def _to_page(rows: list[Session], limit: int) -> SessionPage:
    """Build a page from up to `limit + 1` rows; an extra row shows that there is a next page."""
    page = rows[:limit]
    return SessionPage(sessions=page, nextAfter=_to_cursor(page[-1]) if len(rows) > limit else None)


def _to_cursor(last: Session) -> str:
    return urlsafe_b64encode(f"{active_at(last).isoformat()} {last.id}".encode()).decode()


def _read_cursor(cursor: str) -> tuple[str, UUID]:
    try:
        moment, _, last_id = urlsafe_b64decode(cursor).decode().partition(" ")
        return datetime.fromisoformat(moment).astimezone(UTC).isoformat(), UUID(last_id)
    except (ValueError, OverflowError):
        raise InvalidParameter("after is not the cursor of a list of sessions") from None
