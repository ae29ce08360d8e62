"""Labels: the star, the archive, the tags and the note of a session.

Functions accept a connection in autocommit mode (`connections.pool.open_pool`); `SessionStore` has them as methods.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, TypedDict, Unpack
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.errors import InvalidParameter, SessionNotFound
from ash_server.redaction import redact as redact_text
from ash_server.store.session_rows import get_session
from ash_server.store.statements import statements
from ash_server.store.text import check_text
from ash_shared.model.keywords import check_keywords
from ash_shared.model.session import Session, Tag, TagList

MAX_TAGS = 50

MAX_TAG = 100
"""Characters of a tag."""

TAG = r"^(?=.*\S)[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"
"""Pattern of tags: a line that is not blank, without control characters."""

MAX_NOTE_BYTES = 64 * 1024
"""Lists return the note of each session."""

MAX_LISTED_TAGS = 1000

SQL = statements(__file__)


class LabelChanges(TypedDict, total=False):
    """Labels to change; absent ones stay as they are."""

    starred: bool
    archived: bool
    tags: Sequence[str]
    """Replaces all tags, before others are added and removed."""
    add_tags: Sequence[str]
    remove_tags: Sequence[str]
    note: str
    """Markdown; empty: no note."""


class Labels(NamedTuple):
    starred: bool = False
    archived: bool = False
    tags: tuple[str, ...] = ()
    note: str = ""


async def update_labels(conn: AsyncConnection, session_id: UUID, **changes: Unpack[LabelChanges]) -> Session:
    """Change the labels of a session. Raises SessionNotFound, InvalidParameter, NulByte, InvalidUtf8."""
    check_keywords("update_labels", changes, LabelChanges)
    _check(changes)
    async with conn.transaction():
        if await (await conn.execute(SQL.lock_session, [session_id])).fetchone() is None:
            raise SessionNotFound
        labels = await get_labels(conn, session_id)
        changed = _apply(labels, changes)
        if changed != labels:
            await set_labels(conn, session_id, changed)
            await conn.execute(SQL.set_change_time, [session_id])
    return await get_session(conn, session_id)


async def get_labels(conn: AsyncConnection, session_id: UUID) -> Labels:
    row = await (await conn.execute(SQL.get_labels, [session_id])).fetchone()
    return Labels() if row is None else Labels(row[0], row[1], tuple(row[2]), row[3])


async def set_labels(conn: AsyncConnection, session_id: UUID, labels: Labels) -> None:
    """Store the labels of a session; a session without labels has no row."""
    if labels == Labels():
        await conn.execute(SQL.delete_labels, [session_id])
    else:
        await conn.execute(SQL.set_labels, [session_id, *labels[:2], list(labels.tags), labels.note])


async def list_tags(conn: AsyncConnection, *, redact: bool = False) -> TagList:
    """Return the tags of the sessions that are not archived, most used first, at most 1,000.

    `redact` counts tags with the same redacted text together.
    """
    rows = await (await conn.execute(SQL.count_tags)).fetchall()
    counts = Counter[str]()
    for name, count in rows:
        counts[redact_text(name) if redact else name] += count
    tags = [Tag(name=name, sessions=count) for name, count in counts.most_common(MAX_LISTED_TAGS)]
    return TagList(tags=tags)


def read_tag(text: str) -> str:
    """Return a tag without spaces around it. Raises InvalidParameter, NulByte, InvalidUtf8."""
    check_text(text, "a tag")
    tag = text.strip()
    if not re.search(TAG, tag) or len(tag) > MAX_TAG:
        raise InvalidParameter(f"a tag is one line of 1 to {MAX_TAG} characters")
    return tag


def _check(changes: LabelChanges) -> None:
    note = changes.get("note", "")
    check_text(note, "the note")
    if len(note.encode()) > MAX_NOTE_BYTES:
        raise InvalidParameter(f"a note has at most {MAX_NOTE_BYTES} bytes")


def _apply(labels: Labels, changes: LabelChanges) -> Labels:
    """Return the labels after the changes. Raises InvalidParameter, NulByte, InvalidUtf8."""
    removed = set(map(read_tag, changes.get("remove_tags", ())))
    added = map(read_tag, changes.get("add_tags", ()))
    kept = map(read_tag, changes["tags"]) if "tags" in changes else labels.tags
    tags = tuple(tag for tag in dict.fromkeys((*kept, *added)) if tag not in removed)
    if len(tags) > MAX_TAGS:
        raise InvalidParameter(f"a session has at most {MAX_TAGS} tags")
    return Labels(
        changes.get("starred", labels.starred),
        changes.get("archived", labels.archived),
        tags,
        changes.get("note", labels.note),
    )
