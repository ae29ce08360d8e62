"""`ash self` and `ash completion`."""

import json
import os
import subprocess
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

import psycopg
import pytest

import ash_server
from ash_server.cli.hooks.agents import AGENTS
from ash_server.cli.main import COMMAND_GROUPS, COMMANDS
from ash_server.prices.catalogue import read_catalogue
from ash_server.store.schema.migrations import REVISION
from tests.server.cli.test_cli import COMMAND, Ash, ash

__all__ = ["ash"]


@pytest.fixture(autouse=True)
def current_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The prices of the installed package are current on any day."""
    monkeypatch.setattr("ash_server.cli.self_.MAX_PRICE_AGE", timedelta(days=10_000))


def test_shows_the_installation(ash: Ash, database_url: str, tmp_path: Path) -> None:
    shown = ash("self", "--json", ASH_URL="https://ash.example")

    place = psycopg.conninfo.conninfo_to_dict(database_url)
    facts = json.loads(shown.out)
    assert {
        name: facts[name] for name in ("version", "package", "home", "store", "schema", "server", "outdated")
    } == {
        "version": version("ash-messages"),
        "package": str(Path(ash_server.__file__).parent),
        "home": str(tmp_path / "home/.ash"),
        "store": f"PostgreSQL at {place.get('host')}, database {place['dbname']}",
        "schema": REVISION,
        "server": "https://ash.example",
        "outdated": [],
    }
    assert shown.code == 0


def test_shows_what_remains_after_its_removal(ash: Ash, tmp_path: Path) -> None:
    before = json.loads(ash("self", "--json").out)
    ash("hooks", "install", "claude", "--yes")
    unit = tmp_path / "home/.config/systemd/user/ash-watch.service"
    unit.parent.mkdir(parents=True)
    unit.touch()
    after = json.loads(ash("self", "--json").out)

    assert before.keys() & {"hooks", "service"} == set()
    assert (after["hooks"], after["service"]) == ("claude", str(unit))


def test_reports_an_outdated_schema(ash: Ash, database_url: str) -> None:
    """Commands refuse a store of a newer version, too."""

    def shown_at(revision: str) -> tuple[int, str]:
        with psycopg.connect(database_url, autocommit=True) as conn:
            conn.execute("UPDATE alembic_version SET version_num = %s", [revision])
        shown = ash("self")
        return shown.code, shown.out.splitlines()[-1]

    assert [shown_at(revision) for revision in ("0001", "9999")] == [
        (1, f"! the schema of the store is 0001, this version needs {REVISION}: run `ash db upgrade`"),
        (1, "! a newer version has migrated the store to schema 9999: update this installation"),
    ]
    refused = ash("sessions")
    assert (refused.code, refused.out) == (1, "")
    assert f"the database has schema 9999, this Ash needs {REVISION}" in " ".join(refused.err.split())


OLD = "/gone/ash hooks run claude --url http://a || true"
CURRENT = f"{COMMAND} hooks run claude --url http://a || true"
EVENTS = ("Stop", "SubagentStop", "PreCompact", "SessionEnd")
PLUGINS = ".claude/plugins/installed_plugins.json"


def claude_hooks(command: str, *events: str, timeout: int = 10) -> str:
    hook = {"type": "command", "command": command, "async": True, "timeout": timeout}
    return json.dumps({"model": "m", "hooks": {event: [{"hooks": [hook]}] for event in events}})


def plugins(version: str) -> str:
    return json.dumps({"version": 2, "plugins": {"ash@ash": [{"scope": "user", "version": version}]}})


@pytest.mark.parametrize(
    ("name", "text", "outdated"),
    [
        (".claude/settings.json", claude_hooks(CURRENT, *EVENTS), []),
        (".claude/settings.json", claude_hooks("notify-send done", "Stop"), []),
        (".claude/settings.json", "no JSON", []),
        (
            ".claude/settings.json",
            claude_hooks(CURRENT, "Stop", "SessionEnd"),
            [
                "the hooks of Claude Code were installed by another version: "
                "run `ash hooks install claude --url http://a`"
            ],
        ),
        (
            ".claude/settings.json",
            claude_hooks(CURRENT, *EVENTS, timeout=60),
            [
                "the hooks of Claude Code were installed by another version: "
                "run `ash hooks install claude --url http://a`"
            ],
        ),
        (
            ".claude/settings.json",
            claude_hooks(OLD, *EVENTS),
            [
                "the hooks of Claude Code start /gone/ash, which does not exist: "
                "run `ash hooks install claude --url http://a`"
            ],
        ),
        (PLUGINS, plugins(version("ash-messages")), []),
        (PLUGINS, "[]", []),
        (
            PLUGINS,
            plugins("0.0.9"),
            ["the plugin of Claude Code has version 0.0.9: run `claude plugin update ash@ash`"],
        ),
    ],
)
def test_reports_old_hooks_and_plugins(
    ash: Ash, tmp_path: Path, name: str, text: str, outdated: list[str]
) -> None:
    path = tmp_path / "home" / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    shown = ash("self", "--json")

    assert (json.loads(shown.out)["outdated"], shown.code) == (outdated, int(bool(outdated)))


@pytest.mark.parametrize("agent", AGENTS)
def test_new_hooks_are_current(ash: Ash, agent: str) -> None:
    ash("hooks", "install", agent, "--yes", "--url", "http://a")
    ash("hooks", "install", agent, "--yes")

    assert json.loads(ash("self", "--json").out)["outdated"] == []


def test_reports_old_prices(ash: Ash, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ash_server.cli.self_.MAX_PRICE_AGE", timedelta(0))
    known_at = read_catalogue(None, None).known_at(datetime.now(UTC))
    shown = ash("self")

    assert known_at is not None
    assert (
        shown.out.splitlines()[-1]
        == f"! the newest prices are of {known_at:%Y-%m-%d}: run `ash prices update`"
    )


def test_creates_no_store(ash: Ash, tmp_path: Path) -> None:
    shown = ash("self", ASH_DATABASE_URL="")

    assert (shown.code, "store     none yet" in shown.out) == (0, True)
    assert not (tmp_path / "home/.ash").exists()


def test_every_command_is_below_one_heading() -> None:
    grouped = [name for names in COMMAND_GROUPS.values() for name in names]

    assert sorted(grouped) == sorted(COMMANDS)


@pytest.mark.slow
def test_bash_completes_commands_and_options(ash: Ash, tmp_path: Path) -> None:
    script = tmp_path / "completion.sh"
    script.write_text(ash("completion", "bash").out)

    def completions(*words: str) -> list[str]:
        program = (
            'source "$0"; COMP_WORDS=(ash "$@"); COMP_CWORD=$#; _ash_completion ash; echo "${COMPREPLY[@]}"'
        )
        environment = {"PATH": f"{COMMAND.parent}:{os.environ['PATH']}"}
        ran = subprocess.run(
            ["bash", "-c", program, script, *words],
            capture_output=True,
            check=True,
            text=True,
            env=environment,
        )
        return ran.stdout.split()

    assert completions("se") == ["search", "self", "serve", "service", "sessions"]
    assert completions("usage", "--bre") == ["--breakdown"]
