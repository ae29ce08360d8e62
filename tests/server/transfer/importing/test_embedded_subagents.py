"""Subagents in a trajectory become sessions of their own, in a store and on a server."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ash_client import AsyncAshClient
from ash_server.store import Store
from ash_server.transfer.exporting.jsonl import export_messages
from ash_server.transfer.importing.file_import import ImportedFile, import_file
from ash_server.transfer.importing.parents import find_parent, read_head
from ash_server.transfer.pushing import push_file
from tests.server.cli.test_push_command import served_store
from tests.server.trajectories import read_trajectory
from tests.shared.records.atif import SUBAGENT, WITH_SUBAGENT, step, trajectory

Import = Callable[[Path], Awaitable[ImportedFile]]


@pytest.fixture(params=["import", "push"])
async def import_(request: pytest.FixtureRequest, store: Store, database_url: str) -> Any:
    """Import a file into the store, or push it to a server with the same store."""
    if request.param == "import":
        yield lambda path: import_file(store, path, path.name, identify=True)
        return
    with served_store(database_url) as url:
        async with AsyncAshClient(url) as server:

            async def push(path: Path) -> ImportedFile:
                return (await push_file(server, path, [])).imported

            yield push


async def exported(store: Store, session_id: UUID) -> str:
    return b"".join([piece async for piece in export_messages(store, session_id)]).decode()


async def test_a_subagent_has_a_session_with_its_part_of_the_document(
    store: Store, tmp_path: Path, import_: Import
) -> None:
    path = tmp_path / "trajectory.json"
    path.write_text(json.dumps(WITH_SUBAGENT, indent=1))

    imported = await import_(path)

    [embedded] = imported.embedded
    text = await exported(store, embedded.session_id)
    child = await store.sessions.get(embedded.session_id)
    assert text in path.read_text()
    assert json.loads(text) == SUBAGENT
    assert (child.parent_id, child.agent_id, child.title) == (
        imported.session_id,
        "sub-a",
        "Count the knots.",
    )
    assert await exported(store, imported.session_id) == path.read_text()


async def test_usage_of_subagents_is_in_the_total_only(store: Store, tmp_path: Path, import_: Import) -> None:
    path = tmp_path / "trajectory.json"
    path.write_text(json.dumps(WITH_SUBAGENT))

    imported = await import_(path)

    summary = await store.conversation.read_summary(imported.session_id)
    assert summary.usage is not None
    assert summary.total_usage is not None
    assert (summary.usage.input_tokens, summary.total_usage.input_tokens) == (120, 150)


async def test_importing_again_adds_nothing(store: Store, tmp_path: Path, import_: Import) -> None:
    path = tmp_path / "trajectory.json"
    path.write_text(json.dumps(WITH_SUBAGENT))

    first, again = await import_(path), await import_(path)

    assert [each.session_id for each in again.sessions()] == [each.session_id for each in first.sessions()]
    assert [each.result.counts["existing"] for each in again.sessions()] == [1, 1]


async def test_a_later_version_of_a_document_supersedes_its_steps(
    store: Store, tmp_path: Path, import_: Import
) -> None:
    path = tmp_path / "trajectory.json"
    versions = [
        json.dumps(WITH_SUBAGENT, indent=1),
        json.dumps(WITH_SUBAGENT, indent=1).replace("Count the knots.", "Count all knots."),
        json.dumps(WITH_SUBAGENT).replace("I ask.", "I ask the wren."),
    ]
    for text in versions[:2]:
        path.write_text(text)
        await import_(path)
    path.write_text(versions[2])
    last, again = await import_(path), await import_(path)

    assert [each.result.counts for each in last.sessions()] == [
        {"existing": 1, "new": 1},
        {"existing": 1, "new": 1},
    ]
    assert [each.result.counts for each in again.sessions()] == [{"existing": 1}, {"existing": 1}]
    assert not [problem for each in again.sessions() for problem in each.result.problems]
    main, child = [each.session_id for each in again.sessions()]
    assert await exported(store, main) == "\n".join(versions)
    assert [await texts(store, id) for id in (main, child)] == [
        ["How many knots?", "I ask the wren."],
        ["Count the knots.", "Seven."],
    ]
    summary = await store.conversation.read_summary(main)
    assert summary.usage is not None
    assert (summary.turns, summary.usage.input_tokens) == (1, 120)


async def texts(store: Store, session_id: UUID) -> list[str]:
    exported = await read_trajectory(store, session_id)
    return [each["message"] for each in exported["steps"]]


async def test_a_rewritten_document_without_an_id_is_reported_and_replaced_on_request(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "trajectory.json"
    for prompt in ("How many?", "How many knots?"):
        path.write_text(json.dumps(trajectory(step("user", prompt))))
        imported = await import_file(store, path, path.name, identify=True)

    replaced = await import_file(store, path, path.name, identify=True, replace=True)

    assert [problem.kind for problem in imported.result.problems] == ["changed"]
    assert replaced.session_id == imported.session_id
    assert await texts(store, replaced.session_id) == ["How many knots?"]


async def test_subagents_of_subagents_and_repeated_ids(store: Store, tmp_path: Path, import_: Import) -> None:
    inner = {**SUBAGENT, "trajectory_id": "sub-b"}
    other = {**SUBAGENT, "steps": [{"step_id": 1, "source": "user", "message": "And the ropes?"}]}
    document = trajectory(
        step("user", "How many?"),
        subagent_trajectories=[{**SUBAGENT, "subagent_trajectories": [inner]}, other],
    )
    path = tmp_path / "trajectory.json"
    path.write_text(json.dumps(document))

    imported = await import_(path)

    sessions = [await store.sessions.get(each.session_id) for each in imported.embedded]
    ends = [each.external_id.partition("#")[2] if each.external_id else None for each in sessions]
    assert ends == ["sub-a", "sub-a/sub-b", "sub-a#2"]
    assert [each.parent_id for each in sessions] == [
        imported.session_id,
        sessions[0].id,
        imported.session_id,
    ]


def test_summaries_of_terminus_have_the_session_of_their_trajectory_as_parent(tmp_path: Path) -> None:
    names = [
        f"run.{name}.json" for name in ("summarization-1-summary", "cont-1", "cont-1.summarization-2-answers")
    ]
    head = read_head([json.dumps(trajectory(step("user", "Summarize.")))], None)

    parents = [find_parent(tmp_path / name, head, []) for name in names]

    found = [None if each is None else Path(each.external_id).name for each in parents]
    assert found == ["run.json", None, "run.cont-1.json"]


@pytest.mark.parametrize("subagents", [None, [], 7, ["text"], [{"steps": []}]])
async def test_other_values_do_not_stop_an_import(store: Store, tmp_path: Path, subagents: Any) -> None:
    document = trajectory(step("user", "How many?"), subagent_trajectories=subagents)
    path = tmp_path / "trajectory.json"
    path.write_text(json.dumps(document))

    imported = await import_file(store, path, path.name, identify=True)

    assert await exported(store, imported.session_id) == path.read_text()
