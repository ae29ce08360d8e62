"""Drift: unknown and malformed blocks in stored messages.

One row per message and type of block that was unknown or malformed when the message was last read; most messages have
none. Grouped rows show which client version introduced a block type, and when.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import dict_row
from pydantic import Field

from ash_server.errors import InvalidParameter
from ash_server.store.borrowed import Resource, read
from ash_server.store.session_facts import to_datetime
from ash_server.store.statements import statements
from ash_server.store.text import check_text, storable
from ash_shared.model.base import ABSENT, AshModel, Omittable
from ash_shared.model.message import Description, Drift, RecordHeader

Reason = Literal["unknown_type", "malformed"]

MAX_SAMPLES = 5
"""Sample messages per group."""

_MAX_TYPE_LENGTH = 200
"""Characters; the type is part of an index key."""

SQL = statements(__file__, max_samples=MAX_SAMPLES)


class StoredPlace(AshModel):
    """Where a message is stored."""

    session_id: UUID = Field(alias="sessionId")
    sequence: int


class DriftGroup(AshModel):
    """Blocks with the same source, client version, type and reason."""

    source: str
    """The format of the messages; the session's, if no provider recognizes them."""
    client_version: Omittable[str] = Field(default=ABSENT, alias="clientVersion")
    """The version of the tool that wrote the messages, from the message, else from its session."""
    raw_type: Omittable[str] = Field(default=ABSENT, alias="rawType")
    """The type in the block; if there is none, its keys, such as `{id, name}`; absent for other values."""
    reason: Reason
    """`unknown_type`: Ash does not know the type. `malformed`: the block does not match the schema of its type."""
    count: int
    """Number of such blocks."""
    first_seen: datetime = Field(alias="firstSeen")
    """Timestamp of the first such message, else the time it was stored."""
    last_seen: datetime = Field(alias="lastSeen")
    samples: list[StoredPlace]
    """Up to five messages with such a block, latest first."""


class DriftReport(AshModel):
    """Groups of unknown and malformed blocks, last seen first."""

    drift: list[DriftGroup]


class DescribedMessage(NamedTuple):
    """The sequence of a message, and its description by the parser."""

    sequence: int
    described: Description


class _Row(NamedTuple):
    sequence: int
    reason: str
    raw_type: str
    source: str
    client_version: str | None
    times: int
    seen_at: datetime | None


async def insert_drift(conn: AsyncConnection, session_id: UUID, messages: Iterable[DescribedMessage]) -> None:
    """Store the drift of stored messages. Sends no statement if there is none, as is normal."""
    rows = [row for each in messages if each.described.drift for row in _build_rows(each)]
    if rows:
        names = ("sequences", "reasons", "raw_types", "sources", "client_versions", "times", "seen_at")
        columns = map(list, zip(*rows, strict=True))
        await conn.execute(
            SQL.insert_drift, {"session_id": session_id, **dict(zip(names, columns, strict=True))}
        )


async def report_drift(
    conn: AsyncConnection,
    *,
    source: str | None = None,
    reason: Reason | None = None,
    since: datetime | None = None,
    limit: int = 100,
) -> DriftReport:
    """Return groups by source, client version and type, last seen first.

    `since`: only blocks seen at this time or later. `limit` is the number of groups, at most 1,000. Raises
    InvalidParameter.
    """
    check_text(source or "", "source")
    if not 1 <= limit <= 1000:
        raise InvalidParameter("limit must be 1 to 1000")
    params = {"source": source, "reason": reason, "since": since, "limit": limit}
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(SQL.report_drift, params)
        return DriftReport(drift=[_to_group(row) for row in await cursor.fetchall()])


async def count_drift(conn: AsyncConnection) -> list[tuple[str, str, int]]:
    """Return the number of blocks by source and reason."""
    return await (await conn.execute(SQL.count_drift)).fetchall()


def raw_type_of(drift: Drift) -> str:
    return storable(drift.raw_type)[:_MAX_TYPE_LENGTH]


def client_version_of(header: RecordHeader) -> str | None:
    return storable(header.client_version)[:_MAX_TYPE_LENGTH] or None if header.client_version else None


def _build_rows(message: DescribedMessage) -> Iterator[_Row]:
    """Yield a row per reason and type; types that are equal after truncation share one."""
    described, times = message.described, Counter[tuple[str, str]]()
    for drift in described.drift:
        times[drift.reason, raw_type_of(drift)] += drift.times
    version = client_version_of(described.header)
    seen_at = to_datetime(described.header.timestamp)
    for (reason, raw_type), count in times.items():
        yield _Row(message.sequence, reason, raw_type, described.source, version, count, seen_at)


def _to_group(row: Mapping[str, Any]) -> DriftGroup:
    present = {name: value for name, value in row.items() if value is not None}
    samples = zip(present.pop("sessions"), present.pop("sequences"), strict=True)
    return DriftGroup.model_validate(
        {**present, "samples": [StoredPlace(session_id=id, sequence=sequence) for id, sequence in samples]}
    )


class DriftStore(Resource):
    """Unknown and malformed blocks of all sessions."""

    report = read(report_drift)
