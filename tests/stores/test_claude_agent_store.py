"""`AshSessionStore` with the conformance kit and the functions of claude-agent-sdk, and one identity with imports."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    InMemorySessionStore,
    SDKSessionInfo,
    SessionKey,
    SessionStoreEntry,
    delete_session_via_store,
    fork_session_via_store,
    get_session_info_from_store,
    get_session_messages_from_store,
    get_subagent_messages_from_store,
    import_session_to_store,
    list_sessions_from_store,
    list_subagents_from_store,
    project_key_for_directory,
    query,
    rename_session_via_store,
    tag_session_via_store,
)
from claude_agent_sdk._internal.transcript_mirror_batcher import TranscriptMirrorBatcher
from claude_agent_sdk.testing import run_session_store_conformance

from ash_client import ApiError, AsyncAshClient
from ash_server.store import Store
from ash_server.transfer.importing.file_import import FileImport, ImportedFile, import_file
from ash_server.transfer.importing.transcript_files import find_homes
from ash_server.transfer.pushing import push_file
from ash_stores import AshSessionStore, claude_agent
from ash_stores.connection import Address, find_session
from tests.server.api.conftest import create_key
from tests.shared.records import claude

SESSION = "3f0c6a52-5b1e-4c0a-9d55-0c7b8f1f2e60"
KEY: SessionKey = {"project_key": "-work-site", "session_id": SESSION}
SUBAGENT: SessionKey = {**KEY, "subpath": "subagents/agent-a1"}
NAME = f"projects/-work-site/{SESSION}.jsonl"


def entry(number: int, **more: Any) -> SessionStoreEntry:
    """A line of a transcript: odd numbers are prompts, even ones answers."""
    role = "user" if number % 2 else "assistant"
    content = f"prompt {number}" if number % 2 else [{"type": "text", "text": f"answer {number}"}]
    line = claude.line(
        role,
        content,
        {"id": f"m{number}"},
        uuid=f"00000000-0000-4000-8000-{number:012}",
        parentUuid=f"00000000-0000-4000-8000-{number - 1:012}" if number > 1 else None,
        timestamp=f"2026-11-02T09:00:{number % 60:02}.000Z",
        sessionId=SESSION,
        cwd="/work/site",
        isSidechain=False,
    )
    return cast(SessionStoreEntry, line | more)


def entries(*numbers: int, **more: Any) -> list[SessionStoreEntry]:
    return [entry(number, **more) for number in numbers]


async def run_fake(sessions: AshSessionStore, folder: Path, **options: Any) -> list[object]:
    """Run the agent SDK in a folder with the fake CLI, and return its messages."""
    chosen = ClaudeAgentOptions(
        session_store=cast(Any, sessions),
        cli_path=Path(__file__).with_name("fake_claude.py"),
        env={"CLAUDE_CONFIG_DIR": str(folder), "FAKE_SESSION": SESSION},
        cwd=folder,
        **options,
    )
    return [each async for each in query(prompt="Which tests fail?", options=chosen)]


MODE = cast(SessionStoreEntry, {"type": "mode", "mode": "normal", "sessionId": SESSION})


@pytest.fixture
async def sessions(address: tuple[Address, str | None]) -> AsyncIterator[AshSessionStore]:
    store = AshSessionStore(*address)
    yield store
    await store.close()


@pytest.fixture
async def in_process(store: Store) -> AshSessionStore:
    return AshSessionStore(store)


async def test_conforms(address: tuple[Address, str | None]) -> None:
    stores = list[AshSessionStore]()

    def make_store() -> AshSessionStore:
        stores.append(AshSessionStore(*address, namespace=uuid4().hex))
        return stores[-1]

    await run_session_store_conformance(make_store)
    for store in stores:
        await store.close()
    assert len(stores) == 15


async def test_reads_as_transcript_of_claude(sessions: AshSessionStore, store: Store) -> None:
    await sessions.append(KEY, entries(1, 2))
    await sessions.append(SUBAGENT, entries(3, isSidechain=True, agentId="a1"))

    main = await store.sessions.find_one(NAME)
    messages = await store.messages.list_messages_parsed(main.id)
    [child] = (await store.sessions.list_sessions(parent_id=main.id)).sessions
    assert (main.source, main.title, main.message_count) == ("claude", "prompt 1", 2)
    assert [(each.source, each.role, [block.text for block in each.parsed or ()]) for each in messages] == [  # type: ignore[union-attr]
        ("claude", "user", ["prompt 1"]),
        ("claude", "assistant", ["answer 2"]),
    ]
    assert (child.external_id, child.agent_id) == (
        f"projects/-work-site/{SESSION}/subagents/agent-a1.jsonl",
        "a1",
    )


async def test_functions_of_the_sdk_return_the_same_as_with_its_own_store(
    sessions: AshSessionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    expected = await use_functions(InMemorySessionStore(), tmp_path)

    assert await use_functions(sessions, tmp_path) == expected
    assert expected["listed"] == [
        {"summary": "Another try", "tag": None, "first_prompt": "prompt 1"},
        {"summary": "Two tests", "tag": "green", "first_prompt": "prompt 1"},
    ]


async def use_functions(store: Any, folder: Path) -> dict[str, Any]:
    """Call the functions of the SDK for sessions in a store; return their results without times and new ids."""
    directory = str(folder)
    key: SessionKey = {"project_key": project_key_for_directory(folder), "session_id": SESSION}
    transcript = folder / "projects" / key["project_key"] / f"{SESSION}.jsonl"
    for path, numbers in (
        (transcript, (1, 2)),
        (transcript.with_suffix("") / "subagents" / "agent-a1.jsonl", (3, 4)),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in entries(*numbers)))
    for _ in range(2):
        await import_session_to_store(SESSION, store, directory=directory)
    await rename_session_via_store(store, SESSION, "Two tests", directory=directory)
    await tag_session_via_store(store, SESSION, "green", directory=directory)
    fork = await fork_session_via_store(store, SESSION, directory=directory, title="Another try")
    info = await get_session_info_from_store(store, SESSION, directory=directory)
    returned = {
        "listed": sorted(
            (shown(each) for each in await list_sessions_from_store(store, directory=directory)), key=str
        ),
        "info": info and shown(info),
        "messages": await get_session_messages_from_store(store, SESSION, directory=directory),
        "forked": [
            each.message
            for each in await get_session_messages_from_store(store, fork.session_id, directory=directory)
        ],
        "subagents": await list_subagents_from_store(store, SESSION, directory=directory),
        "of subagent": await get_subagent_messages_from_store(store, SESSION, "a1", directory=directory),
    }
    for _ in range(2):
        await delete_session_via_store(store, SESSION, directory=directory)
    left = [each.session_id for each in await list_sessions_from_store(store, directory=directory)]
    return {**returned, "left": left == [fork.session_id], "subkeys": await store.list_subkeys(key)}


def shown(info: SDKSessionInfo) -> dict[str, Any]:
    return {"summary": info.summary, "tag": info.tag, "first_prompt": info.first_prompt}


STRANGE: list[Any] = [
    {"type": "hologram", "uuid": "h1", "rays": [[], {}, None, 1e400, -0.0, 10**30, True]},
    {"type": "stream_event", "event": {"type": "content_block_delta"}},
    {"type": "user", "uuid": "", "message": 5, "\u2028": "\u0000 \ud83d", "é": "\x7f"},
    claude.line("user", None, uuid=["not", "text"]),
    {"type": "x", "uuid": "u" * 300},
    {"type": "mode", "nested": {"deep": [[[[[[{"a": 1}]]]]]]}},
    {"type": "attachment", "data": "A" * 1_500_000},
    {"type": "agent_metadata", "agentType": "Explore"},
]


async def test_returns_unknown_shapes_equal(sessions: AshSessionStore) -> None:
    await sessions.append(KEY, STRANGE)
    await sessions.append(KEY, STRANGE[1:2])

    loaded = cast(list[Any], await sessions.load(KEY))
    assert loaded == [*STRANGE, STRANGE[1]]
    assert [list(each) for each in loaded] == [list(each) for each in [*STRANGE, STRANGE[1]]]


async def test_leaves_out_long_summaries(sessions: AshSessionStore) -> None:
    batches = [entries(1), entries(2, lastPrompt="x" * 70_000), entries(3)]
    for batch in batches:
        await sessions.append(KEY, batch)

    assert await sessions.load(KEY) == [each for batch in batches for each in batch]
    assert await sessions.list_session_summaries(KEY["project_key"]) == []


async def test_stores_records_with_known_uuid_once(sessions: AshSessionStore) -> None:
    await sessions.append(KEY, [*entries(1, 2), MODE])
    await sessions.append(KEY, [*entries(1), entry(2, cwd="/elsewhere"), *entries(3, 3), MODE])

    assert await sessions.load(KEY) == [*entries(1, 2), MODE, entry(3), MODE]


async def test_summary_has_each_record_once(
    address: tuple[Address, str | None], sessions: AshSessionStore
) -> None:
    """Records that are stored, beside new ones, after a restart and in the same process; then an import adds one."""
    await sessions.append(KEY, [entry(1, gitBranch="main"), entry(2, gitBranch="fix")])
    restarted = AshSessionStore(*address)
    summaries = []
    for number in (3, 4):
        await restarted.append(KEY, [entry(1, gitBranch="main"), entry(number)])
        summaries += await restarted.list_session_summaries(KEY["project_key"])
    client = restarted._clients.client
    session = await find_session(client, "claude", NAME)
    assert session
    await client.commit(session.id, [{"content": json.dumps(entry(5, gitBranch="late")), "source": "claude"}])
    summaries += await restarted.list_session_summaries(KEY["project_key"])
    await restarted.append(KEY, entries(6))
    summaries += await restarted.list_session_summaries(KEY["project_key"])
    await restarted.close()

    assert [each["data"]["git_branch"] for each in summaries] == ["fix", "fix", "late"]
    assert [each["uuid"][-1] for each in cast(list[Any], await sessions.load(KEY))] == list("123456")


@pytest.mark.parametrize(
    "key",
    [
        {"project_key": "a/b", "session_id": "c"},
        {"project_key": "a", "session_id": "b/c"},
        {"project_key": "a", "session_id": "b", "subpath": "c"},
        {"project_key": "a", "session_id": "b", "subpath": "c.jsonl/d"},
        {"project_key": "a%2Fb", "session_id": "c.jsonl"},
        {"project_key": "Ä \n", "session_id": "?q=%"},
    ],
    ids=lambda key: "/".join(key.values()).encode("unicode_escape").decode(),
)
async def test_keeps_keys_apart(in_process: AshSessionStore, key: SessionKey) -> None:
    others: list[SessionKey] = [
        {"project_key": "a/b/c", "session_id": "d"},
        {"project_key": "a", "session_id": "b"},
        {"project_key": "a", "session_id": "bc"},
    ]
    for number, each in enumerate([*others, key], 1):
        await in_process.append(each, entries(number))

    assert await in_process.load(key) == entries(4)
    main: SessionKey = {"project_key": key["project_key"], "session_id": key["session_id"]}
    is_sub = "subpath" in key
    listed = [each["session_id"] for each in await in_process.list_sessions(key["project_key"])]
    assert (key["session_id"] in listed, await in_process.list_subkeys(main)) == (
        True,
        [key["subpath"]] if is_sub else [],
    )
    await in_process.delete(key)
    assert [await in_process.load(each) for each in others] == [entries(1), entries(2), entries(3)]


async def test_namespaces_are_separate(store: Store) -> None:
    one, two = AshSessionStore(store, namespace="a"), AshSessionStore(store, namespace="a/b")
    await one.append(KEY, entries(1))
    await two.append(KEY, entries(2))

    assert [await each.load(KEY) for each in (one, two, AshSessionStore(store))] == [
        entries(1),
        entries(2),
        None,
    ]
    await one.delete(KEY)
    assert [len(await each.list_sessions("-work-site")) for each in (one, two)] == [0, 1]


@pytest.mark.parametrize("flush", ["batched", "eager"])
async def test_mirrors_a_run_of_the_sdk(
    in_process: AshSessionStore, store: Store, tmp_path: Path, flush: Any
) -> None:
    results = await run_fake(in_process, tmp_path, session_store_flush=flush)
    [path] = tmp_path.glob("projects/*/*.jsonl")  # noqa: ASYNC240
    [mirrored] = (await store.sessions.list_sessions()).sessions
    imported = await import_again(store, path, f"projects/{path.parent.name}/{path.name}")

    assert type(results[-1]).__name__ == "ResultMessage"
    assert (imported.session_id, dict(imported.result.counts)) == (mirrored.id, {"existing": 5})


# --- Writers


class CountedConflicts(AshSessionStore):
    """Counts attempts to append that conflict with another writer."""

    conflicts = 0

    async def _recover(self, *arguments: Any) -> Any:
        self.conflicts += 1
        return await super()._recover(*arguments)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["server", "store"])
async def test_twenty_writers_lose_nothing_and_do_not_wait(
    mode: str, server: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each writer appends its own batches and a shared one. No append has two conflicts."""
    monkeypatch.delattr(claude_agent, "uniform")
    stores = [CountedConflicts(server if mode == "server" else store) for _ in range(20)]
    shared = entries(1, 2)

    async def write(writer: int, sessions: AshSessionStore) -> None:
        for batch in range(3):
            first = 100 * (writer + 1) + 3 * batch
            await sessions.append(KEY, [*shared, *entries(first, first + 1, first + 2), MODE])

    await asyncio.gather(*(write(number, each) for number, each in enumerate(stores)))

    loaded = cast(list[Any], await stores[0].load(KEY))
    ids = [int(each["uuid"][-12:]) for each in loaded if "uuid" in each]
    [summary] = await stores[0].list_session_summaries("-work-site")
    for each in stores:
        await each.close()
    assert sorted(ids) == [1, 2, *(100 * writer + n for writer in range(1, 21) for n in range(9))]
    assert all(
        [id for id in ids if id // 100 == writer] == [100 * writer + n for n in range(9)]
        for writer in range(1, 21)
    )
    assert len(loaded) - len(ids) == 60
    assert summary["data"]["first_prompt"] == "prompt 1"
    assert all(each.conflicts <= 3 for each in stores)


async def test_append_that_an_import_precedes_waits_and_can_be_repeated(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session with a file: the import may have stored the same records with other ids."""
    await import_again(store, write_transcript(tmp_path, entries(1)))
    slow, fast = AshSessionStore(store), AshSessionStore(store)
    await slow.append(KEY, entries(2))
    await fast.append(KEY, entries(3))
    delays = list[float]()

    def draw(_: float, longest: float) -> float:
        delays.append(longest)
        return 0

    monkeypatch.setattr(claude_agent, "uniform", draw)
    with monkeypatch.context() as patch:
        patch.setattr(claude_agent, "_CONFLICTS", claude_agent._CONFLICTS._replace(seconds=0))
        with pytest.raises(ApiError) as refused:
            await slow.append(KEY, [entry(4), MODE])
    await slow.append(KEY, [entry(4), MODE])

    assert refused.value.code == "sequence_mismatch"
    assert await slow.load(KEY) == [*entries(1, 2, 3, 4), MODE]
    assert delays == [0.1]


async def test_mirror_beside_others_stores_imported_records_once(
    in_process: AshSessionStore, store: Store, tmp_path: Path
) -> None:
    """An import stores records of a mirrored session with the ids that a mirror gives them."""
    other = AshSessionStore(store)
    await in_process.append(KEY, entries(1))
    await other.append(KEY, entries(2))
    await import_again(store, write_transcript(tmp_path, [*entries(1, 2, 3), entry(3, cwd="/elsewhere")]))
    await in_process.append(KEY, entries(3, 4))

    session = await store.sessions.find_one(NAME)
    ids = [each.id for each in await store.messages.list_messages(session.id)]
    assert ids[:3] == [f"record:{cast(Any, each)['uuid']}" for each in entries(1, 2, 3)]
    assert await in_process.load(KEY) == [*entries(1, 2, 3), entry(3, cwd="/elsewhere"), entry(4)]


async def test_import_compares_again_after_a_mirror_was_faster(
    in_process: AshSessionStore, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_mirrored = FileImport._read_mirrored
    appended = [entries(2)]

    async def read_and_append(self: FileImport) -> Any:
        stored = await read_mirrored(self)
        if appended:
            await in_process.append(KEY, appended.pop())
        return stored

    monkeypatch.setattr(FileImport, "_read_mirrored", read_and_append)
    await in_process.append(KEY, entries(1))
    imported = await import_again(store, write_transcript(tmp_path, entries(1, 2, 3)))

    assert dict(imported.result.counts) == {"existing": 2, "new": 1}
    assert await in_process.load(KEY) == entries(1, 2, 3)


class LostAnswer(AshSessionStore):
    """Loses the answer of the first append."""

    is_lost = False

    async def _append_batch(self, *arguments: Any) -> None:
        await super()._append_batch(*arguments)
        if not self.is_lost:
            self.is_lost = True
            raise ConnectionError


async def test_mirror_of_the_sdk_repeats_lost_append_once(store: Store, tmp_path: Path) -> None:
    sessions = LostAnswer(store)
    errors = list[str]()

    async def on_error(key: SessionKey | None, message: str) -> None:
        errors.append(message)

    mirror = TranscriptMirrorBatcher(cast(Any, sessions), str(tmp_path), on_error)
    path = tmp_path / "-work-site" / f"{SESSION}.jsonl"
    mirror.enqueue(str(path), [*entries(1, 2), MODE])
    await mirror.flush()
    mirror.enqueue(str(path), [MODE])
    await mirror.flush()

    assert (errors, sessions.is_lost) == ([], True)
    assert await sessions.load(KEY) == [*entries(1, 2), MODE, MODE]


async def test_continues_a_deleted_session(in_process: AshSessionStore, store: Store) -> None:
    await in_process.append(KEY, entries(1))
    await store.sessions.delete((await store.sessions.find_one(NAME)).id)
    await in_process.append(KEY, entries(2))

    assert await in_process.load(KEY) == entries(2)


async def test_loads_a_session_that_another_store_deletes(address: tuple[Address, str | None]) -> None:
    one, other = AshSessionStore(*address), AshSessionStore(*address)
    await one.append(KEY, entries(1))
    await other.delete(KEY)
    deleted = await one.load(KEY)
    await other.append(KEY, entries(2))

    assert (deleted, await one.load(KEY)) == (None, entries(2))
    await one.close()
    await other.close()


@pytest.mark.slow
async def test_reports_a_server_that_refuses(server: str, store: Store) -> None:
    sessions = AshSessionStore(server, "ash_wrong")
    await create_key(store, "agent", "default", "read", "write")
    with pytest.raises(ApiError) as error:
        await sessions.append(KEY, entries(1))
    await sessions.close()

    assert error.value.code == "key_invalid"


async def test_names_the_scope_that_the_key_lacks(server: str, store: Store) -> None:
    sessions = AshSessionStore(server, await create_key(store, "agent", "default", "read", "write"))
    await sessions.append(KEY, entries(1))
    with pytest.raises(ApiError, match=r"no scope `delete`; create one with .* --scopes read,write,delete"):
        await sessions.delete(KEY)

    assert await sessions.load(KEY) == entries(1)
    await sessions.close()


# --- One identity with imports


def write_transcript(home: Path, lines: list[SessionStoreEntry]) -> Path:
    """Write the file of the session with other spaces than the mirror."""
    path = home / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return path


async def import_again(store: Store, path: Path, name: str = NAME) -> ImportedFile:
    return await import_file(store, path, name, source="claude", identify=True)


async def count_sessions(store: Store) -> int:
    return len((await store.sessions.list_sessions()).sessions)


async def test_import_of_mirrored_session_adds_only_what_is_missing(
    in_process: AshSessionStore, store: Store, tmp_path: Path
) -> None:
    metadata = cast(SessionStoreEntry, {"type": "agent_metadata", "agentType": "Explore"})
    await in_process.append(KEY, [metadata, MODE, *entries(1, 2), MODE])
    path = write_transcript(tmp_path, [MODE, *entries(1, 2), MODE, MODE, *entries(3)])

    imported = [await import_again(store, path) for _ in range(3)]
    await in_process.append(KEY, entries(3, 4))
    await in_process.append(KEY, [MODE])

    assert [dict(each.result.counts) for each in imported] == [
        {"existing": 4, "new": 2},
        {"existing": 6},
        {"existing": 6},
    ]
    assert [each.result.problems for each in imported] == [[], [], []]
    assert await in_process.load(KEY) == [
        *[metadata, MODE, *entries(1, 2), MODE],
        *[MODE, entry(3)],
        *[entry(4), MODE],
    ]
    assert await count_sessions(store) == 1


async def test_deleted_records_stay_deleted(
    in_process: AshSessionStore, store: Store, tmp_path: Path
) -> None:
    await in_process.append(KEY, entries(1, 2))
    path = write_transcript(tmp_path, entries(1, 2, 3))
    session = (await store.sessions.find_one(NAME)).id
    await store.messages.delete(session, 2)
    first = await import_again(store, path)
    await store.messages.delete(session, 3)
    second = await import_again(store, path)
    await in_process.append(KEY, entries(2, 4))

    assert [dict(each.result.counts) for each in (first, second)] == [
        {"existing": 1, "deleted": 1, "new": 1},
        {"existing": 1, "deleted": 2},
    ]
    assert await in_process.load(KEY) == entries(1, 4)


@pytest.mark.parametrize("name", [NAME, "/backup/of/a/laptop.jsonl"])
async def test_mirrored_session_is_found_at_any_path(
    in_process: AshSessionStore, store: Store, tmp_path: Path, name: str
) -> None:
    await in_process.append(KEY, entries(1, 2))
    path = write_transcript(tmp_path, entries(1, 2, 3))
    imported = await import_again(store, path, name)

    assert await in_process.list_session_summaries("-work-site") == []  # the SDK computes it
    assert (imported.name, await count_sessions(store)) == (NAME, 1)
    assert await in_process.load(KEY) == entries(1, 2, 3)


async def test_imported_session_is_mirrored_once(
    in_process: AshSessionStore, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_transcript(tmp_path, entries(1, 2))
    await import_again(store, path)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    await import_session_to_store(SESSION, cast(Any, in_process))
    await in_process.append(KEY, entries(2, 3))
    write_transcript(tmp_path, entries(1, 2, 3, 4))
    await import_again(store, path)
    await in_process.append(KEY, entries(4, 5))

    assert await in_process.load(KEY) == entries(1, 2, 3, 4, 5)
    assert await count_sessions(store) == 1
    [listed] = await list_sessions_of(in_process)
    [summary] = await in_process.list_session_summaries("-work-site")
    assert (listed["session_id"], summary["data"]["first_prompt"]) == (SESSION, "prompt 1")


async def list_sessions_of(sessions: AshSessionStore) -> list[Any]:
    return list(await sessions.list_sessions("-work-site"))


async def test_pushed_session_is_mirrored_once(server: str, store: Store, tmp_path: Path) -> None:
    sessions = AshSessionStore(server)
    homes = find_homes({"CLAUDE_CONFIG_DIR": str(tmp_path)}, tmp_path)
    await sessions.append(KEY, [MODE, *entries(1, 2)])
    path = write_transcript(tmp_path, [MODE, *entries(1, 2, 3)])
    async with AsyncAshClient(server) as client:
        counts = [
            dict((await push_file(client, path, homes, source="claude")).imported.result.counts)
            for _ in range(2)
        ]
    await sessions.append(KEY, entries(3, 4))

    loaded = await sessions.load(KEY)
    await sessions.close()
    assert counts == [{"existing": 3, "new": 1}, {"existing": 4}]
    assert loaded == [MODE, *entries(1, 2, 3, 4)]
    assert await count_sessions(store) == 1


async def test_import_during_the_mirror_stores_each_line_once(
    in_process: AshSessionStore, store: Store, tmp_path: Path
) -> None:
    """The import and two mirrors take turns as they come."""
    path = write_transcript(tmp_path, entries(*range(1, 41)))
    other = AshSessionStore(store)
    await in_process.append(KEY, entries(1))

    async def mirror(sessions: AshSessionStore, first: int) -> None:
        for number in range(first, 41, 2):
            await sessions.append(KEY, entries(number))

    await asyncio.gather(mirror(in_process, 2), mirror(other, 3), import_again(store, path))

    loaded = cast(list[Any], await in_process.load(KEY))
    assert sorted(each["uuid"] for each in loaded) == [
        cast(Any, each)["uuid"] for each in entries(*range(1, 41))
    ]


async def test_edited_copy_is_another_session(
    in_process: AshSessionStore, store: Store, tmp_path: Path
) -> None:
    await in_process.append(KEY, entries(1, 2))
    imported = await import_again(store, write_transcript(tmp_path, entries(11, 12)))

    assert dict(imported.result.counts) == {"new": 2}
    assert await in_process.load(KEY) == entries(1, 2)
    assert await count_sessions(store) == 2


async def test_times_are_those_of_the_server(in_process: AshSessionStore, store: Store) -> None:
    await in_process.append(KEY, entries(1))
    [listed] = await list_sessions_of(in_process)
    session = await store.sessions.find_one(NAME)

    assert listed["mtime"] == int(session.updated_at.timestamp() * 1000)
