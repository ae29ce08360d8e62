"""Commands on a server: those that read print the same as on the local store, those that change ask first."""

import json
import os
import pty
import re
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import rich_click as click

from ash_server.cli.common.lazy_group import LazyCommand
from ash_server.cli.main import ash as ash_command
from tests.conftest import at_database, new_database
from tests.marking import slow_after
from tests.server.cli.test_cli import COMMAND, SAMPLES, Ran, ran_here, written
from tests.server.cli.test_cli_serve import serving
from tests.shared.records import claude

PAGE = Path(__file__).parents[3] / "docs" / "remote.md"
NOWHERE = "http://127.0.0.1:9"
TOKEN = "ghp_" + "a1B2c3D4e5" * 4
PNG = {"type": "base64", "media_type": "image/png", "data": b64encode(b"\x89PNG\r\n\x1a\n").decode()}
LINES = (
    claude.line(
        "user",
        [
            claude.text(f"Which 🙂 heron? {TOKEN}"),
            {"type": "image", "source": PNG},
        ],
        uuid="u1",
        sessionId="0c9b7d9e-3f53-4b6c-9d3c-6d3f0f1c2a11",
        timestamp="2026-11-02T09:00:00.5Z",
        cwd="/srv/site",
    ),
    claude.line(
        "assistant",
        [
            claude.call("t1", "Grep", pattern="heron", limit=1e22),
            {"type": "hologram", "depth": 0.1},
        ],
        {"id": "m1", "model": "claude-sonnet-4-5", "usage": {"input_tokens": 1_000_000, "output_tokens": 17}},
        uuid="u2",
        timestamp="2026-11-02T09:00:01Z",
        cwd="/srv/site",
    ),
    claude.line(
        "user",
        [claude.tool_result("t1", "birds.txt:\u001b[31m grey heron \u202egnihtemos \ud83d", is_error=True)],
        uuid="u3",
        timestamp="2026-11-02T09:00:02Z",
    ),
)


class Store(NamedTuple):
    """A store with sessions, for commands on it and for a server of it."""

    url: str
    """The address of the server."""
    database_url: str
    home: Path

    def run(self, *arguments: str, **variables: str) -> Ran:
        environment = {"HOME": str(self.home), "ASH_HOME": str(self.home), "TZ": "Asia/Kathmandu"}
        return ran_here(
            arguments, {**environment, "ASH_DATABASE_URL": self.database_url, **variables}, self.home
        )


@pytest.fixture(scope="module")
def store(server_url: str, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    home = tmp_path_factory.mktemp("remote")
    with serving(server_url, template, home) as (url, database_url):
        store = Store(url, database_url, home)
        lines = "\n".join(map(json.dumps, LINES))
        birds = str(written(home / "birds.jsonl", f"{lines}\nnot JSON"))
        (home / "bread_timer.py").write_text("\n    return (minutes(moment) - minutes(now)) % DAY\n")
        untitled = str(
            written(home / "untitled.jsonl", '{"type":"assistant","message":{"content":"A heron."}}\n')
        )
        assert store.run("import", birds, "--as", "birds").code == 0
        assert store.run("import", untitled, "--as", "untitled").code == 0
        assert store.run("import", str(SAMPLES / "bread-timer.jsonl"), "--as", "bread").code == 0
        assert store.run("archive", "untitled").code == 0
        assert store.run("budget", "set", "50/month").code == 0
        assert store.run("retention", "set", "2y").code == 0
        assert store.run("cold", "set", "180d").code == 0
        yield store


READING = {
    "sessions": (
        ("--source", "claude", "--source", "codex", "--json"),
        ("--sort", "cost", "--json"),
        ("--sort", "errors"),
        (),
        ("--json",),
        ("--errors",),
        ("--limit", "2"),
        ("--project", "site", "--json"),
    ),
    "messages": (
        ("birds",),
        ("birds", "--json"),
        ("birds", "--json", "--limit", "1"),
        ("birds", "--raw"),
        ("birds", "--kind", "record", "--json"),
        ("birds", "--type", "tool_use", "--role", "assistant", "--json"),
        ("birds", "--standard"),
        ("birds", "--standard", "--limit", "1"),
        ("bread", "--json"),
        ("bread", "--standard"),
    ),
    "events": (
        ("birds",),
        ("birds", "--json"),
        ("birds", "--json", "--limit", "2", "--after", "1"),
        ("birds", "--type", "tool_call,tool_result", "--json"),
        ("bread", "--collapse", "--json", "--limit", "1000"),
    ),
    "search": (
        ("heron",),
        ("heron", "--json"),
        ("heron", "--session", "birds", "--json"),
        ("heron", "--role", "tool", "--in", "everything", "--json"),
        ("heron", "--limit", "1"),
        ("birds",),
    ),
    "export": (
        ("birds",),
        ("birds", "--redact"),
        ("birds", "--format", "events"),
        ("birds", "--format", "events", "--redact"),
        ("birds", "--format", "atif"),
        ("birds", "--format", "atif", "--redact"),
        ("birds", "--format", "otlp"),
        ("birds", "--format", "otlp", "--redact"),
    ),
    "usage": ((), ("--json",), ("--csv",), ("--by", "session", "--json"), ("--session", "birds", "--json")),
    "drift": ((), ("--json",)),
    "budget list": ((),),
    "retention show": ((),),
    "cold show": ((),),
    "resume": (("birds", "--print"),),
    "facts": (("birds",), ("birds", "--json"), ("bread", "--json")),
    "projects": ((), ("--json",), ("--usage", "--json"), ("--usage",)),
    "continue": (("birds", "--in", "codex", "--folder", ".", "--dry-run", "-o", "new.jsonl"),),
    "scan": ((), ("birds",), ("birds", "--json")),
    "changes": (
        ("bread",),
        ("bread", "--stat"),
        ("bread", "--patch"),
        ("bread", "--json"),
        ("bread", "--turn", "1"),
    ),
    "compare": (("bread", "birds"), ("bread", "birds", "--json")),
    "blame": (("bread_timer.py",), ("bread_timer.py:2",), ("bread_timer.py", "--json")),
}
"""Arguments of commands that read, by command."""


@pytest.mark.parametrize("command", slow_after(6, READING))
def test_a_server_and_its_store_print_the_same(store: Store, command: str) -> None:
    for arguments in READING[command]:
        words = (*command.split(), *arguments)
        local, remote = store.run(*words), store.run(*words, ASH_URL=store.url)

        assert (local.code, local.out != "") == (0, True), (words, local.err)
        assert remote == local._replace(err=f"ash: reading {store.url}\n{local.err}"), words


@pytest.mark.parametrize("command", slow_after(4, READING))
def test_options_take_precedence_over_the_environment(store: Store, command: str) -> None:
    words = (*command.split(), *READING[command][0])
    by_variable = store.run(*words, ASH_URL=store.url)
    by_option = store.run(*words, "--url", store.url, ASH_URL=NOWHERE)
    local, chosen = store.run(*words), store.run(*words, "--local", ASH_URL=NOWHERE)

    assert by_option == by_variable
    assert chosen == local._replace(err=f"ash: reading the local store, not {NOWHERE} (ASH_URL)\n{local.err}")


@pytest.mark.parametrize("form", ["jsonl", "events", "atif"])
def test_exported_files_of_a_server_and_its_store_are_equal(store: Store, tmp_path: Path, form: str) -> None:
    """All sessions, with archived ones. A trajectory has its images next to it in both."""
    target = ("export", "--all", "--format", form, "-o")
    local = store.run(*target, str(tmp_path / "local"))
    remote = store.run(*target, str(tmp_path / "remote"), "--url", store.url)

    assert (local.code, remote.code) == (0, 0), remote.err
    assert local.out.replace("local", "remote") == remote.out == f"3 sessions in {tmp_path / 'remote'}\n"
    assert contents(tmp_path / "local") == contents(tmp_path / "remote")
    assert any(path.suffix == ".png" for path in contents(tmp_path / "remote")) == (form == "atif")


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


NEEDED = {
    **{name: ["birds"] for name in ("messages", "events", "export", "tail", "resume", "changes", "facts")},
    "search": ["heron"],
    "compare": ["birds", "bread"],
    "continue": ["birds", "--in", "codex"],
    "blame": [__file__],
}
"""Arguments without which a command does not start."""


@pytest.mark.parametrize("command", [*READING, "tail", "open"])
def test_a_server_that_does_not_answer_is_an_error(tmp_path: Path, command: str) -> None:
    """The local store is not even created."""
    environment = {"HOME": str(tmp_path), "ASH_HOME": str(tmp_path / "ash"), "ASH_URL": NOWHERE}
    follows = ["--no-follow"] if command == "tail" else []
    done = ran_here([*command.split(), *NEEDED.get(command, ()), *follows], environment, tmp_path)

    assert (done.code, done.out) == (1, "")
    assert f"{NOWHERE} does not answer" in done.err
    assert not (tmp_path / "ash").exists()


def test_the_server_on_this_machine(tmp_path: Path) -> None:
    """Without ASH_URL, or with --local, `ash tail` asks it."""
    environment = {"HOME": str(tmp_path), "ASH_HOME": str(tmp_path / "ash"), "ASH_PORT": "9"}
    tail = ["tail", "x", "--no-follow"]
    here = ran_here(tail, environment, tmp_path)
    chosen = ran_here([*tail, "--local"], {**environment, "ASH_URL": "http://ash.invalid"}, tmp_path)

    notice = f"ash: reading {NOWHERE}, not http://ash.invalid (ASH_URL)\n"
    assert here.err.startswith(f"ash: {NOWHERE} does not answer")
    assert chosen == here._replace(err=notice + here.err)


@pytest.mark.slow
def test_address_and_key_are_not_read_from_dotenv(store: Store, tmp_path: Path) -> None:
    written(tmp_path / ".env", f"ASH_URL={NOWHERE}\nASH_KEY=ash_stranger\nASH_HOME={tmp_path}")
    environment = {"HOME": str(store.home), "ASH_DATABASE_URL": store.database_url}

    assert ran_here(["sessions"], environment, tmp_path) == ran_here(["sessions"], environment, store.home)


# Changes.


class Team(NamedTuple):
    """A server with a key of a team, and the local store of a person."""

    url: str
    home: Path
    variables: dict[str, str]

    def run(self, *arguments: str, **variables: str) -> Ran:
        return ran_here(arguments, {**self.variables, **variables}, self.home)

    def names(self, *options: str) -> set[str]:
        page = json.loads(self.run("sessions", "--json", *options).out)
        return {session["externalId"] for session in page["sessions"]}


@pytest.fixture(scope="module")
def team(server_url: str, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    home = tmp_path_factory.mktemp("team")
    with (
        serving(server_url, template, home) as (url, database_url),
        new_database(server_url, f"TEMPLATE {template} STRATEGY FILE_COPY") as own,
    ):
        variables = {"HOME": str(home), "ASH_HOME": str(home)}
        here = {**variables, "ASH_DATABASE_URL": database_url}
        scopes = ("--scopes", "read,write,delete,share,admin")
        key = ran_here(["keys", "create", "laptop", "--tenant", "red", *scopes], here, home).out.split()[-1]
        for policy in ("retention", "cold"):
            assert ran_here([policy, "set", "90d"], {"ASH_TENANT": "red", **here}, home).code == 0
        local = {**variables, "ASH_DATABASE_URL": at_database(server_url, own), "ASH_KEY": key}
        for name in "abcde":
            line = json.dumps({**LINES[0], "uuid": name, "timestamp": "2020-01-01T00:00:00Z"})
            file = str(written(home / f"{name}.jsonl", line))
            for tenant in ({"ASH_TENANT": "red", **here}, local):
                assert ran_here(["import", file, "--as", name], tenant, home).code == 0
        yield Team(url, home, local)


REFUSED = {
    (
        "note",
        "a",
        "Late.",
        "--remote",
        "--local",
        "--url",
        NOWHERE,
    ): "--local and --remote exclude each other",
    ("tag", "a", "--local", "--url", NOWHERE): "--local and --url exclude each other",
    ("delete", "a", "--url", NOWHERE): "--url needs --remote",
    ("delete", "a", "--remote"): "--remote needs --url or ASH_URL",
    ("prune", "--older-than", "1d", "--remote"): "--remote needs --url or ASH_URL",
    ("budget", "set", "5/day", "--url", NOWHERE): "--url needs --remote",
    ("sessions", "--url", NOWHERE, "--local"): "--local and --url exclude each other",
    ("tail", "a", "--url", NOWHERE, "--local"): "--local and --url exclude each other",
    ("import", "a.jsonl", "--remote"): "`ash push` sends transcripts to a server",
    ("reindex", "--remote"): "run this command on the machine of the server",
    ("keys", "list", "--remote"): "run this command on the machine of the server",
    ("db", "vacuum", "--remote"): "run this command on the machine of the server",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_refused_options(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = ran_here(arguments, {"HOME": str(tmp_path), "ASH_HOME": str(tmp_path / "ash")}, tmp_path)

    assert (done.code, done.out) == (2, "")
    assert REFUSED[arguments] in done.err
    assert not (tmp_path / "ash").exists()


@pytest.mark.parametrize(
    ("words", "change", "out"),
    [
        (["tag", "e"], ["add", "late"], "late\n"),
        (["note", "e"], ["It is **late**."], "It is **late**.\n"),
    ],
)
def test_labels_are_read_like_sessions(team: Team, words: list[str], change: list[str], out: str) -> None:
    """Forms of commands that change nothing read the server at ASH_URL, without --remote."""
    assert team.run(*words, *change, "--remote", "--url", team.url, "--yes").code == 0
    remote = team.run(*words, ASH_URL=team.url)
    by_option, local = team.run(*words, "--url", team.url), team.run(*words, "--local", ASH_URL=team.url)

    assert remote == by_option == Ran(0, out, f"ash: reading {team.url}\n")
    assert (local.code, local.out.strip()) == (0, "")
    assert local.err == f"ash: reading the local store, not {team.url} (ASH_URL)\n"


def test_changes_stay_local_without_remote(team: Team) -> None:
    notice = f"ash: changing the local store, not {team.url} (ASH_URL)\n"

    deleted = team.run("delete", "a", "--yes", ASH_URL=team.url)

    assert deleted == Ran(0, "1 session with 1 message deleted\n", notice)
    assert (team.names() & {"a"}, team.names("--url", team.url) & {"a"}) == (set(), {"a"})
    assert (
        team.run("keys", "list", ASH_URL=team.url).err
        == f"ash: using the local store, not {team.url} (ASH_URL)\n"
    )


@pytest.mark.parametrize(
    ("arguments", "done"),
    [
        (["delete", "b"], "Delete 1 session"),
        (["delete", "c", "--message", "1"], "Delete 1 message of this session"),
        (["budget", "set", "5/day"], "Set 1 budget"),
        (["retention", "set", "90d"], "Set the retention of all sessions to 90d"),
        (["cold", "set", "90d"], "Archive all sessions without a change for 90d"),
        (["cold", "run"], "Archive the old sessions"),
        (["retention", "run"], "Schedule 0 sessions for deletion and delete 0"),
        (["star", "a", "d"], "Star 2 sessions"),
        (["rename", "d", "A heron"], "Rename 1 session"),
    ],
)
def test_a_change_of_a_server_names_it_and_asks(team: Team, arguments: list[str], done: str) -> None:
    place = f"{done} of the tenant red at {team.url}"
    at_url = [*arguments, "--remote", "--url", team.url]

    without_url = team.run(*arguments, "--remote", "--yes", ASH_URL=team.url)
    without_terminal = team.run(*arguments, "--remote", ASH_URL=team.url)
    asked, code = answered(
        "n\n", [*arguments, "--remote"], {**team.variables, "ASH_URL": team.url}, team.home
    )
    confirmed = team.run(*at_url, "--yes")

    assert (without_url.code, without_terminal.code, code) == (2, 2, 130)
    assert "With --remote, --yes needs --url" in without_url.err
    assert "Nothing is changed without --yes" in without_terminal.err
    assert f"{place}? [y/N]" in asked
    assert (confirmed.code, confirmed.err) == (0, f"ash: {place}\n")
    assert "b" in team.names()


def test_prune_of_a_server(team: Team) -> None:
    found = team.run("prune", "--older-than", "1d", "--dry-run", "--remote", ASH_URL=team.url)
    refused = team.run("prune", "--older-than", "1d", "--remote", ASH_URL=team.url)
    trees = team.run("prune", "--older-than", "1d", "--subagents", "--remote", ASH_URL=team.url)
    done = team.run("prune", "--older-than", "1d", "--remote", "--url", team.url, "--yes")

    count = found.out.splitlines()[-1].partition(" with ")[0]
    assert (found.code, refused.code, trees.code) == (0, 2, 2)
    assert "answers of a server do not tell subagents from forks" in trees.err
    assert done.err == f"ash: Delete {count} of the tenant red at {team.url}\n"
    assert ("d" in team.names("--url", team.url), "d" in team.names()) == (False, True)


def answered(typed: str, arguments: list[str], variables: dict[str, str], folder: Path) -> tuple[str, int]:
    """Run the command with an answer on a terminal, and return its standard error and exit code."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, typed.encode())
        environment = {"PATH": os.environ["PATH"], **variables}
        done = subprocess.run(
            [COMMAND, *arguments],
            stdin=theirs,
            capture_output=True,
            text=True,
            env=environment,
            cwd=folder,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    return done.stderr, done.returncode


# The page.

LOCAL, SERVER, OWN = "the local store", "the server", "the server on this machine"
STORES = {
    frozenset({"--url", "--local"}): {(LOCAL, SERVER), (OWN, f"{SERVER}; with `--local`, {OWN}")},
    frozenset({"--url", "--remote"}): {(LOCAL, f"{LOCAL}; with `--remote`, {SERVER}")},
    frozenset({"--url", "--remote", "--local"}): {
        (LOCAL, f"{LOCAL}, or to read {SERVER}; with `--remote`, {SERVER}")
    },
    frozenset({"--remote"}): {(LOCAL, LOCAL)},
    frozenset({"--url"}): {(OWN, SERVER), ("no other store", "no other store")},
    frozenset(): {(OWN, SERVER), ("no other store", "no other store")},
}
"""The stores on the page, by the options of a command."""
NAMES = {"events show": "events"}
OTHERS = {
    "hooks install": ("hooks that import into the local store", "hooks that push to the server"),
    "service install": (
        "a service that stores in the local store",
        "a service that pushes to the server",
    ),
    "watch": ("the local store", "the server; with `--local`, the local store"),
}


def test_the_page_has_every_command() -> None:
    rows = re.findall(r"^\| (`.+`) \| (.+) \| (.+) \|$", PAGE.read_text(), re.M)
    on_page = [(name, stores) for names, *stores in rows for name in re.findall("`(.+?)`", names)]
    documented = {name: tuple(stores) for name, stores in on_page}
    options = dict(commands(ash_command))

    assert len(on_page) == len(documented)
    assert documented.keys() == options.keys()
    wrong = {
        name: (stores, options[name])
        for name, stores in documented.items()
        if stores not in ({OTHERS[name]} if name in OTHERS else STORES[options[name]])
    }
    assert wrong == {}


def test_each_command_that_reads_is_compared() -> None:
    reading = {name for name, options in commands(ash_command) if options == {"--url", "--local"}}

    assert reading - {"forward", "open", "tail", "watch"} == READING.keys()


def commands(group: click.Group, prefix: str = "") -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the names of visible commands, and their options that select a store."""
    for name, command in group.commands.items():
        loaded = command.load() if isinstance(command, LazyCommand) else command
        if isinstance(loaded, click.Group):
            yield from commands(loaded, f"{prefix}{name} ")
        elif not loaded.hidden:
            options = {option for parameter in loaded.params for option in parameter.opts}
            full = f"{prefix}{name}"
            yield NAMES.get(full, full), frozenset(options & {"--url", "--local", "--remote"})
