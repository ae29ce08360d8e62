"""A home folder with transcripts of five CLIs, and other files."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from tests.shared.records import claude, codex, gemini_cli

CLAUDE = "5f0c1b1e-7d0a-4a63-9d57-3b9a6f1f2f10"
CODEX = "0199c3d2-5a11-7b21-8c55-0c6f7b0e9a01"
CODEX_CHILD = "0199c3d9-11aa-7c00-9f42-6f0e8a1b2c02"
GEMINI = "9b1f7c3e-2f4d-4a35-8d8a-6c1d2e3f4a50"
GEMINI_CHILD = "c0ffee11-2f4d-4a35-8d8a-6c1d2e3f4a51"
CURSOR = "a3c1e7d2-90b4-4c58-8f6b-1d2e3f405162"
CURSOR_CHILD = "b4d2f8e3-01c5-4d69-9a7c-2e3f40516273"


class Transcript(NamedTuple):
    """A session in the home, and the expected facts after import."""

    name: str
    """Path relative to the CLI's home."""
    source: str
    title: str | None
    first_at: str | None
    last_at: str | None
    parent: str | None = None
    """Name of the parent's transcript."""


TRANSCRIPT_NAMES = {
    "projects/-home-ada-site/3f0c.jsonl": "3f0c · home-ada-site",
    "projects/-home-ada-site/3f0c/subagents/agent-a1.jsonl": "agent-a1 · home-ada-site",
    "projects/3f0c.jsonl": "3f0c",
    "sessions/2026/03/03/rollout-2026-03-03T10-00-00-0199.jsonl.zst": "rollout-2026-03-03T10-00-00-0199",
    "storage/session/global/ses_1.json": "ses_1",
    "session-state/3f0c/events.jsonl": "3f0c",
    "session-state/3f0c.jsonl": "3f0c",
    "/home/dev/runs/7.jsonl": "7 · runs",
    "/7.jsonl": "7",
    "C:\\runs\\-x\\7.b.json": "7.b · x",
    "run 7": "run 7",
    ".jsonl": ".jsonl",
    "/": "/",
}
"""Names of sessions without a title, by external id."""

_CLAUDE_BASE: dict[str, Any] = {
    "sessionId": CLAUDE,
    "version": "2.1.40",
    "cwd": "/work/shop",
    "userType": "external",
}
_CLAUDE_LINES: list[dict[str, Any]] = [
    claude.line(
        "user",
        "Why does the basket forget its items?",
        **_CLAUDE_BASE,
        parentUuid=None,
        isSidechain=False,
        uuid="10000000-0000-4000-8000-000000000001",
        timestamp="2026-03-02T09:00:00.000Z",
    ),
    claude.line(
        "assistant",
        [claude.text("The cookie is written without a path.")],
        {
            "id": "msg_1",
            "type": "message",
            "model": "claude-sonnet-4-5",
            "stop_reason": None,
            "usage": {"input_tokens": 4, "output_tokens": 9},
        },
        **_CLAUDE_BASE,
        parentUuid="10000000-0000-4000-8000-000000000001",
        isSidechain=False,
        uuid="10000000-0000-4000-8000-000000000002",
        timestamp="2026-03-02T09:00:04.500Z",
        requestId="req_1",
    ),
]
_CLAUDE_AGENT: list[dict[str, Any]] = [
    claude.line(
        "user",
        "Look for the code that writes the cookie",
        **_CLAUDE_BASE,
        parentUuid=None,
        isSidechain=True,
        agentId="a1b2c3d",
        uuid="10000000-0000-4000-8000-000000000011",
        timestamp="2026-03-02T09:00:02.000Z",
    ),
]


_OLD_CLAUDE_AGENT: list[dict[str, Any]] = [
    {**line, "agentId": "e4f5a6b", "uuid": "10000000-0000-4000-8000-000000000021"} for line in _CLAUDE_AGENT
]


_CODEX_LINES: list[dict[str, Any]] = [
    codex.line(
        "session_meta",
        time="2026-03-03T10:00:00.000Z",
        id=CODEX,
        timestamp="2026-03-03T10:00:00.000Z",
        cwd="/work/shop",
        originator="codex_cli_rs",
        cli_version="0.140.0",
        source="cli",
        model_provider="openai",
    ),
    codex.message_item("user", "Make the tests faster", time="2026-03-03T10:00:01.000Z"),
    codex.message_item("assistant", "They share one database now.", time="2026-03-03T10:00:09.000Z"),
]
_CODEX_AGENT: list[dict[str, Any]] = [
    codex.line(
        "session_meta",
        time="2026-03-03T10:00:03.000Z",
        id=CODEX_CHILD,
        timestamp="2026-03-03T10:00:03.000Z",
        cwd="/work/shop",
        originator="codex_cli_rs",
        cli_version="0.140.0",
        source={"subagent": {"thread_spawn": {"parent_thread_id": CODEX, "depth": 1}}},
        model_provider="openai",
    ),
    codex.message_item("user", "Measure each test", time="2026-03-03T10:00:04.000Z"),
]
_GEMINI_LINES: list[dict[str, Any]] = [
    {
        "sessionId": GEMINI,
        "projectHash": "0a" * 32,
        "startTime": "2026-03-04T11:00:00.000Z",
        "lastUpdated": "2026-03-04T11:00:00.000Z",
        "kind": "main",
    },
    gemini_cli.line("user", "g1", [{"text": "Draw the architecture"}], "2026-03-04T11:00:02.000Z"),
    gemini_cli.line(
        "gemini",
        "g2",
        "Three boxes and two arrows.",
        "2026-03-04T11:00:07.000Z",
        model="gemini-3-flash",
    ),
]
_GEMINI_AGENT: list[dict[str, Any]] = [
    {
        "sessionId": GEMINI_CHILD,
        "projectHash": "0a" * 32,
        "startTime": "2026-03-04T11:00:03.000Z",
        "lastUpdated": "2026-03-04T11:00:03.000Z",
        "kind": "subagent",
    },
    gemini_cli.line("user", "h1", [{"text": "List the modules"}], "2026-03-04T11:00:04.000Z"),
]
_CURSOR_LINES: list[dict[str, Any]] = [
    {"role": "user", "message": {"content": [{"type": "text", "text": "Rename the module"}]}},
    {
        "role": "assistant",
        "message": {
            "content": [
                {"type": "text", "text": "Renaming."},
                {"type": "tool_use", "name": "Shell", "input": {"command": "git mv a.py b.py"}},
            ]
        },
    },
]
_CURSOR_AGENT: list[dict[str, Any]] = [
    {"role": "user", "message": {"content": [{"type": "text", "text": "Find what imports it"}]}},
]


def opencode_message(id: str, session: str, role: str, created: int) -> dict[str, Any]:
    return {
        "id": id,
        "sessionID": session,
        "role": role,
        "time": {"created": created},
        "agent": "build",
        "providerID": "anthropic",
        "modelID": "claude-sonnet-4-5",
    }


def opencode_part(id: str, message: str, session: str, text: str) -> dict[str, Any]:
    return {"id": id, "messageID": message, "sessionID": session, "type": "text", "text": text}


def opencode_session(id: str, title: str, created: int, **more: Any) -> dict[str, Any]:
    return {
        "id": id,
        "version": "1.0.100",
        "projectID": "global",
        "directory": "/work/shop",
        "title": title,
        "time": {"created": created, "updated": created + 9000},
        **more,
    }


_AT = 1_772_701_200_000  # 2026-03-05T09:00:00Z
_OPENCODE = {
    "session/global/ses_1.json": opencode_session("ses_1", "Basket cookie", _AT),
    "message/ses_1/msg_1.json": opencode_message("msg_1", "ses_1", "user", _AT + 1000),
    "part/msg_1/prt_1.json": opencode_part("prt_1", "msg_1", "ses_1", "Write a test for the basket"),
    "message/ses_1/msg_2.json": opencode_message("msg_2", "ses_1", "assistant", _AT + 2000),
    "part/msg_2/prt_2.json": opencode_part("prt_2", "msg_2", "ses_1", "I look at the code first."),
    "part/msg_2/prt_3.json": opencode_part("prt_3", "msg_2", "ses_1", "It is written."),
    "session/global/ses_2.json": opencode_session("ses_2", "Explore", _AT + 3000, parentID="ses_1"),
    "message/ses_2/msg_3.json": opencode_message("msg_3", "ses_2", "user", _AT + 3000),
}

_FILES: dict[str, list[dict[str, Any]]] = {
    f".claude/projects/-work-shop/{CLAUDE}.jsonl": _CLAUDE_LINES,
    f".claude/projects/-work-shop/{CLAUDE}/subagents/agent-a1b2c3d.jsonl": _CLAUDE_AGENT,
    ".claude/projects/-work-shop/agent-e4f5a6b.jsonl": _OLD_CLAUDE_AGENT,
    f".codex/sessions/2026/03/03/rollout-2026-03-03T10-00-00-{CODEX}.jsonl": _CODEX_LINES,
    f".codex/sessions/2026/03/04/rollout-2026-03-04T00-00-03-{CODEX_CHILD}.jsonl": _CODEX_AGENT,
    f".gemini/tmp/0a0a/chats/session-2026-03-04T11-00-{GEMINI[:8]}.jsonl": _GEMINI_LINES,
    f".gemini/tmp/0a0a/chats/{GEMINI}/{GEMINI_CHILD}.jsonl": _GEMINI_AGENT,
    f".cursor/projects/work-shop/agent-transcripts/{CURSOR}/{CURSOR}.jsonl": _CURSOR_LINES,
    f".cursor/projects/work-shop/agent-transcripts/{CURSOR}/subagents/{CURSOR_CHILD}.jsonl": _CURSOR_AGENT,
}

_OTHER_FILES = (
    ".claude/settings.json",
    ".claude/todos/1.json",
    f".claude/projects/-work-shop/{CLAUDE}/tool-results/1.json",
    ".codex/auth.json",
    ".codex/history.jsonl",
    ".codex/sessions/2026/03/03/notes.jsonl",
    ".gemini/settings.json",
    ".gemini/tmp/0a0a/logs.json",
    ".gemini/tmp/0a0a/checkpoint-1.json",
    ".cursor/cli-config.json",
    ".cursor/projects/work-shop/mcps/1.json",
    ".local/share/opencode/auth.json",
    ".local/share/opencode/storage/project/global.json",
    ".local/share/opencode/storage/todo/ses_1.json",
)

TRANSCRIPTS = (
    Transcript(
        f"projects/-work-shop/{CLAUDE}.jsonl",
        "claude",
        "Why does the basket forget its items?",
        "2026-03-02T09:00:00Z",
        "2026-03-02T09:00:04.500000Z",
    ),
    Transcript(
        f"projects/-work-shop/{CLAUDE}/subagents/agent-a1b2c3d.jsonl",
        "claude",
        "Look for the code that writes the cookie",
        "2026-03-02T09:00:02Z",
        "2026-03-02T09:00:02Z",
        f"projects/-work-shop/{CLAUDE}.jsonl",
    ),
    Transcript(
        "projects/-work-shop/agent-e4f5a6b.jsonl",
        "claude",
        "Look for the code that writes the cookie",
        "2026-03-02T09:00:02Z",
        "2026-03-02T09:00:02Z",
        f"projects/-work-shop/{CLAUDE}.jsonl",
    ),
    Transcript(
        f"sessions/2026/03/03/rollout-2026-03-03T10-00-00-{CODEX}.jsonl",
        "codex",
        "Make the tests faster",
        "2026-03-03T10:00:00Z",
        "2026-03-03T10:00:09Z",
    ),
    Transcript(
        f"sessions/2026/03/04/rollout-2026-03-04T00-00-03-{CODEX_CHILD}.jsonl",
        "codex",
        "Measure each test",
        "2026-03-03T10:00:03Z",
        "2026-03-03T10:00:04Z",
        f"sessions/2026/03/03/rollout-2026-03-03T10-00-00-{CODEX}.jsonl",
    ),
    Transcript(
        f"tmp/0a0a/chats/session-2026-03-04T11-00-{GEMINI[:8]}.jsonl",
        "gemini_cli",
        "Draw the architecture",
        "2026-03-04T11:00:00Z",
        "2026-03-04T11:00:07Z",
    ),
    Transcript(
        f"tmp/0a0a/chats/{GEMINI}/{GEMINI_CHILD}.jsonl",
        "gemini_cli",
        "List the modules",
        "2026-03-04T11:00:03Z",
        "2026-03-04T11:00:04Z",
        f"tmp/0a0a/chats/session-2026-03-04T11-00-{GEMINI[:8]}.jsonl",
    ),
    Transcript(
        f"projects/work-shop/agent-transcripts/{CURSOR}/{CURSOR}.jsonl",
        "cursor",
        "Rename the module",
        None,
        None,
    ),
    Transcript(
        f"projects/work-shop/agent-transcripts/{CURSOR}/subagents/{CURSOR_CHILD}.jsonl",
        "cursor",
        "Find what imports it",
        None,
        None,
        f"projects/work-shop/agent-transcripts/{CURSOR}/{CURSOR}.jsonl",
    ),
    Transcript(
        "storage/session/global/ses_1.json",
        "opencode",
        "Basket cookie",
        "2026-03-05T09:00:00Z",
        "2026-03-05T09:00:09Z",
    ),
    Transcript(
        "storage/session/global/ses_2.json",
        "opencode",
        "Explore",
        "2026-03-05T09:00:03Z",
        "2026-03-05T09:00:12Z",
        "storage/session/global/ses_1.json",
    ),
)


def write_home(folder: Path) -> Path:
    """Write the transcripts as the CLIs do."""
    for name, records in _FILES.items():
        write(folder / name, "".join(f"{json.dumps(record)}\n" for record in records))
    for name, record in _OPENCODE.items():
        write(opencode_storage(folder) / name, json.dumps(record, indent=2))
    for name in _OTHER_FILES:
        write(folder / name, "{}")
    return folder


def opencode_storage(folder: Path) -> Path:
    return folder / ".local/share/opencode/storage"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
