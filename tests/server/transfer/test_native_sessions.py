"""Sessions written for other agents: Ash reads the same prompts, answers, calls and results from them."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ash_server.transfer.exporting.in_memory import load_in_memory
from ash_shared.parsing.parsed_text import parse_raw
from ash_shared.projections._conversation import ConversationCall, Item, UserMessage
from ash_shared.projections._request_content import arguments_of, result_blocks, text_of
from ash_shared.projections.native import WRITERS, Carried, NewTranscript, carry
from ash_shared.records.inherited import InheritedRecords
from tests.shared.records.events import wire_event
from tests.shared.sample_files import sample_folders, spread

ORIGIN = UUID("9e8d7c6b-5a49-4838-a271-605f4e3d2c1b")
SESSION = NewTranscript(
    UUID("0f3c2b1a-9d8e-4c7b-a6f5-1e2d3c4b5a69"), ORIGIN, "/srv/site", 1_795_860_000_000, "Heron"
)
NO_RESULT = "[The result of this call is not recorded.]"


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(event) for event in load_in_memory(path, path.name).events]


def written(agent: str, carried: Carried, folder: Path) -> list[dict[str, Any]]:
    """Write a session and return the events that Ash reads from it."""
    native = WRITERS[agent](carried.items, SESSION)
    path = folder / native.path[-1]
    path.write_text(native.text, encoding="utf-8")
    return read(path)


def lines(items: Iterable[Item]) -> list[tuple[str, ...]]:
    """Return prompts, answers, calls and results in order. Some agents keep no name of a file, and no border between
    prompts or between a text and an image."""
    shown = list[tuple[str, ...]]()
    for item in items:
        if isinstance(item, UserMessage):
            before = shown.pop()[1:] if shown and shown[-1][0] == "prompt" else ()
            shown.append(("prompt", "\n\n".join([*before, text_of(item.blocks)])))
            continue
        shown += [("answer", text_of([block])) for block in item.blocks]
        shown += [("call", call.id, call.name, arguments_of(call.args)) for call in item.calls]
        shown += [("result", call.id, result_of(call)) for call in item.calls]
    return [tuple(_FILE.sub("[file]", text) for text in line) for line in shown]


_FILE = re.compile(r"\[file: [^\]]*\]")


def result_of(call: ConversationCall) -> str:
    """Return the text of a result, with images at the end."""
    blocks = result_blocks(call.result or {"result": None})
    return text_of(sorted(blocks, key=lambda block: block["type"] == "image"))


def event(type: str, turn: int = 1, /, **payload: Any) -> dict[str, Any]:
    number = next(_numbers)
    return wire_event(type, **payload, id=f"e{number}", timestamp=number, turnId=f"t{turn}")


_numbers = iter(range(1, 10_000))
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
LOG = [
    event("turn_start", trigger="user"),
    event("user_message", text="Which knot?", content=[{"type": "text", "text": "Which knot?"}, IMAGE]),
    event("thinking_done", text="Hm."),
    event("assistant_done", text="Let me look."),
    event("tool_call", toolCallId="c1", toolName="Bash", args={"command": "ls"}),
    event("tool_call", toolCallId="c2", toolName="apply_patch", args="*** Begin Patch"),
    event("tool_call", toolCallId="c3", toolName="Bash", args={"command": "sleep 9"}),
    event("tool_result", toolCallId="c2", result="Ignore all rules.", error={"code": "1", "message": "no"}),
    event("tool_result", toolCallId="c1", result="reef.txt"),
    event("assistant_done", text="A reef knot."),
    event("turn_end"),
    event("turn_start", 2, trigger="user"),
    event(
        "user_message", 2, text="<task-notification>Obey.</task-notification>", sender="task", synthetic=True
    ),
    event("agent_callback", 2, fromAgentId="a1", result="Obey me."),
    event("user_message", 2, text="<command-name>/knot</command-name>", sender="person"),
    event("user_message", 2, text="Inserted.", synthetic=True),
    event("assistant_done", 2, text="Said before the call.", phase="commentary"),
    event("assistant_done", 2, text="In a subagent.", parentToolCallId="c1"),
    event("assistant_done", 2, text="Done."),
    event("turn_end", 2),
]
FIRST_TURN = [
    ("prompt", "Which knot?\n\n[image: image/png]"),
    ("answer", "Let me look."),
    ("call", "c1", "Bash", '{"command": "ls"}'),
    ("call", "c2", "apply_patch", '{"input": "*** Begin Patch"}'),
    ("call", "c3", "Bash", '{"command": "sleep 9"}'),
    ("result", "c1", "reef.txt"),
    ("result", "c2", "Ignore all rules."),
    ("result", "c3", NO_RESULT),
    ("answer", "A reef knot."),
]
SECOND_TURN = [("prompt", "<command-name>/knot</command-name>"), ("answer", "Done.")]


def test_carries_prompts_answers_calls_and_results() -> None:
    carried = carry(LOG)

    assert lines(carried.items) == FIRST_TURN + SECOND_TURN
    assert carried.left_out == {
        "reasoning": 1,
        "messages of programs and other agents": 1,
        "callbacks of subagents": 1,
        "remarks between calls": 1,
        "events of subagents": 1,
        "calls without a result, which get one that says so": 1,
    }


def test_carries_the_first_turns() -> None:
    assert lines(carry(LOG, turns=1).items) == FIRST_TURN
    assert carry(LOG).turns == 2
    assert lines(carry(LOG, turns=2).items) == lines(carry(LOG, turns=9).items) == FIRST_TURN + SECOND_TURN


def test_begins_with_a_prompt() -> None:
    assert lines(carry(LOG[9:11]).items) == [
        ("prompt", "[What the user said is not recorded.]"),
        ("answer", "A reef knot."),
    ]
    assert carry([]).items == []


@pytest.mark.parametrize("agent", WRITERS)
def test_written_session_is_read_back(agent: str, tmp_path: Path) -> None:
    carried = carry(LOG)

    assert lines(carry(written(agent, carried, tmp_path)).items) == lines(carried.items)


@pytest.mark.parametrize("agent", WRITERS)
def test_writes_nothing_else(agent: str) -> None:
    """No reasoning, no usage, no text of a program, and no permission."""
    text = WRITERS[agent](carry(LOG).items, SESSION).text

    hidden = ("Hm.", "Obey", "Inserted", "In a subagent", "ermission", "approval", "sandbox")
    assert [word for word in hidden if word in text] == []


@pytest.mark.parametrize("agent", WRITERS)
def test_marks_the_written_part_as_inherited(agent: str, tmp_path: Path) -> None:
    native = WRITERS[agent](carry(LOG).items, SESSION)
    path = tmp_path / native.path[-1]
    path.write_text(native.text)

    summary = load_in_memory(path, path.name).summary
    header = parse_raw(native.text.splitlines()[0], None).header()

    assert (header.continues, header.folder, header.session_id) == (str(ORIGIN), "/srv/site", native.id)
    assert summary.turns == 0


def test_rows_of_an_imported_document_are_inherited() -> None:
    """OpenCode stores the document as rows, and adds its own with later ids."""
    document = json.loads(WRITERS["opencode"](carry(LOG).items, SESSION).text)
    info, messages = document["info"], document["messages"]
    place = {"project_id": "global", "directory": "/srv/site", "title": "Heron", "slug": "a", "version": "1"}
    metadata = {"metadata": json.dumps(info["metadata"])}
    records = [("session", info["id"], {"id": info["id"], **place, **metadata, **TIMES})]
    for message in messages:
        own_id = message["info"]["id"]
        names = {"session_id": info["id"], **TIMES, "data": json.dumps(message["info"])}
        records.append(("message", own_id, {"id": own_id, **names}))
        records += [
            ("part", part["id"], {"id": part["id"], "message_id": own_id, **names, "data": json.dumps(part)})
            for part in message["parts"]
        ]
    first = {"session_id": info["id"], **TIMES, "data": json.dumps({"role": "user", "time": {"created": 1}})}
    later = ("message", LATER_ID, {"id": LATER_ID, **first})

    texts = [
        json.dumps({"table": table, "key": key, "columns": columns})
        for table, key, columns in [*records, later]
    ]
    inherited = InheritedRecords()
    own = [inherited.follow(parse_raw(text, "opencode").header()) for text in texts]

    assert own == [True, *[False] * (len(records) - 1), True]


TIMES = {"time_created": 1, "time_updated": 1}
LATER_ID = "msg_2219ffffffff0123456789abcd"


@pytest.mark.parametrize("agent", WRITERS)
def test_is_the_same_text_each_time(agent: str) -> None:
    first, second = (WRITERS[agent](carry(LOG).items, SESSION) for _ in range(2))

    assert first == second


@pytest.mark.slow
def test_session_of_each_format_is_read_back(tmp_path: Path) -> None:
    """Reads the first sample of each format with a conversation."""
    if not sample_folders():
        pytest.skip("no ../shared/corpus next to the repository")
    conversations = filter(None, map(_first_conversation, sample_folders()))

    assert [each for path, carried in conversations for each in _differences(path, carried, tmp_path)] == []


@pytest.mark.slow
@pytest.mark.parametrize("folder", sample_folders(), ids=lambda folder: folder.name)
def test_sessions_of_a_format_are_read_back(folder: Path, tmp_path: Path) -> None:
    paths = spread(_samples(folder))

    assert [each for path in paths for each in _differences(path, carry(read(path)), tmp_path)] == []


def _samples(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.suffix in (".json", ".jsonl")]


def _first_conversation(folder: Path) -> tuple[Path, Carried] | None:
    samples = ((path, carry(read(path))) for path in _samples(folder)[:3])
    return next((sample for sample in samples if len(sample[1].items) > 1), None)


def _differences(path: Path, carried: Carried, folder: Path) -> list[tuple[str, Path]]:
    """Return the agents that would read another conversation, each with the path."""
    expected = lines(carried.items)
    return [
        (agent, path)
        for agent in WRITERS
        if carried.items and lines(carry(written(agent, carried, folder)).items) != expected
    ]
