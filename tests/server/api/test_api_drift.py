"""Drift reports over HTTP."""

import json
from typing import Any

from httpx2 import AsyncClient

from tests.shared.records import claude


def line(second: int, *blocks: dict[str, Any], **more: Any) -> dict[str, str]:
    time = f"2026-11-02T09:00:0{second}Z"
    record = claude.line("assistant", [*blocks, claude.text("Done.")], timestamp=time, **more)
    return {"content": json.dumps(record)}


STRANGE = {"type": "holo_frame", "frame": 7}
BROKEN = {"type": "text", "text": 5}


async def test_lists_drift(own_client: AsyncClient) -> None:
    session = (await own_client.post("/api/sessions", json={})).json()["id"]
    lines = [line(1, STRANGE, STRANGE), line(2, BROKEN, version="2.1.0"), line(3, STRANGE), line(4)]
    await own_client.post(f"/api/sessions/{session}/messages", json=lines)

    unknown: dict[str, Any] = {
        "source": "claude",
        "clientVersion": "2.1.0",
        "rawType": "holo_frame",
        "reason": "unknown_type",
        "count": 3,
        "firstSeen": "2026-11-02T09:00:01Z",
        "lastSeen": "2026-11-02T09:00:03Z",
        "samples": [{"sessionId": session, "sequence": 3}, {"sessionId": session, "sequence": 1}],
    }
    malformed = {
        "source": "claude",
        "clientVersion": "2.1.0",
        "rawType": "text",
        "reason": "malformed",
        "count": 1,
        "firstSeen": "2026-11-02T09:00:02Z",
        "lastSeen": "2026-11-02T09:00:02Z",
        "samples": [{"sessionId": session, "sequence": 2}],
    }
    groups = {
        query: (await own_client.get(f"/api/drift?{query}")).json()["drift"]
        for query in (
            "",
            "source=claude",
            "source=pi",
            "reason=malformed",
            "limit=1",
            "since=2026-11-02T09:00:03Z",
            "since=2026-11-02T09:00:04",
        )
    }
    assert groups == {
        "": [unknown, malformed],
        "source=claude": [unknown, malformed],
        "source=pi": [],
        "reason=malformed": [malformed],
        "limit=1": [unknown],
        "since=2026-11-02T09:00:03Z": [
            {**unknown, "count": 1, "firstSeen": unknown["lastSeen"], "samples": unknown["samples"][:1]}
        ],
        "since=2026-11-02T09:00:04": [],
    }


async def test_no_drift(own_client: AsyncClient) -> None:
    response = await own_client.get("/api/drift")

    assert (response.status_code, response.json()) == (200, {"drift": []})
