"""Trajectories of sessions that are read twice, or kept, equal the trajectories of the library."""

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from ash_server.errors import SessionChanged, SessionTooLarge
from ash_server.store import Store
from ash_server.store.conversation import repeated_pages, standard_pages, streamed_trajectories
from ash_server.store.transcripts import Copy
from ash_shared import transform_messages
from ash_shared.projections import to_atif
from tests.marking import slow_after
from tests.server.trajectories import read_trajectory
from tests.shared.records import claude

TOKEN = "ghp_" + "a1B2c3D4e5" * 4
RECORDING = {
    "type": "file",
    "mimeType": "audio/mpeg",
    "mediaClass": "audio",
    "source": {"type": "base64", "data": b64encode(b"ID3").decode()},
}
PARTS = [
    pytest.param(4 * 1024 * 1024, 1, id="kept"),
    pytest.param(0, 1, id="read twice"),
    pytest.param(0, 10, id="read twice in ten pages", marks=pytest.mark.slow),
]


def lines(*records: dict[str, Any]) -> list[str]:
    return [json.dumps({"uuid": f"u{number}", **record}) for number, record in enumerate(records)]


def asks(*ids: str, **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 7, "output_tokens": 3}
    blocks = [claude.call(id, path=f"{id}.txt") for id in ids]
    return claude.line("assistant", blocks, {"id": f"m-{ids}", "model": "m", "usage": usage}, **more)


def answers(id: str, content: Any = "Seven.", **more: Any) -> dict[str, Any]:
    return claude.line("user", [claude.tool_result(id, content)], **more)


def between(count: int) -> list[dict[str, Any]]:
    return [claude.line("user", f"Wait {number}.") for number in range(count)]


def of_agent(agent: str, *records: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**record, "isSidechain": True, "agentId": agent} for record in records]


SESSIONS: Mapping[str, list[str]] = {
    "no messages": [],
    "a prompt": lines(claude.line("user", f"Use {TOKEN}.")),
    "results in turn": lines(asks("c1", "c2"), answers("c2"), asks("c3"), answers("c1"), answers("c3")),
    "a late result": lines(asks("c1"), *between(120), answers("c1"), *between(3)),
    "late results of two calls": lines(
        asks("c1"), asks("c2"), *between(110), answers("c2"), *between(4), answers("c1")
    ),
    "a repeated result": lines(asks("c1"), answers("c1"), *between(130), answers("c1", "Eight.")),
    "a repeated id": lines(
        asks("c1"), *between(120), asks("c1"), answers("c1"), *between(120), answers("c1")
    ),
    "no call": lines(answers("c9"), claude.line("user", "Go on.")),
    "a recording": lines(claude.line("user", "Listen."), claude.line("user", [RECORDING])),
    "only a subagent": lines(*of_agent("a1", claude.line("user", "Count."), asks("c1"), answers("c1"))),
    "subagents": lines(
        *of_agent("a1", claude.line("user", f"Count with {TOKEN}.")),
        asks("c0"),
        *of_agent("a2", claude.line("user", "Sum."), asks("d1")),
        *of_agent("a1", asks("c1"), *between(120), answers("c1")),
        answers("c0", toolUseResult={"agentId": "a1"}),
        *of_agent("a2", answers("d1"), claude.line("user", [RECORDING])),
    ),
    "a subagent with messages that have only its call": lines(
        asks("c0"),
        claude.line("user", "Count.", parent_tool_use_id="c0"),
        asks("c1", parent_tool_use_id="c0", agentId="a1"),
        answers("c1", parent_tool_use_id="c0"),
        answers("c0"),
    ),
}


def read_in_pages(monkeypatch: pytest.MonkeyPatch, messages: int, pages: int, max_kept: int) -> None:
    read_in_parts(monkeypatch, max_kept, page=max(1, -(-messages // pages)))


def read_in_parts(monkeypatch: pytest.MonkeyPatch, max_kept: int = 0, page: int = 3) -> None:
    monkeypatch.setattr(repeated_pages, "MAX_KEPT_BYTES", max_kept)
    monkeypatch.setattr(standard_pages, "_PAGE", page)


async def stored(store: Store, texts: list[str], **session: Any) -> UUID:
    id: UUID = (await store.sessions.create(source="claude", **session)).id
    if texts:
        await store.messages.append(id, texts)
    return id


async def trajectory_text(store: Store, id: UUID, *, redacts: bool = False) -> str:
    parts = [part async for part in store.conversation.stream_atif(id, redacts=redacts)]
    return b"".join(parts).decode()


@pytest.mark.parametrize(("max_kept", "pages"), PARTS)
@pytest.mark.parametrize("name", slow_after(2, SESSIONS))
async def test_trajectories_in_parts_equal_the_library(
    store: Store, monkeypatch: pytest.MonkeyPatch, name: str, max_kept: int, pages: int
) -> None:
    texts = SESSIONS[name]
    id = await stored(store, texts)
    read_in_pages(monkeypatch, len(texts), pages, max_kept)
    document = json.dumps(to_atif(transform_messages(texts), session_id=str(id)).document)

    assert await trajectory_text(store, id) == document
    if TOKEN in document:
        redacted = document.replace(TOKEN, "[redacted: github token]")
        assert await trajectory_text(store, id, redacts=True) == redacted


@pytest.mark.parametrize(("max_kept", "pages"), PARTS)
async def test_stored_subagents_in_parts(
    store: Store, monkeypatch: pytest.MonkeyPatch, max_kept: int, pages: int
) -> None:
    """One of them replaces the messages in the transcript; only they have costs."""
    main = await stored(
        store,
        lines(
            claude.line("assistant", [claude.call("c0", "Task")]),
            *of_agent("a1", claude.line("user", "Repeated.")),
            *of_agent("a2", claude.line("user", "Inline.")),
            answers("c0", toolUseResult={"agentId": "a1"}),
        ),
    )
    own = lines(
        *of_agent("a1", asks("c1"), *between(120), answers("c1"), claude.line("user", [RECORDING])),
    )
    await stored(store, own, parent_id=main)
    other = await stored(store, lines(claude.line("user", "Other.")), parent_id=main)
    read_in_pages(monkeypatch, len(own), pages, max_kept)

    document = await read_trajectory(store, main)

    embedded = document["subagent_trajectories"]
    [result] = document["steps"][0]["observation"]["results"]
    assert [(each["trajectory_id"], len(each["steps"])) for each in embedded] == [
        ("a1", 122),
        ("a2", 1),
        (str(other), 1),
    ]
    assert result["subagent_trajectory_ref"] == [{"trajectory_id": "a1"}]
    assert {each["schema_version"] for each in (document, *embedded)} == {"ATIF-v1.8"}


@pytest.mark.parametrize(("max_kept", "pages"), PARTS)
async def test_copied_messages_in_parts(
    store: Store, monkeypatch: pytest.MonkeyPatch, max_kept: int, pages: int
) -> None:
    texts = lines(asks("c1"), answers("c1"), claude.line("user", "More."), asks("c2"), answers("c2"))
    original = await stored(store, texts[:3])
    fork = await stored(store, texts)
    await store.transcripts.set_copy(fork, Copy(original, 3))
    read_in_pages(monkeypatch, len(texts), pages, max_kept)

    document = await read_trajectory(store, fork)

    marks = [(each.get("is_copied_context"), "metrics" in each) for each in document["steps"]]
    assert marks == [(True, False), (True, False), (None, True)]


async def test_subagents_beyond_the_limit_are_written_in_further_readings(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = [claude.line("user", f"Agent {number} counts {'x' * 500}.") for number in range(6)]
    records = [record for number, each in enumerate(agents) for record in of_agent(f"a{number}", each)]
    texts = lines(claude.line("user", "Count."), *records, claude.line("user", "Thanks."))
    id = await stored(store, texts)
    document = to_atif(transform_messages(texts), session_id=str(id)).document
    read_in_parts(monkeypatch)
    monkeypatch.setattr(streamed_trajectories, "MAX_BYTES", 2000)
    readings = count_readings(monkeypatch)

    assert await trajectory_text(store, id) == json.dumps(document)
    assert len(readings) == 2


def count_readings(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    readings = list[None]()
    read_again = repeated_pages.RepeatedPages.read_again

    def counted(pages: repeated_pages.RepeatedPages) -> Any:
        readings.append(None)
        return read_again(pages)

    monkeypatch.setattr(repeated_pages.RepeatedPages, "read_again", counted)
    return readings


async def test_a_result_out_of_reach_is_a_step_of_its_own(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = lines(asks("c1"), *between(120), answers("c1"))
    id = await stored(store, texts)
    monkeypatch.setattr(streamed_trajectories, "MAX_BYTES", 5000)

    document = await read_trajectory(store, id)

    first, *_, last = document["steps"]
    assert "observation" not in first
    assert last["observation"]["results"] == [{"content": "Seven.", "extra": {"ash": {"toolUseId": "c1"}}}]
    read = transform_messages(json.dumps(document))
    assert read[-1].content[0].model_dump()["tool_use_id"] == "c1"


@pytest.mark.parametrize("deletes", ["message", "subagent"])
async def test_deletions_between_the_readings_end_the_document(
    store: Store, monkeypatch: pytest.MonkeyPatch, deletes: str
) -> None:
    id = await stored(store, lines(*between(150)))
    subagent = await stored(store, lines(claude.line("user", "Count.")), parent_id=id)
    read_in_parts(monkeypatch, page=20)

    parts = store.conversation.stream_atif(id)
    await anext(parts)
    if deletes == "message":
        await store.messages.delete(id, 145)
    else:
        await store.sessions.delete(subagent)
    with pytest.raises(SessionChanged):
        [part async for part in parts]


async def test_appended_messages_are_left_out(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    id = await stored(store, lines(*between(150)))
    read_in_parts(monkeypatch, page=20)

    parts = store.conversation.stream_atif(id)
    first = await anext(parts)
    await store.messages.append(id, [json.dumps(claude.line("user", "Later."))])
    text = first + b"".join([part async for part in parts])

    messages = [each["message"] for each in json.loads(text)["steps"]]
    assert messages == [f"Wait {number}." for number in range(150)]


@pytest.mark.parametrize("limit", ["MAX_SUBAGENTS", "MAX_OWN_MESSAGES"])
async def test_too_many_subagents_or_own_messages_are_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    texts = SESSIONS["subagents"]
    original, id = await stored(store, texts[:1]), await stored(store, texts)
    await store.transcripts.set_copy(id, Copy(original, 1))
    monkeypatch.setattr(streamed_trajectories, limit, 1)

    with pytest.raises(SessionTooLarge):
        await read_trajectory(store, id)
