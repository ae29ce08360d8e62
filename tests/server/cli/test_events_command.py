"""`ash events`, and export and import of events."""

import json
from itertools import count
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psycopg
import pytest
from psycopg import AsyncConnection

from ash_server.store.log.events import append_events, get_events
from ash_server.store.messages import append
from ash_server.store.prepare import prepare_message
from ash_server.store.sessions import create_session, session_id_for
from ash_shared.eventlog import NORMALIZER_VERSION
from tests.server.cli.test_cli import SAMPLES, Ash, ash
from tests.server.cli.test_cli_serve import running

__all__ = ["ash"]

STREAM = Path(SAMPLES).parent / "recordings" / "kite-wind.jsonl"
SESSION = session_id_for("claude", "kite")


@pytest.fixture
def stream(ash: Ash) -> list[dict[str, Any]]:
    """Import the recorded stream as `kite` and return its events."""
    assert ash("import", str(STREAM), "--as", "kite").code == 0
    events: list[dict[str, Any]] = json.loads(ash("events", "kite", "--limit", "1000", "--json").out)[
        "events"
    ]
    return events


def without_place(event: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name not in ("sequence", "messageSequence")}


def test_lists_a_page_of_events(ash: Ash, stream: list[dict[str, Any]]) -> None:
    page = ash("events", str(SESSION)[:8], "--after", "2", "--limit", "3", "--json")
    shown = ash("events", "kite", "--limit", "2")
    whole = json.loads(ash("events", "kite", "--collapse", "--limit", "1000", "--json").out)["events"]

    assert [each["sequence"] for each in stream] == list(range(1, len(stream) + 1))
    assert json.loads(page.out) == {"events": stream[2:5], "nextAfter": 5}
    assert ash("events", "--limit", "2", "kite") == shown
    assert [line[17:] for line in shown.out.splitlines()] == [
        "turn_start        user",
        "user_message      The week of wind shows Sunday twice and leaves Saturday out. "
        "Find out why, and put it right.",
    ]
    assert shown.err == "more: --after 2\n"
    assert whole == [each for each in stream if not each["type"].endswith("chunk")]


def test_filters_events_by_type(ash: Ash, stream: list[dict[str, Any]]) -> None:
    calls = ash("events", "kite", "--type", "tool_call,tool_result", "--limit", "1000", "--json")
    refused = ash("events", "kite", "--type", "holo")

    assert json.loads(calls.out)["events"] == [
        each for each in stream if each["type"] in ("tool_call", "tool_result")
    ]
    assert refused.code != 0
    assert "It must be one or more of turn_start, turn_end" in refused.err


def test_exported_events_can_be_imported(ash: Ash, stream: list[dict[str, Any]], tmp_path: Path) -> None:
    """One event per line, unchanged; after import under another name only the session differs."""
    exported = ash("export", "kite", "--format", "events")
    lines = [json.loads(line) for line in exported.out.splitlines()]

    assert lines == list(map(without_place, stream))
    assert ash("export", "--all", "--format", "events", "-o", "all").out == "1 session in all\n"
    file = tmp_path / "all" / f"{SESSION}.events.jsonl"
    assert file.read_text() == exported.out

    assert ash("import", str(file), "--as", "again").code == 0
    again = [json.loads(line) for line in ash("export", "again", "--format", "events").out.splitlines()]
    session = str(session_id_for("ash", "again"))
    assert again == [{**line, "sessionId": session} for line in lines]
    assert ash("export", "again").out == exported.out


@pytest.mark.slow
def test_exports_events_over_http(ash: Ash, stream: list[Any], database_url: str, tmp_path: Path) -> None:
    exported = ash("export", "kite", "--format", "events").out
    with (
        running("serve", "--port", "0", home=tmp_path, ASH_DATABASE_URL=database_url) as server,
        urlopen(f"{server.address}/api/sessions/{SESSION}/export?format=events") as response,
    ):
        name = f'attachment; filename="{SESSION}.events.jsonl"'
        assert (response.read().decode(), response.headers["Content-Disposition"]) == (exported, name)


async def test_exported_events_include_posted_ones(ash: Ash, connection: AsyncConnection) -> None:
    session = (await create_session(connection, external_id="mixed")).session.id
    numbers = count(1)
    posted = {"id": "p1", "timestamp": 5, "type": "holo", "payload": {"n": 7}, "more": [1]}
    for text in ("hello", None, "there"):
        if text is None:
            await append_events(connection, session, [posted])
        else:
            await append(
                connection, session, [prepare_message(session, text, id=f"m{next(numbers)}", role="user")]
            )
    stored = [json.loads(each.content) for each in await get_events(connection, session)]

    lines = [json.loads(line) for line in ash("export", "mixed", "--format", "events").out.splitlines()]
    assert lines == stored
    assert {**posted, "sessionId": str(session)} in lines


REBUILT: dict[str, tuple[str, ...]] = {
    "outdated sessions": (),
    "a named session": ("kite",),
    "all sessions": ("--all",),
}


@pytest.mark.slow
def test_rebuilds_events(ash: Ash, stream: list[dict[str, Any]], database_url: str) -> None:
    messages, last = len(STREAM.read_bytes().splitlines()), len(stream)
    with psycopg.connect(database_url) as conn:
        conn.execute("UPDATE session_counters SET normalizer_version = %s", [NORMALIZER_VERSION - 1])
    for name, arguments in REBUILT.items():
        rebuilt = ash("reindex", *arguments)
        log = json.loads(ash("events", "kite", "--limit", "1000", "--json").out)["events"]

        summary = f"1 session: {messages} messages read, 0 updated, {len(stream) + 1} events written\n"
        assert (name, rebuilt.out) == (name, summary)
        assert (name, log[0]["type"], log[0]["sequence"]) == (name, "reset", last + 1)
        assert [(each["type"], each["payload"]) for each in log[1:]] == [
            (each["type"], each["payload"]) for each in stream
        ]
        last = log[-1]["sequence"]


def test_reindex_keeps_events_of_this_version(ash: Ash, stream: list[dict[str, Any]]) -> None:
    assert ash("reindex").out == "0 sessions: 0 messages read, 0 updated, 0 events written\n"
    assert json.loads(ash("events", "kite", "--limit", "1000", "--json").out)["events"] == stream
