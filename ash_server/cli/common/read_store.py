"""The store that a command reads: the local one, or a server at --url or ASH_URL.

Both have the methods of `AsyncAshClient`, so a command is written once.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, NamedTuple, TypeAlias, TypeVar

import rich_click as click

from ash_client import ApiError
from ash_client.retry import NEVER
from ash_server.cli.common.client import key_for
from ash_server.cli.common.local_store import LocalStore
from ash_server.cli.common.options import check_options
from ash_server.cli.common.output.terminal import warn
from ash_server.cli.common.server_store import ServerStore
from ash_server.cli.common.store import Result, with_store
from ash_server.errors import AshError, SessionNotFound
from ash_server.store.sessions import AmbiguousSession
from ash_shared.model.session import Session

_Command = TypeVar("_Command", bound=Callable[..., Any])

StoreError = (AshError, ApiError)
"""Errors of the methods of both stores; each has a `code`."""

ReadStore: TypeAlias = LocalStore | ServerStore


class StoreToRead(NamedTuple):
    """The store that the options and ASH_URL select."""

    url: str | None
    """None selects the local store."""
    notice: str | None
    """Printed if this is not the default store."""

    def read(self, work: Callable[[ReadStore], Awaitable[Result]]) -> Result:
        """Run `work` with the store. Raises ApiError for a server that does not answer."""
        if self.notice is not None:
            warn(self.notice)
        if self.url is None:
            return with_store(lambda store: work(LocalStore(store)))
        return asyncio.run(_read_server(self.url, work))


async def _read_server(url: str, work: Callable[[ReadStore], Awaitable[Result]]) -> Result:
    async with ServerStore(url, key_for(url), retry=NEVER) as server:
        return await work(server)


def store_to_read(url: str | None, *, is_local: bool) -> StoreToRead:
    """Return the store of the options, else the server at ASH_URL, else the local store. Raises UsageError."""
    named = os.environ.get("ASH_URL") or None
    check_options(url, is_local=is_local)
    if is_local:
        return StoreToRead(None, f"reading the local store, not {named} (ASH_URL)" if named else None)
    address = url or named
    return StoreToRead(address, f"reading {address}" if address else None)


def reads_store(command: _Command) -> _Command:
    """Add the options --url and --local, and pass the store that they select as `store`, a `StoreToRead`."""

    @click.option("--url", metavar="URL", help="A server; default: ASH_URL, else the local store.")
    @click.option("--local", "is_local", is_flag=True, help="The local store, even if ASH_URL is set.")
    @wraps(command)
    def with_options(*arguments: Any, url: str | None, is_local: bool, **options: Any) -> Any:
        return command(*arguments, store=store_to_read(url, is_local=is_local), **options)

    return with_options  # type: ignore[return-value]  # with two more options


async def session_named(store: ReadStore, reference: str) -> Session:
    """Return the session with this id, id prefix, or name. Raises SessionNotFound, AmbiguousSession."""
    matches = (await store.list_sessions(reference=reference)).sessions
    if not matches:
        raise SessionNotFound(f"no session matches {reference!r}; `ash sessions` lists them")
    if len(matches) > 1:
        raise AmbiguousSession.named(reference, matches)
    return matches[0]
