"""The files that make `ash watch` a service of the user: a systemd user unit, or a launchd agent."""

import os
import plistlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

NAME = "ash-watch"
_LABEL = "ash.watch"
_RESTART_SECONDS = 30


class Service(NamedTuple):
    """`ash watch` with its settings; a key is saved in ASH_HOME, not here."""

    program: Path
    """The installed `ash`, absolute."""
    home: Path
    """ASH_HOME, which is also the working directory: no `.env` of another folder is read."""
    url: str | None
    """The server; None: the local store."""

    @property
    def arguments(self) -> list[str]:
        return [str(self.program), "watch", *(["--url", self.url] if self.url else ["--local"])]


class Manager(NamedTuple):
    """A program that runs services."""

    title: str
    path: Path
    """The file of the service, relative to the home of the user."""
    write: Callable[[Service], str]
    start: tuple[tuple[str, ...], ...]
    """Commands; `{path}` is the file, `{user}` the number of the user."""
    stop: tuple[tuple[str, ...], ...]
    status: tuple[str, ...]


def _systemd(service: Service) -> str:
    """Return a unit; systemd.syntax(7) and systemd.service(5) say what must be quoted."""
    return f"""\
[Unit]
Description=Ash stores the transcripts of agents while they are written

[Service]
ExecStart={" ".join(map(_quote_argument, service.arguments))}
Environment={_quote(f"ASH_HOME={service.home}")} PYTHONUNBUFFERED=1
WorkingDirectory={_escape(str(service.home))}
Restart=on-failure
RestartSec={_RESTART_SECONDS}
KillMode=mixed
NoNewPrivileges=yes
UMask=0077
Nice=10

[Install]
WantedBy=default.target
"""


def _launchd(service: Service) -> str:
    """Return a property list; see launchd.plist(5)."""
    log = str(service.home / "watch.log")
    entries = {
        "Label": _LABEL,
        "ProgramArguments": service.arguments,
        "EnvironmentVariables": {"ASH_HOME": str(service.home), "PYTHONUNBUFFERED": "1"},
        "WorkingDirectory": str(service.home),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": _RESTART_SECONDS,
        "ProcessType": "Background",
        "Umask": 0o077,
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    return plistlib.dumps(entries, sort_keys=False).decode()


_UNIT = f"{NAME}.service"
MANAGERS: Mapping[str, Manager] = {
    "linux": Manager(
        "systemd",
        Path(".config/systemd/user") / _UNIT,
        _systemd,
        start=(("systemctl", "--user", "daemon-reload"), ("systemctl", "--user", "enable", "--now", _UNIT)),
        stop=(("systemctl", "--user", "disable", "--now", _UNIT), ("systemctl", "--user", "daemon-reload")),
        status=("systemctl", "--user", "status", "--no-pager", _UNIT),
    ),
    "darwin": Manager(
        "launchd",
        Path("Library/LaunchAgents") / f"{_LABEL}.plist",
        _launchd,
        start=(("launchctl", "bootstrap", "gui/{user}", "{path}"),),
        stop=(("launchctl", "bootout", f"gui/{{user}}/{_LABEL}"),),
        status=("launchctl", "print", f"gui/{{user}}/{_LABEL}"),
    ),
}
"""By `sys.platform`."""


def manager_here() -> Manager | None:
    return MANAGERS.get(sys.platform)


def in_command(words: tuple[str, ...], path: Path) -> list[str]:
    """Return a command of a manager for this file and user."""
    return [word.format(path=path, user=os.getuid()) for word in words]


def keep_wsl_running(distribution: str) -> str:
    """Return the command for Windows that starts WSL at each login, and with it the service.

    Services do not keep WSL running; a program that Windows has started does.
    """
    program = f'wsl.exe -d \\"{distribution}\\" -e sleep infinity'
    return f'schtasks /Create /TN {NAME} /SC ONLOGON /TR "{program}"'


STOP_WSL = f"schtasks /Delete /TN {NAME} /F"
"""The command for Windows that undoes `keep_wsl_running`."""


def _quote_argument(text: str) -> str:
    return _quote(text.replace("$", "$$"))


def _quote(text: str) -> str:
    escaped = _escape(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _escape(text: str) -> str:
    """Escape the beginning of specifiers."""
    return text.replace("%", "%%")
