"""`ash push`: the same sessions as an import on the server, from homes that play other machines."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from prometheus_client import REGISTRY

from ash_client import ApiError, AshClient, AsyncAshClient
from ash_server.app import create_app
from ash_server.cli.import_.files import import_discovered
from ash_server.cli.import_.options import ImportOptions
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.transfer.importing.databases.opencode_rows import read_lines
from ash_server.transfer.pushing import push_file
from ash_shared.model.health import API_VERSION, Health
from ash_shared.projections._conversation import UserMessage
from ash_shared.projections.native import WRITERS, NewTranscript
from tests.client.test_ash_client import proxy, recording_server
from tests.server.agent_homes import COUNTS, write_agent_home
from tests.server.api.conftest import SECRET, create_key, served
from tests.server.cli.test_cli import ran_here
from tests.server.cli.test_cli_serve import COMMAND
from tests.server.opencode_database import (
    CHILD,
    PARENT,
    START,
    changing,
    insert_session,
    update,
    write_database,
)
from tests.shared.records import claude
from tests.shared.records.codex import line as codex_line
from tests.waiting import TIMEOUT, until, wait_until

SESSION = "9f0c1b1e-7d0a-4a63-9d57-3b9a6f1f2f10"
TRANSCRIPT = f".claude/projects/-work-shop/{SESSION}.jsonl"


class Ran(NamedTuple):
    code: int
    out: str
    err: list[str]


def variables(home: Path, url: str) -> dict[str, str]:
    """The environment of a laptop; its store is never opened."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "ASH_HOME": str(home / "no-store"), "ASH_URL": url}


def push(home: Path, url: str, *arguments: str | Path, key: str | None = None) -> Ran:
    environment = {**variables(home, url), **({"ASH_KEY": key} if key else {})}
    ran = ran_here(["push", *map(str, arguments)], environment, Path.cwd())
    return Ran(ran.code, ran.out, ran.err.splitlines())


@contextmanager
def watching(home: Path, url: str, key: str = "") -> Iterator[subprocess.Popen[str]]:
    """Run `ash push --discover --watch`."""
    streams: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [str(COMMAND), "push", "--discover", "--watch"]
    environment = {**variables(home, url), "ASH_KEY": key, "TMPDIR": str(home.parent)}
    with subprocess.Popen(command, env=environment, **streams, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def counts(ran: Ran) -> dict[str, Any]:
    summary = json.loads(ran.out)
    return {name: summary[name] for name in ("new", "existing", "changed", "refused", "incomplete")}


def said(number: int, text: str, session: str = SESSION) -> str:
    line = claude.line("user", text, uuid=f"u{number}", sessionId=session, cwd="/work/shop")
    return json.dumps(line) + "\n"


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines))
    return path


@pytest.fixture
def laptop(tmp_path: Path) -> Path:
    return tmp_path / "laptop"


@pytest.fixture
def server(database_url: str) -> Iterator[str]:
    with served_store(database_url) as address:
        yield address


@contextmanager
def served_store(url: str) -> Iterator[str]:
    with served(create_app(Settings(secret=SECRET), database_url=url)) as address:
        yield address


@pytest.fixture
def ash(server: str) -> Iterator[AshClient]:
    with AshClient(server) as client:
        yield client


def test_continued_session_names_its_origin(laptop: Path, server: str, ash: AshClient) -> None:
    origin = ash.create_session(source="codex", title="Knots")
    new = NewTranscript(UUID(SESSION), origin.id, "/work/shop", START)
    native = WRITERS["claude"]([UserMessage([{"type": "text", "text": "Which knot?"}])], new)
    path = write(laptop.joinpath(".claude", *native.path), native.text, said(1, "Why?"))

    assert push(laptop, server, path).code == 0

    [session] = [each for each in ash.sessions() if each.id != origin.id]
    assert (session.parent_id, session.copied_messages, session.copy_of) == (origin.id, 2, None)
    assert session.title == "Why?"


@pytest.mark.slow  # a client waits a second or more after each refusal
async def test_waits_while_its_key_is_limited(
    laptop: Path, database_url: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ash_server.api.http.guards.rate_limit.BURST_SECONDS", 0)
    key = await create_key(store, "laptop", "red", "read", "write")
    path = write(laptop / TRANSCRIPT, said(1, "one"), said(2, "two"))
    settings = Settings(secret=SECRET, rate_limit=2)
    refused = count_requests("429")  # by all servers of this process
    with served(create_app(settings, database_url=database_url)) as address:
        ran = push(laptop, address, path, "--json", key=key)

    assert (ran.code, ran.err, counts(ran)["new"]) == (0, [], 2)
    assert count_requests("429") > refused


def count_requests(status: str) -> float:
    samples = (sample for metric in REGISTRY.collect() for sample in metric.samples)
    return sum(
        sample.value
        for sample in samples
        if sample.name == "ash_requests_total" and sample.labels["status"] == status
    )


@pytest.mark.slow
async def test_makes_the_same_sessions_as_an_import(
    laptop: Path, server: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sessions of every agent, with titles, times, parents, exports and events; the ids follow from the paths."""
    monkeypatch.setenv("HOME", str(write_agent_home(laptop)))
    ran = push(laptop, server, "--discover", "--json")
    pushed = await contents(store)
    for session_id in pushed:
        await store.sessions.delete(session_id)
    report = await import_discovered(store, ImportOptions(jobs=1))

    assert (ran.code, ran.err) == (0, [])
    assert counts(ran)["new"] == report.total.counts["new"]
    assert pushed == await contents(store)
    assert len(pushed) == sum(COUNTS.values())


async def contents(store: Store) -> dict[UUID, Any]:
    """Return of each session its facts, messages and events, without the times of storing."""
    times = {"created_at", "updated_at"}
    return {
        session.id: (
            session.model_dump(exclude=times),
            [
                (each.id, each.content, each.role, each.source)
                for each in await store.messages.list_messages(session.id, limit=1000)
            ],
            [each.content for each in await store.events.get_stored_events(session.id, limit=1000)],
            await store.sessions.lacks_final_newline(session.id),
        )
        async for session in store.sessions.list_all()
    }


def test_again_and_from_another_folder_it_is_the_same_session(
    laptop: Path, tmp_path: Path, server: str, ash: AshClient
) -> None:
    path = write(laptop / TRANSCRIPT, said(1, "Open the shop."), said(2, "Close it."))
    first = push(laptop, server, path, "--json")
    again = push(laptop, server, path, "--json")
    elsewhere = write(tmp_path / "backup" / "copy.jsonl", path.read_text(), said(3, "Open it again."))
    longer = push(tmp_path / "another laptop", server, elsewhere, "--json")

    assert [counts(each)["new"] for each in (first, again, longer)] == [2, 0, 1]
    assert [counts(each)["existing"] for each in (first, again, longer)] == [0, 2, 2]
    [session] = ash.sessions()
    assert (session.external_id, session.path) == (TRANSCRIPT.removeprefix(".claude/"), str(elsewhere))
    assert b"".join(ash.export(session.id)) == elsewhere.read_bytes()


def test_another_text_is_another_session_and_a_fork_is_marked(
    laptop: Path, server: str, ash: AshClient
) -> None:
    path = write(laptop / TRANSCRIPT, said(1, "Open the shop."), said(2, "Close it."))
    push(laptop, server, path)
    fork = write(laptop / "fork.jsonl", said(1, "Open the shop."), said(4, "Sell it."))
    push(laptop, server, fork)

    sessions = sorted(ash.sessions(), key=lambda each: each.created_at)
    assert [b"".join(ash.export(each.id)) for each in sessions] == [path.read_bytes(), fork.read_bytes()]
    assert [(each.copy_of, each.copied_messages) for each in sessions] == [(None, None), (sessions[0].id, 1)]


def test_value_after_an_unterminated_line(laptop: Path, server: str, ash: AshClient) -> None:
    path = write(laptop / TRANSCRIPT, said(1, "one").rstrip("\n"))
    push(laptop, server, path)

    write(path, said(1, "one").rstrip("\n"), said(2, "two"), said(3, "three"))
    pushed, again = push(laptop, server, path, "--json"), push(laptop, server, path, "--json")

    assert (counts(pushed)["new"], counts(pushed)["changed"]) == (2, 0)
    assert (counts(again)["new"], counts(again)["changed"]) == (0, 0)
    assert stored_messages(ash) == [3]


def test_broken_lines_are_reported_as_by_an_import(laptop: Path, server: str, ash: AshClient) -> None:
    path = laptop / "notes.jsonl"
    write(path)
    path.write_bytes(b"one\ntw\0o\n\xff\n" + b"x" * 1_500_000 + b"\nlast")
    ran = push(laptop, server, path, "--json")

    assert ran.code == 1
    assert counts(ran) == {"new": 3, "existing": 0, "changed": 0, "refused": 2, "incomplete": 0}
    [session] = ash.sessions()
    assert session.external_id == f"{socket.gethostname()}:{path}"
    assert b"".join(ash.export(session.id)) == b"one\n" + b"x" * 1_500_000 + b"\nlast"


@pytest.mark.slow
def test_pushes_the_sessions_of_a_database(laptop: Path, server: str, ash: AshClient) -> None:
    database = write_database(laptop / ".local/share/opencode/opencode.db")
    first = push(laptop, server, "--discover", "--json")
    update(database, "part", "prt_1b", data='{"type": "tool"}', time_updated=START + 900)
    ran = [first, *(push(laptop, server, "--json", path) for path in (database, database, database / PARENT))]

    assert [(each.code, each.err) for each in ran] == [(0, [])] * 4
    assert [(counts(each)["new"], counts(each)["existing"]) for each in ran] == [
        (14, 0),
        (1, 13),
        (0, 14),
        (0, 8),
    ]
    sessions = {each.external_id: each for each in ash.sessions()}
    assert sessions.keys() == {f"opencode.db/{PARENT}", f"opencode.db/{CHILD}"}
    rows = [(line.data or b"") + b"\n" for line in read_lines(database / CHILD)]
    assert b"".join(ash.export(sessions[f"opencode.db/{CHILD}"].id)) == b"".join(rows)


@pytest.mark.slow
def test_pushes_the_chats_of_a_history(laptop: Path, server: str, ash: AshClient) -> None:
    history = laptop / "shop" / ".aider.chat.history.md"
    history.parent.mkdir(parents=True)
    chats = [f"\n# aider chat started at 2026-03-02 0{hour}:00:00\n\n#### How many?  \n" for hour in (8, 9)]
    history.write_text("".join(chats))
    first = push(laptop, server, "--json", history)
    history.write_text("".join([*chats, "\nFour.\n\n"]))
    second = push(laptop, server, "--json", history)

    assert [(each.code, each.err) for each in (first, second)] == [(0, [])] * 2
    assert [(counts(each)["new"], counts(each)["existing"]) for each in (first, second)] == [(4, 0), (1, 4)]
    assert stored_messages(ash) == [2, 3]

    cut = history.with_name("cut.md")
    cut.write_text("\n#### How many?  \n\nFour.\n\n")
    assert counts(push(laptop, server, "--json", "--source", "aider", cut))["new"] == 2


@pytest.mark.slow
def test_watch_follows_a_database(laptop: Path, server: str, ash: AshClient) -> None:
    database = write_database(laptop / ".local/share/opencode/opencode.db")
    with watching(laptop, server) as process:
        wait_until(lambda: stored_messages(ash) == [6, 8])
        update(database, "part", "prt_1b", data='{"type": "tool"}', time_updated=START + 900)
        wait_until(lambda: stored_messages(ash) == [6, 9])
        with changing(database) as connection:
            insert_session(connection, "ses_1c00other", "Paint the shop", START)
        wait_until(lambda: stored_messages(ash) == [2, 6, 9])
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=TIMEOUT)

    assert out.startswith("2 sessions, messages: 14 new")


@pytest.mark.slow
def test_watch_follows_a_growing_transcript(laptop: Path, server: str, ash: AshClient) -> None:
    path = write(laptop / TRANSCRIPT, said(1, "Open the shop."))
    with watching(laptop, server) as process:
        wait_until(lambda: stored_messages(ash) == [1])
        with path.open("a") as file:
            file.write(said(2, "Close it.") + said(3, "Sell it.")[:20])
        wait_until(lambda: stored_messages(ash) == [2])
        with path.open("a") as file:
            file.write(said(3, "Sell it.")[20:])
        agent = write(
            laptop / TRANSCRIPT.replace(".jsonl", "/subagents/agent-a1.jsonl"),
            said(9, "Count the tills."),
        )
        wait_until(lambda: any(each.parent_id for each in ash.sessions()))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)

    parent, child = sorted(ash.sessions(), key=lambda each: -each.message_count)
    assert process.returncode == 130
    assert out.startswith("1 session, messages: 1 new")
    assert f"{path}: 1 message pushed to session {parent.id}" in " ".join(err.split())
    assert b"".join(ash.export(parent.id)) == path.read_bytes()
    assert b"".join(ash.export(child.id)) == agent.read_bytes()
    assert child.parent_id == parent.id


@pytest.mark.slow
def test_watch_follows_the_names_in_the_database_of_codex(laptop: Path, server: str, ash: AshClient) -> None:
    thread = "0199c3d2-5a11-7b21-8c55-0c6f7b0e9a01"
    path = laptop / f".codex/sessions/2026/11/01/rollout-2026-11-01T10-00-00-{thread}.jsonl"
    write(path, json.dumps(codex_line("session_meta", id=thread)) + "\n")
    with closing(sqlite3.connect(laptop / ".codex/state_5.sqlite", isolation_level=None)) as codex:
        codex.execute("PRAGMA journal_mode=WAL").fetchall()
        codex.execute("CREATE TABLE threads (id, title, first_user_message, name)")
        codex.execute("INSERT INTO threads VALUES (?, 'Tides', '', NULL)", (thread,))
        with watching(laptop, server):
            wait_until(lambda: [each.title for each in ash.sessions()] == ["Tides"])
            codex.execute("UPDATE threads SET name = 'High water'")
            wait_until(lambda: [each.title for each in ash.sessions()] == ["High water"])


@pytest.mark.slow
def test_watch_keeps_to_its_folders(laptop: Path, server: str, ash: AshClient) -> None:
    """Files and folders replaced by links to others are skipped and reported; the others are still pushed."""
    path = write(laptop / TRANSCRIPT, said(1, "Open."))
    outside = write(laptop / "private" / "secrets.jsonl", said(7, "A secret."))
    with watching(laptop, server) as process:
        wait_until(lambda: stored_messages(ash) == [1])
        link = laptop / "link"
        link.symlink_to(outside)
        link.replace(path)
        (path.parent / "folder").symlink_to(outside.parent)
        for number in (2, 3):  # once the next round pushes, the report of the last one is complete
            write(path.with_name(f"{number}.jsonl"), said(number, "Close.", session=str(number)))
            wait_until(lambda: len(stored_messages(ash)) == number)  # noqa: B023  # called at once
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT)

    reported = "".join(err.split())
    for each, target in ((path, outside), (path.parent / "folder", outside.parent)):
        assert f"{each}: leads to {target}, outside of the folders to read".replace(" ", "") in reported
    assert "secret" not in b"".join(line for each in ash.sessions() for line in ash.export(each.id)).decode()


@pytest.mark.slow
async def test_pushes_with_a_key_that_only_writes(laptop: Path, server: str, store: Store) -> None:
    """Added lines continue the session, and another text becomes another session, as with a key that also reads."""
    key = await create_key(store, "laptop", "default", "write")
    path = write(laptop / TRANSCRIPT, said(1, "Open."))
    ran = [push(laptop, server, "--json", path, key=key)]
    write(path, said(1, "Open."), said(2, "Close."))
    ran.append(push(laptop, server, "--json", path, key=key))
    write(path, said(1, "Sell."), said(2, "Close."))
    ran.append(push(laptop, server, "--json", path, key=key))
    sessions = (await store.sessions.list_sessions()).sessions

    assert [(each.code, counts(each)["new"]) for each in ran] == [(0, 1), (0, 1), (0, 2)]
    assert sorted(each.message_count for each in sessions) == [2, 2]


@pytest.mark.slow
async def test_laptop_pushes_with_the_key_of_its_tenant(laptop: Path, server: str, store: Store) -> None:
    """The other tenant sees nothing, and pushes the same transcript into a session of its own."""
    red = await create_key(store, "laptop", "red", "read", "write")
    reader = await create_key(store, "reader", "red", "read")
    blue = await create_key(store, "laptop", "blue", "read", "write")
    path = write(laptop / TRANSCRIPT, said(1, "Open the shop."))
    with AshClient(server, red) as theirs, AshClient(server, blue) as others:
        with watching(laptop, server, key=red):
            await until(lambda: stored_messages(theirs) == [1])
            with path.open("a") as file:
                file.write(said(2, "Close it."))
            await until(lambda: stored_messages(theirs) == [2])
        [session] = theirs.sessions()
        assert list(others.sessions()) == []
        with pytest.raises(ApiError) as error:
            others.get_session(session.id)
        assert error.value.code == "session_not_found"
        assert push(laptop, server, path, key=blue).code == 0
        [other] = others.sessions()
        assert other.id != session.id
        assert b"".join(theirs.export(session.id)) == b"".join(others.export(other.id)) == path.read_bytes()
    rejected = [push(laptop, server, path, key=key) for key in (None, "ash_wrong", reader)]
    assert [(each.code, each.out, each.err) for each in rejected] == [
        (1, "", [f"ash: {reason}"])
        for reason in (
            "the server needs a key: set ASH_KEY (`ash keys create` on the server creates one)",
            "The key is not valid.",
            "This key has no scope `write`; create one with `ash keys create NAME --tenant red --scopes read,write`.",
        )
    ]


def stored_messages(ash: AshClient) -> list[int]:
    return sorted(each.message_count for each in ash.sessions())


def test_server_that_is_away_gets_everything_later(laptop: Path, database_url: str) -> None:
    path = write(laptop / TRANSCRIPT, *(said(number, "Count.") for number in range(50)))
    away = push(laptop, "http://127.0.0.1:9", path, "--wait", "0.2")
    with served_store(database_url) as url:
        later = push(laptop, url, path, "--json")

    assert (away.code, away.out) == (1, "")
    assert away.err[0].startswith("ash: no server answers at http://127.0.0.1:9 (")
    assert away.err[-1].startswith("ash: http://127.0.0.1:9 does not answer: ")
    assert counts(later)["new"] == 50


@pytest.mark.slow
def test_lost_answers_store_nothing_twice(laptop: Path, server: str, ash: AshClient) -> None:
    path = write(laptop / TRANSCRIPT, *(said(number, "Count.") for number in range(1200)))
    with proxy(server, loses=lambda number: number % 3 == 0) as url:
        ran = push(laptop, url, path, "--json")

    assert (ran.code, json.loads(ran.out)["sessions"][0]["problems"]) == (0, [])
    [session] = ash.sessions()
    assert b"".join(ash.export(session.id)) == path.read_bytes()


@pytest.mark.slow
async def test_known_part_is_not_compared_unless_it_has_changed(laptop: Path, server: str) -> None:
    path = write(laptop / TRANSCRIPT, said(1, "Open the shop."), said(2, "Close it."))
    async with AsyncAshClient(server) as client:
        first = await push_file(client, path, [])
        write(path, path.read_text(), said(3, "Sell it."))
        requests = list[str]()
        with proxy(server, sees=requests.append) as url:
            async with AsyncAshClient(url) as watched:
                grown = await push_file(watched, path, [], pushed=first.pushed)
        write(path, path.read_text().replace("Close it.", "Paint it."))
        edited = await push_file(client, path, [], pushed=grown.pushed)

    results = [each.imported.result.counts for each in (first, grown, edited)]
    assert [(each["existing"], each["new"]) for each in results] == [(0, 2), (2, 1), (0, 3)]
    assert not [request for request in requests if "compare" in request]
    assert grown.imported.session_id == first.imported.session_id != edited.imported.session_id


@pytest.mark.slow
async def test_text_that_replaces_the_pushed_one_is_compared(
    laptop: Path, server: str, ash: AshClient
) -> None:
    before = [said(1, "Open the shop."), said(2, "Close it.")]
    after = [before[0], said(3, "Sell the shelves."), said(4, "Paint it.")]
    path = write(laptop / TRANSCRIPT, *before)

    def rewrite(request: str) -> None:
        if "complete" in request:
            write(path, *after)

    with proxy(server, sees=rewrite) as url:
        async with AsyncAshClient(url) as watched:
            first = await push_file(watched, path, [])
    async with AsyncAshClient(server) as client:
        await push_file(client, path, [], pushed=first.pushed)

    exported = {b"".join(ash.export(session.id)).decode() for session in ash.sessions()}
    assert exported == {"".join(before), "".join(after)}


BOUNDARY = json.dumps(
    {"type": "system", "subtype": "compact_boundary", "uuid": "b1", "sessionId": SESSION, "cwd": "/work/shop"}
)


def compacted(*last: str) -> list[str]:
    return [BOUNDARY + "\n", said(2, "Close it."), *last]


@pytest.mark.slow
async def test_compacted_transcript_is_the_same_session(laptop: Path, server: str, ash: AshClient) -> None:
    whole = [said(1, "Open the shop."), *compacted()]
    path = write(laptop / TRANSCRIPT, *whole)
    async with AsyncAshClient(server) as client:
        pushed = [await push_file(client, path, [])]
        for lines in (compacted(said(3, "Sell it.")), compacted(said(3, "Sell it."), said(4, "Paint it."))):
            write(path, *lines)
            pushed.append(await push_file(client, path, [], pushed=pushed[-1].pushed))
        again = await push_file(client, path, [])

    results = [each.imported.result.counts for each in (*pushed, again)]
    [session] = ash.sessions()
    assert [(each["existing"], each["new"]) for each in results] == [(0, 3), (2, 1), (3, 1), (4, 0)]
    exported = b"".join(ash.export(session.id)).decode()
    assert exported == "".join([*whole, said(3, "Sell it."), said(4, "Paint it.")])


@pytest.mark.slow
def test_watch_follows_a_compacted_transcript(laptop: Path, server: str, ash: AshClient) -> None:
    path = write(laptop / TRANSCRIPT, said(1, "Open the shop."), *compacted())
    with watching(laptop, server):
        wait_until(lambda: stored_messages(ash) == [3])
        smaller = write(laptop / "smaller.jsonl", *compacted())
        smaller.replace(path)
        for number in (3, 4):
            with path.open("a") as file:
                file.write(said(number, "Sell it."))
            wait_until(lambda: stored_messages(ash) == [number + 1])  # noqa: B023  # called at once


@pytest.mark.parametrize(("api", "age"), [(0, "older"), (API_VERSION + 1, "newer")])
def test_server_of_another_version(laptop: Path, api: int, age: str) -> None:
    path = write(laptop / TRANSCRIPT, said(1, "Open the shop."))
    with recording_server(health=Health(status="ok", version="7.0", api=api)) as (url, _):
        ran = push(laptop, url, path)

    assert (ran.code, ran.out) == (1, "")
    assert ran.err == [
        f"ash: the server is {age} than this program: it runs Ash 7.0 with version {api} of the API, "
        f"not {API_VERSION}; update {'the server' if age == 'older' else 'this one'}"
    ]


def test_needs_a_path_or_discover(laptop: Path) -> None:
    assert [push(laptop, "http://127.0.0.1:9", *each).code for each in ((), ("--discover", "a.jsonl"))] == [
        2,
        2,
    ]


def test_a_deleted_message_is_not_pushed_again(laptop: Path, server: str, ash: AshClient) -> None:
    path = write(laptop / TRANSCRIPT, said(1, "one"), said(2, "two"), said(3, "three"))
    push(laptop, server, path)
    session = next(iter(ash.sessions()))
    ash.delete_message(session.id, 2)

    again = push(laptop, server, path, "--json")
    write(path, said(1, "one"), said(2, "two"), said(3, "three"), said(4, "four"))
    grown = push(laptop, server, path, "--json")

    assert [(json.loads(each.out)["deleted"], counts(each)["new"]) for each in (again, grown)] == [
        (1, 0),
        (1, 1),
    ]
    assert [each.id for each in ash.sessions()] == [session.id]
    assert [each.sequence for each in ash.messages(session.id)] == [1, 3, 4]
