"""The store that a command changes: the local one, or with --remote the server at --url or ASH_URL."""

import os
import sys
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import rich_click as click

from ash_server.cli.common.local_store import LocalStore
from ash_server.cli.common.output.terminal import visible, warn
from ash_server.cli.common.read_store import ReadStore, StoreToRead, store_to_read
from ash_server.cli.common.store import Result

_Command = TypeVar("_Command", bound=Callable[..., Any])


class StoreToChange(NamedTuple):
    """The store that the options select, and the confirmation of the change."""

    url: str | None
    is_remote: bool
    is_local: bool
    is_confirmed: bool

    def change(self, work: Callable[[ReadStore], Awaitable[Result]]) -> Result:
        """Run `work` with the store. It calls `confirm` before the change. Raises UsageError."""
        return self._selected().read(work)

    def read(self, work: Callable[[ReadStore], Awaitable[Result]]) -> Result:
        """Run `work`, which changes nothing, with the store that other commands read. Raises UsageError."""
        return store_to_read(self.url, is_local=self.is_local).read(work)

    def _selected(self) -> StoreToRead:
        named = os.environ.get("ASH_URL") or None
        if not self.is_remote:
            if self.url:
                raise click.UsageError("--url needs --remote.")
            return StoreToRead(None, f"changing the local store, not {named} (ASH_URL)" if named else None)
        if self.is_local:
            raise click.UsageError("--local and --remote exclude each other.")
        if not (self.url or named):
            raise click.UsageError("--remote needs --url or ASH_URL.")
        if self.is_confirmed and not self.url:
            raise click.UsageError("With --remote, --yes needs --url.")
        return StoreToRead(self.url or named, None)

    async def confirm(self, store: ReadStore, action: str, *, asks_locally: bool = False) -> None:
        """Ask before an `action` such as `Delete 3 sessions`, on a server always. Raises Abort, UsageError."""
        if isinstance(store, LocalStore):
            if asks_locally and not self.is_confirmed:
                _ask(action)
            return
        question = f"{action} of the tenant {visible((await store.get_key()).tenant)} at {store.url}"
        if self.is_confirmed:
            warn(question)
        else:
            _ask(question)


def _ask(question: str) -> None:
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError("Nothing is changed without --yes.")
    click.confirm(f"{question}?", abort=True, err=True)


def changes_store(command: _Command) -> _Command:
    """Add the options --remote, --url and --yes, and pass `store`, a `StoreToChange`."""

    @click.option("--remote", "is_remote", is_flag=True, help="Change the server at --url or ASH_URL.")
    @click.option("--url", metavar="URL", help="The server for --remote; default: ASH_URL.")
    @click.option(
        "--yes", "is_confirmed", is_flag=True, help="Do not ask. With --remote, only together with --url."
    )
    @wraps(command)
    def with_options(
        *arguments: Any,
        is_remote: bool,
        url: str | None,
        is_confirmed: bool,
        is_local: bool = False,
        **options: Any,
    ) -> Any:
        store = StoreToChange(url, is_remote, is_local, is_confirmed)
        return command(*arguments, store=store, **options)

    return with_options  # type: ignore[return-value]  # with three more options


def changes_or_reads_store(command: _Command) -> _Command:
    """Add also --local, for a command that only reads in some of its forms (`StoreToChange.read`)."""
    local = click.option(
        "--local", "is_local", is_flag=True, help="Read the local store, even if ASH_URL is set."
    )
    return local(changes_store(command))
