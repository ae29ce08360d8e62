"""The server of a command, and lookup of its sessions by reference."""

import os
import re
from collections.abc import Sequence
from uuid import UUID

from ash_client import ApiError, AshClient, Retry
from ash_client.connection import local_url
from ash_client.errors import NO_ANSWER
from ash_client.retry import NEVER
from ash_server.cli.common.options import check_options
from ash_server.cli.common.output.terminal import warn
from ash_server.cli.common.server_keys import saved_key
from ash_server.settings import Settings
from ash_server.store.sessions import AmbiguousSession
from ash_shared.model.session import Session

RETRYABLE_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504, 507})
FATAL_STATUSES = frozenset({401, 403, 405, 421})
"""Statuses that do not depend on the request: the server would reject any other request, too."""

_SESSIONS_PAGE = 1000


def server_at(url: str | None, retry: Retry = NEVER) -> AshClient:
    """Return the server at `url`, else at ASH_URL, else on this machine; requests have the key for it, if there is one.

    Raises ApiError.
    """
    address = url or default_url()
    return AshClient(address, key_for(address), retry=retry)


def key_for(url: str) -> str | None:
    """Return ASH_KEY, else the saved key for the URL. ASH_KEY is ignored if ASH_URL is another server."""
    key, named = os.environ.get("ASH_KEY"), os.environ.get("ASH_URL") or url
    if key and named.rstrip("/") == url.rstrip("/"):
        return key
    return saved_key(Settings.from_environment().home, url)


def is_unavailable(error: ApiError) -> bool:
    """True if the server may answer later."""
    return error.code == NO_ANSWER or error.status in RETRYABLE_STATUSES


def url_arguments(server: AshClient) -> list[str]:
    """Return the command-line arguments that select this server; none if it is the default."""
    return [] if server.url == default_url().rstrip("/") else ["--url", server.url]


def find_session(server: AshClient, reference: str) -> Session | None:
    """Return the session that matches `reference`. Raises AmbiguousSession."""
    return _single(reference, server.list_sessions(reference=reference).sessions)


def find_by_id_prefix(server: AshClient, reference: str) -> Session | None:
    """Find a session by id prefix, which needs the list of all sessions. Raises AmbiguousSession."""
    digits = _digits(reference)
    if not re.fullmatch("[0-9a-f]{1,32}", digits):
        return None
    sessions = server.sessions(archived="include", limit=_SESSIONS_PAGE)
    matches = [each for each in sessions if each.id.hex.startswith(digits)]
    return _single(reference, matches)


def short_id(id: UUID) -> str:
    """Return an id prefix that is unique enough; the whole id if it starts with the time (version 7)."""
    return str(id) if id.version == 7 else str(id)[:8]


def as_uuid(text: str) -> UUID | None:
    try:
        return UUID(text) if len(text) == 36 else None
    except ValueError:
        return None


def server_to_read(url: str | None, *, is_local: bool) -> str | None:
    """Return the URL of the option, else ASH_URL, else None; with --local, None.

    Raises UsageError, ApiError.
    """
    check_options(url, is_local=is_local)
    named = os.environ.get("ASH_URL") or None
    if not is_local:
        return url or named
    if named:
        warn(f"reading {own_url()}, not {named} (ASH_URL)")
    return None


def own_url() -> str:
    """Return the address of the server on this machine. Raises ApiError."""
    return local_url(Settings.from_environment().port)


def default_url() -> str:
    """Return ASH_URL, else the address of the server on this machine."""
    return os.environ.get("ASH_URL") or own_url()


def _single(reference: str, matches: Sequence[Session]) -> Session | None:
    if len(matches) > 1:
        raise AmbiguousSession.named(reference, matches)
    return matches[0] if matches else None


def _digits(id: str) -> str:
    return id.replace("-", "").lower()
