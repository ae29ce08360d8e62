"""The session of a transcript is found by the names and the text in it, not by its path."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
import zstandard

from ash_server.cli.import_.files import ImportReport, import_paths
from ash_server.cli.import_.options import ImportOptions
from ash_server.store import Store
from ash_server.transfer.exporting.jsonl import export_messages


def claude(*numbers: str, session: str = "s1", **more: Any) -> str:
    """Return lines of a Claude session, one per number; each second one answers, with 10 tokens."""
    return "".join(
        map(_claude_line, numbers, [{"sessionId": session, "cwd": "/work", **more}] * len(numbers))
    )


def _claude_line(number: str, base: dict[str, Any]) -> str:
    is_prompt = int(number.rstrip("x")) % 2 == 1
    message: dict[str, Any] = {"role": "user", "content": f"prompt {number}"}
    if not is_prompt:
        usage = {"input_tokens": 6, "output_tokens": 4}
        text = [{"type": "text", "text": f"answer {number}"}]
        message = {
            "role": "assistant",
            "id": f"m{number}",
            "content": text,
            "stop_reason": "end_turn",
            "usage": usage,
        }
    line = {"type": "user" if is_prompt else "assistant", "uuid": f"u{number}", **base, "message": message}
    return json.dumps(line) + "\n"


def codex(*texts: str, session: str = "c1", origins: Sequence[str] = (), time: int = 1, **more: Any) -> str:
    """Return a rollout: its header, those of the sessions of which it is a fork, and one item per text."""
    headers = [
        {"id": name, "cwd": "/work", **(more if name == session else {})} for name in (session, *origins)
    ]
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        for text in texts
    ]
    records = [
        *(("session_meta", header) for header in headers),
        *(("response_item", item) for item in items),
    ]
    stamp = f"2026-03-03T10:00:0{time}.000Z"
    return "".join(
        json.dumps({"timestamp": stamp, "type": kind, "payload": payload}) + "\n" for kind, payload in records
    )


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

OWN: dict[str, tuple[list[Step], list[Stored]]] = {
    "another last line": (
        [Step(A, FOUR), Step(B, EDITED.replace('"u4"', '"u5"'))],
        [Stored(A, FOUR), Stored(B, EDITED.replace('"u4"', '"u5"'), None, A, 3)],
    ),
    "another last line at the same path": (
        [Step(A, FOUR), Step(A, EDITED), Step(A, EDITED)],
        [Stored(A, FOUR), Stored(A, EDITED, None, A, 4)],
    ),
    "a line that is written anew": (
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
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
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
    """Return the sessions in the order in which they were created."""
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
        pytest.param(*row, id=f"{kind}: {name}")
        for kind, rows in (("same", SAME), ("own", OWN), ("fork", FORKS))
        for name, row in rows.items()
    ],
)
async def test_finds_the_session_of_a_transcript(
    store: Store, folder: Path, steps: list[Step], expected: list[Stored]
) -> None:
    for step in steps:
        report = await run(store, folder, step)
        assert report.unread == []

    assert await stored(store, folder) == expected
