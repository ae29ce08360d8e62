"""`ash service`: the files of systemd and launchd, and the commands that are run."""

import os
import plistlib
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ash_server.cli.service.units import MANAGERS, Service, in_command
from tests.server.cli.test_cli import COMMAND, Ran, ran_here

ODD = Service(Path('/opt/a "b" $HOME %h/bin/ash'), Path("/home/ann/my %i ash"), "https://ash.example/$x")
PLAIN = Service(Path("/opt/ash/bin/ash"), Path("/home/ann/.ash"), None)


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home of a user of systemd, with a `systemctl` that records its arguments."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/nowhere")
    log = shlex.quote(str(tmp_path / "log"))
    write_program(tmp_path / "bin/systemctl", f'#!/bin/sh\necho "$*" >> {log}\n')
    return tmp_path


def write_program(path: Path, text: str) -> Path:
    path.parent.mkdir()
    path.write_text(text)
    path.chmod(0o755)
    return path


def service(user: Path, *arguments: str, **variables: str) -> Ran:
    environment = {"HOME": str(user), "PATH": f"{user / 'bin'}:{os.environ['PATH']}", **variables}
    return ran_here(["service", *arguments], environment, user)


def calls(user: Path) -> list[str]:
    log = user / "log"
    return log.read_text().splitlines() if log.exists() else []


def test_installs_and_removes_a_unit(user: Path) -> None:
    unit = user / ".config/systemd/user/ash-watch.service"
    environment = {"ASH_URL": "https://ash.example", "ASH_KEY": "ash_secret"}

    installed = service(user, "install", "--yes", **environment)
    text, saved = unit.read_text(), "".join(path.read_text() for path in (user / ".ash").iterdir())
    removed = service(user, "remove")

    assert (installed.code, removed.code) == (0, 0)
    assert f'ExecStart="{COMMAND}" "watch" "--url" "https://ash.example"\n' in text
    assert ("ash_secret" in text, "ash_secret" in installed.out, "ash_secret" in saved) == (
        False,
        False,
        True,
    )
    assert calls(user) == [
        "--user daemon-reload",
        "--user enable --now ash-watch.service",
        "--user disable --now ash-watch.service",
        "--user daemon-reload",
    ]
    assert not unit.exists()


def test_changes_nothing_without_a_confirmation(user: Path) -> None:
    asked, printed = service(user, "install"), service(user, "install", "--print")

    assert (asked.code, printed.code) == (130, 0)
    assert "[Service]" in asked.out
    assert printed.out.startswith("[Unit]")
    assert calls(user) == []
    assert not (user / ".config").exists()


def test_refuses_root_temporary_programs_and_other_systems(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = [service(user, "remove").err]
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(COMMAND.parents[2]))
    reasons.append(service(user, "install", "--yes").err)
    monkeypatch.setattr(os, "getuid", lambda: 0)
    reasons.append(service(user, "install", "--yes").err)
    monkeypatch.setattr(sys, "platform", "aix")
    reasons.append(service(user, "status").err)

    expected = (
        "not installed: there is no file",
        "is in a temporary folder: install Ash first",
        "install it as that user, not as root",
        "start `ash watch` in another way",
    )
    assert [part in " ".join(reason.split()) for part, reason in zip(expected, reasons, strict=True)] == [
        True
    ] * 4
    assert calls(user) == []


def test_in_wsl_the_task_of_windows_is_printed(user: Path) -> None:
    ran = [
        service(user, *arguments, WSL_DISTRO_NAME="Ubuntu 24").out.splitlines()
        for arguments in (("install", "--yes"), ("remove",))
    ]

    assert [lines[-1] for lines in ran] == [
        'schtasks /Create /TN ash-watch /SC ONLOGON /TR "wsl.exe -d \\"Ubuntu 24\\" -e sleep infinity"',
        "schtasks /Delete /TN ash-watch /F",
    ]


@pytest.mark.parametrize("each", [ODD, PLAIN])
def test_the_unit_is_valid(each: Service) -> None:
    unit = MANAGERS["linux"].write(each)

    words = shlex.split(unit.partition("ExecStart=")[2].partition("\n")[0])
    assert [word.replace("%%", "%").replace("$$", "$") for word in words] == each.arguments
    [home, _] = shlex.split(unit.partition("Environment=")[2].partition("\n")[0])
    assert home.replace("%%", "%") == f"ASH_HOME={each.home}"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    program = write_program(tmp_path / "a b %h/ash", "#!/bin/sh\n")
    path = tmp_path / "ash-watch.service"
    path.write_text(MANAGERS["linux"].write(ODD._replace(program=program, home=tmp_path)))

    verify = ["systemd-analyze", "verify", "--user", "--man=no", str(path)]
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    verified = subprocess.run(verify, env=environment, capture_output=True, text=True, check=False)

    assert (verified.returncode, [line for line in verified.stderr.splitlines() if path.name in line]) == (
        0,
        [],
    )


@pytest.mark.parametrize("each", [ODD, PLAIN])
def test_the_property_list_is_valid(each: Service) -> None:
    entries = plistlib.loads(MANAGERS["darwin"].write(each).encode())

    assert (entries["ProgramArguments"], entries["EnvironmentVariables"]["ASH_HOME"]) == (
        each.arguments,
        str(each.home),
    )


def test_commands_of_launchd_name_the_user_and_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 501)
    launchd, path = MANAGERS["darwin"], Path("/Users/ann/Library/LaunchAgents/ash.watch.plist")

    assert [in_command(words, path) for words in (*launchd.start, *launchd.stop)] == [
        ["launchctl", "bootstrap", "gui/501", str(path)],
        ["launchctl", "bootout", "gui/501/ash.watch"],
    ]
