"""Options and argument checks that several commands share."""

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import rich_click as click

from ash_server.cli.common.output.terminal import warn

_Command = TypeVar("_Command", bound=Callable[..., Any])


def reject_empty(_: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Click callback: reject empty arguments."""
    values = value if isinstance(value, tuple) else (value,)
    if any(each is not None and not each.strip() for each in values):
        raise click.BadParameter("it is empty; `ash sessions` lists the sessions")
    return value


def warn_of_unknown_source(source: str | None) -> None:
    """Warn, without failing: the name may be mistyped, or belong to a format that a later version of Ash reads."""
    from ash_server.transfer.agents import declare
    from ash_shared.providers import discover  # imports the library, which help does not need

    source = declare(source).source
    if source is not None and source not in (known := discover()):
        warn(f"unknown source {source!r}; known sources: {', '.join(known)}")


def check_options(url: str | None, *, is_local: bool) -> None:
    """Raises UsageError for --local with --url."""
    if is_local and url:
        raise click.UsageError("--local and --url exclude each other.")


def local_only(advice: str) -> Callable[[_Command], _Command]:
    """Declare that a command only uses the local store: refuse --remote with `advice`, and warn if ASH_URL is set."""

    def decorate(command: _Command) -> _Command:
        @click.option("--remote", "is_remote", is_flag=True, hidden=True)
        @wraps(command)
        def with_option(*arguments: Any, is_remote: bool, **options: Any) -> Any:
            if is_remote:
                raise click.UsageError(f"--remote is not possible here: {advice}.")
            if named := os.environ.get("ASH_URL"):
                warn(f"using the local store, not {named} (ASH_URL)")
            return command(*arguments, **options)

        return with_option  # type: ignore[return-value]  # with one more option

    return decorate


json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document, for programs.")
source_option = click.option(
    "--source", metavar="NAME", help="The format or the agent, for example claude. Detected if omitted."
)
url_option = click.option(
    "--url", metavar="URL", help="The server; default: ASH_URL, else the server on this machine."
)
own_server_option = click.option(
    "--local", "is_local", is_flag=True, help="The server on this machine, even if ASH_URL is set."
)
within_option = click.option(
    "--within",
    multiple=True,
    hidden=True,
    type=click.Path(path_type=Path),
    help="Read only this user's files below this folder. For hooks.",
)
host_option = click.option("--host", help="Address to listen on; default: ASH_HOST, else 127.0.0.1.")
port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port to listen on; default: ASH_PORT, else 4100. 0: any free port.",
)
session_argument = click.argument("session", callback=reject_empty)
sessions_argument = click.argument("sessions", metavar="[SESSION...]", nargs=-1, callback=reject_empty)
