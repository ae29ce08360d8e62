"""The command `ash` on a real PostgreSQL, run in this process unless a separate one matters."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import psycopg
import pytest

import ash_server
from ash_server.cli import main
from ash_server.cli.common.lazy_group import LazyCommand
from ash_server.store import Store
from ash_server.store.prepare import line_id
from ash_server.store.schema.migrations import REVISION
from ash_server.store.sessions import session_id_for
from ash_server.transfer.agents import AGENTS
from ash_shared.providers import discover
from tests.conftest import POOLER
from tests.marking import slow_after
from tests.server.agent_homes import COUNTS, TRANSCRIPTS, write_agent_home
from tests.server.opencode_database import PARENT, write_database
from tests.server.transcripts import write_home
from tests.shared.sample_files import RECORDINGS

COMMAND = Path(sys.executable).with_name("ash")
SAMPLES = Path(ash_server.__file__).parent / "samples"
USER = '{"type":"user","uuid":"u1","message":{"role":"user","content":"hi"}}'
CALL = '{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}'
TOOL = '{"type":"assistant","message":{"content":[' + CALL + "]}}"


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Ash = Callable[..., Ran]


@pytest.fixture
def ash(database_url: str, tmp_path: Path) -> Ash:
    """Run `ash` in the test's folder and database, with an empty home."""
    (tmp_path / "home").mkdir()

    def run(*arguments: str, stdin: bytes = b"", **variables: str) -> Ran:
        return ran_here(arguments, environment(tmp_path, database_url, variables), tmp_path, stdin)

    return run


def ran_here(arguments: Sequence[str], environment: dict[str, str], folder: Path, stdin: bytes = b"") -> Ran:
    """Run the command in this process."""
    out, err = new_output(), new_output()
    with ExitStack() as here:
        here.enter_context(patch.dict(os.environ, {**POOLER, **environment}, clear=True))
        here.enter_context(patch.object(sys, "argv", [str(COMMAND), *arguments]))
        here.enter_context(patch.object(tempfile, "tempdir", None))  # it caches TMPDIR
        here.enter_context(patch.object(sys, "stdin", TextIOWrapper(BytesIO(stdin))))
        here.enter_context(redirect_stdout(out))
        here.enter_context(redirect_stderr(err))
        here.enter_context(chdir(folder))
        thread = here.enter_context(ThreadPoolExecutor(1))  # the test may run an event loop
        return Ran(thread.submit(main.run).result(), written_to(out), written_to(err))


@pytest.fixture
def process(database_url: str, tmp_path: Path) -> Ash:
    """Run the command in a separate process."""
    (tmp_path / "home").mkdir(exist_ok=True)

    def run(*arguments: str, stdin: bytes = b"", **variables: str) -> Ran:
        done = subprocess.run(
            [COMMAND, *arguments],
            input=stdin,
            capture_output=True,
            env=environment(tmp_path, database_url, variables),
            cwd=tmp_path,
            check=False,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


def environment(folder: Path, database_url: str, variables: dict[str, str]) -> dict[str, str]:
    home = {**POOLER, "PATH": os.environ["PATH"], "HOME": str(folder / "home")}
    return {**home, "ASH_DATABASE_URL": database_url, **variables}


def new_output() -> TextIOWrapper:
    return TextIOWrapper(BytesIO(), "utf-8", "backslashreplace")


def written_to(file: TextIOWrapper) -> str:
    file.flush()
    written: bytes = file.buffer.getvalue()  # type: ignore[attr-defined]
    return written.decode()


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path


def without_seconds(report: str) -> Any:
    return {name: value for name, value in json.loads(report).items() if name != "seconds"}


def test_import_then_export_then_import_again(ash: Ash, tmp_path: Path) -> None:
    path = written(tmp_path / "home/.claude/projects/-w/s.jsonl", f"{USER}\r\n\n{TOOL}")
    name = "projects/-w/s.jsonl"
    session = str(session_id_for("claude", name))
    named = {"id": session, "externalId": name, "source": "claude", "path": str(path)}
    counts = {"new": 3, "existing": 0, "changed": 0, "refused": 0, "incomplete": 0, "deleted": 0}

    first = ash("import", str(path), "--json")
    assert (first.code, first.err) == (0, "")
    assert without_seconds(first.out) == {
        "sessions": [{**named, **counts, "problems": []}],
        "skipped": [],
        "unread": [],
        **counts,
    }

    with path.open("a") as file:
        file.write("\nmore\n")
    counts = {"new": 1, "existing": 3, "changed": 0, "refused": 0, "incomplete": 0, "deleted": 0}
    assert without_seconds(ash("import", str(tmp_path / "home/.claude"), "--json").out) == {
        "sessions": [{**named, **counts, "problems": []}],
        "skipped": [],
        "unread": [],
        **counts,
    }

    for reference in (session, session[:8], name):
        assert ash("export", reference) == Ran(0, path.read_bytes().decode(), "")
    assert ash("export", session, "-o", "copy.jsonl") == Ran(0, "", "")
    assert ash("export", "--all", "-o", "all") == Ran(0, "1 session in all\n", "")
    assert (tmp_path / "copy.jsonl").read_bytes() == path.read_bytes()
    assert [(each.name, each.read_bytes()) for each in (tmp_path / "all").iterdir()] == [
        (f"{session}.jsonl", path.read_bytes())
    ]


@pytest.mark.slow
def test_reports_lines_and_files_that_cannot_be_imported(ash: Ash, tmp_path: Path) -> None:
    written(tmp_path / "a/1.jsonl", "one\nt\0wo\nthree\n")
    written(tmp_path / "a/2.jsonl", "one\n\udcff\n")
    (tmp_path / "a/loop.jsonl").symlink_to("loop.jsonl")
    (tmp_path / "empty").mkdir()
    for name in ("1.sse", "2.sse", "LICENSE"):
        written(tmp_path / "a" / name, "{}\n")

    done = ash("import", "a", "absent.jsonl", "empty")
    assert (done.code, done.out.partition(", in ")[0]) == (
        1,
        "2 sessions, messages: 3 new, 0 already there, 0 changed, 2 refused",
    )
    assert done.err.splitlines() == [
        "ash: empty: no file in it ends with .jsonl, .json or .jsonl.zst, and no Markdown file in it contains a chat "
        "of Aider",
        "ash: a/loop.jsonl: Too many levels of symbolic links",
        "ash: absent.jsonl: No such file or directory",
        "ash: a/1.jsonl:2: refused: contains a NUL byte, which PostgreSQL cannot store (at byte 5)",
        "ash: a/2.jsonl:2: refused: is not valid UTF-8 (at byte 4)",
        "ash: skipped 3 files with other names than transcripts (2 .sse, 1 without suffix); to read such a file, "
        "name it",
    ]

    written(tmp_path / "a/1.jsonl", "one\ntwo\nTHREE\n")
    done = ash("import", "a/1.jsonl")
    assert (done.code, done.err.splitlines()) == (
        1,
        [
            "ash: a/1.jsonl:2: changed: was not stored at import (at byte 4)",
            "ash: a/1.jsonl:3: changed: differs from the imported text (at byte 8)",
            "ash: existing messages were kept; use --replace to re-import",
        ],
    )
    assert ash("import", "a/1.jsonl", "--replace").code == 0
    assert ash("export", str(tmp_path / "a/1.jsonl")) == Ran(0, "one\ntwo\nTHREE\n", "")


@pytest.mark.parametrize(("limit", "is_whole"), [(1, False), (9, False), (1000, True)])
def test_pages_of_standard_messages_are_the_whole_session(ash: Ash, limit: int, is_whole: bool) -> None:
    ash("import", str(SAMPLES / "csv-export.jsonl"), "--as", "s")
    whole, pages, after = ash("messages", "s", "--standard").out, list[str](), "0"
    while after:
        ran = ash("messages", "s", "--standard", "--limit", str(limit), "--after", after)
        pages.append(ran.out)
        after = ran.err.removeprefix("more: --after ").strip()

    assert "".join(pages) == whole != ""
    assert (len(pages) == 1) == is_whole


def test_discovers_and_imports_transcripts(ash: Ash, tmp_path: Path) -> None:
    home = write_home(tmp_path / "home")

    def discovered(**variables: str) -> dict[str, tuple[Any, ...]]:
        done = ash("import", "--discover", "--json", **variables)
        assert (done.code, done.err) == (0, "")
        clis = json.loads(done.out)["found"]
        assert all((each["bytes"] > 0, "newest" in each) == (True, True) for each in clis)
        return {each["name"]: (each["transcripts"], each.get("imported")) for each in clis}

    counts = {"Claude Code": 3, "Codex": 2, "Gemini CLI": 2, "Cursor": 2, "OpenCode": 2}
    without_store = {"ASH_DATABASE_URL": "", "ASH_HOME": str(tmp_path / "none")}
    assert discovered(**without_store) == {name: (count, None) for name, count in counts.items()}
    assert not (tmp_path / "none").exists()
    assert discovered() == {name: (count, 0) for name, count in counts.items()}

    done = ash("import", "--all")
    assert (done.code, done.out.partition(",")[0], done.err) == (0, "11 sessions", "")
    assert discovered() == {name: (count, count) for name, count in counts.items()}
    heading, *shown = ash("import", "--discover").out.splitlines()
    assert heading.split() == ["agent", "transcripts", "size", "newest", "imported", "folder"]
    assert [row.split()[-1] for row in shown] == [
        str(home / folder)
        for folder in (
            ".claude/projects",
            ".codex/sessions",
            ".gemini/tmp",
            ".cursor/projects",
            ".local/share/opencode/storage/session",
        )
    ]


def test_warns_of_transcripts_that_an_agent_deletes_soon(ash: Ash, tmp_path: Path) -> None:
    """Claude Code keeps transcripts for 30 days by default, here for 60."""
    claude, day = tmp_path / "home/.claude", 24 * 3600
    for name, age in (("new", 52), ("old", 54), ("gone", 61), ("imported", 54)):
        path = written(claude / f"projects/-w/{name}.jsonl", USER.replace("u1", name))
        os.utime(path, times=(time.time() - age * day,) * 2)
    written(claude / "settings.json", '{"cleanupPeriodDays": 60}')
    ash("import", str(claude / "projects/-w/imported.jsonl"))

    assert ash("import", "--discover").err.splitlines()[0] == (
        "ash: Claude Code deletes 2 transcripts that are not imported yet within 7 days: "
        "it keeps them for 60 days (cleanupPeriodDays)"
    )
    [found] = json.loads(ash("import", "--discover", "--json").out)["found"]
    assert (found["retentionDays"], found["expiring"], found["imported"]) == (60, 2, 1)
    ash("import", "--all")
    assert "deletes" not in ash("import", "--discover").err


@pytest.mark.slow
def test_discovers_every_agent(ash: Ash, tmp_path: Path) -> None:
    """Agents that write the format of another one are named by their folder, in lists and as a filter."""
    write_agent_home(tmp_path / "home")
    sources = {each.id: each.source for each in AGENTS}

    def discovered() -> dict[str, tuple[Any, ...]]:
        counts = dict[str, tuple[Any, ...]]()
        for each in json.loads(ash("import", "--discover", "--json").out)["found"]:
            _, files, imported = counts.get(each["agent"], (None, 0, 0))  # Cursor has two homes
            counts[each["agent"]] = (each["source"], files + each["transcripts"], imported + each["imported"])
        return counts

    def listed(*options: str) -> Counter[tuple[str, str | None]]:
        page = json.loads(ash("sessions", "--json", *options).out)
        return Counter((each["source"], each["metadata"].get("agent")) for each in page["sessions"])

    def session_of(source: str) -> tuple[str, str]:
        [session] = json.loads(ash("sessions", "--json", "--source", source).out)["sessions"]
        return session["title"], session["id"]

    assert COUNTS.keys() == sources.keys()
    assert discovered() == {id: (sources[id], count, 0) for id, count in COUNTS.items()}
    done = ash("import", "--all")
    assert (done.code, done.out.partition(",")[0], done.err) == (0, f"{sum(COUNTS.values())} sessions", "")
    assert discovered() == {id: (sources[id], count, count) for id, count in COUNTS.items()}
    labels = {id: None if id == source else id for id, source in sources.items()}
    assert listed() == Counter({(sources[id], labels[id]): count for id, count in COUNTS.items()})
    assert listed("--source", "openclaw") == Counter({("pi", "openclaw"): 1})
    assert listed("--source", "pi") == Counter(
        {("pi", id): 1 for id in (None, "omp", "prime", "openclaw", "qclaw")}
    )
    assert listed("--source", "open") == Counter()
    for source, title in {
        "cowork": "Sort by size",
        "copilot_cli": "Sort by colour",
        "gptme": "Sort by year",
        "grok_build": "Sort by weight",
        "kimi": "Sort by height",
        "mistral_vibe": "Sort by age",
    }.items():
        session = session_of(source)
        assert session[0] == title
        assert ash("reindex", session[1]).code == 0
        assert session_of(source) == session
    assert "openclaw" in ash("sessions", "--source", "openclaw").out
    assert "  iflow  " in ash("search", "--source", "iflow", "shelves").out


def test_entrypoint_names_an_agent_outside_of_its_folder(ash: Ash, tmp_path: Path) -> None:
    """In the folder of an agent, the folder decides; a prompt with the same words names nothing."""
    _, (line,) = TRANSCRIPTS["cowork"]
    of_cowork = {**line, "entrypoint": "local-agent"}
    of_claude = {
        **line,
        "sessionId": "s2",
        "message": {"role": "user", "content": '"entrypoint":"local-agent"'},
    }
    written(tmp_path / "cowork.jsonl", json.dumps(of_cowork) + "\n")
    written(tmp_path / "claude.jsonl", json.dumps(of_claude) + "\n")
    written(
        tmp_path / "home/.claude/projects/-w/3.jsonl", json.dumps({**of_cowork, "sessionId": "s3"}) + "\n"
    )

    assert ash("import", "cowork.jsonl", "claude.jsonl", "home/.claude").err == ""
    page = json.loads(ash("sessions", "--json").out)
    names = {each["metadata"]["sessionId"]: each["metadata"].get("agent") for each in page["sessions"]}
    assert names == {line["sessionId"]: "cowork", "s2": None, "s3": None}


def test_source_option_names_an_agent(ash: Ash, tmp_path: Path) -> None:
    """A transcript outside of the folder of its agent."""
    _, lines = TRANSCRIPTS["openclaude"]
    written(tmp_path / "moved.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines))

    assert ash("import", "moved.jsonl", "--source", "openclaude").err == ""
    (session,) = json.loads(ash("sessions", "--json").out)["sessions"]
    assert (session["source"], session["metadata"]["agent"]) == ("claude", "openclaude")


def test_discovers_nothing_in_an_empty_home(ash: Ash) -> None:
    assert json.loads(ash("import", "--discover", "--json").out) == {"found": []}
    assert ash("import", "--discover").err.startswith(
        "ash: no transcripts of these agents on this machine: Claude Code, Codex, Gemini CLI, "
    )
    assert ash("import", "--all").out.startswith("0 sessions, messages: 0 new")
    assert "exclude each other" in ash("import", "--all", "--discover").err


def test_exports_without_secrets(ash: Ash, tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    lines = f'{{"type":"user","message":{{"role":"user","content":"Use {token} \\u00e9"}}}}\n{USER}'
    path = written(tmp_path / "s.jsonl", lines)
    ash("import", "s.jsonl")

    assert ash("export", str(path)) == Ran(0, lines, "")
    redacted = lines.replace(token, "[redacted: github token]")
    assert ash("export", str(path), "--redact") == Ran(0, redacted, "")


def test_reports_an_incomplete_last_line(ash: Ash, tmp_path: Path) -> None:
    path = written(tmp_path / "s.jsonl", f"{USER}\n{TOOL[:-4]}")
    warning = "ash: s.jsonl: the last line is incomplete; it will be imported when it is complete\n"

    done = ash("import", "s.jsonl")
    assert (done.code, done.out.rpartition(", in ")[0], done.err) == (
        0,
        "1 session, messages: 1 new, 0 already there, 0 changed, 0 refused, 1 incomplete",
        warning,
    )
    assert ash("export", str(path)) == Ran(0, f"{USER}\n", "")
    [session] = json.loads(ash("import", "s.jsonl", "--json").out)["sessions"]
    assert (session["existing"], session["incomplete"]) == (1, 1)


def test_files_with_nothing_to_store_make_no_session(ash: Ash, tmp_path: Path) -> None:
    written(tmp_path / "empty.jsonl", "")
    written(tmp_path / "started.jsonl", TOOL[:-4])
    written(tmp_path / "blank.jsonl", "\n")

    done = ash("import", "empty.jsonl", "started.jsonl", "blank.jsonl", "--json")
    report = json.loads(done.out)
    assert done.code == 0
    assert ([each["path"] for each in report["sessions"]], report["skipped"], report["incomplete"]) == (
        ["blank.jsonl"],
        ["empty.jsonl", "started.jsonl"],
        1,
    )
    assert done.err.splitlines() == [
        "ash: empty.jsonl: is empty, which makes no session",
        "ash: started.jsonl: the last line is incomplete; it will be imported when it is complete",
    ]
    assert len(json.loads(ash("sessions", "--json").out)["sessions"]) == 1

    written(tmp_path / "started.jsonl", TOOL)
    assert ash("import", "started.jsonl").out.startswith("1 session, messages: 1 new,")
    written(tmp_path / "started.jsonl", "")
    assert ash("import", "started.jsonl", "--source", "claude").err.startswith(
        "ash: started.jsonl:1: changed: the file ends before a stored line"
    )


def test_warns_of_an_unknown_source(ash: Ash, tmp_path: Path) -> None:
    written(tmp_path / "s.jsonl", f"{USER}\n")

    done = ash("import", "s.jsonl", "--source", "cladue")
    assert (done.code, done.err) == (
        0,
        f"ash: unknown source 'cladue'; known sources: {', '.join(discover())}\n",
    )
    assert ash("import", "s.jsonl", "--source", "claude").err == ""


@pytest.mark.parametrize(("module", "arguments"), [("rich_click", []), ("psycopg", ["sessions"])])
def test_names_a_missing_package(module: str, arguments: list[str]) -> None:
    script = f"import sys; sys.modules[{module!r}] = None; from ash_server.cli.main import main; main()"
    ran = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, check=False)

    assert (ran.returncode, ran.stderr.decode()) == (
        1,
        f"ash: ash-messages is installed without {module}; `pip install PATH/TO/CLONE` installs everything it needs\n",
    )


def test_discovers_the_sessions_in_a_database(ash: Ash, tmp_path: Path) -> None:
    database = write_database(tmp_path / "home/.local/share/opencode/opencode.db")

    def discovered() -> dict[str, Any]:
        done = ash("import", "--discover", "--json")
        assert (done.code, done.err) == (0, "")
        [found] = [each for each in json.loads(done.out)["found"] if each["source"] == "opencode"]
        return {name: found.get(name) for name in ("folders", "transcripts", "bytes", "imported")}

    expected = {"folders": [str(database)], "transcripts": 2, "bytes": database.stat().st_size}
    assert discovered() == {**expected, "imported": 0}
    assert ash("import", "--all").out.startswith("2 sessions, messages: 14 new")
    assert discovered() == {**expected, "imported": 2}
    assert "in 14 lines of 2 files" in ash("drift", str(database)).out
    assert "in 8 lines of 1 file" in ash("drift", str(database / PARENT)).out


def test_names_the_session_of_a_single_file(ash: Ash, tmp_path: Path) -> None:
    written(tmp_path / "doc.json", '{\n "role": "user",\n "content": "hi"\n}\n')
    written(tmp_path / "empty.jsonl", "")

    assert ash("import", "doc.json", "doc.json", "--as", "a letter").code == 0
    assert ash("messages", "a letter", "--raw") == Ran(0, (tmp_path / "doc.json").read_text(), "")
    assert ash("import", "doc.json", "empty.jsonl", "--as", "b") == Ran(
        2, "", "ash: --as names one session, but there are 2 files (see `ash import --help`)\n"
    )
    assert ash("import", "empty.jsonl", "--as", "b").code == 0
    assert ash("export", "b").code == 1


def test_sessions_and_messages_as_json(ash: Ash, tmp_path: Path) -> None:
    path = written(tmp_path / "s.jsonl", f"{USER}\n{TOOL}\n")
    ash("import", str(path), "--as", "s")
    session = str(session_id_for("claude", "s"))
    common = {"sessionId": session, "kind": "message", "source": "claude"}
    user = {
        **common,
        "id": line_id(session_id_for("claude", "s"), 1),
        "role": "user",
        "sequence": 1,
        "content": USER,
    }
    tool = {
        **common,
        "id": line_id(session_id_for("claude", "s"), 2),
        "role": "assistant",
        "sequence": 2,
        "content": TOOL,
    }
    user_blocks = [{"type": "text", "text": "hi"}]
    tool_blocks = [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}]

    def listed(*arguments: str) -> Any:
        page = json.loads(ash("messages", "s", "--json", *arguments).out)
        assert all(message.pop("createdAt") for message in page["messages"])
        return page

    both = [{**user, "parsed": user_blocks}, {**tool, "parsed": tool_blocks}]
    assert listed() == {"messages": both}
    assert listed("--limit", "1") == {"messages": both[:1], "nextAfter": 1}
    assert listed("--after", "1", "--limit", "1") == {"messages": both[1:]}
    assert listed("--type", "tool_use") == {"messages": both[1:]}
    assert listed("--role", "user") == {"messages": both[:1]}
    assert listed("--kind", "record") == {"messages": []}
    assert ash("messages", "s", "--raw", "--limit", "1") == Ran(0, USER + "\n", "more: --after 1\n")

    standard = ash("messages", "s", "--standard", "--limit", "1")
    rest = ash("messages", "s", "--standard", "--after", "1")
    assert [json.loads(line) for line in standard.out.splitlines()] == [
        {
            "id": "u1",
            "role": "user",
            "content": [{"type": "text", "text": "hi"}],
            "metadata": {"source": "claude"},
            "_original": [json.loads(USER)],
        },
        json.loads(rest.out),
    ]
    assert (standard.code, standard.err) == (0, "")
    assert [json.loads(line)["content"] for line in rest.out.splitlines()] == [[json.loads(CALL)]]

    [row] = json.loads(ash("sessions", "--json").out)["sessions"]
    assert (row["id"], row["externalId"], row["source"], row["messageCount"]) == (
        session,
        "s",
        "claude",
        2,
    )


async def test_keys_have_the_named_scopes(ash: Ash, store: Store) -> None:
    for options in (["one"], ["two", "--scopes", "delete, read"]):
        assert ash("keys", "create", *options).code == 0
    unknown = ash("keys", "create", "three", "--scopes", "remove")
    for _ in range(2):
        await store.keys.record_refused_sign_in("192.0.2.7", 1)
    ids = [str(key.id) for key in await store.keys.list_keys()]
    listed, audit = ash("keys", "list").out.splitlines()[1:], ash("keys", "audit").out.splitlines()[1:]

    assert [[*line.split()[1:4], line.split()[-1]] for line in listed] == [
        ["one", "default", "read,write", ids[0]],
        ["two", "default", "delete,read", ids[1]],
    ]
    assert "it is a list of read, write, delete, share, admin, separated by commas" in " ".join(
        unknown.err.split()
    )
    assert audit[-1].split()[2:] == ["default", "none", "sign_in.refused", "(2", "times)", "192.0.2.7"]


def test_empty_list_names_other_tenants(ash: Ash) -> None:
    ash("keys", "create", "laptop", "--tenant", "red")
    ash("keys", "create", "laptop", "--tenant", "blue")

    assert [ash("sessions", ASH_TENANT=tenant).err for tenant in ("default", "red")] == [
        "ash: the tenant default has no sessions; the store has other tenants: red, blue "
        "(`ASH_TENANT=red ash sessions`)\n",
        "ash: the tenant red has no sessions; the store has other tenants: default, blue "
        "(`ASH_TENANT=default ash sessions`)\n",
    ]


def test_sessions_and_messages_as_text(ash: Ash, tmp_path: Path) -> None:
    assert ash("sessions") == Ran(
        0, "", "ash: no sessions yet; `ash import --discover` lists transcripts to import\n"
    )
    ash("import", str(written(tmp_path / "s.jsonl", f"{TOOL}\n")), "--as", "na\033me")

    session = str(session_id_for("claude", "na\033me"))
    heading, row = ash("sessions").out.splitlines()
    assert heading.split() == ["session", "source", "last", "activity", "messages", "name"]
    assert re.fullmatch(rf"{session[:8]}  claude  \d{{4}}-\d\d-\d\d \d\d:\d\d  +1  na␛me", row)
    assert ash("messages", "na\033me").out.splitlines()[1:] == [
        "  tool_use     Bash · t1",
        '               {"command": "ls"}',
        "",
    ]


def test_lists_the_projects_of_sessions(ash: Ash, tmp_path: Path) -> None:
    for name, project in (("a", "/work/sh\033op"), ("b", "C:\\work\\a-name-that-is-longer-than-its-column")):
        line = json.dumps({**json.loads(USER), "cwd": project})
        ash("import", str(written(tmp_path / f"{name}.jsonl", f"{line}\n")), "--as", name)

    heading, *rows = ash("sessions").out.splitlines()
    start, end = heading.index("project"), heading.index("messages")
    assert sorted(row[start:end].strip() for row in rows) == ["a-name-that-is-longer-t…", "sh␛op"]


STRANGE = (
    '{"type":"assistant","version":"2.1.0","timestamp":"2026-11-02T09:00:01Z","message":{"content":'
    '[{"type":"holo_frame"},{"type":"text","text":5}]}}'
)


def test_reports_drift_in_the_store_and_in_files(ash: Ash, tmp_path: Path) -> None:
    no_database = {"ASH_DATABASE_URL": "postgresql://127.0.0.1:1/none"}
    versionless = STRANGE.replace('"version":"2.1.0",', "")
    path = written(tmp_path / "a/s.jsonl", f"{USER}\n{versionless}\n{STRANGE.replace(':01Z', ':02Z')}\n")
    written(tmp_path / "a/t.jsonl", versionless.replace(',"timestamp"', ',"at"'))

    def group(raw_type: str, reason: str, count: int, lines: list[Any], **more: str) -> dict[str, Any]:
        common = {"source": "claude", "rawType": raw_type, "reason": reason, "count": count}
        return {**common, **more, "samples": lines}

    times = {"firstSeen": "2026-11-02T09:00:01Z", "lastSeen": "2026-11-02T09:00:02Z"}
    facts = {"clientVersion": "2.1.0", **times}
    in_file = [{"path": "a/s.jsonl", "line": 3}, {"path": "a/s.jsonl", "line": 2}]
    of_text = group("text", "malformed", 2, in_file, **facts)
    of_type = group("holo_frame", "unknown_type", 2, in_file, **facts)
    assert json.loads(ash("drift", "a/s.jsonl", "--json", **no_database).out) == {"drift": [of_text, of_type]}
    assert len(json.loads(ash("drift", "a", "--json", **no_database).out)["drift"]) == 4
    assert ash("drift", str(written(tmp_path / "b.jsonl", f"{USER}\n")), **no_database) == Ran(
        0, "no drift in 1 line of 1 file: nothing was unknown or malformed\n", ""
    )

    assert ash("drift") == Ran(0, "no drift in the store: nothing was unknown or malformed\n", "")
    ash("import", str(path), "--as", "s")
    session = str(session_id_for("claude", "s"))
    stored = [{"sessionId": session, "sequence": sequence} for sequence in (3, 2)]
    assert json.loads(ash("drift", "--json").out) == {
        "drift": [{**of_type, "samples": stored}, {**of_text, "samples": stored}]
    }
    keys = written(tmp_path / "k.jsonl", '{"x":1,"at":2}\n{"at":1,"x":2}\n{"y":1}\n')
    groups = json.loads(ash("drift", str(keys), "--json", **no_database).out)["drift"]
    assert sorted((each["rawType"], each["count"]) for each in groups) == [("{at, x}", 2), ("{y}", 1)]

    heading, row, _, summary = ash("drift").out.splitlines()
    assert " ".join(heading.split()) == "source client type reason count first seen last seen for example"
    assert re.fullmatch(
        rf"claude  2\.1\.0   holo_frame  unknown_type +2  2026-11-02  2026-11-02  {session} #3", row
    )
    assert summary == "4 blocks of 2 kinds in the store"


def test_reindex_shows_and_updates_differences(ash: Ash, tmp_path: Path, database_url: str) -> None:
    ash("import", str(written(tmp_path / "s.jsonl", f"{USER}\n{TOOL}\n{STRANGE}\n")), "--as", "s")
    session = str(session_id_for("claude", "s"))

    assert ash("reindex", "--dry-run", "s") == Ran(
        0,
        "1 session: 3 messages compared, 0 read differently now\nevents of 1 session would be derived again\n",
        "",
    )
    assert ash("reindex") == Ran(0, "0 sessions: 0 messages read, 0 updated, 0 events written\n", "")

    with psycopg.connect(database_url) as conn:
        conn.execute(
            "UPDATE messages SET block_types = '{raw}', kind = 'record', digest = NULL WHERE sequence = 2"
        )
        conn.execute("UPDATE messages SET digest = '\\x00', parser_version = 1 WHERE sequence = 3")
    both = {"source": "claude", "role": "assistant"}
    before, now = (
        {**both, "kind": kind, "types": types}
        for kind, types in (("record", ["raw"]), ("message", ["tool_use"]))
    )
    unchanged = {**both, "kind": "message", "types": ["raw"]}

    def sample(sequence: int, before: Any, now: Any) -> list[Any]:
        return [{"sessionId": session, "sequence": sequence, "before": before, "now": now}]

    assert json.loads(ash("reindex", "--dry-run", "--json").out) == {
        "sessions": 1,
        "sessionsWithNewEvents": 0,
        "compared": 3,
        "withoutDigest": 1,
        "changed": 2,
        "groups": [
            {
                "source": "claude",
                "changed": ["blocks"],
                "count": 1,
                "samples": sample(3, unchanged, unchanged),
            },
            {"source": "claude", "changed": ["kind", "types"], "count": 1, "samples": sample(2, before, now)},
        ],
    }
    done = ash("reindex", "--dry-run")
    assert (done.code, [" ".join(line.split()) for line in done.out.splitlines()][2:]) == (
        0,
        [
            f"claude kind, types 1 record · raw message · tool_use {session} #2",
            "1 session: 3 messages compared, 2 read differently now",
            "1 were stored by an older Ash: changes of block contents alone are not detected",
        ],
    )
    assert ash("reindex") == Ran(0, "1 session: 3 messages read, 2 updated, 0 events written\n", "")
    assert ash("reindex", "--dry-run") == Ran(
        0, "0 sessions: 0 messages compared, 0 read differently now\n", ""
    )


@pytest.mark.slow
def test_reindex_reads_only_sessions_of_another_version(ash: Ash, tmp_path: Path, database_url: str) -> None:
    for name in ("a", "b", "c", "d"):
        ash("import", str(written(tmp_path / f"{name}.jsonl", f"{USER}\n{TOOL}\n")), "--as", name)
    with psycopg.connect(database_url) as conn:
        of = {name: session_id_for("claude", name) for name in ("a", "b", "c", "d")}
        conn.execute(
            "UPDATE messages SET parser_version = 1 WHERE session_id = %s AND sequence = 2", [of["a"]]
        )
        conn.execute("UPDATE session_counters SET normalizer_version = 1 WHERE session_id = %s", [of["b"]])

    def totals(*arguments: str) -> tuple[int, int, int, bool]:
        done: dict[str, int] = json.loads(ash("reindex", *arguments, "--json").out)
        return done["sessions"], done["read"], done["updated"], done["events"] > 0

    assert json.loads(ash("reindex", "--dry-run", "--json").out) == {
        "sessions": 2,
        "sessionsWithNewEvents": 1,
        "compared": 4,
        "withoutDigest": 0,
        "changed": 0,
        "groups": [],
    }
    assert totals() == (2, 4, 1, True)
    assert totals() == (0, 0, 0, False)
    assert totals("c") == (1, 2, 0, True)
    assert totals("--all") == (4, 8, 0, True)
    assert ash("reindex", "c", "--all").code == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (("reparse", "--diff", "--json", "s"), "`ash reparse` is now part of `ash reindex --dry-run`"),
        (("reparse", "--help"), "`ash reparse` is now part of `ash reindex --dry-run`"),
        (("events", "rebuild", "s", "--all"), "`ash events rebuild` is now part of `ash reindex`"),
    ],
)
def test_old_commands_name_the_new_ones(ash: Ash, old: tuple[str, ...], new: str) -> None:
    assert ash(*old) == Ran(2, "", f"ash: {new}\n")


def test_sessions_shows_titles_and_times(ash: Ash, tmp_path: Path) -> None:
    for year in (2024, 2026, 2025):
        line = USER.replace("hi", f"Say {year}").replace(
            '"uuid"', f'"timestamp":"{year}-05-05T09:00Z","uuid"'
        )
        ash("import", str(written(tmp_path / f"{year}.jsonl", f"{line}\n")))

    rows = [line.split() for line in ash("sessions").out.splitlines()[1:]]
    assert [(row[2], " ".join(row[5:])) for row in rows] == [
        ("2026-05-05", "Say 2026"),
        ("2025-05-05", "Say 2025"),
        ("2024-05-05", "Say 2024"),
    ]

    ash("import", "2024.jsonl", "--as", "kite")
    ash("import", "2025.jsonl", "--as", "Say 2025")
    untitled = tmp_path / "runs" / "7.jsonl"
    untitled.parent.mkdir()
    ash("import", str(written(untitled, '{"type":"summary","summary":""}\n')))
    names = [" ".join(line.split()[5:]) for line in ash("sessions").out.splitlines()[1:]]
    assert sorted(names) == ["7 · runs", "Say 2024", "Say 2025", "Say 2025", "Say 2026", "kite · Say 2024"]


def test_reports_and_lists_forks(ash: Ash, tmp_path: Path) -> None:
    """A file that continues another one is the same session; a fork names the one it copies."""
    line = '{"type":"user","uuid":"%s","sessionId":"%s","message":{"role":"user","content":"Say %s"}}\n'
    first = line % ("u1", "s1", "one")
    written(tmp_path / "a.jsonl", first)
    written(tmp_path / "b.jsonl", first + line % ("u2", "s1", "two"))
    written(tmp_path / "fork.jsonl", line % ("u1", "s2", "one") + line % ("u3", "s2", "three"))

    counts = "4 new, 1 already there, 0 changed, 0 refused"
    assert ash("import", "a.jsonl", "b.jsonl", "fork.jsonl").out.partition(", in ")[0] == (
        f"2 sessions (1 copied from others), messages: {counts}"
    )
    original, fork = (
        str(session_id_for("claude", str(tmp_path / name))) for name in ("a.jsonl", "fork.jsonl")
    )
    names = {line.split()[0]: " ".join(line.split()[5:]) for line in ash("sessions").out.splitlines()[1:]}
    assert names == {
        original[:8]: "Say one",
        fork[:8]: f"Say one copy of {original[:8]} up to message 1",
    }
    again = json.loads(ash("import", "b.jsonl", "fork.jsonl", "--json").out)["sessions"]
    facts = [[each.get(key) for key in ("id", "externalId", "copyOf", "copiedMessages")] for each in again]
    assert facts == [
        [original, str(tmp_path / "a.jsonl"), None, None],
        [fork, str(tmp_path / "fork.jsonl"), original, 1],
    ]
    listed = json.loads(ash("sessions", "--json").out)["sessions"]
    assert {each["externalId"]: each.get("path") for each in listed} == {
        str(tmp_path / "a.jsonl"): str(tmp_path / "b.jsonl"),
        str(tmp_path / "fork.jsonl"): None,
    }


@pytest.mark.slow
def test_sessions_are_filtered_and_paged(ash: Ash, tmp_path: Path) -> None:
    write_home(tmp_path / "home")
    ash("import", "--all")
    failed = (
        '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","is_error":true}]}}'
    )
    ash("import", str(written(tmp_path / "failed.jsonl", f"{failed}\n")), "--as", "failed")

    def listed(*arguments: str) -> list[dict[str, Any]]:
        sessions: list[dict[str, Any]] = json.loads(ash("sessions", "--json", *arguments).out)["sessions"]
        return sessions

    def sources(*arguments: str) -> list[str]:
        return sorted(row["source"] for row in listed(*arguments))

    assert sources("--source", "codex") == ["codex", "codex"]
    assert [row["externalId"] for row in listed("--errors")] == ["failed"]
    assert sources("--since", "1h") == ["claude", "cursor", "cursor"]
    assert sources("--since", "2026-03-03T00:00Z", "--project", "/work/shop") == [
        row["source"]
        for row in sorted(listed("--since", "2026-03-03T00:00Z"), key=lambda row: str(row["source"]))
        if row["source"] not in ("gemini_cli", "claude")
    ]
    assert ash("sessions", "--source", "pi") == Ran(0, "", "ash: no session matches\n")
    assert ash("sessions", "--since", "soon").code == 2

    shown, after = set[str](), list[str]()
    while (ran := ash("sessions", "--limit", "3", *after)).err:
        shown |= {line.split()[0] for line in ran.out.splitlines()[1:]}
        after = ["--after", ran.err.removeprefix("more: --after ").strip()]
    shown |= {line.split()[0] for line in ran.out.splitlines()[1:]}
    assert shown == {row["id"][:8] for row in listed()}


@pytest.mark.slow
def test_subagents_are_listed_below_their_parents(ash: Ash, tmp_path: Path, database_url: str) -> None:
    parents = {"a": None, "b": "a", "c": "b", "d": None, "e": "absent", "f": "a", "g": "h", "h": "g"}
    for minute, name in enumerate("dcahegfb"):
        line = f'{{"type":"user","timestamp":"2026-05-05T09:0{minute}Z","message":{{"content":"x"}}}}'
        ash("import", str(written(tmp_path / f"{name}.jsonl", f"{line}\n")), "--as", name)
    with psycopg.connect(database_url) as conn:
        for name, parent in parents.items():
            ids = (parent and session_id_for("claude", parent), session_id_for("claude", name))
            conn.execute("UPDATE sessions SET title = external_id, parent_id = %s WHERE id = %s", ids)

    rows = [line.partition(" 1  ")[2] for line in ash("sessions").out.splitlines()[1:]]
    assert rows == ["a", "  b", "    c", "  f", "h", "  g", "e", "d"]


def test_parse_needs_no_database(ash: Ash, tmp_path: Path) -> None:
    document = '{\n"role": "user",\n"content": "hi"\n}'
    blocks = [{"type": "text", "text": "hi"}]
    user = {"source": "claude", "kind": "message", "role": "user", "parsed": blocks}
    no_database = {"ASH_DATABASE_URL": "postgresql://127.0.0.1:1/none"}

    def parsed(text: str, *arguments: str) -> list[Any]:
        done = ash("parse", *arguments, stdin=text.encode(), **no_database)
        assert (done.code, done.err) == (0, "")
        return [json.loads(line) for line in done.out.splitlines()]

    assert parsed(f"{USER}\n\n{USER}") == [user, user]
    assert parsed(document, "-") == [user]
    assert parsed("", str(written(tmp_path / "doc.json", document)), "--json") == [user]
    assert parsed(USER, "--source", "mine") == [{**user, "source": "mine"}]
    assert parsed('{"a":') == [
        {
            "source": "unknown",
            "kind": "record",
            "role": "system",
            "parsed": [{"type": "raw", "reason": "invalid_json", "raw": '{"a":'}],
        }
    ]
    assert ash("parse", "--view", stdin=f"{USER}\n".encode()) == Ran(
        0, "#1 · user · message · claude\n  text         hi\n\n", ""
    )


def test_the_first_line_of_a_log_states_its_format(ash: Ash) -> None:
    recording = (RECORDINGS / "gptme" / "tides.jsonl").read_text()
    done = ash("parse", stdin=recording.encode())
    assert {json.loads(line)["source"] for line in done.out.splitlines()} == {"gptme"}


REFUSED = {
    ("messages", "none"): (1, "ash: no session matches 'none'; `ash sessions` lists them"),
    ("export",): (
        2,
        "ash: Name a SESSION, or give --all and a folder with -o (see `ash export --help`)",
    ),
    ("export", "--all"): (
        2,
        "ash: Name a SESSION, or give --all and a folder with -o (see `ash export --help`)",
    ),
    ("export", "none", "--all", "-o", "x"): (
        2,
        "ash: Name a SESSION, or give --all and a folder with -o (see `ash export --help`)",
    ),
    ("import",): (
        2,
        "ash: Name a PATH, or give --all for what `ash import --discover` lists (see `ash import --help`)",
    ),
    ("import", "x", "--all"): (
        2,
        "ash: A PATH, --all and --discover exclude each other (see `ash import --help`)",
    ),
    ("import", "none"): (1, "ash: none: No such file or directory"),
    ("parse", "none"): (
        2,
        "ash: Invalid value for '[FILE]': 'none': No such file or directory (see `ash parse --help`)",
    ),
    ("messages", "none", "--standard", "--role", "user"): (
        2,
        "ash: --kind, --role and --type cannot be used with --standard (see `ash messages --help`)",
    ),
    ("messages", ""): (
        2,
        "ash: Invalid value for 'SESSION': it is empty; `ash sessions` lists the sessions "
        "(see `ash messages --help`)",
    ),
    ("tail", " "): (
        2,
        "ash: Invalid value for 'SESSION': it is empty; `ash sessions` lists the sessions "
        "(see `ash tail --help`)",
    ),
    ("reindex", "a", ""): (
        2,
        "ash: Invalid value for '[SESSION...]': it is empty; `ash sessions` lists the sessions "
        "(see `ash reindex --help`)",
    ),
    ("ingest", "--session", ""): (
        2,
        "ash: Invalid value for '--session': it is empty; `ash sessions` lists the sessions "
        "(see `ash ingest --help`)",
    ),
    ("reindex", "none"): (1, "ash: no session matches 'none'; `ash sessions` lists them"),
    ("drift", "none"): (1, "ash: none: No such file or directory"),
    ("whistle",): (2, "ash: No such command 'whistle' (see `ash --help`)"),
    ("serve", "--host", "0.0.0.0", "--port", "0"): (
        1,
        "ash: ASH_HOST=0.0.0.0 lets other machines reach Ash, which has no keys yet. "
        "Create the first one with `ash keys create NAME`, or unset ASH_HOST. "
        "Set ASH_ALLOW_UNAUTHENTICATED=1 only if a proxy in front of it authenticates clients.",
    ),
}


@pytest.mark.parametrize("arguments", REFUSED, ids=" ".join)
def test_usage_errors_are_one_line(ash: Ash, arguments: tuple[str, ...]) -> None:
    code, line = REFUSED[arguments]
    done = ash(*arguments)

    assert (done.code, done.err) == (code, line + "\n")


def test_lists_the_sessions_of_an_ambiguous_reference(ash: Ash, tmp_path: Path) -> None:
    for name in "abc":
        ash("import", str(written(tmp_path / f"{name}.jsonl", "x\n")), "--source", name, "--as", "same")

    done = ash("messages", "same")
    named = {f"{session_id_for(name, 'same')} ({name}, TIME)" for name in "abc"}
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("ash: several sessions match 'same': ")
    without_times = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "TIME", done.err.strip())
    assert set(re.split(r"(?<=\)), ", without_times.partition("same': ")[2])) == named


def test_reports_an_unreachable_database(ash: Ash) -> None:
    done = ash("sessions", ASH_DATABASE_URL="postgresql://ash:secret@127.0.0.1:1/none")

    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert done.err.startswith("ash: the database does not answer: ")
    assert "secret" not in done.err


def test_reports_a_database_without_a_schema(ash: Ash, bare_database_url: str) -> None:
    here = {"ASH_DATABASE_URL": bare_database_url}
    message = (
        f"ash: the database has schema none, this Ash needs {REVISION}: run `ash db upgrade`, "
        "or a newer Ash if that refuses\n"
    )

    assert ash("sessions", **here) == Ran(1, "", message)
    assert ash("serve", "--port", "0", **here) == Ran(1, "", message)
    for _ in range(2):
        assert ash("db", "upgrade", **here) == Ran(0, f"the database has schema {REVISION}\n", "")
    assert ash("sessions", "--json", **here) == Ran(0, '{"sessions":[]}\n', "")


def test_prints_the_url_of_the_database(ash: Ash, database_url: str) -> None:
    sqlalchemy_url = database_url.replace("postgresql://", "postgresql+psycopg://")
    done = ash("db", "url", ASH_DATABASE_URL=sqlalchemy_url)

    assert done == Ran(0, database_url + "\n", "")
    with psycopg.connect(done.out.strip()) as conn:
        assert conn.execute("SELECT count(*) FROM sessions").fetchall() == [(0,)]


def test_sets_the_compression_of_new_messages(ash: Ash, database_url: str) -> None:
    with psycopg.connect(database_url) as conn:
        offered = "SELECT enumvals FROM pg_settings WHERE name = 'default_toast_compression'"
        ((methods,),) = conn.execute(offered).fetchall()
    default = "lz4" if "lz4" in methods else "pglz"

    for arguments, method in (((), default), (("none",), "none"), ((), "none"), (("pglz",), "pglz")):
        assert ash("db", "compression", *arguments) == Ran(0, f"{method}\n", "")


def test_vacuum_reports_the_size_of_the_tables(ash: Ash) -> None:
    done = ash("db", "vacuum")

    assert (done.code, done.err) == (0, "")
    assert re.fullmatch(r"the tables take \d+ [kM]B, before \d+ [kM]B\n", done.out)


def test_debug_shows_the_traceback(process: Ash) -> None:
    done = process("sessions", ASH_DATABASE_URL="postgresql://127.0.0.1:1/none", ASH_DEBUG="1")

    assert (done.code, "Traceback" in done.err) == (1, True)


def test_a_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "long.jsonl", f"{USER}\n" * 10_000)
    done = subprocess.run(f"{COMMAND} parse {path} | head -n 1", shell=True, capture_output=True, check=False)

    assert (done.returncode, done.stdout.count(b"\n"), done.stderr) == (0, 1, b"")


@pytest.mark.slow
def test_openapi_and_version(ash: Ash, process: Ash) -> None:
    assert json.loads(ash("openapi").out)["info"]["title"] == "Ash"
    assert process("--version").out.startswith("ash, version ")
    assert process("events", "x", ASH_DATABASE_URL="postgresql://127.0.0.1:1/none").code == 1


def test_help_lists_all_commands(ash: Ash) -> None:
    shown = set(re.findall(r"^\W+([a-z]+) ", ash("--help").out, re.MULTILINE))

    assert {name for name, command in main.ash.commands.items() if not command.hidden} <= shown
    assert "reparse" not in shown


@pytest.mark.slow
def test_every_command_has_help(ash: Ash) -> None:
    groups = {
        "db": ("compression", "distribute", "upgrade", "url", "vacuum"),
        "events": ("show",),
        "hooks": ("install", "remove", "show"),
    }
    commands = [[name] for name, command in main.ash.commands.items() if not command.hidden]
    commands += [[group, name] for group, names in groups.items() for name in names]

    helps = {" ".join(command): ash(*command, "--help") for command in commands}

    assert {name: each.code for name, each in helps.items()} == dict.fromkeys(helps, 0)
    # A paragraph after examples (`\b`) is shown below a blank line for each of them.
    assert [name for name, each in helps.items() if re.search(r"(?: *\n){4}", each.out)] == []


def test_short_helps_equal_the_commands_help() -> None:
    commands = [command for command in main.ash.commands.values() if not command.hidden]
    placeholders = [command for command in commands if isinstance(command, LazyCommand)]

    assert len(placeholders) == len(commands)
    for placeholder in placeholders:
        loaded = placeholder.load()
        assert (loaded.name, (loaded.help or "").partition("\n\n")[0]) == (
            placeholder.name,
            placeholder.short_help,
        )


STORE = {"alembic", "ash_shared", "asyncio", "litestar", "msgspec", "psycopg", "pydantic", "sqlalchemy"}
UNUSED_MODULES = {
    "import sys; sys.argv = ['ash', '--version']; import ash_server.cli.main as m; m.run()": {*STORE, "rich"},
    "import sys; sys.argv = ['ash', '--help']; import ash_server.cli.main as m; m.run()": STORE,
    "import sys; sys.argv = ['ash', 'import', '--help']; import ash_server.cli.main as m; m.run()": STORE,
    "import ash_server.cli.sessions; from ash_server.settings import Settings; Settings.load({})": {
        "dotenv",  # unless there is a file `.env`
    },
    "import ash_server.cli.import_.worker": {
        *("alembic", "ash_server.store.search.tokens", "click", "litestar", "rich", "sqlalchemy"),
    },
}


@pytest.mark.parametrize("script", slow_after(2, UNUSED_MODULES))
def test_imports_only_modules_that_are_used(script: str) -> None:
    """Importing them takes most of the time of a short command."""
    done = subprocess.run(
        [sys.executable, "-c", f"{script}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert set(done.stdout.splitlines()[-1].split()) & UNUSED_MODULES[script] == set()
