"""Drift: counted per message, reported in groups."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from ash_server.errors import InvalidParameter
from ash_server.store.drift import report_drift
from ash_server.store.messages import append
from ash_server.store.sessions import create_session, delete_session
from ash_shared.model.message import Drift, RecordHeader
from tests.server.store.test_messages import message

TIMES = [datetime(2026, 11, 2, 9, 0, number, tzinfo=UTC) for number in range(10)]

UNKNOWN = Drift("unknown_type", "holo_frame", 2)
MALFORMED = Drift("malformed", "", 1)


def facts(second: int, version: str | None = None) -> RecordHeader:
    return RecordHeader(timestamp=round(TIMES[second].timestamp() * 1000), client_version=version)


async def report(connection: AsyncConnection, **filters: Any) -> list[dict[str, Any]]:
    return (await report_drift(connection, **filters)).model_dump(by_alias=True)["drift"]  # type: ignore[no-any-return]


async def test_unrecognized_messages_have_the_source_of_their_session(
    connection: AsyncConnection, session_id: UUID
) -> None:
    await append(
        connection,
        session_id,
        [message("1", source="claude"), message("2", source="unknown", drift=(UNKNOWN,))],
    )

    [group] = await report(connection, source="claude")
    assert (group["source"], group["rawType"], group["count"]) == ("claude", "holo_frame", 2)
    assert await report(connection, source="unknown") == []


async def test_groups_drift_by_source_version_type_and_reason(
    connection: AsyncConnection, session_id: UUID
) -> None:
    other = (await create_session(connection)).session.id
    await append(
        connection,
        session_id,
        [
            message("1", header=facts(1, "2.0"), drift=(UNKNOWN, MALFORMED)),
            message("2", header=facts(2)),
            message("3", header=facts(3, "2.1"), drift=(UNKNOWN,)),
        ],
    )
    # A message without a version has the session's, which is the last one that a message had.
    await append(connection, session_id, [message("4", header=facts(4), drift=(UNKNOWN,))])
    await append(connection, other, [message("1", header=facts(5), drift=(UNKNOWN,), source="pi")])

    def place(session: UUID, sequence: int) -> dict[str, Any]:
        return {"sessionId": session, "sequence": sequence}

    unknown = {"rawType": "holo_frame", "reason": "unknown_type"}
    groups = [
        {
            **unknown,
            "source": "pi",
            "count": 2,
            "firstSeen": TIMES[5],
            "lastSeen": TIMES[5],
            "samples": [place(other, 1)],
        },
        {
            **unknown,
            "source": "claude",
            "clientVersion": "2.1",
            "count": 4,
            "firstSeen": TIMES[3],
            "lastSeen": TIMES[4],
            "samples": [place(session_id, 4), place(session_id, 3)],
        },
        {
            **unknown,
            "source": "claude",
            "clientVersion": "2.0",
            "count": 2,
            "firstSeen": TIMES[1],
            "lastSeen": TIMES[1],
            "samples": [place(session_id, 1)],
        },
        {
            "source": "claude",
            "clientVersion": "2.0",
            "reason": "malformed",
            "count": 1,
            "firstSeen": TIMES[1],
            "lastSeen": TIMES[1],
            "samples": [place(session_id, 1)],
        },
    ]
    assert await report(connection) == groups
    assert await report(connection, source="pi") == groups[:1]
    assert await report(connection, reason="malformed") == groups[3:]
    assert await report(connection, limit=2) == groups[:2]
    assert await report(connection, since=TIMES[4]) == [
        groups[0],
        {**groups[1], "count": 2, "firstSeen": TIMES[4], "samples": [place(session_id, 4)]},
    ]

    await delete_session(connection, session_id)
    assert await report(connection) == groups[:1]


async def test_message_without_timestamp_counts_at_storage_time(
    connection: AsyncConnection, session_id: UUID
) -> None:
    await append(connection, session_id, [message(str(number), drift=(UNKNOWN,)) for number in range(9)])
    stored = await connection.execute("SELECT DISTINCT created_at FROM messages")
    ((moment,),) = await stored.fetchall()

    assert await report(connection) == [
        {
            "source": "claude",
            "rawType": "holo_frame",
            "reason": "unknown_type",
            "count": 18,
            "firstSeen": moment,
            "lastSeen": moment,
            "samples": [{"sessionId": session_id, "sequence": sequence} for sequence in (9, 8, 7, 6, 5)],
        }
    ]


async def test_removes_nul_from_raw_types_and_truncates_them(
    connection: AsyncConnection, session_id: UUID
) -> None:
    long = "\U0001f300" * 10_000
    drift = [Drift("unknown_type", raw_type, 1) for raw_type in ("a\0", "a", long, f"{long}!")]
    new = message("1", drift=tuple(drift), header=RecordHeader(timestamp=10**15, client_version="\0" * 3))
    await append(connection, session_id, [new])

    assert [(each["rawType"], each["count"]) for each in await report(connection)] == [
        ("a", 2),
        ("\U0001f300" * 200, 2),
    ]


async def test_duplicate_message_adds_no_drift(connection: AsyncConnection, session_id: UUID) -> None:
    await append(connection, session_id, [message("1")])
    await append(connection, session_id, [message("1", drift=(UNKNOWN,))])

    assert await report(connection) == []


@pytest.mark.parametrize("filters", [{"limit": 0}, {"limit": 1001}])
async def test_rejects_limit_out_of_range(connection: AsyncConnection, filters: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        await report_drift(connection, **filters)
