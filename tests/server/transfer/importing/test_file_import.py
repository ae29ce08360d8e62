"""Import of files and export of the same bytes, on a real PostgreSQL."""

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
import zstandard
from psycopg import AsyncConnection

from ash_server.errors import SessionNotFound
from ash_server.store import Store, message_pages
from ash_server.store.message_pages import list_messages
from ash_server.store.messages import append
from ash_server.store.prepare import line_id, prepare_message
from ash_server.store.session_rows import get_session
from ash_server.store.sessions import create_session, session_id_for, update_session
from ash_server.transfer.exporting.jsonl import export_messages
from ash_server.transfer.importing import file_import, lines, result
from ash_server.transfer.importing.file_import import import_file
from ash_server.transfer.importing.result import LineProblem
from tests.cluster import not_on_cluster

CORPUS = Path(__file__).parents[5] / "shared" / "corpus" / "claude_code_jsonl"

USER = b'{"type":"user","uuid":"u1","message":{"role":"user","content":"hi"}}'
ANSWER = (
    b'{"type":"assistant","uuid":"u2","message":{"role":"assistant","content":[{"type":"text","text":"ho"}]}}'
)


class Importer:
    """Imports one file repeatedly, as it changes."""

    def __init__(self, store: Store, conn: AsyncConnection, path: Path) -> None:
        self.store = store
        self.conn = conn
        self.path = path

    async def __call__(
        self, data: bytes, *, replace: bool = False, still_written: bool = False
    ) -> tuple[dict[Any, int], list[LineProblem]]:
        self.path.write_bytes(data)
        if not still_written:
            os.utime(self.path, (0, 0))
        done: list[int] = []
        imported = await import_file(self.store, self.path, "name", replace=replace, advance=done.append)
        self.session_id = imported.session_id
        assert sum(done) == len(data)
        return dict(imported.result.counts), imported.result.problems

    async def exported(self) -> bytes:
        return b"".join([piece async for piece in export_messages(self.store, self.session_id)])

    async def rows(self) -> list[tuple[object, ...]]:
        """Return all columns of all stored rows."""
        tables = ("sessions", "session_counters", "messages")
        cursors = [await self.conn.execute(f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables]
        return [row for cursor in cursors for row in await cursor.fetchall()]


@pytest.fixture
def importer(store: Store, connection: AsyncConnection, tmp_path: Path) -> Importer:
    return Importer(store, connection, tmp_path / "session.jsonl")


KEPT = {
    "lines": USER + b"\n" + ANSWER + b"\n",
    "no last newline": USER + b"\n" + ANSWER,
    "CRLF": USER + b"\r\n" + ANSWER + b"\r\n",
    "blank lines": b"\n\n" + USER + b"\n\n \n" + ANSWER + b"\n\n",
    "a broken line": USER + b'\n{"type":"user","mess\n' + ANSWER + b"\n",
    "duplicate lines": USER + b"\n" + USER + b"\n",
    "not JSON": b"Starting up\n[INFO] ready\n",
    "other line separators": b"a\rb\xe2\x80\xa8c\x0bd\n",
    "a byte order mark": b"\xef\xbb\xbf" + USER + b"\n",
    "a document": b'{\n  "role": "user",\n  "content": "hi"\n}\n',
    "a document without a last newline": b'[\n{"role":"user","content":"hi"}\n]',
    "odd JSON": b'{"a":NaN,"a":1e400,"b":"\\u0000\\ud800"}\n',
    "one newline": b"\n",
}


@pytest.mark.parametrize("name", KEPT)
async def test_export_returns_the_imported_bytes(importer: Importer, name: str) -> None:
    data = KEPT[name]
    counts, problems = await importer(data)
    rows = await importer.rows()

    assert await importer.exported() == data
    assert problems == []
    assert await importer(data) == ({"existing": counts["new"]} if counts else {}, [])
    assert await importer.rows() == rows


GROWN = {
    "by a line": (b"a\n", b"a\nb\n", {"existing": 1, "new": 1}),
    "from an empty file": (b"", b"a\nb", {"new": 2}),
    "by a newline": (b"a", b"a\n", {"existing": 1}),
    "after a line without newline": (b"a", b"a\nb", {"existing": 1, "new": 1}),
    "until a format is recognised": (b"Hello\n", b"Hello\n" + USER + b"\n", {"existing": 1, "new": 1}),
}


@pytest.mark.parametrize("name", GROWN)
async def test_import_continues_where_a_file_has_grown(importer: Importer, name: str) -> None:
    before, after, counts = GROWN[name]
    await importer(before)

    assert await importer(after) == (counts, [])
    assert await importer.exported() == after


REWRITTEN = "differs from the imported text"
SHORTER = "the file ends before a stored line"
CHANGED = {
    "a line": (
        b"a\nb\nc\n",
        b"a\nX\nc\n",
        {"existing": 2, "changed": 1},
        [LineProblem("changed", 2, 2, REWRITTEN)],
    ),
    "a line, and one is new": (
        b"a\nb\n",
        b"X\nb\nc\n",
        {"existing": 1, "changed": 1, "new": 1},
        [LineProblem("changed", 1, 0, REWRITTEN)],
    ),
    "a line that cannot be stored now": (
        b"a\n",
        b"\0\n",
        {"changed": 1},
        [LineProblem("changed", 1, 0, REWRITTEN)],
    ),
    "a last line that was incomplete": (
        b"a\n{b",
        b"a\n{b}\n",
        {"existing": 1, "changed": 1},
        [LineProblem("changed", 2, 2, REWRITTEN)],
    ),
    "shorter": (b"a\nb\n", b"a\n", {"existing": 1, "changed": 1}, [LineProblem("changed", 2, 2, SHORTER)]),
    "empty": (b"a", b"", {"changed": 1}, [LineProblem("changed", 1, 0, SHORTER)]),
    "a document": (
        b'{\n"a":1}\n',
        b'{\n"a":2}\n',
        {"changed": 1},
        [LineProblem("changed", 1, 0, REWRITTEN)],
    ),
    "a document, and lines now": (
        b'{\n"a":1}\n',
        b'{\n"a":1}\n{"b":2}\n',
        {"changed": 1},
        [LineProblem("changed", 1, 0, REWRITTEN)],
    ),
    "shorter, before a refused line": (
        b"a\n\0\nc\n",
        b"a\n",
        {"existing": 1, "changed": 1},
        [LineProblem("changed", 2, 2, SHORTER)],
    ),
    "a line that was refused at import": (
        b"a\n\0\nc\n",
        b"a\nb\nc\n",
        {"existing": 2, "changed": 1},
        [LineProblem("changed", 2, 2, "was not stored at import")],
    ),
}


@pytest.mark.parametrize("name", CHANGED)
async def test_reports_changed_lines_and_keeps_the_stored_ones(importer: Importer, name: str) -> None:
    before, after, counts, problems = CHANGED[name]
    await importer(before)
    stored = await importer.exported()

    assert await importer(after) == (counts, problems)
    assert (await importer.exported()).startswith(stored)
    counts, problems = await importer(after, replace=True)
    assert (set(counts) - {"refused"}, await importer.exported()) == (
        {"new"} if after.strip(b"\0\n") else set(),
        after.replace(b"\0\n", b""),
    )


NUL = "contains a NUL byte, which PostgreSQL cannot store"
UTF8 = "is not valid UTF-8"
REFUSED = {
    "a NUL": (b"a\nb\0c\nd\n", b"a\nd\n", {"new": 2, "refused": 1}, [LineProblem("refused", 2, 3, NUL)]),
    "a byte that is not UTF-8": (
        b"a\nbc\xff\nd",
        b"a\nd",
        {"new": 2, "refused": 1},
        [LineProblem("refused", 2, 4, UTF8)],
    ),
    "a lone surrogate in UTF-8": (
        b"\xed\xa0\x80\n",
        b"",
        {"refused": 1},
        [LineProblem("refused", 1, 0, UTF8)],
    ),
    "the last line, which has no newline": (
        b"a\n\0",
        b"a\n",
        {"new": 1, "refused": 1},
        [LineProblem("refused", 2, 2, NUL)],
    ),
    "only refused lines": (
        b"\0\n\0\n",
        b"",
        {"refused": 2},
        [LineProblem("refused", 1, 0, NUL), LineProblem("refused", 2, 2, NUL)],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_reports_refused_lines_and_imports_the_others(importer: Importer, name: str) -> None:
    data, stored, counts, problems = REFUSED[name]
    again = {"existing" if outcome == "new" else outcome: count for outcome, count in counts.items()}

    assert await importer(data) == (counts, problems)
    assert await importer.exported() == stored
    assert await importer(data) == (again, problems)
    assert await importer.exported() == stored


async def test_reports_a_line_that_is_too_long(importer: Importer, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (lines, result):
        monkeypatch.setattr(module, "MAX_LINE_BYTES", 5)

    assert await importer(b"short\nlonger\nshort\n") == (
        {"new": 2, "refused": 1},
        [LineProblem("refused", 2, 6, "longer than 5 bytes")],
    )


async def test_counts_problems_beyond_the_limit(importer: Importer) -> None:
    counts, problems = await importer(b"\0\n" * 1000)

    assert (counts, [problem.line for problem in problems]) == ({"refused": 1000}, list(range(1, 101)))


@pytest.mark.parametrize("batch", [1, 2, 3, 1000])
async def test_results_do_not_depend_on_the_batch_size(
    importer: Importer, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(lines, "_MAX_BATCH_LINES", batch)
    await importer(b"a\n\0\nb\n\xff\n\xff\nc\n\0\n")

    assert await importer(b"a\nx\nb\n\xff\ny\nc\n\0\nd\n\0\n") == (
        {"existing": 3, "new": 1, "changed": 2, "refused": 3},
        [
            LineProblem("changed", 2, 2, "was not stored at import"),
            LineProblem("refused", 4, 6, UTF8),
            LineProblem("changed", 5, 8, "was not stored at import"),
            LineProblem("refused", 7, 12, NUL),
            LineProblem("refused", 9, 16, NUL),
        ],
    )
    assert await importer.exported() == b"a\nb\nc\nd\n"


@pytest.mark.slow
@not_on_cluster("statistics of earlier tests remain in its database")
async def test_looks_stored_lines_up_by_index(importer: Importer) -> None:
    await importer(b"a\n" * 2000)
    look_up = "EXPLAIN " + message_pages.STORED_TEXTS
    plan = await importer.conn.execute(
        look_up, [[str(n) for n in range(200)], importer.session_id], binary=True
    )

    assert "Index Scan using messages_session_id_id_key" in str(await plan.fetchall())


async def test_stores_role_kind_and_source_of_lines(importer: Importer) -> None:
    await importer(USER + b"\n\n" + ANSWER)
    stored = await list_messages(importer.conn, importer.session_id)
    session = await get_session(importer.conn, importer.session_id)

    assert [(each.id, each.role, each.kind, each.source, each.sequence, each.content) for each in stored] == [
        (line_id(importer.session_id, 1), "user", "message", "claude", 1, USER.decode()),
        (line_id(importer.session_id, 2), "user", "message", "unknown", 2, ""),
        (line_id(importer.session_id, 3), "assistant", "message", "claude", 3, ANSWER.decode()),
    ]
    assert (session.id, session.source, session.external_id) == (
        session_id_for("claude", "name"),
        "claude",
        "name",
    )


async def test_explicit_source_overrides_detection(
    store: Store, connection: AsyncConnection, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(USER)
    imported = await import_file(store, path, "name", source="other")
    stored = await list_messages(connection, imported.session_id)

    assert (imported.session_id, [each.source for each in stored]) == (
        session_id_for("other", "name"),
        ["other"],
    )


async def test_imports_into_an_existing_session(importer: Importer) -> None:
    session = (await create_session(importer.conn, source="claude", external_id="name", title="Mine")).session
    await append(importer.conn, session.id, [prepare_message(session.id, "before")])

    assert await importer(USER + b"\n") == ({"new": 1}, [])
    assert (importer.session_id, await importer.exported()) == (session.id, b"before\n" + USER + b"\n")


async def test_replace_keeps_title_and_metadata(importer: Importer) -> None:
    await importer(b"a\n")
    session_id = importer.session_id
    await update_session(importer.conn, session_id, title="Mine", metadata={"starred": True})
    await importer(USER + b"\n", replace=True)
    session = await get_session(importer.conn, importer.session_id)

    assert (session.id, session.title, session.metadata, session.source, session.message_count) == (
        session_id,
        "Mine",
        {"starred": True},
        "claude",
        1,
    )


WHOLE = USER + b"\n"
CUT = ANSWER[:-9]
INCOMPLETE = {
    "a line": (WHOLE + CUT, {"new": 1, "incomplete": 1}, WHOLE),
    "the line after a blank one": (b"\n" + CUT, {"new": 1, "incomplete": 1}, b"\n"),
    "cut in a letter": (WHOLE + '{"a":"é'.encode()[:-1], {"new": 1, "incomplete": 1}, WHOLE),
    "a list": (WHOLE + b'\xef\xbb\xbf [{"a":', {"new": 1, "incomplete": 1}, WHOLE),
    "complete, without a newline": (WHOLE + ANSWER, {"new": 2}, WHOLE + ANSWER),
    "no JSON": (WHOLE + b"Rea", {"new": 2}, WHOLE + b"Rea"),
    "with a newline": (WHOLE + CUT + b"\n", {"new": 2}, WHOLE + CUT + b"\n"),
    "an earlier broken line": (CUT + b"\n" + USER, {"new": 2}, CUT + b"\n" + USER),
}


@pytest.mark.parametrize("name", INCOMPLETE)
async def test_skips_an_incomplete_last_line(importer: Importer, name: str) -> None:
    data, counts, kept = INCOMPLETE[name]

    assert await importer(data, still_written=True) == (counts, [])
    assert await importer.exported() == kept


@pytest.mark.parametrize(("data", "counts"), [(b"", {}), (CUT, {"incomplete": 1})])
async def test_nothing_to_store_makes_no_session(
    importer: Importer, data: bytes, counts: dict[str, int]
) -> None:
    assert await importer(data, still_written=True) == (counts, [])
    assert await importer.rows() == []


async def test_imports_a_skipped_line_once_it_is_complete(importer: Importer) -> None:
    results = [
        await importer(data, still_written=True)
        for data in (WHOLE + CUT[:20], WHOLE + CUT, WHOLE + ANSWER, WHOLE + ANSWER + b"\n{")
    ]

    assert results == [
        ({"new": 1, "incomplete": 1}, []),
        ({"existing": 1, "incomplete": 1}, []),
        ({"existing": 1, "new": 1}, []),
        ({"existing": 2, "incomplete": 1}, []),
    ]
    assert await importer.exported() == WHOLE + ANSWER + b"\n"


@pytest.mark.parametrize(("age", "incomplete"), [(0, 1), (590, 1), (610, 0), (-590, 1), (-99_999, 0)])
async def test_imports_incomplete_lines_of_old_files(
    store: Store, tmp_path: Path, age: int, incomplete: int
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(WHOLE + CUT)
    os.utime(path, (time.time() - age,) * 2)

    assert (await import_file(store, path, "a")).result.counts["incomplete"] == incomplete


async def test_skips_incomplete_lines_of_compressed_files_but_not_of_documents(
    store: Store, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl.zst").write_bytes(zstandard.compress(WHOLE + CUT))
    (tmp_path / "a.json").write_bytes(CUT)

    counts = [
        dict((await import_file(store, tmp_path / name, name)).result.counts)
        for name in ("a.jsonl.zst", "a.json")
    ]
    assert counts == [{"new": 1, "incomplete": 1}, {"new": 1}]


def _cancel() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


def _fail() -> None:
    raise RuntimeError


@pytest.mark.parametrize(("stop", "error"), [(_cancel, asyncio.CancelledError), (_fail, RuntimeError)])
async def test_continues_after_an_interruption(
    monkeypatch: pytest.MonkeyPatch,
    store: Store,
    connection: AsyncConnection,
    tmp_path: Path,
    stop: Callable[[], None],
    error: type[BaseException],
) -> None:
    """Interrupt while the next, much longer batch is being read."""
    monkeypatch.setattr(file_import, "_YIELD_EVERY", 1)
    monkeypatch.setattr(lines, "_MAX_BATCH_LINES", 2000)
    monkeypatch.setattr(lines, "_MAX_BATCH_BYTES", 5000)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"a" * 4999 + b"\n" + b"b\n" * 2000)

    with pytest.raises(error):
        await asyncio.create_task(_import(store, path, lambda _: stop()))
    assert not [task for task in asyncio.all_tasks() if "_next_batch" in str(task.get_coro())]
    kept = await list_messages(connection, session_id_for("unknown", "a"))
    again = await import_file(store, path, "a")

    assert [each.content for each in kept] == ["a" * 4999]
    assert dict(again.result.counts) == {"existing": 1, "new": 2000}


async def _import(store: Store, path: Path, advance: Callable[[int], None]) -> None:
    await import_file(store, path, "a", advance=advance)


async def test_stops_after_a_failed_write(
    monkeypatch: pytest.MonkeyPatch, store: Store, database_url: str, tmp_path: Path
) -> None:
    monkeypatch.setattr(lines, "_MAX_BATCH_LINES", 2)
    path, done = tmp_path / "a.jsonl", list[int]()
    path.write_bytes(b"a\nb\nc\nd\ne\nf\n")

    def advance(size: int) -> None:
        done.append(size)
        with psycopg.connect(database_url) as other:
            other.execute("DELETE FROM sessions")

    with pytest.raises(SessionNotFound):
        await import_file(store, path, "a", advance=advance)

    assert done == [4]


async def test_stores_the_lines_before_an_unreadable_part(
    monkeypatch: pytest.MonkeyPatch, store: Store, connection: AsyncConnection, tmp_path: Path
) -> None:
    monkeypatch.setattr(lines, "_MAX_BATCH_LINES", 50)
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(zstandard.compress((b"a" * 9_999 + b"\n") * 1_000) + b"no frame")

    with pytest.raises(OSError, match="not valid zstd"):
        await import_file(store, path, "a")
    ((count,),) = await (await connection.execute("SELECT count(*) FROM messages")).fetchall()

    assert count > 0
    assert count % 50 == 0


def corpus_files() -> Iterable[Path]:
    return sorted(CORPUS.iterdir()) if CORPUS.is_dir() else ()


@pytest.mark.slow
async def test_exports_the_corpus_byte_for_byte(store: Store, connection: AsyncConnection) -> None:
    if not CORPUS.is_dir():
        pytest.skip("no ../shared/corpus next to the repository")
    sessions: dict[Path, UUID] = {}
    for path in corpus_files():
        sessions[path] = (await import_file(store, path, path.name)).session_id
    tables = (
        "SELECT m.*, s FROM messages m JOIN sessions s ON s.id = session_id ORDER BY session_id, sequence"
    )
    before = await (await connection.execute(tables)).fetchall()
    again = [await import_file(store, path, path.name) for path in corpus_files()]

    assert len(set(sessions.values())) == len(sessions) > 0
    for path, session_id in sessions.items():
        exported = b"".join([piece async for piece in export_messages(store, session_id)])
        assert exported == path.read_bytes(), path.name
    assert {outcome for each in again for outcome in each.result.counts} == {"existing"}
    assert await (await connection.execute(tables)).fetchall() == before


@pytest.mark.slow
async def test_identified_corpus_keeps_every_byte(store: Store) -> None:
    """Files with one text continuing the other share a session, which has the longer one."""
    if not CORPUS.is_dir():
        pytest.skip("no ../shared/corpus next to the repository")
    texts = {path: path.read_bytes() for path in corpus_files()}
    sessions = {path: (await import_file(store, path, path.name, identify=True)).session_id for path in texts}
    counts = [(await import_file(store, path, path.name, identify=True)).result.counts for path in texts]

    assert {outcome for each in counts for outcome in each} == {"existing"}
    for session_id in set(sessions.values()):
        group = [texts[path] for path in texts if sessions[path] == session_id]
        longest = max(group, key=len)
        exported = b"".join([piece async for piece in export_messages(store, session_id)])
        assert exported == longest
        assert all(longest.startswith(each) for each in group)


async def test_a_file_recognised_later_keeps_its_session(importer: Importer) -> None:
    await importer(b"hello\n")
    await importer(b"hello\n" + USER + b"\n")

    assert await importer(b"hello\n" + USER + b"\n") == ({"existing": 2}, [])


async def test_a_deleted_line_is_not_stored_again(importer: Importer, store: Store) -> None:
    await importer(USER + b"\n" + ANSWER + b"\n")
    await store.messages.delete(importer.session_id, 1)

    assert await importer(USER + b"\n" + ANSWER + b"\n") == ({"deleted": 1, "existing": 1}, [])
    assert await importer(USER + b"\n" + ANSWER + b"\nnew\n") == ({"deleted": 1, "existing": 1, "new": 1}, [])
    assert await importer.exported() == ANSWER + b"\nnew\n"
    await store.messages.delete(importer.session_id, 3)
    await importer(USER + b"\n" + ANSWER + b"\nnew\n")
    assert await importer.exported() == ANSWER + b"\n"
    assert (await importer(USER + b"\n" + ANSWER + b"\n", replace=True))[0] == {"new": 2}
