"""A Citus cluster: all statements as tenant roles, parallel appends, two tenants, and a lost worker."""

import asyncio
import json
import os
import re
import shlex
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args
from unittest.mock import patch
from uuid import UUID, uuid4

import psycopg
import pytest
from httpx2 import AsyncClient
from psycopg import AsyncConnection, AsyncServerCursor
from psycopg._cursor_base import BaseCursor

from ash_server import NewMessage, Store
from ash_server.app import create_app
from ash_server.errors import AshError, DatabaseUnavailable
from ash_server.retention.cold_policy import (
    NewColdPolicy,
    end_cold_policy,
    get_cold_policy,
    run_cold_policy,
    set_cold_policy,
)
from ash_server.retention.policy import GRACE, NewRetention, run_retention, set_retention
from ash_server.settings import Settings
from ash_server.store.connections.archived_texts import read_archived
from ash_server.store.connections.cluster import DISTRIBUTED
from ash_server.store.connections.replication import Known
from ash_server.store.conversation import model_counts
from ash_server.store.lists.session_lists import SessionSort
from ash_server.store.log import kept_states, rebuild, totals
from ash_server.store.log.notify import last_sequences
from ash_server.store.maintenance import deletion, distribution
from ash_server.store.maintenance.distribution import plan_distribution
from ash_server.store.maintenance.doctor import Finding, diagnose
from ash_server.store.maintenance.own_prompts import name_by_own_prompt
from ash_server.store.maintenance.reindex import Reindexed
from ash_server.store.maintenance.vacuum import vacuum
from ash_server.store.schema.migrations import upgrade
from ash_server.store.schema.tables import metadata
from ash_server.store.search import newest
from ash_server.store.search.index import end_upkeep
from ash_server.store.search.query import SearchScope
from ash_server.store.transcripts import Copy
from ash_server.store.usage.groups import GroupKey, UsageFilter, count_sessions_without_facts, read_groups
from ash_server.transfer.exporting.jsonl import export_messages
from ash_server.transfer.importing.file_import import import_file
from ash_shared.eventlog.state import MAX_OPEN_TEXT
from ash_shared.model.session import Session
from tests.cluster import another_database, only_on_cluster
from tests.server.api.conftest import create_key, served
from tests.server.store.log.test_open_texts import CHUNKS, END, START
from tests.server.store.maintenance.test_distribution import ONLY_WITHOUT_CITUS, TABLES, constants
from tests.server.store.test_operation_budgets import turn
from tests.server.store.upgrade import write_store
from tests.shared.records import claude, codex
from tests.shared.records.events import turn_start, wire_event
from tests.waiting import TIMEOUT, until

pytestmark = [only_on_cluster, pytest.mark.cluster]

SAMPLES = sorted((Path(__file__).parents[2] / "ash_server" / "samples").glob("*.jsonl"))
WRITERS, EACH = 8, 25

CONTROL = shlex.split(os.environ.get("ASH_TEST_CITUS_CONTROL", ""))
"""A command that stops worker N with the arguments `kill N`, and restarts it with `up N`."""


@pytest.fixture
async def tenant_store(store: Store) -> Store:
    """A store for a tenant other than the default one."""
    await create_key(store, "all", "red", "read", "write")
    return store.for_tenant(await store.get_tenant("red"))


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The executed statements, with `?` for parameters."""
    queries: set[str] = set()
    start = BaseCursor._start_query

    def recorded(cursor: Any, query: Any = None) -> Any:
        queries.add(without_parameters(query))
        return start(cursor, query)

    declare = AsyncServerCursor.execute

    def declared(cursor: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        queries.add(without_parameters(query))
        return declare(cursor, query, *args, **kwargs)

    monkeypatch.setattr(BaseCursor, "_start_query", recorded)
    monkeypatch.setattr(AsyncServerCursor, "execute", declared)
    return queries


PLACEHOLDER = re.compile(r"\{[a-z][a-z0-9_]*\}")
PARAMETER = re.compile(r"%(?:\(\w+\))?[sbt]|\$\d+")


def without_parameters(query: object) -> str:
    """Return a statement with `?` for parameters, which may be numbered."""
    return PARAMETER.sub("?", str(query))


def unexecuted(executed: set[str]) -> set[str]:
    """Return the statements in the package on session tables that are not part of an executed statement.

    A placeholder of a fragment, such as `{condition}`, stands for any text.
    """
    statements = {
        text
        for text in constants()
        if text.lstrip().startswith(("SELECT ", "WITH ", "INSERT ", "UPDATE ", "DELETE "))
        and any(f" {table}" in text for table in TABLES.split("|"))
    }
    return {
        each for each in statements if not any(is_part(without_parameters(each), query) for query in executed)
    }


def is_part(statement: str, query: str) -> bool:
    pattern = ".+".join(map(re.escape, PLACEHOLDER.split(statement)))
    return re.search(pattern, query, re.DOTALL) is not None


async def test_all_statements_run_as_the_role_of_a_tenant(
    store: Store,
    database_url: str,
    tenant_store: Store,
    executed: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_states, "INTERVAL", 20)
    async with tenant_store._connections.connection() as conn:
        assert await (await conn.execute("SELECT current_user")).fetchone() == ("ash_app_2",)

    await use_sessions(tenant_store)
    await use_messages(tenant_store)
    await use_kept_states(tenant_store)
    await use_open_texts(tenant_store)
    await use_events(tenant_store)
    await use_imports(tenant_store)
    await use_codex(tenant_store)
    await use_prompts(tenant_store)
    await use_search(tenant_store)
    await use_usage(tenant_store)
    await use_facts(tenant_store)
    await use_activity(tenant_store)
    await use_cold(tenant_store)
    await use_retention(tenant_store)
    await store.read_statistics()
    with closing(psycopg.connect(database_url, autocommit=True)) as conn:
        assert [each.code for each in diagnose(conn).findings if each.code == "schema"] == []

    assert unexecuted(executed) - ONLY_WITHOUT_CITUS == set()


def line(text: str, **fields: Any) -> NewMessage:
    return NewMessage(
        f'{{"type":"user","uuid":"{uuid4()}","message":{{"role":"user","content":"{text}"}}}}', **fields
    )


async def use_retention(store: Store) -> None:
    parent = await store.sessions.create(source="claude")
    child = await store.sessions.create(source="claude", parent_id=parent.id)
    await store.messages.append(child.id, [line("old")])
    total = await store.sessions.count_all()
    await set_retention(store, NewRetention("2y"))
    later = datetime.now(UTC) + timedelta(days=800)
    scheduled = (await run_retention(store, now=later)).scheduled
    run = await run_retention(store, now=later + GRACE)

    assert 2 <= run.deleted == scheduled < total  # some have a star
    assert await store.sessions.existing_ids([parent.id, child.id]) == set()
    assert await store.sessions.count_all() == total - run.deleted


async def use_cold(store: Store) -> None:
    session = await store.sessions.create(source="claude")
    posted: Any = wire_event("house", id="cold", timestamp=1)
    sent = line("cold", id="cold")
    await store.messages.append(session.id, [sent])
    await store.events.append(session.id, posted)
    texts = [each.content for each in await store.messages.list_messages(session.id)]
    await set_cold_policy(store, NewColdPolicy("180d"))
    later = datetime.now(UTC) + timedelta(days=800)
    assert (await run_cold_policy(store, now=later)).archived > 0
    for cold in await store.cold.list_cold():
        await store.cold.verify(cold)
    assert (await get_cold_policy(store)).sessions > 0
    assert (await store.search.search("cold")).cold_sessions
    assert [each.created for each in await store.messages.append(session.id, [sent])] == [False]
    assert (await store.events.append(session.id, posted)).created is False
    digests = {"cold": sha256(sent.content.encode()).digest()}
    assert (await store.messages.compare_contents(session.id, digests)).equal == ["cold"]
    async with store._connections.connection() as conn:
        assert await read_archived(conn, session.id, "messages", [99]) is None
        assert await read_archived(conn, session.id, "events", [99]) is None
    assert [each.content async for each in store.messages.stream_messages(session.id)] == texts
    assert session.id in await store.cold.list_cold()
    assert await store.events.check_cursor(session.id, 0) == 0
    assert session.id not in await store.cold.list_cold()
    assert [each.content for each in await store.messages.list_messages(session.id)] == texts
    for cold in await store.cold.list_cold():
        assert await store.cold.restore(cold)
    await end_cold_policy(store)
    assert await store.cold.get_policy(store.tenant) is None


async def use_sessions(store: Store) -> None:
    parent = await store.sessions.create(
        source="claude", external_id="projects/-work/parent.jsonl", title="parent"
    )
    child = (
        await store.sessions.get_or_create(source="claude", external_id="projects/-work/child.jsonl")
    ).session
    await store.sessions.set_parent(child.id, parent.id, parent.external_id)
    assert set(await store.sessions.list_tree(parent.id)) == {parent.id, child.id}
    await store.sessions.update(parent.id, title="renamed", metadata={"a": 1})
    for labels in ({"tags": ["new"], "archived": True}, {"tags": [], "archived": False}, {"starred": True}):
        await store.sessions.update_labels(parent.id, **labels)
    await store.sessions.update_labels(child.id, note="kept")
    assert [tag.name for tag in (await store.sessions.list_tags()).tags] == []
    await store.sessions.get_end(parent.id)
    await store.messages.append(parent.id, ['{"cwd":"/work"}'])
    await use_lists(store, parent)
    assert {each async for each in store.sessions.list_ids()} == {parent.id, child.id}
    for reference in (str(parent.external_id), str(parent.id)[:8], "nobody"):
        await store.sessions.find(reference)
    assert len(await store.sessions.get_many([parent.id, child.id])) == 2
    await store.sessions.list_changed()
    await store.sessions.set_file_time(parent.id, datetime.now(UTC), has_grown=True)
    await store.sessions.set_lacks_final_newline(parent.id, True)
    await store.sessions.lacks_final_newline(parent.id)
    await store.sessions.recreate(child.id, source="claude", external_id="projects/-work/child.jsonl")
    await store.sessions.delete(parent.id)


async def use_lists(store: Store, parent: Session) -> None:
    project = {"project": "/work", "redact": True}
    labelled = {"tag": "new", "starred": True, "archived": "only"}
    files = (
        {"edited": "/work/a.py"},
        {"edited": "a.py"},
        {"tool": "Edit"},
        {"starred": False},
        {"project": "/work"},
    )
    several: Any = {"source": ["claude"], "model": "m", "branch": "main", "machine": "m", "cause": "person"}
    for sort in get_args(SessionSort):
        await store.sessions.list_sessions(sort=sort, key=uuid4(), **several)
        await store.sessions.list_sessions(sort=sort, source="claude")
        await store.sessions.list_sessions(sort=sort)
    assert await store.usage.keep_costs()
    await store.sessions.list_sessions(sort="cost")
    await store.sessions.list_sessions(person="ada")
    await store.sessions.list_sessions(external_id_prefix="projects/", external_id=parent.external_id)
    await store.sessions.list_projects()
    await store.sessions.count_sessions(source="claude", model="m")
    errors: Any = ({"errors": False}, {"errors": True})
    for filters in (labelled, {"q": "renamed"}, project, *files, *errors, {"parent_id": parent.id}):
        await store.sessions.list_sessions(**filters)


async def use_messages(store: Store) -> None:
    session = (await store.sessions.create()).id
    stored = await store.messages.append(
        session, [line("one", id="a"), line("two", id="b")], metadata={"k": 1}
    )
    assert [each.sequence for each in stored] == [1, 2]
    assert await store.messages.append(session, [line("three", id="c")], end=True)
    assert await store.messages.append(session, [], metadata={"k": 2}) == []
    assert [each.id for each in await store.messages.list_messages(session)] == ["a", "b", "c"]
    await store.messages.list_messages(session, before=3)
    await store.messages.list_blocks(session)
    await store.messages.list_blocks(session, before=3)
    await store.messages.get_message(session, 1)
    await store.messages.get_contents(session, ["a"])
    await store.messages.compare_contents(session, {"a": b"", "z": b""})
    async with aclosing(store.messages.stream_messages(session)) as streamed:
        assert [each.sequence async for each in streamed] == [1, 2, 3]
    async with store._connections.connection() as conn:
        await conn.execute("UPDATE messages SET parser_version = 0")
        await last_sequences(conn, [session])
    assert await store.messages.list_outdated() == [session]
    assert await store.messages.reindex(session) == Reindexed(3, 3)
    assert await store.sessions.has_reached(session, Known(3, 3))
    assert await store.messages.pop(session)
    assert await store.messages.delete(session, 1)


async def use_kept_states(store: Store) -> None:
    """Delete messages of a session that keeps states of its normaliser, also before states that remain."""
    session = await store.sessions.create(source="claude")
    mode = {"type": "permission-mode", "permissionMode": "plan"}
    records = [each for number in range(60) for each in (*turn(number), mode)]
    records.insert(155, claude.line("assistant", "x", isApiErrorMessage=True, error="odd"))
    lines = list(map(json.dumps, records))
    for first in range(0, len(lines), 20):
        await store.messages.append(session.id, [NewMessage(text) for text in lines[first : first + 20]])
    for sequence, shortest in ((156, 0), (155, 1000), (152, 0), (102, 0), (61, 0)):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(rebuild, "_MIN_AHEAD", shortest)
            await store.messages.delete(session.id, sequence)
            assert await store.search.index_pending()
    async with store._connections.connection() as conn:
        await kept_states.forget(conn, session.id)  # as in a session of an earlier version
    await store.messages.delete(session.id, 5)
    for _ in range(4):
        await store.messages.pop(session.id)


async def use_open_texts(store: Store) -> None:
    session = (await store.sessions.create()).id
    for record in [*START, *CHUNKS[:20]]:
        await store.messages.append(session, [json.dumps(record)])
    await store.messages.pop(session)
    await store.messages.append(session, ['{"type":"unknown"}'])
    await store.messages.append(session, [json.dumps(each) for each in END])
    events = await store.events.get_events(session, limit=1000)
    assert len(max((getattr(each.payload, "text", "") for each in events), key=len)) > MAX_OPEN_TEXT
    await store.messages.delete(session, 22)
    async with (
        store._connections.connection() as conn
    ):  # after a deletion within an open text that ended otherwise
        await conn.execute(deletion.SQL.set_normalizer_state, [None, session])


async def use_events(store: Store) -> None:
    session = (await store.sessions.create(source="claude", external_id="own name")).id
    long = "word " * 400
    await store.messages.append(session, [line(long), line("more")])
    turn = turn_start(id="e1")
    note = wire_event("note", x=1, id="e2")
    await store.events.append_batch(session, [turn, note])
    await store.events.append(session, wire_event("status", text="part"))
    await store.events.append(session, wire_event("note", x=1, id="e2", sessionId="own name"))
    events = await store.events.get_events(session)
    assert long.strip() in str(events)
    for page in (
        {"before": 3},
        {"at": 2},
        {"message": 2},
        {"agent": "none"},
        {"collapse": True},
        {"after": "e1"},
    ):
        await store.events.get_events(session, **page)
    derived = str((await store.events.get_stored_events(session, limit=1))[0].content).split('"id":"')[1][:36]
    await store.events.get_events(session, after=derived)
    await store.events.check_cursor(session, 1)
    await store.events.get_running_turn(session)
    end = await store.events.get_place(session, 3)
    await store.events.get_turn(session, end)
    await store.events.get_context(session, end)
    await store.events.end(session)
    async with aclosing(store.events.stream_stored_events(session)) as streamed:
        assert [each.sequence async for each in streamed][:3] == [1, 2, 3]
    await use_totals(store, session)
    await store.conversation.read_changes(session)
    await store.sessions.get_facts(session)
    await store.conversation.get_page(session)
    assert await store.conversation.read_events(session)
    await store.events.rebuild(session)
    await store.events.list_outdated()


async def use_totals(store: Store, session: UUID) -> None:
    async with store._connections.connection() as conn:
        await totals.write(conn, session, totals.NO_TOTALS)
    await store.conversation.list_behind(1)
    with patch.object(totals, "_MAX_LAG", 0), patch.object(model_counts, "MAX_COUNTED", 0):
        await store.conversation.count_items(session)
        await store.conversation.read_summary(session, is_bounded=True)
        await store.conversation.read_summary(session)


async def use_imports(store: Store) -> None:
    seen = [f"again/{path.name}" for path in SAMPLES]
    for path in SAMPLES:
        imported = await import_file(store, path, path.name, identify=True)
        again = await import_file(store, path, f"again/{path.name}", identify=True)
        assert again.session_id == imported.session_id
        await store.transcripts.set_copy(again.session_id, Copy(uuid4(), 1))
        async with store._connections.connection() as conn:
            await conn.execute("UPDATE sessions SET agent_id = 'a' WHERE id = %s", [again.session_id])
            await name_by_own_prompt(conn, again.session_id)
        await store.transcripts.set_missing_names(again.session_id, None)
    assert await store.transcripts.list_imported("unknown", seen) == set(seen)
    await store.drift.report()


async def use_codex(store: Store) -> None:
    """A subagent with a message of its parent, and a title from the program's database."""
    session = (await store.sessions.create(source="codex")).id
    header = codex.line("session_meta", id="c1", parent_thread_id="c0", subagent_history_start_ordinal=2)
    prompt = codex.message_item("user", "Count.")
    lines = [header, prompt, prompt]
    records = [{**record, "ordinal": number} for number, record in enumerate(lines)]
    await store.messages.append(session, [json.dumps(each) for each in records])
    await store.sessions.set_agent(session, "traex")
    await store.sessions.set_tool_title(session, "Counting", is_typed=False)
    await store.messages.reindex(session)
    stored = await store.sessions.get(session)
    assert (stored.title, stored.metadata["agent"], stored.copied_messages) == ("Counting", "traex", 2)


async def use_prompts(store: Store) -> None:
    """Sessions of prompts that are stored before and after the transcript, which is then deleted."""
    prompts = await store.sessions.create(source="claude_history", external_id="s1")
    transcript = await store.sessions.create(source="claude", external_id="projects/-work/s1.jsonl")
    await store.messages.append(transcript.id, [json.dumps(claude.user("Dig", session_id="s1"))])
    assert (await store.sessions.get(prompts.id)).replaced_by == transcript.id
    assert prompts.id not in {each.id async for each in store.sessions.list_all()}
    assert await store.transcripts.find_transcript("claude_history", "s1") == transcript.id
    assert await store.transcripts.list_stored_names("claude", ["s1", "s2"]) == {"s1"}
    await store.sessions.delete(prompts.id)
    prompts = await store.sessions.create(source="claude_history", external_id="s1")
    assert prompts.replaced_by == transcript.id
    await store.sessions.delete(transcript.id)
    assert (await store.sessions.get(prompts.id)).replaced_by is None


async def use_activity(store: Store) -> None:
    session = await store.sessions.create(source="claude")
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make"}}
    await store.messages.append(
        session.id,
        [json.dumps(claude.line("assistant", [call], {"id": "m1", "stop_reason": "tool_use"}, uuid="u1"))],
    )
    [running] = await store.sessions.with_activity([await store.sessions.get(session.id)])
    assert running.activity is not None
    assert (running.activity.state, running.activity.argument) == ("calling", "make")


async def use_facts(store: Store) -> None:
    """A plan, and a call that is written again with fewer files."""
    session = (await store.sessions.create(source="claude", key_id=uuid4())).id
    todos = [{"content": "Dig", "status": "completed"}]
    reads = [["a.py", "b.py"], ["a.py"]]
    calls = [claude.call("c1", "read_files", paths=paths) for paths in reads]
    for each in (*calls, claude.call("c2", "TodoWrite", todos=todos)):
        await store.messages.append(session, [json.dumps(claude.assistant(each, id=None))])
    await store.messages.delete(session, 3)
    await store.messages.append(
        session, [json.dumps(claude.assistant(claude.call("c3", "TodoWrite", todos=todos)))]
    )
    facts = await store.sessions.get_facts(session)
    assert facts.plan is not None
    assert facts.session.tool_call_count == 2


async def use_usage(store: Store) -> None:
    """An answer that the cost of its turn settles, a copy, its original, and lines of a subagent."""
    usage = {"input_tokens": 40_000, "output_tokens": 2, "total_tokens": 40_002}
    parent = await append_answers(store, usage)
    copy = await append_answers(store, usage)
    agent = await append_answers(store, usage, parent_id=parent, isSidechain=True, agentId="a1")
    last = await append_answers(store, usage, parent_id=parent, isSidechain=True, agentId="a2")
    for session in (parent, copy, agent, last):
        await store.events.rebuild(session)
    async with store._connections.connection() as conn:
        await conn.execute(
            "UPDATE sessions SET lineage = ARRAY['usage'] WHERE id = ANY(%s)", [[parent, copy]]
        )
        await conn.execute(
            "UPDATE usage_rollups SET agent_id = 'a1' WHERE session_id = ANY(%s)", [[parent, last]]
        )
        await store.transcripts.set_copy(copy, Copy(parent, 3))
        every: tuple[GroupKey, ...] = ("session", "project", "machine", "agent", "key", "agent_id", "cause")
        groups = await read_groups(conn, UsageFilter(by=every, period="day", timezone="Europe/Berlin"))
        assert {group.session_id for group in groups} & {parent, copy, agent, last} == {agent}
        filters: dict[str, Any] = {
            "projects": ["/"],
            "models": ["m"],
            "sources": ["claude"],
            "since": datetime.now(UTC),
        }
        assert await read_groups(conn, UsageFilter(**filters, price_changes=[datetime.now(UTC)])) == []
        assert await count_sessions_without_facts(conn) == 0
    total = {"type": "cost-state", "totalCostUSD": 9, "modelUsage": {"m": {}}}
    await store.messages.append(agent, [json.dumps(total)])
    report = await store.usage.report(by=["session"], session=parent)
    assert {row.stated_cost_usd for row in report.rows} >= {9}
    await use_figures(store, parent)
    page = await store.usage.add_to(await store.sessions.list_sessions(parent_id=parent))
    assert {session.id for session in page.sessions if session.usage} == {agent, last}
    await store.sessions.delete(parent)
    async with store._connections.connection() as conn:
        groups = await read_groups(conn, UsageFilter(by=["session"], sessions=[copy]))
    assert {group.session_id for group in groups} == {copy}
    assert sum(group.input_tokens for group in groups) == 40_000


async def use_figures(store: Store, session: UUID) -> None:
    assert (await store.usage.list_answers(session)).answers != []
    assert (await store.usage.figures(str(session), datetime.now(UTC))).session is not None
    assert (await store.usage.sum_since(datetime.now(UTC))).answers >= 0


async def append_answers(
    store: Store, usage: dict[str, int], *, parent_id: UUID | None = None, **more: Any
) -> UUID:
    session = (await store.sessions.create(source="claude", parent_id=parent_id)).id
    answer, revised = (
        claude.line(
            "assistant",
            [claude.text("Done.")],
            {"id": "m1", "model": "m", "usage": counts},
            uuid=str(uuid4()),
            **more,
        )
        for counts in (usage, usage | {"output_tokens": 3})
    )
    result = claude.result(total_cost_usd=0.5, usage=usage)
    for record in (answer, revised, result):
        await store.messages.append(session, [json.dumps(record)])
    return session


async def use_search(store: Store) -> None:
    assert await store.search.index_pending()
    async with store._connections.connection() as conn:
        await end_upkeep(conn, quiet=0)
    for place in get_args(SearchScope):
        page = await store.search.find("the", place=place)
        for result in page.results[:1]:
            await store.search.find_in_session(result.session_id, "the", place=place)
            await store.search.find_in_session(result.session_id, "nowhere", place=place)
    results = (await store.search.find("word OR more OR test", place="everything", per_session=2)).results
    assert len({each.session_id for each in results}) > 1
    for limits in ({"MAX_EVENTS": 0}, {"MAX_EVENTS": 0, "FIRST_ROWS": 2, "MAX_ROWS": 4, "_RARE": 10**6}):
        with pytest.MonkeyPatch.context() as patch:
            for name, value in limits.items():
                patch.setattr(newest, name, value)
            for filters in (
                {},
                {"per_session": 2},
                {"source": "claude"},
                {"session_id": results[0].session_id},
            ):
                first = await store.search.find("the", **filters, limit=1)
                await store.search.find("the", **filters, limit=1, after=first.next_after)
                await store.search.find("nowhere", **filters)
            for place in get_args(SearchScope):
                await store.search.find_in_session(results[0].session_id, "the", place=place)
                await store.search.find_in_session(results[0].session_id, "nowhere", place=place)
    await store.search.reindex(results[0].session_id)


@asynccontextmanager
async def http_client(database_url: str) -> AsyncIterator[AsyncClient]:
    """A client of a server in a thread."""
    app = create_app(Settings(), database_url=database_url)
    with served(app) as address:
        async with AsyncClient(base_url=address) as client:
            yield client


async def post_until_stored(client: AsyncClient, path: str, body: dict[str, Any]) -> int:
    """Repeat a request that waits too long for a lock or a connection, as on a busy machine."""
    while (status := (await client.post(path, json=body)).status_code) == 503:
        pass
    return status


MESSAGE: dict[str, Any] = {"content": "text"}
EVENT: dict[str, Any] = wire_event("note", x=1)


COLD_TABLES = {"cold_sessions", "cold_archives"}
"""Created and distributed by migration 0040."""


@pytest.fixture
def upgraded_url(server_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database that was distributed before sessions could be cold."""
    with another_database(server_url) as url:
        upgrade(url, "0039")
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("SET session_replication_role = replica")
            conn.execute("DELETE FROM tenants")
            conn.execute((Path(write_store.__file__).parent / "store_0039.sql").read_bytes())
        earlier = {table: column for table, column in DISTRIBUTED.items() if table not in COLD_TABLES}
        monkeypatch.setattr(distribution, "DISTRIBUTED", earlier)
        with psycopg.connect(url, autocommit=True) as conn:
            for statement in plan_distribution(conn, shards=4):
                conn.execute(statement)
        upgrade(url)
        yield url


async def export_all(store: Store) -> dict[UUID, bytes]:
    return {id: await export(store, id) async for id in store.sessions.list_ids()}


async def export(store: Store, id: UUID) -> bytes:
    return b"".join([piece async for piece in export_messages(store, id)])


async def test_an_upgraded_cluster_archives_its_sessions(upgraded_url: str) -> None:
    later = datetime.now(UTC) + timedelta(days=800)
    async with Store.open(upgraded_url) as default:
        red = default.for_tenant(await default.get_tenant("red"))
        await red.messages.append((await red.sessions.create()).id, ["one", "two"])
        for store in (default, red):
            before = await export_all(store)
            await set_cold_policy(store, NewColdPolicy("180d"))
            assert (await run_cold_policy(store, now=later)).archived == len(before) > 0
            for id in before:
                await store.cold.verify(id)
            assert await export_all(store) == before
            assert sorted(before) == await store.cold.list_cold()
            assert (await store.search.search("word")).cold_sessions == len(before)
            changed, *_ = before
            assert await store.messages.pop(changed)
            assert (await run_cold_policy(store, now=later)).archived == 1
            assert await store.cold.restore(changed)
            await store.sessions.delete(changed)
            assert await store.cold.count() == len(before) - 1
            await set_retention(store, NewRetention("2y"))
            await run_retention(store, now=later)
            assert (await run_retention(store, now=later + GRACE)).deleted == len(before) - 1
    with closing(psycopg.connect(upgraded_url, autocommit=True)) as conn:
        assert conn.execute("SELECT count(*) FROM cold_archives").fetchall() == [(0,)]
        assert diagnose(conn).findings == []


async def test_parallel_appends_and_posts_to_one_session(store: Store) -> None:
    session = (await store.sessions.create()).id

    async def write(client: AsyncClient, number: int) -> set[int]:
        statuses = set()
        for each in range(EACH):
            path, content = ("messages", MESSAGE) if number % 4 else ("events", EVENT)
            body = {"id": f"{number}-{each}", **content}
            statuses.add(await post_until_stored(client, f"/api/sessions/{session}/{path}", body))
        return statuses

    async with http_client(store.url) as client:
        statuses = await asyncio.gather(*(write(client, number) for number in range(WRITERS)))
    messages = await store.messages.list_messages(session, limit=1000)
    events = [each.sequence for each in await store.events.get_stored_events(session, limit=1000)]

    assert set().union(*statuses) == {201}
    assert [each.sequence for each in messages] == list(range(1, EACH * (WRITERS - WRITERS // 4) + 1))
    assert events == list(range(1, len(events) + 1))


async def test_tenants_see_their_own_rows_on_the_workers(store: Store, tenant_store: Store) -> None:
    for each in (store, tenant_store):
        session = await each.sessions.create(external_id="same", title="same")
        await each.messages.append(session.id, [line("same words")])
        await each.search.catch_up()
    async with tenant_store._connections.connection() as conn:
        await conn.execute("SELECT set_config('ash.tenant', '1', false)")  # not sent to the workers
        rows = await conn.execute("SELECT DISTINCT tenant FROM messages")
        assert await rows.fetchall() == [(2,)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await conn.execute("UPDATE messages SET tenant = 1")
        conn.pgconn.finish()

    for each in (store, tenant_store):
        (session,) = (await each.sessions.list_sessions()).sessions
        assert [hit.session_id for hit in (await each.search.find("same")).results] == [session.id]


async def test_the_lock_timeout_applies_on_the_workers(store: Store, connection: AsyncConnection) -> None:
    session = (await store.sessions.create()).id
    await store.messages.append(session, [line("one")])
    now = datetime.now(UTC)
    async with Store.connect(store.url, lock_timeout=0.1) as hasty:
        writes: dict[str, Callable[[], Awaitable[object]]] = {
            "append": lambda: hasty.messages.append(session, [line("two")]),
            "post": lambda: hasty.events.append(session, wire_event("note")),
            "rename": lambda: hasty.sessions.update(session, title="renamed"),
            "set the parent": lambda: hasty.sessions.set_parent(session, uuid4()),
            "set the time": lambda: hasty.sessions.set_file_time(session, now, has_grown=True),
            "mark as lacking the final newline": lambda: hasty.sessions.set_lacks_final_newline(
                session, True
            ),
            "name": lambda: hasty.transcripts.set_names(session, "path"),
            "set missing names": lambda: hasty.transcripts.set_missing_names(session, None),
            "mark as a copy": lambda: hasty.transcripts.set_copy(session, Copy(uuid4(), 1)),
            "rebuild": lambda: hasty.events.rebuild(session),
            "delete a message": lambda: hasty.messages.delete(session, 1),
            "delete": lambda: hasty.sessions.delete(session),
        }
        async with connection.transaction():
            await connection.execute(
                "SELECT FROM session_counters WHERE session_id = %s FOR UPDATE", [session]
            )
            await connection.execute("SELECT FROM sessions WHERE id = %s FOR UPDATE", [session])
            refused = {name: await failure_of(write) for name, write in writes.items()}
        accepted = {name: await failure_of(write) for name, write in writes.items()}

    assert refused == dict.fromkeys(writes, DatabaseUnavailable)
    assert accepted == dict.fromkeys(writes)


async def failure_of(write: Callable[[], Awaitable[object]]) -> type[AshError] | None:
    async with asyncio.timeout(TIMEOUT):
        try:
            await write()
        except AshError as error:
            return type(error)
    return None


class Writers:
    """Appends to several sessions until stopped, repeating each message until it is acknowledged."""

    def __init__(self, client: AsyncClient, sessions: Sequence[UUID]) -> None:
        self.acknowledged = dict.fromkeys(sessions, 0)
        """The number of acknowledged messages by session; their ids are numbers from 0."""
        self.refused: dict[UUID, dict[str, Any]] = {}
        """The last problem of each session."""
        self._client = client
        self._is_over = False
        self._tasks = [asyncio.create_task(self._write(each)) for each in sessions]

    async def progress(self, sessions: Iterable[UUID]) -> None:
        """Wait until another message of each session is acknowledged."""
        before = {each: self.acknowledged[each] for each in sessions}

        def has_progress() -> bool:
            for task in filter(asyncio.Task.done, self._tasks):
                task.result()  # raises the error that ended it
            return all(self.acknowledged[each] > count for each, count in before.items())

        await until(has_progress)

    async def stop(self) -> None:
        self._is_over = True
        await asyncio.gather(*self._tasks)

    async def _write(self, session: UUID) -> None:
        while not self._is_over:
            message = {"id": f"{self.acknowledged[session]}", "content": "text"}
            answer = await self._client.post(f"/api/sessions/{session}/messages", json=message)
            if answer.is_success:
                self.acknowledged[session] += 1
            else:
                self.refused[session] = answer.json()


def names_lost_worker(problem: dict[str, Any]) -> bool:
    """False for other refusals, as on a busy machine."""
    return "Sessions on other workers" in problem.get("detail", "")


@asynccontextmanager
async def stopped_worker(number: int) -> AsyncIterator[None]:
    """Kill a worker without a shutdown, and restart it on exit."""
    await control("kill", number)
    try:
        yield
    finally:
        await control("up", number)


async def control(command: str, number: int) -> None:
    """Run the command in a thread, because a server closes connections of stalled clients."""
    await asyncio.to_thread(subprocess.run, [*CONTROL, command, str(number)], check=True)


@pytest.mark.skipif(not CONTROL, reason="needs ASH_TEST_CITUS_CONTROL")
async def test_a_lost_worker_loses_nothing(store: Store, database_url: str) -> None:
    sessions = [(await store.sessions.create()).id for _ in range(12)]
    async with http_client(database_url) as client:
        writers = Writers(client, sessions)
        await writers.progress(sessions)
        async with stopped_worker(2):
            await until(lambda: any(map(names_lost_worker, writers.refused.values())))
            listed = await client.get("/api/sessions")
            await writers.progress(sessions_on(database_url, sessions, 1))
            ready = (await client.get("/health/ready")).json()
            findings = [each.code for each in await asyncio.to_thread(find_problems, database_url)]
        await writers.progress(sessions)
        await writers.stop()
        recovered = (await client.get("/health/ready")).json()
    stored = {each: [row.id async for row in store.messages.stream_messages(each)] for each in sessions}

    assert {each["status"] for each in writers.refused.values()} == {503}
    assert {each["code"] for each in writers.refused.values()} <= {
        "database_unavailable",
        "write_unconfirmed",
    }
    assert (listed.status_code, findings) == (503, ["worker"])
    assert (ready["status"], ready["cluster"]) == ("degraded", {"workers": 2, "unavailable": 1})
    assert (recovered["status"], recovered["cluster"]) == ("ok", {"workers": 2, "unavailable": 0})
    assert stored == {id: [f"{n}" for n in range(count)] for id, count in writers.acknowledged.items()}


def sessions_on(database_url: str, sessions: Sequence[UUID], worker: int) -> list[UUID]:
    """Return the sessions on one worker, numbered from 1."""
    query = """
        SELECT id FROM unnest(%s::uuid[]) AS id
        JOIN citus_shards ON table_name = 'sessions'::regclass
          AND shardid = get_shard_id_for_distribution_column('sessions', id)
        WHERE (nodename, nodeport) = (
            SELECT nodename, nodeport FROM pg_dist_node WHERE groupid <> 0 ORDER BY nodeport OFFSET %s LIMIT 1)
    """
    with closing(psycopg.connect(database_url)) as conn:
        return [id for (id,) in conn.execute(query, [sessions, worker - 1]).fetchall()]


def find_problems(database_url: str) -> Sequence[Finding]:
    with closing(psycopg.connect(database_url, autocommit=True)) as conn:
        return diagnose(conn).findings


async def test_figures_are_those_of_the_shards(store: Store, database_url: str) -> None:
    session = (await store.sessions.create()).id
    await store.messages.append(session, [line("word " * 1000) for _ in range(50)])
    with closing(psycopg.connect(database_url, autocommit=True)) as conn:
        _, size = vacuum(conn, online=True)
        diagnosis = diagnose(conn)
        ((own_bytes, total),) = conn.execute(_SIZES).fetchall()
    tables = {each.name: each for each in diagnosis.tables}
    indexes = {each.name: each for each in diagnosis.indexes}
    messages = tables["messages"]

    assert (messages.rows, messages.live_rows, messages.bytes + messages.index_bytes) == (50, 50, total)
    assert messages.has_statistics
    assert messages.vacuumed_at is not None
    assert indexes["messages_pkey"].bytes > 4 * 8192
    assert metadata.tables.keys() <= tables.keys()
    assert diagnosis.bytes == (await store.read_statistics()).database_bytes > 2 * own_bytes
    assert int(size.removesuffix(" kB")) * 1024 > total


_SIZES = "SELECT pg_database_size(current_database()), citus_total_relation_size('messages')"
