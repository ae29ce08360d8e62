"""The server of a command, and lookup of its sessions by reference."""

import os
import re
from collections.abc import Sequence
from uuid import UUID

from ash_client import ApiError, AshClient, Retry
from ash_client.errors import NO_ANSWER
from ash_client.retry import NEVER
from ash_server.cli.server_keys import saved_key
from ash_server.db.sessions import AmbiguousSession
from ash_server.settings import Settings
from ash_shared.model.session import Session

RETRYABLE_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504, 507})
FATAL_STATUSES = frozenset({401, 403, 405, 421})
"""Statuses that do not depend on what is sent: the server would reject everything else, too."""

_SESSIONS_PAGE = 1000


def server_at(url: str | None, retry: Retry = NEVER) -> AshClient:
    """Return the server at `url`, else at ASH_URL, else on this machine; requests have the key for it, if there is one.

    Raises ApiError.
    """
    address = url or default_url()
    return AshClient(address, key_for(address), retry=retry)


def key_for(url: str) -> str | None:
    """Return ASH_KEY, else the saved key of this server; only the saved one if ASH_URL names another server."""
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
    """Find a session by external id, id, or id prefix. Raises AmbiguousSession."""
    if (id := as_uuid(reference)) is not None:
        return _get_session(server, id)
    sessions = server.sessions(q=reference, limit=_SESSIONS_PAGE)
    matches = [each for each in sessions if each.external_id == reference]
    return _single(reference, matches) if matches else find_by_id_prefix(server, reference)


def find_by_id_prefix(server: AshClient, reference: str) -> Session | None:
    """Find a session by id prefix, which needs the list of all sessions. Raises AmbiguousSession."""
    if not may_be_id_prefix(reference):
        return None
    digits = _digits(reference)
    matches = [each for each in server.sessions(limit=_SESSIONS_PAGE) if each.id.hex.startswith(digits)]
    return _single(reference, matches)


def may_be_id_prefix(reference: str) -> bool:
    return re.fullmatch("[0-9a-f]{1,32}", _digits(reference)) is not None


def short_id(id: UUID) -> str:
    """Return an id prefix that is unique enough; the whole id if it starts with the time (version 7)."""
    return str(id) if id.version == 7 else str(id)[:8]


def as_uuid(text: str) -> UUID | None:
    try:
        return UUID(text) if len(text) == 36 else None
    except ValueError:
        return None


def default_url() -> str:
    """Return ASH_URL, else the address of the server on this machine."""
    return os.environ.get("ASH_URL") or f"http://127.0.0.1:{Settings.from_environment().port}"


def _single(reference: str, matches: Sequence[Session]) -> Session | None:
    if len(matches) > 1:
        raise AmbiguousSession.named(reference, matches)
    return matches[0] if matches else None


def _digits(id: str) -> str:
    return id.replace("-", "").lower()


def _get_session(server: AshClient, id: UUID) -> Session | None:
    try:
        return server.get_session(id)
    except ApiError as error:
        if error.code == "session_not_found":
            return None
        raise
