"""`ash self` and `ash completion`."""

import json
import os
import subprocess
from importlib.metadata import version
from pathlib import Path

import psycopg

import ash_server
from ash_server.cli.main import COMMAND_GROUPS, COMMANDS
from ash_server.store.schema.migrations import REVISION
from tests.server.cli.test_cli import COMMAND, Ash, ash

__all__ = ["ash"]


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


def test_reports_an_outdated_schema(ash: Ash, database_url: str) -> None:
    def shown_at(revision: str) -> tuple[int, str]:
        with psycopg.connect(database_url, autocommit=True) as conn:
            conn.execute("UPDATE alembic_version SET version_num = %s", [revision])
        shown = ash("self")
        return shown.code, shown.out.splitlines()[-1]

    assert [shown_at(revision) for revision in ("0001", "9999")] == [
        (1, f"! the schema of the store is 0001, this version needs {REVISION}: run `ash db upgrade`"),
        (1, "! a newer version has migrated the store to schema 9999: update this installation"),
    ]


def test_creates_no_store(ash: Ash, tmp_path: Path) -> None:
    shown = ash("self", ASH_DATABASE_URL="")

    assert (shown.code, "store     none yet" in shown.out) == (0, True)
    assert not (tmp_path / "home/.ash").exists()


def test_every_command_is_below_one_heading() -> None:
    grouped = [name for names in COMMAND_GROUPS.values() for name in names]

    assert sorted(grouped) == sorted(COMMANDS)


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
