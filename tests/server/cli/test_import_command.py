"""Transcripts of five CLIs: discovery, import as sessions, and standard messages."""

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import UUID

import psutil
import psycopg
import pytest
import zstandard
from psycopg import AsyncConnection

from ash_server.cli.import_ import files, worker
from ash_server.cli.import_.files import ImportReport, import_discovered, import_paths
from ash_server.cli.import_.one_file import UnreadFile
from ash_server.cli.import_.options import ImportOptions
from ash_server.cli.import_.pipe import ImportJob
from ash_server.cli.import_.processes import import_in_process
from ash_server.store import Store
from ash_server.store.sessions import session_id_for
from ash_server.transfer.exporting.jsonl import export_messages
from ash_server.transfer.importing import compressed, zstd
from ash_server.transfer.importing.databases.codex_names import SessionName
from ash_server.transfer.importing.databases.sessions import SharedSnapshots, share_snapshots
from ash_server.transfer.importing.file_import import ImportedFile
from ash_server.transfer.importing.opencode import session_files
from ash_server.transfer.importing.transcript_files import (
    external_id,
    find_files,
    find_homes,
    find_transcripts,
)
from ash_server.transfer.load import load_session
from ash_server.transfer.titles import name_of
from ash_shared.model.session import Session
from tests.cluster import COUNT_LOCK_WAITS
from tests.marking import slow_after, slow_unless
from tests.server.transcripts import (
    CLAUDE,
    CODEX,
    CURSOR,
    GEMINI,
    TRANSCRIPTS,
    opencode_message,
    opencode_part,
    opencode_storage,
    write,
    write_home,
)
from tests.waiting import until


@pytest.fixture
def user_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return write_home(tmp_path / "home")


def fail(error: OSError) -> None:
    raise error


def discovered(environ: dict[str, str], user_home: Path) -> list[tuple[str, str]]:
    homes = find_homes(environ, user_home)
    return [
        (external_id(path, homes), home.agent.source)
        for home in homes
        for path in find_transcripts(home, fail)
    ]


def test_discovers_only_transcripts(user_home: Path) -> None:
    assert sorted(discovered({}, user_home)) == sorted((each.name, each.source) for each in TRANSCRIPTS)


MOVED = {
    "CLAUDE_CONFIG_DIR": (".claude", "."),
    "CODEX_HOME": (".codex", "."),
    "GEMINI_CLI_HOME": (".gemini", ".gemini"),
    "XDG_DATA_HOME": (".local/share/opencode", "opencode"),
}


@pytest.mark.parametrize("variable", MOVED)
def test_environment_variables_override_homes(user_home: Path, tmp_path: Path, variable: str) -> None:
    before, below = MOVED[variable]
    expected = discovered({}, user_home)
    moved = tmp_path / "moved"
    (moved / below).parent.mkdir(parents=True, exist_ok=True)
    (user_home / before).rename(moved / below)

    assert discovered({variable: str(moved)}, user_home) == expected
    assert len(discovered({}, user_home)) < len(expected)


async def test_imports_everything_discovered(store: Store, user_home: Path) -> None:
    report = await import_discovered(store, ImportOptions())
    sessions = (await store.sessions.list_sessions()).sessions
    facts = {(each.source, each.external_id): _facts(each) for each in sessions}

    assert facts == {
        (each.source, each.name): (
            each.title,
            each.first_at,
            each.last_at,
            session_id_for(each.source, each.parent) if each.parent else None,
        )
        for each in TRANSCRIPTS
    }
    assert (report.complete, len(report.imported)) == (True, len(TRANSCRIPTS))


def _facts(session: Session) -> tuple[str | None, str | None, str | None, UUID | None]:
    fields = session.model_dump(mode="json", by_alias=False)
    parent = fields.get("parent_id")
    return (
        fields.get("title"),
        fields.get("first_at"),
        fields.get("last_at"),
        UUID(parent) if parent else None,
    )


async def test_subagent_names_its_parent_until_that_is_imported(store: Store, user_home: Path) -> None:
    child, parent = TRANSCRIPTS[1], TRANSCRIPTS[0]
    folder = user_home / ".claude"
    await import_paths(store, [folder / child.name], ImportOptions())
    alone = await store.sessions.get(session_id_for(child.source, child.name))
    await import_paths(store, [folder / parent.name], ImportOptions())
    linked = await store.sessions.get(alone.id)

    assert (alone.parent_id, alone.parent_external_id) == (None, parent.name)
    assert (linked.parent_id, linked.parent_external_id) == (session_id_for(parent.source, parent.name), None)


async def test_second_import_changes_nothing(
    store: Store, connection: AsyncConnection, user_home: Path
) -> None:
    await import_discovered(store, ImportOptions())
    before = await rows(connection)
    again = await import_discovered(store, ImportOptions())

    assert (set(again.total.counts), again.complete) == ({"existing"}, True)
    assert await rows(connection) == before


async def rows(conn: AsyncConnection) -> list[tuple[object, ...]]:
    cursors = [
        await conn.execute(f"SELECT * FROM {table} ORDER BY 1, 2") for table in ("sessions", "messages")
    ]
    return [row for cursor in cursors for row in await cursor.fetchall()]


async def test_links_a_subagent_when_its_parent_appears_later(store: Store, user_home: Path) -> None:
    """The parent's rollout has its id in the file name; a known parent is kept."""
    [parent] = (user_home / ".codex/sessions/2026/03/03").glob("rollout-*")
    [child] = (user_home / ".codex/sessions/2026/03/04").glob("rollout-*")
    aside = parent.rename(user_home / "aside")
    before = await parent_of(store, child)
    aside.rename(parent)
    after = await parent_of(store, child)
    parent.unlink()

    assert (before, after) == (None, external_id(parent, find_homes({}, user_home)))
    assert await parent_of(store, child) == after


async def parent_of(store: Store, path: Path) -> str | None:
    """Return the external id of the parent, which is not stored."""
    imported = (await import_files(store, path)).imported[path]
    return (await store.sessions.get(imported.session_id)).parent_external_id


async def import_files(store: Store, *paths: Path, replace: bool = False) -> ImportReport:
    return await import_paths(store, paths, ImportOptions(replace=replace))


def compress(path: Path) -> Path:
    """Compress the file, as Codex does with old rollouts."""
    target = path.with_name(f"{path.name}.zst")
    target.write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
    path.unlink()
    return target


async def test_a_compressed_rollout_is_the_same_session(
    store: Store, connection: AsyncConnection, user_home: Path
) -> None:
    [path] = (user_home / ".codex/sessions/2026/03/03").glob("rollout-*")
    data = path.read_bytes()
    session_id = (await import_files(store, path)).imported[path].session_id
    before = await rows(connection)
    packed = compress(path)
    again = await import_files(store, packed)

    assert (again.imported[packed].session_id, dict(again.total.counts)) == (session_id, {"existing": 3})
    assert await rows(connection) == before

    replaced = await import_files(store, packed, replace=True)
    exported = b"".join([piece async for piece in export_messages(store, session_id)])
    assert (dict(replaced.total.counts), exported) == ({"new": 3}, data)


async def test_continues_a_compressed_rollout_that_has_grown(
    store: Store, user_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressed, "_CHUNK_BYTES", 100)
    [path] = (user_home / ".codex/sessions/2026/03/03").glob("rollout-*")
    data = path.read_bytes()
    await import_files(store, compress(path))
    path.write_bytes(data + b"{}\n" + b"[]")
    report = await import_files(store, compress(path))

    assert dict(report.total.counts) == {"existing": 3, "new": 2}


def test_prefers_a_plain_rollout_to_its_compressed_copy(user_home: Path) -> None:
    [path] = (user_home / ".codex/sessions/2026/03/03").glob("rollout-*")
    data = path.read_bytes()
    compress(path)
    path.write_bytes(data)
    home = next(home for home in find_homes({}, user_home) if home.agent.source == "codex")

    assert [path.name.endswith(f"{CODEX}.jsonl") for path in find_transcripts(home, fail)] == [True, False]


BROKEN = {
    "no zstd": (b"{}\n", "not valid zstd: "),
    "a window that is too large": (
        zstandard.ZstdCompressor(
            compression_params=zstandard.ZstdCompressionParameters.from_level(1, window_log=28)
        )
        .compressobj()
        .compress(b"x" * 2**20),
        "not valid zstd: ",
    ),
    "a bomb": (zstandard.ZstdCompressor().compress(b"\n" * 2**20), "expands to more than "),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_reports_invalid_or_excessive_compression(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(zstd, "_MIN_LIMIT_BYTES", 1000)
    data, reason = BROKEN[name]
    path = tmp_path / "rollout-1.jsonl.zst"
    path.write_bytes(data)
    report = await import_files(store, path)

    assert [(file, why[: len(reason)]) for file, why in report.unread] == [(str(path), reason)]


async def test_imports_the_files_of_an_opencode_session_in_order(store: Store, user_home: Path) -> None:
    storage = opencode_storage(user_home)
    path = storage / "session/global/ses_1.json"
    session_id = (await import_files(store, path)).imported[path].session_id
    stored = await store.messages.list_messages(session_id)
    names = [
        "session/global/ses_1.json",
        "message/ses_1/msg_1.json",
        "part/msg_1/prt_1.json",
        "message/ses_1/msg_2.json",
        "part/msg_2/prt_2.json",
        "part/msg_2/prt_3.json",
    ]

    assert [each.content for each in stored] == [(storage / name).read_text() for name in names]
    assert {each.source for each in stored} == {"opencode"}


async def test_continues_an_opencode_session_and_reports_rewritten_files(
    store: Store, user_home: Path
) -> None:
    storage = opencode_storage(user_home)
    path = storage / "session/global/ses_1.json"
    await import_files(store, path)
    part = storage / "part/msg_2/prt_3.json"
    write(part, json.dumps(opencode_part("prt_3", "msg_2", "ses_1", "It is written, and passes.")))
    write(storage / "message/ses_1/msg_9.json", json.dumps(opencode_message("msg_9", "ses_1", "user", 1)))
    write(storage / "part/msg_9/prt_9.json", "\0")
    report = await import_files(store, path)
    problems = [(problem.kind, problem.file) for problem in report.total.problems]

    assert dict(report.total.counts) == {"existing": 5, "new": 1, "changed": 1, "refused": 1}
    assert problems == [("refused", "part/msg_9/prt_9.json"), ("changed", "part/msg_2/prt_3.json")]

    replaced = await import_files(store, path, replace=True)
    assert dict(replaced.total.counts) == {"new": 7, "refused": 1}


def test_opencode_ids_may_differ_from_file_names(tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    path = write(storage / "session/p/ses_x.json", '{"id":"x"}')
    write(storage / "message/x/002.json", '{"id":"m1","role":"user","time":{"created":1}}')
    write(storage / "message/x/001.json", '{"id":"m2","role":"user","time":{"created":2}}')
    write(storage / "message/x/000.json", '{"id":"../m3","time":null}')
    write(storage / "part/m1/1.json", '{"id":"p1","type":"text","text":"one","messageID":"m1"}')
    write(storage / "part/m2/1.json", '{"id":"p2","type":"text","text":"two","messageID":"m2"}')
    write(storage / "m3/1.json", "{}")

    assert [file.relative_to(storage).as_posix() for file in session_files(path)] == [
        "session/p/ses_x.json",
        "message/x/002.json",
        "part/m1/1.json",
        "message/x/001.json",
        "part/m2/1.json",
        "message/x/000.json",
    ]


@pytest.fixture
def split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start processes for small files too."""
    monkeypatch.setattr(files, "_MIN_PROCESS_BYTES", 1)


@pytest.mark.usefixtures("split")
async def test_processes_import_the_same_in_the_same_order(
    store: Store, connection: AsyncConnection, user_home: Path
) -> None:
    paths = [user_home, user_home / "absent.jsonl"]
    write(user_home / "broken/a.jsonl", "one\nt\0wo\n")
    write(user_home / "broken/b.jsonl.zst", "no zstd")
    alone = await import_paths(store, paths, ImportOptions())
    before = await contents(connection)
    together = await import_paths(store, paths, ImportOptions(replace=True, jobs=3))

    assert list(together.imported.items()) == list(alone.imported.items())
    assert (together.total, together.unread) == (alone.total, alone.unread)
    assert len(alone.unread) == 2
    assert await contents(connection) == before


class RenamedSession(deque[Path]):
    """A pending file, twice; Codex gives its session another name in between."""

    def __init__(self, rollout: Path, codex: sqlite3.Connection, snapshots: SharedSnapshots) -> None:
        super().__init__([rollout, rollout])
        self._names = iter(("Tides", "Ebb"))
        self._codex, self._snapshots = codex, snapshots

    def pop(self) -> Path:  # type: ignore[override]  # without an index
        self._codex.execute("UPDATE threads SET name = ?", (next(self._names),))
        self._snapshots.renew()
        return super().pop()


@pytest.mark.slow
async def test_processes_read_names_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that helps `ash watch` runs as long as the import of a long history."""
    monkeypatch.setattr("ash_server.transfer.importing.databases.sessions._REST_PER_SECOND", 0)
    thread = "0199c3d2-5a11-7b21-8c55-0c6f7b0e9a01"
    rollout = write(tmp_path / f".codex/sessions/rollout-2026-11-01T10-00-00-{thread}.jsonl", "{}\n")
    outcomes: dict[Path, ImportedFile | UnreadFile] = {}
    with (
        closing(sqlite3.connect(tmp_path / ".codex/state_5.sqlite", isolation_level=None)) as codex,
        share_snapshots() as snapshots,
    ):
        codex.execute("CREATE TABLE threads (id, title, first_user_message, name)")
        codex.execute("INSERT INTO threads VALUES (?, 'Tides', '', NULL)", (thread,))
        assert name_of(rollout) == SessionName("Tides", is_typed=False)
        job = ImportJob(store.url, find_homes({}, tmp_path), ImportOptions(), snapshots)
        pending = RenamedSession(rollout, codex, snapshots)
        await import_in_process(job, pending, outcomes.__setitem__, lambda _: None)

    [imported] = outcomes.values()
    assert isinstance(imported, ImportedFile)
    assert (await store.sessions.get(imported.session_id)).title == "Ebb"


@pytest.mark.slow
@pytest.mark.usefixtures("split")
async def test_processes_share_the_sessions_of_equal_transcripts(store: Store, tmp_path: Path) -> None:
    line = '{"type":"user","uuid":"u%s","sessionId":"%s","message":{"role":"user","content":"%s"}}\n'
    text = "".join(line % (number, "s1", number) for number in range(500))
    half = "".join(text.splitlines(keepends=True)[:250])
    fork = "".join(line % (number, "s2", number) for number in [*range(400), *range(1000, 1100)])
    paths = [
        write(tmp_path / f"{number}.jsonl", text)
        for number, text in enumerate((text, fork, text, half, fork))
    ]
    report = await import_paths(store, paths, ImportOptions(jobs=3))
    sessions = {each.id: each for each in (await store.sessions.list_sessions()).sessions}
    exported = {
        b"".join([piece async for piece in export_messages(store, session_id)]).decode()
        for session_id in sessions
    }

    assert (report.complete, len(sessions), exported) == (True, 2, {text, fork})
    assert sorted(each.copied_messages or 0 for each in sessions.values()) == [0, 400]
    assert dict(report.total.counts) == {"new": 1000, "existing": 1250}


async def contents(conn: AsyncConnection) -> list[tuple[object, ...]]:
    queries = (
        "SELECT id, external_id, parent_external_id, title, first_at, file_modified_at FROM sessions ORDER BY 1",
        "SELECT session_id, sequence, id, content FROM messages ORDER BY 1, 2",
        "SELECT session_id, sequence, content FROM events_full ORDER BY 1, 2",
    )
    return [row for query in queries for row in await (await conn.execute(query)).fetchall()]


@pytest.fixture
async def grown(store: Store, tmp_path: Path) -> list[Path]:
    """Imported files with one further line each, the largest first."""
    paths = [write(tmp_path / f"{size}.jsonl", "x" * size + "\n") for size in (4, 3, 2, 1)]
    await import_files(store, *paths)
    for path in paths:
        with path.open("a") as file:
            file.write("more\n")
    return paths


@contextmanager
def blocked_imports(database_url: str, paths: list[Path]) -> Iterator[None]:
    """Make the imports of these files wait for a lock."""
    ids = [session_id_for("unknown", str(path)) for path in paths]
    with psycopg.connect(database_url) as conn:
        for id in ids:  # a cluster locks only rows of one session
            conn.execute("SELECT FROM session_counters WHERE session_id = %s FOR UPDATE", [id])
        yield


def count_waiting(database_url: str) -> int:
    with psycopg.connect(database_url) as conn:
        ((count,),) = conn.execute(COUNT_LOCK_WAITS).fetchall()
        return int(count)


@pytest.mark.slow
@pytest.mark.usefixtures("split")
async def test_a_killed_process_affects_only_its_file(database_url: str, grown: list[Path]) -> None:
    async with Store.open(database_url, lock_timeout=None) as store:
        with blocked_imports(database_url, [grown[0], grown[3]]):
            importing = asyncio.create_task(import_paths(store, grown, ImportOptions(jobs=2)))
            await until(lambda: count_waiting(database_url) == 2)
            killed = workers(psutil.Process())
            for process in killed:
                process.kill()
            await until(lambda: not any(process.is_running() for process in killed))
        report = await importing
        again = await import_files(store, *grown)

    reason = "the process that imported it was killed by signal 9"
    assert report.unread == [(str(path), reason) for path in grown[:1]]
    assert list(report.imported) == grown[1:]
    assert dict(report.total.counts) == {"existing": 3, "new": 3}
    assert dict(again.total.counts) == {"existing": 7, "new": 1}


def workers(parent: psutil.Process) -> list[psutil.Process]:
    return [process for process in parent.children() if worker.__name__ in command_line(process)]


def command_line(process: psutil.Process) -> list[str]:
    """Return the arguments of a process, or none of a process that has ended and is not reaped yet."""
    arguments: list[str] = process.as_dict(["cmdline"], ad_value=[])["cmdline"]
    return arguments


IMPORT_IN_PROCESSES = """
from ash_server.cli.import_ import files
from ash_server.cli.main import main
files._MIN_PROCESS_BYTES = 1
main()
"""
STOPPED = "ash: imported 0 of 2 files; import again to continue\n"
SIGNALS = {
    signal.SIGINT: (130, f"{STOPPED}\nash: interrupted\n"),
    signal.SIGTERM: (143, STOPPED),
    signal.SIGKILL: (-9, ""),
}


@pytest.mark.slow
@pytest.mark.parametrize("by", slow_unless(signal.SIGINT.__eq__, SIGNALS))
async def test_a_stopped_import_leaves_no_process_and_can_continue(
    store: Store, database_url: str, grown: list[Path], by: signal.Signals
) -> None:
    with blocked_imports(database_url, grown[:2]), started_import(database_url, grown[:2]) as process:
        await until(lambda: count_waiting(database_url) == 2)
        children = workers(psutil.Process(process.pid))
        os.killpg(process.pid, by)
        _, errors = await asyncio.to_thread(process.communicate)
        await until(lambda: not any(child.is_running() for child in children))

    assert (len(children), process.returncode, errors) == (1, *SIGNALS[by])
    again = await import_files(store, *grown)
    assert dict(again.total.counts) == {"existing": 4, "new": 4}


@contextmanager
def started_import(database_url: str, paths: list[Path]) -> Iterator[subprocess.Popen[str]]:
    """Run `ash import` as the shell of a terminal does, in a process group of its own."""
    command = [sys.executable, "-c", IMPORT_IN_PROCESSES, "import", *map(str, paths), "--jobs", "2"]
    environ = {**os.environ, "ASH_DATABASE_URL": database_url, "TMPDIR": str(paths[0].parent)}
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    ) as process:
        yield process


PATHS = {
    "claude": ".claude/projects/-work-shop/5f*.jsonl",
    "codex": ".codex/sessions/2026/03/03/rollout-*",
    "gemini_cli": ".gemini/tmp/0a0a/chats/session-*",
    "cursor": ".cursor/projects/work-shop/agent-transcripts/*/*.jsonl",
    "opencode": ".local/share/opencode/storage/session/global/ses_1.json",
}
TEXTS = {
    "claude": ["Why does the basket forget its items?", "The cookie is written without a path."],
    "codex": ["Make the tests faster", "They share one database now."],
    "gemini_cli": ["Draw the architecture", "Three boxes and two arrows."],
    "cursor": ["Rename the module", "Renaming."],
    "opencode": ["Write a test for the basket", "I look at the code first."],
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("source", PATHS)
def test_load_session_returns_standard_messages(user_home: Path, source: str, packed: bool) -> None:
    [path] = user_home.glob(PATHS[source])
    if packed and path.suffix == ".jsonl":
        path = compress(path)
    messages = load_session(path)

    assert [(each.role, each.metadata.source) for each in messages] == [
        ("user", source),
        ("assistant", source),
    ]
    assert [each.content[0].model_dump().get("text") for each in messages] == TEXTS[source]


@pytest.mark.parametrize("source", slow_after(1, PATHS))
def test_load_session_imports_no_server_packages(user_home: Path, source: str) -> None:
    """Nor the decoder, unless the file is compressed."""
    [path] = user_home.glob(PATHS[source])
    script = """
import sys
from ash_server.transfer import load_session
load_session(sys.argv[1])
print(sorted(sys.modules.keys() & {"psycopg", "litestar", "sqlalchemy", "alembic", "zstandard", "click"}))
"""
    ran = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)

    assert ran.stdout == "[]\n"


def test_load_session_skips_unreadable_lines_and_raises_for_missing_files(tmp_path: Path) -> None:
    line = '{"type":"user","message":{"role":"user","content":"%s"}}\n'
    path = tmp_path / "a.jsonl"
    path.write_bytes((line % "one").encode() + (line % "\udcff").encode("utf-8", "surrogateescape") + b'{"a')

    assert [each.content[0].model_dump() for each in load_session(path)] == [{"type": "text", "text": "one"}]
    with pytest.raises(FileNotFoundError):
        load_session(tmp_path / "absent.jsonl")


def test_load_session_finds_the_transcript_of_an_id(
    user_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"claude": CLAUDE, "codex": CODEX, "gemini_cli": GEMINI, "cursor": CURSOR}
    for source, id in names.items():
        [path] = user_home.glob(PATHS[source])
        assert load_session(id) == load_session(path), source
    for absent in (CLAUDE[:-1], CLAUDE[1:], GEMINI[:7], f"/{CLAUDE}"):
        with pytest.raises(FileNotFoundError):
            load_session(absent)


def test_load_session_names_the_missing_decoder(user_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = compress(next(user_home.glob(PATHS["codex"])))
    monkeypatch.setitem(sys.modules, "zstandard", None)

    with pytest.raises(OSError, match=r"without zstandard; `pip install PATH/TO/CLONE`"):
        load_session(path)


def test_finds_the_sessions_of_a_copied_opencode_storage(user_home: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(user_home / ".local/share/opencode/storage", tmp_path / "backup/storage")

    names = [path.relative_to(copy).as_posix() for path in find_files(tmp_path / "backup", [], fail)]

    assert names == ["session/global/ses_1.json", "session/global/ses_2.json"]
