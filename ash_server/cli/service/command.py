"""`ash service`: install, show and remove the service."""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import rich_click as click

from ash_server.cli.common.output.terminal import visible
from ash_server.cli.common.private_files import write_file
from ash_server.cli.common.server_keys import save_key
from ash_server.cli.service.units import (
    NAME,
    STOP_WSL,
    Manager,
    Service,
    in_command,
    keep_wsl_running,
    manager_here,
)
from ash_server.settings import Settings

_READABLE = 0o644


@click.group("service")
def command() -> None:
    """Run `ash watch` as a service of this user.

    \b
    ash service install
    ash service status
    ash service remove
    """


@command.command()
@click.option("--url", metavar="URL", help="The server; default: ASH_URL, else the local store.")
@click.option("--print", "prints", is_flag=True, help="Print the file of the service, and change nothing.")
@click.option("--yes", "is_confirmed", is_flag=True, help="Do not ask.")
def install(url: str | None, *, prints: bool, is_confirmed: bool) -> int:
    """Start `ash watch` now and at each login, after showing the file of the service.

    A key in ASH_KEY is saved in ASH_HOME, for this server only; it is not written to the file.
    """
    from ash_client.connection import check_url

    manager, url = _manager(), url or os.environ.get("ASH_URL")
    url = check_url(url) if url else None
    home = Settings.from_environment().home.absolute()
    service = Service(_program(), home, url)
    text, path = manager.write(service), Path.home() / manager.path
    click.echo(text if prints else f"{visible(str(path))}:\n\n{text}", nl=False)
    if prints:
        return 0
    if not is_confirmed:
        click.confirm(f"Install and start it with {manager.title}?", abort=True)
    home.mkdir(parents=True, exist_ok=True)
    if url and (key := os.environ.get("ASH_KEY")):
        save_key(home, url, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        _run(manager.stop, path, must_succeed=False)
    write_file(path, text, _READABLE)
    _run(manager.start, path)
    click.echo(f"{NAME} runs. `ash service status` shows it, `ash service remove` removes it.")
    if (distribution := os.environ.get("WSL_DISTRO_NAME")) is not None:
        task = keep_wsl_running(distribution)
        click.echo(
            "Windows stops WSL, and with it the service, when nothing uses it. To start WSL at login and keep it "
            f"running, run in Windows:\n{visible(task)}"
        )
    return 0


@command.command()
def status() -> int:
    """Show whether the service runs, as its manager reports it."""
    manager = _manager()
    path = Path.home() / manager.path
    if not path.exists():
        raise click.ClickException(f"the service is not installed: there is no file {path}")
    return _execute(in_command(manager.status, path))


@command.command()
def remove() -> int:
    """Stop the service and delete its file. The store stays."""
    manager = _manager()
    path = Path.home() / manager.path
    if not path.exists():
        raise click.ClickException(f"the service is not installed: there is no file {path}")
    _run(manager.stop[:1], path, must_succeed=False)
    path.unlink()
    _run(manager.stop[1:], path, must_succeed=False)
    click.echo("The service is removed. Stored sessions are kept.")
    if "WSL_DISTRO_NAME" in os.environ:
        click.echo(f"If Windows starts WSL for it, run in Windows:\n{STOP_WSL}")
    return 0


def _manager() -> Manager:
    manager = manager_here()
    if manager is None:
        raise click.ClickException(
            "services are installed with systemd or launchd: start `ash watch` in another way"
        )
    if os.getuid() == 0:
        raise click.ClickException(
            "the service reads the files of one user: install it as that user, not as root"
        )
    return manager


def _program() -> Path:
    """Return the absolute path of `ash`. Raises ClickException for an installation that may be deleted."""
    program = Path(sys.argv[0]).absolute()
    temporary = [tempfile.gettempdir(), os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")]
    if any(program.is_relative_to(folder) for folder in temporary):
        raise click.ClickException(
            f"{program} is in a temporary folder: install Ash first, for example with `pipx install`"
        )
    return program


def _run(commands: Iterable[tuple[str, ...]], path: Path, *, must_succeed: bool = True) -> None:
    for words in commands:
        arguments = in_command(words, path)
        if _execute(arguments) and must_succeed:
            raise click.ClickException(f"`{shlex.join(arguments)}` failed; the file of the service is {path}")


def _execute(arguments: list[str]) -> int:
    try:
        return subprocess.run(arguments, check=False).returncode
    except OSError as error:
        raise click.ClickException(f"cannot run {arguments[0]}: {error.strerror}") from None
