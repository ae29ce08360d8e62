"""Sessions without timestamps get the modification time of their file, not the time of the import."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ash_server.store import Store
from ash_server.transfer.exporting.in_memory import load_in_memory
from ash_server.transfer.exporting.markdown import format_heading
from ash_server.transfer.importing.file_import import import_file
from ash_shared.model.session import Session, active_at

DAY = timedelta(days=1)
MODIFIED = datetime(2026, 3, 4, 11, tzinfo=UTC)
UNTIMED = b'{"role":"user","message":{"content":[{"type":"text","text":"Rename it"}]}}\n'
TIMED = b'{"type":"user","sessionId":"s","timestamp":"2026-03-01T09:00:00Z","message":{"role":"user","content":"hi"}}\n'


class Transcript:
    """A file that is imported as it changes."""

    def __init__(self, store: Store, path: Path) -> None:
        self.store = store
        self.path = path

    async def store_as(self, data: bytes, modified_at: datetime) -> Session:
        self.path.write_bytes(data)
        os.utime(self.path, (modified_at.timestamp(),) * 2)
        imported = await import_file(self.store, self.path, "name")
        return await self.store.sessions.get(imported.session_id)


@pytest.fixture
def transcript(store: Store, tmp_path: Path) -> Transcript:
    return Transcript(store, tmp_path / "a.jsonl")


async def event_times(store: Store, session: Session) -> set[datetime]:
    events = await store.events.get_events(session.id, limit=1000)
    return {datetime.fromtimestamp(event.timestamp / 1000, UTC) for event in events if event.type != "reset"}


async def test_untimed_session_has_the_time_of_its_file(store: Store, transcript: Transcript) -> None:
    session = await transcript.store_as(UNTIMED, MODIFIED)
    times = await event_times(store, session)
    await store.events.rebuild(session.id)
    unstored = load_in_memory(transcript.path, "name").session

    assert (session.first_at, session.last_at, session.file_modified_at) == (None, None, MODIFIED)
    assert active_at(session) == MODIFIED
    assert "file modified 2026-03-04 11:00" in format_heading(session)
    assert times == await event_times(store, session) == {MODIFIED}
    assert (unstored.file_modified_at, active_at(unstored)) == (MODIFIED, MODIFIED)


CHANGES = {
    "grown": (UNTIMED * 2, MODIFIED + DAY, MODIFIED + DAY),
    "touched": (UNTIMED, MODIFIED + DAY, MODIFIED),
    "older copy": (UNTIMED, MODIFIED - DAY, MODIFIED - DAY),
    "clock ahead": (UNTIMED, datetime(2999, 1, 1, tzinfo=UTC), MODIFIED),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_time_of_a_file_imported_again(transcript: Transcript, name: str) -> None:
    data, modified_at, expected = CHANGES[name]
    await transcript.store_as(UNTIMED, MODIFIED)

    assert (await transcript.store_as(data, modified_at)).file_modified_at == expected


async def test_times_of_messages_come_first(store: Store, transcript: Transcript) -> None:
    session = await transcript.store_as(TIMED, MODIFIED)

    assert active_at(session) == session.last_at == datetime(2026, 3, 1, 9, tzinfo=UTC)


async def test_lists_are_in_order_of_the_time_of_the_file(store: Store, tmp_path: Path) -> None:
    modified = {"new": MODIFIED, "old": MODIFIED - 3 * DAY, "middle": MODIFIED - DAY}
    for name, modified_at in modified.items():
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(UNTIMED)
        os.utime(path, (modified_at.timestamp(),) * 2)
        await import_file(store, path, name)
    first = await store.sessions.list_sessions(limit=1)
    rest = await store.sessions.list_sessions(after=first.next_after)
    since = await store.sessions.list_sessions(since=MODIFIED - 2 * DAY)

    assert [each.external_id for each in (*first.sessions, *rest.sessions)] == ["new", "middle", "old"]
    assert [each.external_id for each in since.sessions] == ["new", "middle"]
