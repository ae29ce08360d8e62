"""`ash resume`: continue a session in the agent that wrote it."""

import os
import shlex
import shutil
import socket
import sys
from pathlib import Path
from typing import NoReturn

import rich_click as click

from ash_server.cli.common.options import session_argument
from ash_server.cli.common.output.terminal import visible, warn
from ash_server.cli.common.read_store import ReadStore, StoreToRead, reads_store, session_named
from ash_server.errors import AshError
from ash_shared.model.session import SessionResume
from ash_shared.parsing.resume import resume_command


class NotResumable(AshError):
    status, code, title = 409, "not_resumable", "The session cannot be continued here."


@click.command("resume")
@session_argument
@click.option("--print", "only_prints", is_flag=True, help="Only print the command, for a POSIX shell.")
@reads_store
def command(session: str, store: StoreToRead, *, only_prints: bool) -> int:
    """Continue a session in the agent that wrote it.

    SESSION is an id or its first characters, or a name (external id). Shows the folder and the command, and runs it
    there without a shell. The command is only printed for a session that another machine stored.

    \b
    ash resume 0d5c0a1e
    ash resume 0d5c0a1e --print
    """
    resume = store.read(lambda store: _find(store, session))
    if resume.arguments is None:
        raise NotResumable(resume.reason or "there is no command")
    if only_prints:
        click.echo(_shell_text(resume))
        return 0
    problem = _problem(resume, is_local=store.url is None)
    if problem is not None:
        click.echo(_shell_text(resume))
        warn(f"not run: {problem}")
        return 1
    return _run(resume.arguments, str(resume.folder))


async def _find(store: ReadStore, reference: str) -> SessionResume:
    return resume_command(await session_named(store, reference))


def _problem(resume: SessionResume, *, is_local: bool) -> str | None:
    """Return why the command cannot run on this machine."""
    if resume.machine not in _own_machines(is_local=is_local):
        return f"the session was stored by {_machine(resume.machine)}"
    if resume.folder is None:
        return "no record states the folder of the session; run it there"
    if not Path(resume.folder).is_dir():
        return f"there is no folder {resume.folder} on this machine"
    return None


def _own_machines(*, is_local: bool) -> tuple[str | None, ...]:
    """Return the machines of sessions that run here; one without a machine may be from any client of a server."""
    return (socket.gethostname(), None) if is_local else (socket.gethostname(),)


def _machine(name: str | None) -> str:
    return "an unknown machine" if name is None else f"another machine, {name}"


def _shell_text(resume: SessionResume) -> str:
    return visible(resume.command or shlex.join(resume.arguments or ()))


def _run(arguments: list[str], folder: str) -> NoReturn:
    """Replace this process by the agent. The program is looked up before the folder, which may be on the path, too."""
    program = shutil.which(arguments[0])
    if program is None:
        raise NotResumable(f"{arguments[0]} is not installed, or not on PATH")
    program = os.path.abspath(program)
    click.echo(f"folder   {visible(folder)}\ncommand  {visible(shlex.join(arguments))}")
    os.chdir(folder)
    sys.stdout.flush()
    os.execv(program, arguments)
