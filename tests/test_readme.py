"""The examples of the README work, and print the output that it shows."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from ash_client import AshClient
from ash_server.store.connections.pool import direct_url
from tests.server.cli.test_cli_serve import COMMAND, running, stopped
from tests.server.cli.test_push_command import TRANSCRIPT, said, stored_messages, write
from tests.waiting import wait_until

README = Path(__file__).parents[1] / "README.md"
MAX_WORDS = 950


def test_readme_is_short() -> None:
    assert len(README.read_text().split()) <= MAX_WORDS


@pytest.mark.slow
def test_library_example_prints_the_shown_output() -> None:
    program, output = example_of("Parser")

    assert run(program) == output


@pytest.mark.slow
def test_store_example_prints_the_shown_output(database_url: str) -> None:
    program, output = example_of("Store")

    assert run(program.replace("Store.open(None)", f"Store.open({direct_url(database_url)!r})")) == output


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_commands_for_a_team_work_as_shown(tmp_path: Path) -> None:
    """Two homes play server and laptop: a growing transcript arrives, and another tenant sees nothing."""
    commands = team_commands()
    [create, serve], [export, watch, curl] = commands["server"], commands["laptop"]
    server, laptop = tmp_path / "server", tmp_path / "laptop"
    path = write(laptop / TRANSCRIPT, said(1, "Open the shop."))
    key = shell(create, home=server).split()[-1]
    other = shell("ash keys create other --tenant blue", home=server).split()[-1]
    assert serve.startswith("ash ")
    with ExitStack() as ended:
        ash = ended.enter_context(running(*serve.split()[1:], home=server, ASH_PORT="0"))
        ended.callback(stopped, ash.process, signal.SIGINT)
        url = re.sub(r"//[\d.]+", "//127.0.0.1", ash.address)
        there = export.replace("http://server:4100", url).replace("ash_…", key)
        follow = ended.enter_context(
            subprocess.Popen(["sh", "-c", f"{there}; exec {watch}"], env=variables_of(laptop))
        )
        ended.callback(follow.kill)
        theirs, others = (ended.enter_context(AshClient(url, each)) for each in (key, other))
        wait_until(lambda: stored_messages(theirs) == [1])
        with path.open("a") as file:
            file.write(said(2, "Close it."))
        wait_until(lambda: stored_messages(theirs) == [2])
        listed = json.loads(shell(f"{there}; {curl}", home=laptop))

        assert [each["messageCount"] for each in listed["sessions"]] == [2]
        assert b"".join(theirs.export(listed["sessions"][0]["id"])) == path.read_bytes()
        assert list(others.sessions()) == []
    assert not (laptop / "postgres").exists()


def team_commands() -> dict[str, list[str]]:
    """Return the commands of the section "For a team", by machine."""
    section = README.read_text().split("## For a team\n")[1].split("\n## ")[0]
    shown = re.findall(r"^(server|laptop)\$ (.*)$", section, re.MULTILINE)
    return {machine: [command for name, command in shown if name == machine] for machine, _ in shown}


def shell(command: str, home: Path) -> str:
    run = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=True, env=variables_of(home)
    )
    return run.stdout


def variables_of(home: Path) -> dict[str, str]:
    return {"PATH": f"{COMMAND.parent}:{os.environ['PATH']}", "HOME": str(home), "ASH_HOME": str(home)}


def example_of(section: str) -> tuple[str, str]:
    """Return the first program of a section of the README, and the output shown below it."""
    text = README.read_text().split(f"## {section}\n")[1]
    match = re.search(r"```python\n([^`]*?)```\n\n```\n(.*?)```", text, re.DOTALL)
    assert match is not None
    return match[1], match[2]


def run(program: str) -> str:
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return result.stdout
