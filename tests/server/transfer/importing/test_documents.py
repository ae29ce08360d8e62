"""Sessions in exports of many conversations, and in folders of documents."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ash_server.store import Store
from ash_server.transfer.exporting.jsonl import export_messages
from ash_server.transfer.importing.documents import exports
from ash_server.transfer.importing.documents.folders import folder_at
from ash_server.transfer.importing.file_import import ImportedFile, import_file
from ash_server.transfer.importing.transcript_files import external_id, find_files
from tests.server.trajectories import read_trajectory
from tests.shared.providers.test_chat_exports import conversation, node, text
from tests.shared.providers.test_cline_session import SESSION, answer, document, prompt
from tests.shared.providers.test_cline_task import said
from tests.shared.providers.test_mistral_vibe_messages import ANSWERED, ASKED, META, totals
from tests.shared.providers.test_openhands import EVENTS, counts, state
from tests.shared.sample_files import RECORDINGS


async def import_all(store: Store, folder: Path) -> list[ImportedFile]:
    """Import all transcripts in a folder, without homes of agents."""
    errors: list[OSError] = []
    paths = list(find_files(folder, [], errors.append))
    assert not errors
    return [await import_file(store, path, external_id(path, []), identify=True) for path in paths]


async def texts(store: Store, session_id: UUID) -> list[str]:
    exported = await read_trajectory(store, session_id)
    messages = (each["message"] for each in exported["steps"])
    return [each if isinstance(each, str) else each[0]["text"] for each in messages]


async def exported(store: Store, session_id: UUID) -> str:
    return b"".join([piece async for piece in export_messages(store, session_id)]).decode()


def chat(id: str, *words: str) -> dict[str, Any]:
    names = [str(number) for number, _ in enumerate(words)]
    nodes = [
        node(name, names[index - 1] if index else "root", "user", text(word), *names[index + 1 : index + 2])
        for index, (name, word) in enumerate(zip(names, words, strict=True))
    ]
    return conversation(*nodes, conversation_id=id, title=f'About "{id}" [{{')


async def test_each_conversation_of_an_export_is_a_session(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([chat("one", "How many?"), chat("two", "Why?")], indent=1))

    imported = await import_all(store, tmp_path)

    sessions = [await store.sessions.get(each.session_id) for each in imported]
    assert [(each.source, each.external_id, each.title) for each in sessions] == [
        ("chatgpt_export", "one", 'About "one" [{'),
        ("chatgpt_export", "two", 'About "two" [{'),
    ]
    assert [await exported(store, each.id) in file.read_text() for each in sessions] == [True, True]


async def test_a_later_export_adds_what_has_changed(store: Store, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, words in (first, ["How many?"]), (second, ["How many?", "Thanks."]):
        folder.mkdir()
        file = folder / "conversations.json"
        file.write_text(json.dumps([chat("one", *words), chat("two", "Why?")]))

    before, after = await import_all(store, first), await import_all(store, second)
    again = await import_all(store, second)

    assert [each.session_id for each in after] == [each.session_id for each in before]
    assert [each.result.counts for each in after] == [{"existing": 1, "new": 1}, {"existing": 1}]
    assert [each.result.counts for each in again] == [{"existing": 1}, {"existing": 1}]
    assert await texts(store, after[0].session_id) == ["How many?", "Thanks."]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("conversations.json", "[]", id="empty"),
        pytest.param("conversations.json", '[{"mapping": 1', id="broken"),
        pytest.param("others.json", json.dumps([chat("one", "?")]), id="another name"),
        pytest.param("conversations.json", json.dumps([chat("../one", "?")]), id="an id that is no name"),
    ],
)
def test_other_files_have_no_conversations(tmp_path: Path, name: str, content: str) -> None:
    file = tmp_path / name
    file.write_text(content)

    assert not (exports.is_export(file) and exports.list_conversations(file))


def cline_session(folder: Path, *messages: Any) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{folder.name}.json").write_text(json.dumps(SESSION))
    (folder / f"{folder.name}.messages.json").write_text(json.dumps(document(*messages)))


def cline_task(folder: Path, *items: Any) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "ui_messages.json").write_text(json.dumps(items))
    history = [{"role": "user", "content": "<task>How many?</task>", "ts": 1}]
    (folder / "api_conversation_history.json").write_text(json.dumps(history))


async def test_a_memory_of_smolagents_that_grew_adds_its_steps(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "memory.json"
    steps = json.loads((RECORDINGS / "smolagents" / "tools.json").read_text())
    file.write_text(json.dumps(steps[:2]))
    [before] = await import_all(store, tmp_path)
    first = await texts(store, before.session_id)

    file.write_text(json.dumps(steps))
    [after] = await import_all(store, tmp_path)

    assert (after.session_id, after.result.counts) == (before.session_id, {"existing": 1, "new": 1})
    assert not after.result.problems
    whole = await texts(store, after.session_id)
    assert (whole[: len(first)], len(whole) > len(first)) == (first, True)


async def test_a_later_session_of_agent_framework_adds_its_messages(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "harbour-1.json"
    first, later = (
        (RECORDINGS / "agent_framework" / f"harbour-1.{name}.json").read_text()
        for name in ("session", "later.session")
    )
    file.write_text(first)
    [before] = await import_all(store, tmp_path)
    file.write_text(later)
    [after] = await import_all(store, tmp_path)

    assert (after.session_id, after.result.counts) == (before.session_id, {"existing": 1, "new": 1})
    assert (await store.sessions.get(after.session_id)).title == "Which berth is free?"
    assert (await texts(store, after.session_id))[-2:] == ["I try it.", "The gate did not open."]


async def test_events_of_openhands_are_one_session(store: Store, tmp_path: Path) -> None:
    events = tmp_path / "17" / "events"
    events.mkdir(parents=True)
    for number, event in enumerate(EVENTS[:3]):
        (events / f"event-0000{number}-x.json").write_text(json.dumps(event))
    (tmp_path / "17" / "base_state.json").write_text(json.dumps(state()))
    [before] = await import_all(store, tmp_path)
    (events / "event-00003-x.json").write_text(json.dumps(EVENTS[4]))
    (tmp_path / "17" / "base_state.json").write_text(json.dumps(state(counts("a1"))))

    [after] = await import_all(store, tmp_path)

    assert (after.session_id, before.result.counts, after.result.counts) == (
        before.session_id,
        {"new": 4},
        {"existing": 3, "new": 2},
    )
    summary = await store.conversation.read_summary(after.session_id)
    assert summary.usage is not None
    assert summary.usage.input_tokens == 20


async def test_each_agent_of_strands_is_a_session(store: Store, tmp_path: Path) -> None:
    """The messages have numbers without leading zeros. The state of the agent follows them."""
    for name in ("s-1", "s-2"):
        for line in (RECORDINGS / "strands" / f"{name}.bundle.jsonl").read_text().splitlines():
            file = json.loads(line)
            path = tmp_path / f"session_{name}" / file["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file["text"])
    agent = tmp_path / "session_s-1/agents/agent_harbour"
    last = agent / "messages/message_13.json"
    answer = last.read_text()
    last.unlink()
    before = await import_all(store, tmp_path)
    last.write_text(answer)

    after = await import_all(store, tmp_path)

    assert [each.result.counts for each in before] == [{"new": 14}, {"new": 1}]
    assert [each.result.counts for each in after] == [{"existing": 14, "new": 1}, {"existing": 1}]
    assert folder_at(last) == folder_at(agent.parents[1] / "session.json")
    assert (await texts(store, after[0].session_id))[:1] == ["Which berth is free?"]
    summary = await store.conversation.read_summary(after[0].session_id)
    assert summary.usage is not None
    assert summary.usage.cache_read_input_tokens == 7000


def write_vibe_session(folder: Path, generation: int, *entries: Any) -> None:
    """Write the next generation of a session of Mistral Vibe; the lists of earlier ones stay."""
    chunk, place = f"{generation:064x}", folder / "generations" / f"{generation:016}"
    place.mkdir(parents=True)
    files = {
        folder / "chunks" / f"{chunk}.json": [*entries],
        folder / "journal" / "1.jsonl": {"sequence": generation},
        place / "manifest.json": {"projection_state": {"chunks": [chunk]}},
        place / "projection-state.json": totals(100, 110 + generation, 9),
        folder / "meta.json": {**META, "bumped_at": generation},
        folder / "CURRENT": {"generation": place.name},
    }
    for file, content in files.items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(content))


async def test_current_lists_of_mistral_vibe_are_one_session(store: Store, tmp_path: Path) -> None:
    write_vibe_session(tmp_path / "17", 1, ASKED)
    [before] = await import_all(store, tmp_path)
    write_vibe_session(tmp_path / "17", 2, ASKED, ANSWERED)

    [after] = await import_all(store, tmp_path)

    assert (after.session_id, before.result.counts, after.result.counts) == (
        before.session_id,
        {"new": 3},
        {"new": 3},
    )
    session = await store.sessions.get(after.session_id)
    assert (session.source, session.title, session.folder) == ("mistral_vibe", "Oars", "/work/shop")
    messages = await texts(store, session.id)
    assert [message for message in messages if message] == ["Count the oars", "Four."]
    summary = await store.conversation.read_summary(session.id)
    assert summary.usage is not None
    assert (summary.usage.input_tokens, summary.usage.cache_read_input_tokens) == (12, 100)


@pytest.mark.parametrize("pointer", ["{}", "[", '{"generation": "../other/generations/1"}'])
def test_a_folder_without_a_generation_is_no_session_of_mistral_vibe(tmp_path: Path, pointer: str) -> None:
    write_vibe_session(tmp_path / "17", 1, ASKED)
    (tmp_path / "17" / "CURRENT").write_text(pointer)

    assert folder_at(tmp_path / "17" / "meta.json") is None


def test_names_of_lists_that_are_no_digests_are_left_out(tmp_path: Path) -> None:
    """They were written by others, and must not lead out of the folder."""
    write_vibe_session(tmp_path / "17", 1, ASKED)
    (tmp_path / "secret.json").write_text("{}")
    manifest = next((tmp_path / "17").glob("generations/*/manifest.json"))
    manifest.write_text(json.dumps({"projection_state": {"chunks": ["../../secret", 7]}}))

    folder = folder_at(tmp_path / "17" / "meta.json")

    assert folder is not None
    assert [file.name for file in folder.files()] == ["meta.json", "projection-state.json"]


@pytest.mark.parametrize(
    ("write", "first", "second", "facts"),
    [
        pytest.param(
            cline_session,
            [prompt("How many?"), answer({"type": "text", "text": "Six."})],
            [prompt("How many?"), answer({"type": "text", "text": "Seven."})],
            ("cline_session", "Knots"),
            id="Cline's program",
        ),
        pytest.param(
            cline_task,
            [said(1, "text", "How many?"), said(2, "text", "Six.", partial=True)],
            [said(1, "text", "How many?"), said(2, "text", "Seven.")],
            ("cline_task", "How many?"),
            id="a task",
        ),
    ],
)
async def test_documents_in_a_folder_are_one_session(
    store: Store,
    tmp_path: Path,
    write: Callable[..., None],
    first: Any,
    second: Any,
    facts: tuple[str, str],
) -> None:
    write(tmp_path / "17_quay", *first)
    [before] = await import_all(store, tmp_path)
    write(tmp_path / "17_quay", *second)
    [after] = await import_all(store, tmp_path)
    [again] = await import_all(store, tmp_path)

    session = await store.sessions.get(after.session_id)
    assert (session.id, session.source, session.title) == (before.session_id, *facts)
    assert [each.result.counts for each in (before, after, again)] == [
        {"new": 2},
        {"new": 1, "existing": 1},
        {"existing": 2},
    ]
    assert await texts(store, session.id) == ["How many?", "Seven."]
