"""The session of a transcript is found by the names and the text in it, not by its path."""

import asyncio
import json
import os
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
import zstandard
from psycopg import AsyncConnection

from ash_server.cli.import_.files import ImportReport, import_paths
from ash_server.cli.import_.options import ImportOptions
from ash_server.store import Store
from ash_server.store.sessions import session_id_for
from ash_server.transfer.exporting.jsonl import export_messages
from ash_server.transfer.importing import lines
from ash_server.transfer.importing.file_import import import_file
from ash_server.transfer.importing.identity import name_session
from tests.server.transcripts import opencode_message, opencode_part, opencode_session, write
from tests.shared.records import claude as claude_records
from tests.shared.records import codex as codex_records
from tests.waiting import until


def claude(*numbers: str, session: str = "s1", **more: Any) -> str:
    """Return lines of a Claude session, one per number; each second one answers, with 10 tokens."""
    return "".join(
        map(_claude_line, numbers, [{"sessionId": session, "cwd": "/work", **more}] * len(numbers))
    )


def _claude_line(number: str, base: dict[str, Any]) -> str:
    if int(number.rstrip("x")) % 2 == 1:
        line = claude_records.line("user", f"prompt {number}", uuid=f"u{number}", **base)
    else:
        usage = {"input_tokens": 6, "output_tokens": 4}
        answer = {"id": f"m{number}", "stop_reason": "end_turn", "usage": usage}
        words = [claude_records.text(f"answer {number}")]
        line = claude_records.line("assistant", words, answer, uuid=f"u{number}", **base)
    return json.dumps(line) + "\n"


def codex(*texts: str, session: str = "c1", origins: Sequence[str] = (), time: int = 1, **more: Any) -> str:
    """Return a rollout: its header, the headers of the sessions it was forked from, and an item per text."""
    stamp = f"2026-03-03T10:00:0{time}.000Z"
    lines = [
        *(
            codex_records.line(
                "session_meta", stamp, id=name, cwd="/work", **(more if name == session else {})
            )
            for name in (session, *origins)
        ),
        *(codex_records.message_item("user", text, time=stamp) for text in texts),
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


def gemini(*texts: str) -> str:
    """Return a session of Gemini CLI as one document."""
    messages = [{"id": text, "type": "user", "content": text} for text in texts]
    document = {
        "sessionId": "g1",
        "projectHash": "p",
        "startTime": "2026-03-03T10:00:00Z",
        "messages": messages,
    }
    return json.dumps(document, indent=2) + "\n"


class Step(NamedTuple):
    """A file as it is imported; it is removed afterwards."""

    path: str
    text: str
    options: ImportOptions = ImportOptions()


class Stored(NamedTuple):
    """A session, as far as it depends on the identity of its transcript."""

    name: str
    text: str
    path: str | None = None
    copy_of: str | None = None
    copied: int | None = None


A, B = "a.jsonl", "b/b.jsonl"
PACKED = "b/a.jsonl.zst"
REPLACE = ImportOptions(replace=True)
NAMED = ImportOptions(name="mine")
TWO, FOUR = claude("1", "2"), claude("1", "2", "3", "4")
EDITED = claude("1", "2", "3") + claude("4").replace("answer", "another")
OTHER = claude("7", "8", session="s2")
RESUMED = FOUR.replace('"prompt 1"', '[{"type": "text", "text": "prompt 1"}]')
UNNAMED = '{"type":"user","uuid":"u1","message":{"role":"user","content":"hi"}}\n'
AGENT = claude("11", "12", agentId="a1")

SAME: dict[str, tuple[list[Step], list[Stored]]] = {
    "in another folder": ([Step(A, TWO), Step(B, TWO)], [Stored(A, TWO, B)]),
    "compressed": ([Step(A, TWO), Step(PACKED, TWO)], [Stored(A, TWO, "b/a.jsonl")]),
    "back again": ([Step(A, TWO), Step(B, TWO), Step(A, TWO)], [Stored(A, TWO)]),
    "grown elsewhere": ([Step(A, TWO), Step(B, FOUR)], [Stored(A, FOUR, B)]),
    "shorter": ([Step(A, FOUR), Step(B, TWO)], [Stored(A, FOUR, B)]),
    "without the last newline": ([Step(A, TWO), Step(B, TWO[:-1])], [Stored(A, TWO, B)]),
    "with the last newline": ([Step(A, TWO[:-1]), Step(B, TWO)], [Stored(A, TWO, B)]),
    "cut within a line": ([Step(A, FOUR), Step(B, FOUR[:-30])], [Stored(A, FOUR, B)]),
    "cut, then grown": (
        [Step(A, TWO + claude("3")[:-30]), Step(B, FOUR), Step(A, FOUR)],
        [Stored(A, TWO + claude("3")[:-30] + "\n" + claude("4"))],
    ),
    "grown on a line without an end": (
        [
            Step(A, TWO[:-1]),
            *[Step(A, TWO[:-1] + claude("3") + claude("4"))] * 2,
            Step(B, TWO[:-1] + claude("3")),
        ],
        [Stored(A, FOUR, B)],
    ),
    "grown on a line without an end, twice": (
        [
            Step(A, TWO[:-1]),
            Step(A, TWO[:-1] + claude("3")[:-1]),
            Step(A, TWO[:-1] + claude("3") + claude("4")),
        ],
        [Stored(A, FOUR)],
    ),
    "a refused line": (
        [Step(A, claude("1") + "\0\n" + claude("2")), Step(B, claude("1") + "\0\n" + claude("2", "3"))],
        [Stored(A, claude("1", "2", "3"), B)],
    ),
    "a rollout in the archive": (
        [Step("sessions/r.jsonl", codex("1")), Step("archived_sessions/r.jsonl", codex("1", "2"))],
        [Stored("sessions/r.jsonl", codex("1", "2"), "archived_sessions/r.jsonl")],
    ),
    "a document": (
        [Step("a.json", gemini("1")), Step("b.json", gemini("1"))],
        [Stored("a.json", gemini("1"), "b.json")],
    ),
    "a document rewritten in place": (
        [Step("a.json", gemini("1")), Step("a.json", gemini("1", "2"))],
        [Stored("a.json", gemini("1"))],
    ),
    "replaced from elsewhere": ([Step(A, TWO), Step(B, FOUR, REPLACE)], [Stored(A, FOUR, B)]),
    "replaced by another text at its path": ([Step(A, FOUR), Step(A, EDITED, REPLACE)], [Stored(A, EDITED)]),
    "named by a person": ([Step(A, TWO, NAMED), Step(B, FOUR, NAMED)], [Stored("mine", FOUR)]),
    "recognised later": ([Step(A, "hello\n"), Step(A, "hello\n" + TWO)], [Stored(A, "hello\n" + TWO)]),
}


def record(type: str, session: str = "s1", **keys: Any) -> str:
    return json.dumps({"type": type, "sessionId": session, **keys}) + "\n"


def boundary(number: str) -> str:
    """Return the line of a compaction, which begins the conversation again."""
    return record("system", subtype="compact_boundary", uuid=f"b{number}", parentUuid=None, cwd="/work")


MODE, TITLE = record("mode", mode="normal"), record("custom-title", customTitle="Tides")
BEFORE = MODE + claude("1", "2") + record("queue-operation", operation="enqueue", content="And then?")
WHOLE = BEFORE + TITLE + boundary("1") + claude("3", "4")
COMPACTED = boundary("1") + MODE + TITLE + claude("3", "4")

REWRITTEN: dict[str, tuple[list[Step], list[Stored]]] = {
    "compacted": ([Step(A, WHOLE), Step(A, COMPACTED)], [Stored(A, WHOLE)]),
    "compacted, then grown": (
        [Step(A, WHOLE), *[Step(A, COMPACTED + claude("5", "6"))] * 2],
        [Stored(A, WHOLE + claude("5", "6"))],
    ),
    "compacted, then grown, twice": (
        [Step(A, WHOLE), Step(A, COMPACTED + claude("5")), Step(A, COMPACTED + claude("5", "6"))],
        [Stored(A, WHOLE + claude("5", "6"))],
    ),
    "compacted, settings written again": (
        [Step(A, WHOLE), *[Step(A, COMPACTED + TITLE + MODE + TITLE)] * 2],
        [Stored(A, WHOLE + TITLE + MODE + TITLE)],
    ),
    "compacted twice": (
        [
            Step(A, WHOLE),
            Step(A, COMPACTED + claude("5", "6") + boundary("2") + claude("7")),
            Step(A, boundary("2") + claude("7", "8")),
        ],
        [Stored(A, WHOLE + claude("5", "6") + boundary("2") + claude("7", "8"))],
    ),
    "compacted after lines that were never imported": (
        [Step(A, WHOLE), Step(A, boundary("2") + MODE + claude("7", "8"))],
        [Stored(A, WHOLE + boundary("2") + claude("7", "8"))],
    ),
    "compacted and moved": (
        [
            Step(A, MODE + claude("1") + boundary("1") + claude("3")),
            Step(B, MODE + boundary("1") + claude("3", "4")),
        ],
        [Stored(A, MODE + claude("1") + boundary("1") + claude("3", "4"), B)],
    ),
    "compacted, then the whole file again": (
        [Step(A, WHOLE), Step(A, COMPACTED + claude("5")), Step(B, WHOLE)],
        [Stored(A, WHOLE + claude("5"), B)],
    ),
    "a revoked answer": (
        [Step(A, FOUR), Step(A, claude("1", "3", "4", "5"))],
        [Stored(A, FOUR + claude("5"))],
    ),
}

OTHER_TEXT: dict[str, tuple[list[Step], list[Stored]]] = {
    "compacted, with another text": (
        [Step(A, WHOLE), Step(A, COMPACTED.replace("prompt 3", "order 3"))],
        [Stored(A, WHOLE), Stored(A, COMPACTED.replace("prompt 3", "order 3"))],
    ),
    "records in another order": (
        [Step(A, FOUR), Step(A, claude("2", "1", "3", "4"))],
        [Stored(A, FOUR), Stored(A, claude("2", "1", "3", "4"), None, A, 4)],
    ),
    "another end": (
        [Step(A, FOUR), Step(A, claude("1", "2", "5", "6"))],
        [Stored(A, FOUR), Stored(A, claude("1", "2", "5", "6"), None, A, 2)],
    ),
    "another line between the stored ones, elsewhere": (
        [Step(A, FOUR), Step(B, claude("1", "2", "5", "3", "4"))],
        [Stored(A, FOUR), Stored(B, claude("1", "2", "5", "3", "4"), None, A, 2)],
    ),
    "another end after a compaction, elsewhere": (
        [Step(A, WHOLE), Step(B, boundary("2") + claude("7", "8"))],
        [Stored(A, WHOLE), Stored(B, boundary("2") + claude("7", "8"))],
    ),
}

OWN: dict[str, tuple[list[Step], list[Stored]]] = {
    "another last line": (
        [Step(A, FOUR), Step(B, EDITED.replace('"u4"', '"u5"'))],
        [Stored(A, FOUR), Stored(B, EDITED.replace('"u4"', '"u5"'), None, A, 3)],
    ),
    "another last line at the same path": (
        [Step(A, FOUR), Step(A, EDITED), Step(A, EDITED)],
        [Stored(A, FOUR), Stored(A, EDITED, None, A, 4)],
    ),
    "a resumed session, in which texts are blocks": (
        [Step(A, TWO), Step(B, RESUMED)],
        [Stored(A, TWO), Stored(B, RESUMED, None, A, 2)],
    ),
    "other texts with the same ids": (
        [Step(A, FOUR), Step(B, FOUR.replace("prompt", "order"))],
        [Stored(A, FOUR), Stored(B, FOUR.replace("prompt", "order"))],
    ),
    "a line that is rewritten": (
        [Step(A, FOUR), Step(B, EDITED)],
        [Stored(A, FOUR), Stored(B, EDITED, None, A, 4)],
    ),
    "only the beginning of a line": (
        [Step(A, TWO + claude("3")[:-1]), Step(B, TWO + claude("3")[:-2] + ',"more":1}\n')],
        [Stored(A, TWO + claude("3")[:-1]), Stored(B, TWO + claude("3")[:-2] + ',"more":1}\n', None, A, 3)],
    ),
    "another project": (
        [Step(A, TWO), Step(B, claude("5", "6", cwd="/other"))],
        [Stored(A, TWO), Stored(B, claude("5", "6", cwd="/other"))],
    ),
    "a subagent with the parent's id": ([Step(A, TWO), Step(B, AGENT)], [Stored(A, TWO), Stored(B, AGENT)]),
    "another transcript at a known path": (
        [Step(A, TWO), Step(A, OTHER), Step(A, OTHER)],
        [Stored(A, TWO), Stored(A, OTHER)],
    ),
    "unnamed": ([Step(A, UNNAMED), Step(B, UNNAMED)], [Stored(A, UNNAMED), Stored(B, UNNAMED)]),
    "named by a person, elsewhere without": (
        [Step(A, TWO, NAMED), Step(B, TWO)],
        [Stored("mine", TWO), Stored(B, TWO)],
    ),
    "a document rewritten elsewhere": (
        [Step("a.json", gemini("1")), Step("b.json", gemini("1", "2"))],
        [Stored("a.json", gemini("1")), Stored("b.json", gemini("1", "2"))],
    ),
    "only equal headers": (
        [Step(A, codex("1")), Step(B, codex("2"))],
        [Stored(A, codex("1")), Stored(B, codex("2"))],
    ),
}

FORK = claude("1", "2", session="s9") + claude("5", "6", session="s9")
RENUMBERED = "".join(
    claude(number, session="s9", forkedFrom={"sessionId": "s1", "messageUuid": f"u{number}"}).replace(
        f'"uuid": "u{number}"', f'"uuid": "n{number}"'
    )
    for number in "12"
) + claude("5", "6", session="s9")
SECOND = RENUMBERED.replace("s9", "s10").replace('"u5"', '"u15"')
C1 = codex("1", "2", "3")
C2 = codex("1", "2", "x", session="c2", origins=["c1"], time=5)
C2_NAMED = codex("1", "2", "x", session="c2", forked_from_id="c1", time=5)
C3 = codex("1", "2", "x", "y", session="c3", origins=["c2", "c1"], time=7)
SPAWNED = codex("x", session="c2", source={"subagent": {"thread_spawn": {"parent_thread_id": "c1"}}})

FORKS: dict[str, tuple[list[Step], list[Stored]]] = {
    "equal uuids": ([Step(A, FOUR), Step(B, FORK)], [Stored(A, FOUR), Stored(B, FORK, None, A, 2)]),
    "equal uuids, the fork first": (
        [Step(B, FORK), Step(A, FOUR)],
        [Stored(B, FORK), Stored(A, FOUR, None, B, 2)],
    ),
    "named lines with new uuids": (
        [Step(A, FOUR), Step(B, RENUMBERED)],
        [Stored(A, FOUR), Stored(B, RENUMBERED, None, A, 2)],
    ),
    "named lines, the fork first": (
        [Step(B, RENUMBERED), Step(A, FOUR)],
        [Stored(B, RENUMBERED, None, A, 2), Stored(A, FOUR)],
    ),
    "two forks": (
        [Step(B, RENUMBERED), Step("c.jsonl", SECOND), Step(A, FOUR)],
        [Stored(B, RENUMBERED, None, A, 2), Stored("c.jsonl", SECOND, None, A, 2), Stored(A, FOUR)],
    ),
    "the original grows later": (
        [Step(A, claude("1")), Step(B, FORK), Step(A, FOUR)],
        [Stored(A, FOUR), Stored(B, FORK, None, A, 2)],
    ),
    "a rollout": ([Step(A, C1), Step(B, C2)], [Stored(A, C1), Stored(B, C2, None, A, 4)]),
    "a rollout, the fork first": ([Step(B, C2), Step(A, C1)], [Stored(B, C2, None, A, 4), Stored(A, C1)]),
    "a rollout that names its origin": (
        [Step(A, C1), Step(B, C2_NAMED)],
        [Stored(A, C1), Stored(B, C2_NAMED, None, A, 3)],
    ),
    "a fork of a fork": (
        [Step("c.jsonl", C3), Step(B, C2), Step(A, C1)],
        [Stored("c.jsonl", C3, None, B, 6), Stored(B, C2, None, A, 4), Stored(A, C1)],
    ),
    "a subagent that copies nothing": ([Step(A, C1), Step(B, SPAWNED)], [Stored(A, C1), Stored(B, SPAWNED)]),
    "other sessions": ([Step(A, FOUR), Step(B, OTHER)], [Stored(A, FOUR), Stored(B, OTHER)]),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


async def run(store: Store, folder: Path, step: Step) -> ImportReport:
    path = folder / step.path
    path.parent.mkdir(exist_ok=True)
    data = step.text.encode()
    path.write_bytes(zstandard.compress(data) if path.suffix == ".zst" else data)
    os.utime(path, (0, 0))
    try:
        return await import_paths(store, [path], step.options)
    finally:
        path.unlink()


async def stored(store: Store, folder: Path) -> list[Stored]:
    """Return the sessions in the order of their creation."""
    sessions = sorted([each async for each in store.sessions.list_all()], key=lambda each: each.created_at)
    names = {each.id: (each.external_id or "").removeprefix(f"{folder}/") for each in sessions}
    return [
        Stored(
            names[each.id],
            await exported(store, each.id),
            None if each.path is None else each.path.removeprefix(f"{folder}/"),
            None if each.copy_of is None else names[each.copy_of],
            each.copied_messages,
        )
        for each in sessions
    ]


async def exported(store: Store, session_id: UUID) -> str:
    return b"".join([piece async for piece in export_messages(store, session_id)]).decode()


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param(*row, id=f"{kind}: {name}", marks=() if index < 4 else pytest.mark.slow)
        for kind, rows in (
            ("same", SAME),
            ("rewritten", REWRITTEN),
            ("other text", OTHER_TEXT),
            ("own", OWN),
            ("fork", FORKS),
        )
        for index, (name, row) in enumerate(rows.items())
    ],
)
async def test_finds_the_session_of_a_transcript(
    store: Store, folder: Path, steps: list[Step], expected: list[Stored]
) -> None:
    for step in steps:
        report = await run(store, folder, step)
        assert report.unread == []

    assert await stored(store, folder) == expected


async def test_deleted_lines_of_a_compacted_transcript_stay_deleted(store: Store, folder: Path) -> None:
    await run(store, folder, Step(A, WHOLE))
    [session] = [each async for each in store.sessions.list_all()]
    count = session.message_count
    for sequence in (1, count):  # a setting, and the last line
        await store.messages.delete(session.id, sequence)

    reports = [await run(store, folder, Step(A, text)) for text in (COMPACTED, COMPACTED + claude("5"))]

    assert [report.total.counts["new"] for report in reports] == [0, 1]
    assert await exported(store, session.id) == WHOLE.removeprefix(MODE).removesuffix(claude("4")) + claude(
        "5"
    )


async def test_a_compacted_transcript_leaves_its_session_cold(store: Store, folder: Path) -> None:
    await run(store, folder, Step(A, WHOLE))
    [session] = [each async for each in store.sessions.list_all()]
    assert await store.cold.archive(session.id, datetime.now(UTC) + timedelta(days=1))

    reports = [await run(store, folder, Step(A, text)) for text in (COMPACTED, COMPACTED + claude("5"))]

    assert [report.total.counts["new"] for report in reports] == [0, 1]
    assert await exported(store, session.id) == WHOLE + claude("5")
    assert await store.cold.list_cold() == [session.id]


async def test_usage_of_copies_counts_once(store: Store, folder: Path) -> None:
    first = await run(store, folder, Step(A, FOUR))
    fork = await run(store, folder, Step(B, FORK))
    [original], [copy] = first.session_ids, fork.session_ids
    before = [await total_tokens(store, each) for each in (original, copy)]
    await store.sessions.delete(original)

    assert before == [20, 10]
    assert (await total_tokens(store, copy), (await store.sessions.get(copy)).copy_of) == (20, None)


LINEAGE = {
    "a/a.jsonl": FOUR,
    "a/b.jsonl": FORK,
    "a/c.jsonl": claude("1", "2", "5", "6", "7", "8", session="s10"),
    "a/d.jsonl": claude("1", "2", "9", "10", session="s11"),
}
"""A session, its fork, a fork of the fork, and another fork of the session."""


@pytest.mark.parametrize(
    ("deleted", "expected"),
    [
        ("a", {"b": (None, None, 20), "c": ("b", 4, 10), "d": ("b", 2, 10)}),
        ("b", {"a": (None, None, 20), "c": ("a", 2, 20), "d": ("a", 2, 10)}),
        ("c", {"a": (None, None, 20), "b": ("a", 2, 10), "d": ("a", 2, 10)}),
    ],
)
async def test_usage_of_copies_counts_once_after_a_deletion(
    store: Store, folder: Path, deleted: str, expected: dict[str, tuple[str | None, int | None, int]]
) -> None:
    for path, text in LINEAGE.items():
        await run(store, folder, Step(path, text))
    names = {each.id: Path(each.external_id or "").stem async for each in store.sessions.list_all()}
    await store.sessions.delete(next(id for id, name in names.items() if name == deleted))
    left = [each async for each in store.sessions.list_all()]

    assert {
        names[each.id]: (
            None if each.copy_of is None else names[each.copy_of],
            each.copied_messages,
            await total_tokens(store, each.id),
        )
        for each in left
    } == expected


async def total_tokens(store: Store, session_id: UUID) -> int | None:
    usage = (await store.conversation.read_summary(session_id)).usage
    return None if usage is None else usage.total_tokens


async def test_deleted_transcript_gets_its_id_again(store: Store, folder: Path) -> None:
    [first] = (await run(store, folder, Step(A, TWO))).session_ids
    await store.sessions.delete(first)
    [second] = (await run(store, folder, Step(A, FOUR))).session_ids

    assert second == first == session_id_for("claude", str(folder / A))
    assert await stored(store, folder) == [Stored(A, FOUR)]


async def test_copied_opencode_storage_is_the_same_session(store: Store, folder: Path) -> None:
    first, second = folder / "one/storage", folder / "two/storage"
    session = json.dumps(opencode_session("ses_1", "Basket", 1))
    write(first / "session/p/ses_1.json", session)
    write(first / "message/ses_1/msg_1.json", json.dumps(opencode_message("msg_1", "ses_1", "user", 2)))
    shutil.copytree(first, second)
    write(second / "message/ses_1/msg_2.json", json.dumps(opencode_message("msg_2", "ses_1", "user", 3)))
    reports = [
        await import_paths(store, [each / "session/p/ses_1.json"], ImportOptions())
        for each in (first, second)
    ]
    [stored_session] = (await store.sessions.list_sessions()).sessions

    assert [dict(each.total.counts) for each in reports] == [{"new": 2}, {"existing": 2, "new": 1}]
    assert stored_session.path == str(second / "session/p/ses_1.json")


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1)])
async def test_marks_fork_of_opencode(store: Store, folder: Path, order: Sequence[int]) -> None:
    """It has the messages of its origin with their times, under new ids, and does not name the origin."""
    storage, start = folder / "storage", 1_772_701_200_000

    def write_session(number: int, title: str, created: int, texts: dict[int, str]) -> None:
        session = f"ses_{number}"
        write(
            storage / f"session/p/{session}.json",
            json.dumps(opencode_session(session, title, start + created)),
        )
        for index, (time, text) in enumerate(texts.items()):
            message, part = f"msg_{number}{index}", f"prt_{number}{index}"
            role = "assistant" if index % 2 else "user"
            summary = {"summary": {"title": f"{title} {text}"}}
            document = opencode_message(message, session, role, start + time) | summary
            write(storage / f"message/{session}/{message}.json", json.dumps(document))
            write(
                storage / f"part/{message}/{part}.json",
                json.dumps(opencode_part(part, message, session, text)),
            )

    write_session(1, "Basket", 0, {1: "Why?", 2: "Because.", 3: "And now?"})
    write_session(2, "Basket (fork #1)", 3, {1: "Why?", 2: "Because.", 4: "And now?"})
    write_session(3, "Other", 0, {5: "Why?", 6: "Because."})
    paths = [storage / f"session/p/ses_{number}.json" for number in order]
    await import_paths(store, paths, ImportOptions())
    sessions = {each.title: each async for each in store.sessions.list_all()}
    fork = sessions["Basket (fork #1)"]

    assert (fork.copy_of, fork.copied_messages) == (sessions["Basket"].id, 5)
    assert [sessions[title].copy_of for title in ("Basket", "Other")] == [None, None]


@pytest.mark.parametrize("has_path", [False, True])
async def test_finds_sessions_that_have_no_names_yet(
    store: Store, connection: AsyncConnection, folder: Path, has_path: bool
) -> None:
    """Sessions of earlier versions have no path."""
    await run(store, folder, Step(A, TWO))
    await connection.execute(f"UPDATE sessions SET lineage = NULL{'' if has_path else ', path = NULL'}")
    await run(store, folder, Step(A if has_path else B, FOUR))

    assert await stored(store, folder) == [Stored(A, FOUR, None if has_path else B)]


async def test_names_transcripts_of_an_earlier_version(
    store: Store, connection: AsyncConnection, folder: Path
) -> None:
    """Of several provider's ids, it has stored only the last one; a posted session is no transcript."""
    text = claude("1", "2") + claude("3", "4", session="s2")
    posted = await store.sessions.create(external_id="posted")
    await store.messages.append(posted.id, claude("1", "2", session="s9").splitlines())
    await run(store, folder, Step(A, text))
    await connection.execute("UPDATE sessions SET lineage = NULL, path = NULL")
    for session_id in [each async for each in store.sessions.list_ids()]:
        await name_session(store, session_id)
    await run(store, folder, Step(B, text))

    assert (await store.sessions.get(posted.id)).path is None
    assert await stored(store, folder) == [
        Stored("posted", claude("1", "2", session="s9")),
        Stored(A, text, B),
    ]


async def test_marks_transcripts_that_an_earlier_version_stored_twice(
    store: Store, connection: AsyncConnection, folder: Path
) -> None:
    for name in (A, B):
        path = write(folder / name, TWO)
        await import_file(store, path, str(path))
    await connection.execute("UPDATE sessions SET path = NULL")
    for _ in range(2):
        for name in (A, B):
            await run(store, folder, Step(name, FOUR))

    assert await stored(store, folder) == [Stored(A, FOUR), Stored(B, FOUR, None, A, 4)]


async def test_marks_fork_whose_import_was_interrupted(
    store: Store, connection: AsyncConnection, folder: Path
) -> None:
    """All lines are stored, but the session is not compared with others and has no path yet."""
    for step in (Step(A, FOUR), Step(B, FORK)):
        await run(store, folder, step)
    await connection.execute("UPDATE sessions SET path = NULL, copy_of = NULL, copied_messages = NULL")
    await run(store, folder, Step(B, FORK))

    assert await stored(store, folder) == [Stored(A, FOUR), Stored(B, FORK, None, A, 2)]


async def test_marks_copy_of_appended_session(store: Store, folder: Path) -> None:
    """Its messages are not lines of a file, so the import does not continue it."""
    session = await store.sessions.create(external_id="posted")
    await store.messages.append(session.id, TWO.splitlines())
    await run(store, folder, Step(A, FOUR))

    assert await stored(store, folder) == [Stored("posted", TWO), Stored(A, FOUR, None, "posted", 2)]


@pytest.mark.parametrize("is_parent_first", [True, False])
async def test_subagent_finds_its_moved_parent(store: Store, folder: Path, is_parent_first: bool) -> None:
    """The parent was imported from elsewhere, so its id does not follow from the path next to the subagent."""
    [parent] = (await run(store, folder, Step("old/s1.jsonl", TWO))).session_ids
    steps = [Step("b/s1.jsonl", FOUR), Step("b/agent-a1.jsonl", AGENT)]
    for step in steps if is_parent_first else reversed(steps):
        write(folder / step.path, step.text)
        await import_paths(store, [folder / step.path], ImportOptions())
    [child] = [each for each in (await store.sessions.list_sessions()).sessions if each.id != parent]

    assert child.parent_id == parent
    paths = [str(folder / step.path) for step in steps]
    assert await store.transcripts.list_imported("claude", [*paths, "elsewhere"]) == set(paths)


async def test_counts_bytes_once_when_a_file_is_compared_again(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_MAX_BATCH_LINES", 1)
    await run(store, folder, Step(A, FOUR))
    path = write(folder / "c.jsonl", EDITED)
    done: list[int] = []
    await import_file(store, path, "c", identify=True, advance=done.append)

    assert (sum(done), min(done) > 0) == (len(EDITED), True)


CONCURRENT = {
    "equal texts": (FOUR, FOUR, {FOUR}),
    "a prefix": (TWO, FOUR, {FOUR}),
    "a prefix without a newline": (TWO[:-1], FOUR, {FOUR}),
    "a fork": (FOUR, TWO + claude("13", "14"), {FOUR, TWO + claude("13", "14")}),
}


@pytest.mark.parametrize("batch", [1, 200])
@pytest.mark.parametrize("case", CONCURRENT)
async def test_concurrent_imports_share_one_claim(
    store: Store,
    connection: AsyncConnection,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    case: str,
    batch: int,
) -> None:
    """Both imports wait for the claim; then each continues as the scheduler decides."""
    monkeypatch.setattr(lines, "_MAX_BATCH_LINES", batch)
    *texts, expected = CONCURRENT[case]
    paths = [write(folder / name, str(text)) for name, text in zip((A, B), texts, strict=True)]
    async with Store.open(store.url) as other:
        await connection.execute("BEGIN; LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE")
        imports = [
            asyncio.create_task(import_file(each, path, path.name, identify=True))
            for each, path in zip((store, other), paths, strict=True)
        ]
        await until(lambda: are_waiting(connection, len(imports)))
        await connection.execute("COMMIT")
        imported = await asyncio.gather(*imports)
    sessions = await stored(store, folder)

    assert {each.text for each in sessions} == expected
    assert [each.copied for each in sessions] == ([None] if len(sessions) == 1 else [None, 2])
    assert {each.session_id for each in imported} == {each.id async for each in store.sessions.list_all()}


async def are_waiting(connection: AsyncConnection, count: int) -> bool:
    waiting = await connection.execute("SELECT FROM pg_locks WHERE NOT granted AND database IS NOT NULL")
    return waiting.rowcount == count
