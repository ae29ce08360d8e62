"""The systemd unit runs commands that exist, and the settings that it names are those of Ash."""

import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from ash_server.settings import Settings

UNIT = Path(__file__).parents[1] / "deploy" / "ash.service"


def values_of(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)


def test_commands_exist() -> None:
    commands = [*values_of("ExecStartPre"), *values_of("ExecStart")]

    assert commands == ["/opt/ash/bin/ash db upgrade", "/opt/ash/bin/ash serve"]
    program = Path(sys.executable).with_name("ash")
    for command in commands:
        subprocess.run([program, *command.split()[1:], "--help"], check=True, capture_output=True)


def test_settings_exist() -> None:
    names = {name for line in values_of("Environment") for name in re.findall(r"\bASH_(\w+)=", line)}

    assert names
    assert {name.lower() for name in names} <= {field.name for field in fields(Settings)}


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_unit_is_valid() -> None:
    checked = subprocess.run(["systemd-analyze", "verify", UNIT], capture_output=True, text=True, check=False)

    own = [line for line in checked.stderr.splitlines() if "not executable" not in line]
    assert own == []
