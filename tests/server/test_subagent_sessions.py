"""Sessions of subagents: linked to their calls, and their usage in the totals of the sessions that started them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ash_server.cli.import_.files import import_paths
from ash_server.cli.import_.options import ImportOptions
from ash_server.store import Store
from ash_server.transfer import load_session, load_sessions
from ash_server.transfer.exporting.in_memory import load_in_memory
from ash_shared.model.events import ToolResultEvent
from ash_shared.model.message import StandardMessage
from ash_shared.model.session import Session
from tests.server.transcripts import opencode_message, opencode_session, write
from tests.shared.records import claude, codex
from tests.shared.records.events import token_usage, wire_event

Line = dict[str, Any]

MAIN, CODEX = "9f0c1b1e-7d0a-4a63-9d57-3b9a6f1f2f10", "0199c3d2-5a11-7b21-8c55-0c6f7b0e9a0"
PROJECT = ".claude/projects/-work-shop"
SUBAGENTS = f"{PROJECT}/{MAIN}/subagents"
ROLLOUTS = ".codex/sessions/2026/03/03/rollout-2026-03-03T10-00-00-"
TASK = {"type": "tool_use", "id": "task", "name": "Task", "input": {"prompt": "Dig."}}


def said(id: str, tokens: int, *blocks: Line) -> Line:
    """An answer with this many output tokens and as many input tokens."""
    usage = {"input_tokens": tokens, "output_tokens": tokens}
    content = blocks or [{"type": "text", "text": f"This is {id}."}]
    return claude.line("assistant", [*content], {"id": id, "usage": usage}, uuid=id)


def asked(text: str) -> Line:
    return claude.line("user", text, uuid=text)


def progress(agent: str, line: Line) -> Line:
    """A copy of a subagent's line in the transcript of its parent."""
    data = {"type": "agent_progress", "agentId": agent, "message": line}
    return {"type": "progress", "parentToolUseID": "task", "data": data}


def answered(agent: str) -> Line:
    result = {"type": "tool_result", "tool_use_id": "task", "content": "Dug."}
    report = {"status": "completed", "agentId": agent, "totalTokens": 9_999, "usage": {"input_tokens": 5_000}}
    return {**asked("result"), "message": {"role": "user", "content": [result]}, "toolUseResult": report}


def of_main(*lines: Line) -> list[Line]:
    return [{"sessionId": MAIN, "isSidechain": False, **line} for line in lines]


def of_agent(agent: str, *lines: Line) -> list[Line]:
    return [{"sessionId": MAIN, "isSidechain": True, "agentId": agent, **line} for line in lines]


def rollout(number: int, tokens: int, **meta: Any) -> list[Line]:
    usage = {"input_tokens": tokens, "output_tokens": tokens, "total_tokens": 2 * tokens}
    lines = [
        codex.line("session_meta", id=f"{CODEX}{number}", cwd="/work/shop", cli_version="0.140.0", **meta),
        codex.event("user_message", message=f"Dig {number}."),
        codex.message_item("assistant", f"Dug {number}."),
        codex.token_count(usage, usage),
    ]
    return [{**line, "timestamp": "2026-03-03T10:00:00.000Z"} for line in lines]


def started_by(number: int) -> Line:
    return {"source": {"subagent": {"thread_spawn": {"parent_thread_id": f"{CODEX}{number}", "depth": 1}}}}


def restamped(lines: list[Line]) -> list[Line]:
    """Return the lines with the time of the copy, as a child writes them."""
    return [{**line, "timestamp": "2026-03-03T11:00:00.000Z"} for line in lines]


def numbered(lines: list[Line]) -> list[Line]:
    return [{**line, "ordinal": number} for number, line in enumerate(lines)]


ANSWERS = [said("d1", 10), said("d2", 20)]
FILES: Mapping[str, list[Line]] = {
    "main": of_main(
        asked("Find it."),
        said("m1", 1, TASK),
        *(progress("dig", line) for line in ANSWERS),
        answered("dig"),
        said("m2", 2),
    ),
    "dig": of_agent("dig", asked("Dig."), *ANSWERS, said("d3", 40)),
    "seek": of_agent("seek", asked("Seek."), said("s1", 300)),
    "codex": rollout(1, 1, source="cli"),
    "child": rollout(2, 10, **started_by(1)),
    "grandchild": rollout(3, 200, **started_by(2)),
    "copying child": [
        *rollout(5, 7, **started_by(1))[:1],
        *restamped(rollout(1, 1, source="cli")),
        *rollout(5, 7)[1:],
    ],
    "numbered child": numbered(
        [
            *rollout(6, 7, **started_by(1), subagent_history_start_ordinal=5)[:1],
            *rollout(1, 1, source="cli", parent_thread_id=f"{CODEX}0", subagent_history_start_ordinal=2),
            *rollout(6, 7)[1:],
        ]
    ),
    "fork": rollout(4, 5_000, source="cli", forked_from_id=f"{CODEX}1"),
}
NAMES = {
    "main": f"{PROJECT}/{MAIN}.jsonl",
    "dig": f"{SUBAGENTS}/agent-dig.jsonl",
    "seek": f"{SUBAGENTS}/agent-seek.jsonl",
    "codex": f"{ROLLOUTS}{CODEX}1.jsonl",
    "child": f"{ROLLOUTS}{CODEX}2.jsonl",
    "grandchild": f"{ROLLOUTS}{CODEX}3.jsonl",
    "copying child": f"{ROLLOUTS}{CODEX}5.jsonl",
    "numbered child": f"{ROLLOUTS}{CODEX}6.jsonl",
    "fork": f"{ROLLOUTS}{CODEX}4.jsonl",
}


@pytest.fixture
def user_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, lines in FILES.items():
        path = tmp_path / NAMES[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return tmp_path


async def imported(store: Store, user_home: Path, *names: str) -> dict[str, Session]:
    for name in names:
        report = await import_paths(store, [user_home / NAMES[name]], ImportOptions())
        assert report.complete
    by_name = {session.external_id: session async for session in store.sessions.list_all()}
    return {name: by_name[NAMES[name].partition("/")[2]] for name in names}


async def tokens(store: Store, session: Session) -> tuple[int | None, int | None]:
    """The output tokens of a session, and those with its subagents."""
    summary = await store.conversation.read_summary(session.id)
    return tuple(usage and usage.output_tokens for usage in (summary.usage, summary.total_usage))  # type: ignore[return-value]


CASES: dict[str, tuple[list[str], dict[str, tuple[int | None, int | None]]]] = {
    "a subagent that is not stored": (["main"], {"main": (33, None)}),
    "a subagent after its parent": (["main", "dig"], {"main": (33, 73), "dig": (70, None)}),
    "a subagent before its parent": (["dig", "main"], {"main": (33, 73), "dig": (70, None)}),
    "a subagent without copies of its lines": (["main", "seek"], {"main": (33, 333), "seek": (300, None)}),
    "two subagents": (["seek", "main", "dig"], {"main": (33, 373), "dig": (70, None), "seek": (300, None)}),
    "a subagent without its parent": (["dig"], {"dig": (70, None)}),
    "nested subagents": (
        ["grandchild", "codex", "child"],
        {"codex": (1, 211), "child": (10, 210), "grandchild": (200, None)},
    ),
    "a missing subagent between others": (
        ["codex", "grandchild"],
        {"codex": (1, None), "grandchild": (200, None)},
    ),
    "a fork": (["codex", "fork", "child"], {"codex": (1, 11), "fork": (5_000, None), "child": (10, None)}),
}


@pytest.mark.parametrize("case", CASES)
async def test_totals_include_each_subagent_once(store: Store, user_home: Path, case: str) -> None:
    names, expected = CASES[case]
    sessions = await imported(store, user_home, *names)

    assert {name: await tokens(store, sessions[name]) for name in expected} == expected


@pytest.mark.parametrize("names", [("codex", "copying child"), ("copying child", "codex")], ids="first ".join)
async def test_child_that_copies_its_parent_is_named_and_counted_by_its_own_turns(
    store: Store, user_home: Path, names: tuple[str, str]
) -> None:
    sessions = await imported(store, user_home, *names)
    child = sessions["copying child"]
    for _ in range(2):
        summary = await store.conversation.read_summary(child.id)
        listed = await store.sessions.get(child.id)

        assert (listed.title, summary.title) == ("Dig 5.", "Dig 5.")
        assert (summary.turns, summary.user_messages, summary.assistant_messages) == (1, 1, 1)
        assert await tokens(store, child) == (7, None)
        await store.messages.reindex(child.id)


@pytest.mark.parametrize(
    "names",
    [("numbered child",), ("codex", "numbered child"), ("numbered child", "codex")],
    ids="first ".join,
)
async def test_child_that_states_where_it_begins_is_counted_from_there_without_its_parent(
    store: Store, user_home: Path, names: tuple[str, ...]
) -> None:
    child = (await imported(store, user_home, *names))["numbered child"]

    await assert_counts_from_its_beginning(store, child)
    await store.messages.reindex(child.id)
    await store.events.rebuild(child.id)
    await assert_counts_from_its_beginning(store, child)
    stored_messages = (await store.conversation.get_page(child.id)).messages
    assert [message.metadata.inherited for message in stored_messages] == [True, True, None, None]


async def test_child_is_counted_from_its_beginning_if_its_lines_are_appended_one_by_one(store: Store) -> None:
    child = await store.sessions.create(source="codex", external_id="child")
    for line in FILES["numbered child"]:
        await store.messages.append(child.id, [json.dumps(line)])

    await assert_counts_from_its_beginning(store, child)


async def assert_counts_from_its_beginning(store: Store, child: Session) -> None:
    summary = await store.conversation.read_summary(child.id)
    listed = await store.sessions.get(child.id)

    assert (listed.title, summary.title, listed.copied_messages, listed.copy_of) == (
        "Dig 6.",
        "Dig 6.",
        5,
        None,
    )
    assert listed.metadata["sessionId"] == f"{CODEX}6"
    assert (summary.turns, summary.user_messages, summary.assistant_messages) == (1, 1, 1)
    assert await tokens(store, child) == (7, None)


def test_exported_child_is_counted_from_its_beginning(user_home: Path) -> None:
    child = load_in_memory(user_home / NAMES["numbered child"], "child")

    assert (child.session.title, child.summary.title, child.summary.turns) == ("Dig 6.", "Dig 6.", 1)
    assert child.summary.usage is not None
    assert child.summary.usage.output_tokens == 7


def test_loads_a_child_from_its_beginning(user_home: Path) -> None:
    path = user_home / NAMES["numbered child"]

    whole = load_session(path)
    [own] = load_sessions([path])

    usage = [message.usage.output_tokens if message.usage else None for message in whole]
    assert (transcript_texts(own), usage) == (["Dig 6.", "Dug 6."], [None, None, None, 7])


@pytest.mark.parametrize("names", [("codex", "copying child"), ("copying child", "codex")], ids="first ".join)
def test_loads_each_message_of_several_files_once(user_home: Path, names: tuple[str, str]) -> None:
    sessions = load_sessions(user_home / NAMES[name] for name in names)

    loaded = {name: transcript_texts(messages) for name, messages in zip(names, sessions, strict=True)}

    assert loaded == {"codex": ["Dig 1.", "Dug 1."], "copying child": ["Dig 5.", "Dug 5."]}


def test_loads_sessions_without_a_common_name_whole(user_home: Path) -> None:
    for name in ("codex", "child"):
        path = user_home / NAMES[name]
        path.write_text(path.read_text().replace("Dig 2.", "Dig 1."))

    sessions = load_sessions(user_home / NAMES[name] for name in ("codex", "child"))

    assert [transcript_texts(messages) for messages in sessions] == [
        ["Dig 1.", "Dug 1."],
        ["Dig 1.", "Dug 2."],
    ]


def transcript_texts(messages: list[StandardMessage]) -> list[str]:
    return [block.text for message in messages for block in message.content if block.type == "text"]


async def test_totals_after_a_subagent_is_deleted(store: Store, user_home: Path) -> None:
    """The copies of its lines count again."""
    sessions = await imported(store, user_home, "main", "dig", "seek")
    await store.sessions.delete(sessions["dig"].id)

    assert await tokens(store, sessions["main"]) == (33, 333)


async def test_totals_of_sessions_that_started_each_other(store: Store) -> None:
    one = await store.sessions.create()
    other = await store.sessions.create(parent_id=one.id)
    await store.sessions.set_parent(one.id, other.id)
    for session, count in ((one, 1), (other, 20)):
        end = wire_event("turn_end", usage=token_usage(0, count), costUsd=count / 4)
        await store.events.append(session.id, end)
    summary = await store.conversation.read_summary(one.id)

    assert [await tokens(store, session) for session in (one, other)] == [(1, 21), (20, 21)]
    assert (summary.cost_usd, summary.total_cost_usd) == (0.25, 5.25)


async def test_sessions_and_events_name_the_same_agent(store: Store, user_home: Path) -> None:
    sessions = await imported(store, user_home, "main", "dig", "codex", "child", "fork")
    naming = await store.events.get_events(sessions["main"].id, agent="dig")

    assert {name: session.agent_id for name, session in sessions.items()} == {
        "main": None, "dig": "dig", "codex": None, "child": f"{CODEX}2", "fork": None,
    }  # fmt: skip
    assert len(naming) == 1
    assert isinstance(naming[0], ToolResultEvent)
    assert naming[0].payload.agent_id == "dig"
    assert await store.events.get_events(sessions["main"].id, agent="d.g") == []
    assert await store.events.get_events(sessions["main"].id, agent="9999") == []


GEMINI = "9b1f7c3e-2f4d-4a35-8d8a-6c1d2e3f4a50"
CHATS = ".gemini/tmp/0a0a/chats"
STORAGE = ".local/share/opencode/storage"


def chat(id: str, kind: str, *messages: Line) -> list[Line]:
    header = {
        "sessionId": id,
        "projectHash": "0a" * 32,
        "startTime": "2026-03-04T11:00:00.000Z",
        "kind": kind,
    }
    return [header, *({"timestamp": "2026-03-04T11:00:01.000Z", **message} for message in messages)]


def opencode_task(agent: str) -> Line:
    state = {
        "status": "completed",
        "input": {"prompt": "Dig."},
        "output": "Dug.",
        "metadata": {"sessionId": agent, "parentSessionId": "ses_1"},
    }
    return {
        "id": "prt_1",
        "messageID": "msg_1",
        "sessionID": "ses_1",
        "type": "tool",
        "tool": "task",
        "callID": "task",
        "state": state,
    }


LINKED: Mapping[str, tuple[Mapping[str, list[Line]], str, str, str]] = {
    "Gemini CLI": (
        {
            f"{CHATS}/session-2026-03-04T11-00-{GEMINI[:8]}.jsonl": chat(
                GEMINI,
                "main",
                {"id": "u1", "type": "user", "content": "Find it."},
                {
                    "id": "g1",
                    "type": "gemini",
                    "content": "",
                    "toolCalls": [
                        {
                            "id": "task",
                            "name": "generalist",
                            "args": {},
                            "status": "success",
                            "agentId": "x7k2p9",
                            "result": [
                                {
                                    "functionResponse": {
                                        "id": "task",
                                        "name": "generalist",
                                        "response": {"output": "Dug."},
                                    }
                                }
                            ],
                        }
                    ],
                },
            ),
            f"{CHATS}/{GEMINI}/x7k2p9.jsonl": chat(
                "x7k2p9", "subagent", {"id": "u1", "type": "user", "content": "Dig."}
            ),
        },
        f"{CHATS}/session-2026-03-04T11-00-{GEMINI[:8]}.jsonl",
        f"{CHATS}/{GEMINI}/x7k2p9.jsonl",
        "x7k2p9",
    ),
    "OpenCode": (
        {
            f"{STORAGE}/session/p/ses_1.json": [opencode_session("ses_1", "Find it", 1)],
            f"{STORAGE}/message/ses_1/msg_1.json": [opencode_message("msg_1", "ses_1", "assistant", 2)],
            f"{STORAGE}/part/msg_1/prt_1.json": [opencode_task("ses_2")],
            f"{STORAGE}/session/p/ses_2.json": [opencode_session("ses_2", "Dig", 3, parentID="ses_1")],
            f"{STORAGE}/message/ses_2/msg_2.json": [opencode_message("msg_2", "ses_2", "user", 4)],
        },
        f"{STORAGE}/session/p/ses_1.json",
        f"{STORAGE}/session/p/ses_2.json",
        "ses_2",
    ),
}


@pytest.mark.parametrize("cli", LINKED)
async def test_calls_name_the_sessions_that_they_started(store: Store, tmp_path: Path, cli: str) -> None:
    files, parent, child, agent = LINKED[cli]
    for name, lines in files.items():
        write(tmp_path / name, "".join(f"{json.dumps(line)}\n" for line in lines))
    await import_paths(store, [tmp_path / parent, tmp_path / child], ImportOptions())
    sessions = {session.external_id: session async for session in store.sessions.list_all()}
    main, subagent = (sessions[str(tmp_path / name)] for name in (parent, child))
    [naming] = await store.events.get_events(main.id, agent=agent)

    assert (main.agent_id, subagent.agent_id, subagent.parent_id) == (None, agent, main.id)
    assert isinstance(naming, ToolResultEvent)
    assert (naming.payload.tool_call_id, naming.payload.agent_id) == ("task", agent)
