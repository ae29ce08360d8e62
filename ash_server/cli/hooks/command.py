"""`ash hooks install`, `remove` and `show`, and the hooks themselves."""

import difflib
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import rich_click as click

from ash_server.cli.common.options import url_option
from ash_server.cli.common.output.terminal import visible
from ash_server.cli.common.private_files import OWNER_ONLY, write_file
from ash_server.cli.common.server_keys import save_key
from ash_server.cli.hooks.agents import AGENTS
from ash_server.cli.hooks.record import delete_record, read_original, write_record
from ash_server.cli.hooks.run import LOG, log_error, send, start
from ash_server.cli.hooks.settings_file import SettingsFileInvalid
from ash_server.errors import AshError
from ash_server.settings import Settings

_agent_argument = click.argument("name", metavar="AGENT", type=click.Choice(list(AGENTS)))
_yes_option = click.option("--yes", "is_confirmed", is_flag=True, help="Do not ask.")


@click.group("hooks")
def command() -> None:
    """Let agents store their transcripts after each turn.

    A hook is a command that the agent runs; this one returns at once, and pushes the transcript in the background.
    AGENT is claude, codex, gemini_cli, antigravity, copilot_cli, cursor or opencode.

    \b
    ash hooks install claude
    ash hooks remove claude
    """


@command.command()
@_agent_argument
@click.option("--url", metavar="URL", help="The server; default: ASH_URL, else the local store.")
@_yes_option
def install(name: str, url: str | None, *, is_confirmed: bool) -> int:
    """Add hooks to the settings of a CLI, after showing the change.

    The hooks push to the server, or import into the local store if there is no server. A key in ASH_KEY is saved in
    ASH_HOME, for this server only; it is not written to the settings.

    \b
    ASH_URL=https://ash.example.com ASH_KEY=ash_… ash hooks install claude
    """
    # Not imported for the hooks themselves: httpx2 takes as long as all the rest.
    from ash_client.connection import check_url

    agent, url = AGENTS[name], url or os.environ.get("ASH_URL")
    url = check_url(url) if url else None
    key = os.environ.get("ASH_KEY") if url else None
    path, home = agent.path(), _home()
    before = _read(path)
    with _naming(path):
        after = agent.form.add(before, agent.entries(_words(name, url)))
    _show_change(path, before, after)
    if url and key:
        click.echo(f"ASH_KEY will be saved in {home}, for {url} only.")
    _confirm(is_confirmed)
    if url and key:
        save_key(home, url, key)
    write_record(home, name, path, agent.form.remove(read_original(home, name, path, before)), after)
    _replace(path, before, after)
    click.echo(
        f"{agent.title} {'pushes to ' + url if url else 'imports'} from its next session. Log: {home / LOG}"
    )
    if agent.note:
        click.echo(agent.note)
    return 0


@command.command()
@_agent_argument
@_yes_option
def remove(name: str, *, is_confirmed: bool) -> int:
    """Remove the hooks of Ash from the settings of a CLI, after showing the change.

    If the settings have not changed since, they are as before; else only the hooks are removed. A saved key stays.
    """
    agent, home = AGENTS[name], _home()
    path = agent.path()
    before = _read(path)
    with _naming(path):
        if not agent.form.commands(before):
            raise click.ClickException(f"{path} has no hooks of Ash.")
        original = read_original(home, name, path, before)
        after = original if original != before else agent.form.remove(before)
    _show_change(path, before, after)
    _confirm(is_confirmed)
    _replace(path, before, after)
    delete_record(home, name)
    return 0


@command.command()
def show() -> int:
    """Show which hooks are installed."""
    for agent in AGENTS.values():
        path = agent.path()
        click.echo(f"{agent.title}  {visible(str(path))}")
        try:
            commands = agent.form.commands(_read(path))
        except SettingsFileInvalid as error:
            click.echo(f"  {visible(error.detail)}")
            continue
        lines = [f"{event}: {visible(command)}" for event, command in commands.items()]
        click.echo("\n".join(f"  {line}" for line in lines or ["no hooks of Ash"]))
    click.echo(f"Log  {_home() / LOG}")
    return 0


@command.command(hidden=True)
@_agent_argument
@click.argument("document", required=False)
@url_option
def run(name: str, document: str | None, url: str | None) -> int:
    """The hook: read its input, and return at once. Never fails, since that could stop the turn."""
    click.echo(AGENTS[name].output, nl=False)
    try:
        text = sys.stdin.buffer.read() if document is None else document.encode()
        start(_program(), name, url, text)
    except (OSError, ValueError, AshError) as error:
        with suppress(OSError, AshError):
            log_error(error)
    return 0


@command.command("send", hidden=True)
@_agent_argument
@click.argument("paths", nargs=-1)
@click.option("--session")
@url_option
def send_transcripts(name: str, paths: tuple[str, ...], session: str | None, url: str | None) -> int:
    """The process that a hook starts."""
    send(_program(), name, url, paths, session)
    return 0


def _words(name: str, url: str | None) -> list[str]:
    return [
        *(["env", f"ASH_HOME={_home().absolute()}"] if os.environ.get("ASH_HOME") else []),
        _program(),
        "hooks",
        "run",
        name,
        *(["--url", url] if url else []),
    ]


def _program() -> str:
    """Return the path of the running command."""
    return os.path.abspath(shutil.which(sys.argv[0]) or sys.argv[0])


def _home() -> Path:
    return Settings.from_environment().home


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise SettingsFileInvalid(f"{path}: it is not UTF-8") from error


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file in errors."""
    try:
        yield
    except SettingsFileInvalid as error:
        raise SettingsFileInvalid(f"{path}: {error}; nothing was changed") from error


def _show_change(path: Path, before: str | None, after: str | None) -> None:
    if before == after:
        click.echo(f"{visible(str(path))} stays as it is.")
        return
    old, new = ((text or "").splitlines(keepends=True) for text in (before, after))
    name = visible(str(path))
    for line in difflib.unified_diff(old, new, name, name):
        click.echo(visible(line.removesuffix("\n")))


def _confirm(is_confirmed: bool) -> None:
    if not is_confirmed:
        click.confirm("Go on?", abort=True)


def _replace(path: Path, before: str | None, after: str | None) -> None:
    """Write the settings, unless another program has changed them. None: remove the file."""
    if _read(path) != before:
        raise SettingsFileInvalid(f"{path}: it has just been changed by another program; try again")
    if after is None:
        path.unlink()
    elif after != before:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else OWNER_ONLY
        write_file(path, after, mode)
