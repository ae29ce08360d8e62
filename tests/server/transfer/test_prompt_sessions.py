"""Sessions of prompts alone, from `history.jsonl` of Claude Code, and the transcripts that replace them."""

import json
import os
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
import pytest

from ash_server import Store
from ash_server.app import create_app
from ash_server.cli.import_.files import ImportReport, import_discovered, import_paths
from ash_server.cli.import_.options import ImportOptions
from ash_server.cli.push.files import PushOptions, push_paths
from ash_server.live.session_feed import SessionFeed
from ash_server.live.transcript_check import list_unstored, scan_home
from ash_server.settings import Settings
from ash_server.store.sessions import session_id_for
from ash_server.transfer.exporting.jsonl import export_messages
from ash_server.transfer.importing.prompt_history import list_sessions
from ash_shared.model.reports.unstored import UnstoredOfAgent
from tests.server.api.conftest import SECRET, bearer, create_key, served
from tests.server.api.test_mcp import connected, read
from tests.server.cli.test_cli import ran_here
from tests.shared.records import claude
from tests.waiting import until

START = 1_790_000_000_000
LOST, SWEPT, KEPT = (f"{digit * 8}-0a53-4d0e-8f3f-3f1c1d2e4a5b" for digit in "abc")
"""Sessions in the history; only the last one has a transcript on disk."""


def prompt(session: str | None, text: str, minute: int = 0, **pasted: Any) -> str:
    line = {
        "display": text,
        "pastedContents": pasted,
        "timestamp": START + minute * 60_000,
        "project": "/srv/boat",
    }
    return json.dumps({**line, **({"sessionId": session} if session else {})}) + "\n"


HISTORY = [
    prompt(LOST, "Raise the sail.", 0),
    prompt(SWEPT, "Where is the anchor?", 1),
    prompt(None, "A line of an old version.", 2),
    "no JSON\n",
    prompt(KEPT, "Bail out the boat.", 3),
    prompt(SWEPT, "Weigh it: [Pasted text #1 +1 lines]", 4, **{"1": {"type": "text", "content": "an\nchor"}}),
]


def transcript(session: str, *texts: str) -> str:
    fields: dict[str, Any] = {"sessionId": session, "cwd": "/srv/boat", "timestamp": "2026-09-21T14:00:00Z"}
    lines = [
        claude.line("user", text, uuid=f"{session}-{number}", **fields) for number, text in enumerate(texts)
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.fixture
def claude_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    home = tmp_path / ".claude"
    write(home, KEPT, "Bail out the boat.")
    (home / "history.jsonl").write_text("".join(HISTORY))
    return home


def write(home: Path, session: str, *texts: str) -> Path:
    path = home / "projects" / "-srv-boat" / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(transcript(session, *texts))
    return path


async def import_all(store: Store) -> ImportReport:
    report = await import_discovered(store, ImportOptions())
    assert report.unread == []
    return report


def prompts_id(session: str) -> UUID:
    return session_id_for("claude_history", session)


async def listed(store: Store) -> list[tuple[str, str | None, int]]:
    page = await store.sessions.list_sessions(sort="start")
    return [(each.source, each.title, each.message_count) for each in page.sessions]


async def test_imports_the_prompts_of_sessions_without_a_transcript(store: Store, claude_home: Path) -> None:
    first, second = await import_all(store), await import_all(store)

    assert (first.total.counts["new"], second.total.counts) == (4, {"existing": 4})
    assert sorted(await listed(store)) == [
        ("claude", "Bail out the boat.", 1),
        ("claude_history", "Raise the sail.", 1),
        ("claude_history", "Where is the anchor?", 2),
    ]
    session = await store.sessions.get(prompts_id(SWEPT))
    assert (session.external_id, session.project, session.prompt_count) == (SWEPT, "/srv/boat", 2)
    assert session.first_at is not None
    assert session.first_at.timestamp() * 1000 == START + 60_000
    exported = [part async for part in export_messages(store, session.id)]
    assert b"".join(exported).decode() == HISTORY[1] + HISTORY[5]


async def test_a_history_that_grows_or_is_cut_adds_only_new_prompts(store: Store, claude_home: Path) -> None:
    await import_all(store)
    history = claude_home / "history.jsonl"
    history.write_text("".join([*HISTORY[5:], prompt(SWEPT, "Drop it.", 5), '{"display": "unfin']))

    report = await import_paths(store, [history], ImportOptions())

    assert (report.total.counts["new"], report.total.counts["existing"]) == (1, 1)
    assert (await store.sessions.get(prompts_id(SWEPT))).message_count == 3


async def shown(store: Store, url: str, environment: dict[str, str]) -> dict[str, Any]:
    """Return what lists, counts, projects, search and usage contain, over REST, MCP and the command line."""
    while await store.search.catch_up():
        pass
    async with httpx2.AsyncClient(base_url=url) as http, connected(url) as mcp:

        async def get(path: str) -> Any:
            return (await http.get(path)).raise_for_status().json()

        counts = await get("/api/sessions/counts")
        projects = (await get("/api/projects"))["projects"]
        usage = await get("/api/usage?by=session")
        found = (await read(mcp, "list_sessions"))["sessions"]
        ran = ran_here(["sessions", "--json"], environment, Path.cwd())
        return {
            "list": sources((await get("/api/sessions"))["sessions"]),
            "MCP": sources(found),
            "command": sources(json.loads(ran.out)["sessions"]),
            "counted": {each["value"]: each["sessions"] for each in counts["sources"]},
            "in projects": sum(each["sessionCount"] for each in projects),
            "search": sources((await get("/api/search?q=anchor"))["results"]),
            "usage": usage["totals"]["answers"],
        }


def sources(values: list[dict[str, Any]]) -> list[str]:
    return sorted(each["source"] for each in values)


@pytest.mark.slow
async def test_a_transcript_that_turns_up_replaces_the_prompts(
    store: Store, claude_home: Path, database_url: str, tmp_path: Path
) -> None:
    environment = {"HOME": str(tmp_path), "ASH_HOME": str(tmp_path / "ash"), "ASH_DATABASE_URL": database_url}
    await import_all(store)
    with served(create_app(Settings(), database_url=database_url)) as url:
        before = await shown(store, url, environment)
        write(claude_home, SWEPT, "Where is the anchor?", "Weigh it.")
        await import_all(store)
        after = await shown(store, url, environment)
        [replacing] = await store.sessions.find(SWEPT)
        async with httpx2.AsyncClient(base_url=url) as http:
            opened = (await http.get(f"/api/sessions/{prompts_id(SWEPT)}")).json()

    with_prompts = ["claude", "claude_history", "claude_history"]
    replaced = ["claude", "claude", "claude_history"]
    others = {"in projects": 3, "usage": 0}
    assert before == {
        **dict.fromkeys(("list", "MCP", "command"), with_prompts),
        "counted": {"claude": 1, "claude_history": 2},
        "search": ["claude_history"],
        **others,
    }
    assert after == {
        **dict.fromkeys(("list", "MCP", "command"), replaced),
        "counted": {"claude": 2, "claude_history": 1},
        "search": ["claude"],
        **others,
    }
    assert (replacing.source, opened["replacedBy"]) == ("claude", str(replacing.id))


async def test_any_append_to_a_transcript_replaces_its_prompts(store: Store, claude_home: Path) -> None:
    await import_all(store)
    session = await store.sessions.create(source="claude")
    summary = json.dumps({"type": "summary", "summary": "A boat", "leafUuid": "l1"})
    await store.messages.append(session.id, [summary])
    assert (await store.sessions.get(prompts_id(LOST))).replaced_by is None

    await store.messages.append(session.id, transcript(LOST, "Raise the sail.").splitlines())

    assert (await store.sessions.get(prompts_id(LOST))).replaced_by == session.id


async def test_prompts_of_a_stored_transcript_are_not_imported(store: Store, claude_home: Path) -> None:
    path = write(claude_home, LOST, "Raise the sail.")
    await import_all(store)
    path.unlink()

    report = await import_all(store)

    assert (report.total.counts["new"], report.total.counts["existing"]) == (0, 1 + 1 + 2)
    assert not await store.sessions.existing_ids([prompts_id(LOST)])


async def test_prompts_created_after_their_transcript_are_replaced_at_once(store: Store) -> None:
    transcript_session = await store.sessions.create(source="claude", external_id="other")
    await store.messages.append(transcript_session.id, transcript(LOST, "Raise the sail.").splitlines())

    created = await store.sessions.create(source="claude_history", external_id=LOST)

    assert created.replaced_by == transcript_session.id


async def test_subagents_and_other_tenants_replace_no_prompts(
    store: Store, claude_home: Path, database_url: str
) -> None:
    await import_all(store)
    await create_key(store, "all", "red", "read", "write")
    red = next(tenant for tenant in await store.list_tenants() if tenant.name == "red")
    line = json.loads(transcript(LOST, "Raise the sail."))
    subagent = json.dumps({**line, "isSidechain": True, "agentId": "a1"})
    for owner, text in ((store, subagent), (store.for_tenant(red), json.dumps(line))):
        session = await owner.sessions.create(source="claude")
        await owner.messages.append(session.id, [text])

    assert (await store.sessions.get(prompts_id(LOST))).replaced_by is None


async def test_prompts_of_a_deleted_transcript_are_listed_again(store: Store, claude_home: Path) -> None:
    await import_all(store)
    copies = [await store.sessions.create(source="claude", external_id=name) for name in ("a", "b")]
    for copy in copies:
        await store.messages.append(copy.id, transcript(LOST, "Raise the sail.").splitlines())
    replaced_by = []
    for copy in copies:
        await store.sessions.delete(copy.id)
        replaced_by.append((await store.sessions.get(prompts_id(LOST))).replaced_by)

    assert replaced_by == [copies[1].id, None]
    assert ("claude_history", "Raise the sail.", 1) in await listed(store)


@pytest.mark.slow
async def test_push_stores_the_same_prompts_and_not_those_of_transcripts(
    store: Store, claude_home: Path, database_url: str
) -> None:
    stored = write(claude_home, LOST, "Raise the sail.")
    reports: list[ImportReport] = []
    with served(create_app(Settings(), database_url=database_url)) as url:
        options = PushOptions((), None, url, wait=0)
        await push_paths(options, reports.append)
        stored.unlink()
        await push_paths(options, reports.append)
        write(claude_home, SWEPT, "Where is the anchor?")
        await push_paths(options, reports.append)

    assert [report.total.counts["new"] for report in reports] == [1 + 1 + 2, 0, 1]
    assert await store.sessions.existing_ids([prompts_id(LOST), prompts_id(SWEPT)]) == {prompts_id(SWEPT)}
    [transcript_session] = await store.sessions.find(SWEPT)
    assert (await store.sessions.get(prompts_id(SWEPT))).replaced_by == transcript_session.id


async def test_feeds_remove_replaced_sessions(store: Store, claude_home: Path) -> None:
    feed = SessionFeed(store.hub, store.sessions)
    await import_all(store)
    [session] = await store.sessions.find(SWEPT)
    write(claude_home, SWEPT, "Where is the anchor?")
    await import_all(store)

    changes = await feed._read_changes({session.id, prompts_id(LOST)})

    assert (session.id, changes[session.id]) == (prompts_id(SWEPT), None)
    assert changes[prompts_id(LOST)] is not None


async def test_counts_what_was_lost_and_what_is_not_stored(store: Store, claude_home: Path) -> None:
    def claude(**counts: int) -> list[UnstoredOfAgent]:
        return [UnstoredOfAgent(agent="claude", name="Claude Code", kept_days=30, **counts)]

    expiring = time.time() - 25 * 24 * 3600
    for path in (claude_home / "projects").rglob("*.jsonl"):
        os.utime(path, (expiring, expiring))
    found = [await list_unstored(store, await scan_home())]
    await import_paths(store, [claude_home / "projects"], ImportOptions())
    found.append(await list_unstored(store, await scan_home()))
    for path in (claude_home / "projects").rglob("*.jsonl"):
        path.unlink()
    found.append(await list_unstored(store, await scan_home()))
    await import_all(store)
    found.append(await list_unstored(store, await scan_home()))

    assert found == [
        claude(expiring=1, lost=2, new_prompts=2),
        *[claude(expiring=0, lost=2, new_prompts=2)] * 2,
        [],
    ]


@pytest.mark.slow
async def test_a_server_of_one_user_counts_what_is_not_stored(
    store: Store, claude_home: Path, database_url: str
) -> None:
    async def agents(*, checks_home: bool, key: str | None = None) -> list[str]:
        app = create_app(Settings(secret=SECRET), database_url=database_url, checks_home=checks_home)
        with served(app) as url:
            if checks_home:
                await until(lambda: app.state.transcript_check.agents)
            async with httpx2.AsyncClient(base_url=url, headers=bearer(key) if key else {}) as http:
                answer = (await http.get("/api/transcripts/unstored")).raise_for_status().json()
        return [each["agent"] for each in answer["agents"]]

    without_keys = [await agents(checks_home=checks) for checks in (True, False)]
    reader = await create_key(store, "reader", "default", "read")
    owner = await create_key(store, "owner", "default", "read", "admin")
    with_keys = [await agents(checks_home=True, key=key) for key in (reader, owner)]

    assert (without_keys, with_keys) == ([["claude"], []], [[], ["claude"]])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, True),
        ({"host": "0.0.0.0"}, False),
        ({"public_url": "https://ash.example.com"}, False),
        ({"database_url": "postgresql://db"}, False),
        ({"tenant": "red"}, False),
    ],
)
def test_only_an_embedded_store_on_a_loopback_address_is_of_one_user(
    fields: dict[str, Any], expected: bool
) -> None:
    assert Settings(**fields).is_of_one_user is expected


OTHER_HISTORIES = {
    "antigravity": '{"display": "Go", "timestamp": 1790000000000, "workspace": "/srv/boat"}\n',
    "codex": '{"session_id": "s1", "ts": 1790000000, "text": "Go"}\n',
}


@pytest.mark.parametrize("line", OTHER_HISTORIES.values(), ids=OTHER_HISTORIES)
async def test_histories_of_other_agents_are_files_as_before(store: Store, tmp_path: Path, line: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(line)

    report = await import_paths(store, [path], ImportOptions())

    assert [*report.imported] == [path]


@pytest.mark.parametrize("id", ["", "..", "a/b", "-x", "a\0b", "x" * 101], ids=repr)
def test_ids_that_are_no_names_make_no_session(tmp_path: Path, id: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(prompt(id, "Go.") + prompt("s1", "Stay."))

    assert list_sessions(path) == [path / "s1"]
