"""The writes of a client, so that a lagging replica of the server does not return an older state."""

import re
import time
from typing import Any
from urllib.parse import unquote

from ash_client.requests import Request
from ash_shared.model.pages import AppendedMessage

_HEADER = "Ash-Sequence"
_CURRENT_SECONDS = 60.0
"""Longer than any lag of a replica that servers read from, which is at most 30 seconds."""
_MAX_SESSIONS = 1000
_SESSION = re.compile(r"/api/sessions/([^/]+)")


class OwnWrites:
    def __init__(self) -> None:
        self._sequences: dict[str, int] = {}
        """The last sequence that was appended to each session."""
        self._appended_until = self._changed_until = 0.0

    def headers(self, request: Request[Any]) -> dict[str, str]:
        """Return the header that names the writes that the answer must include."""
        if request.method != "GET":
            return {}
        now, session = time.monotonic(), _session_of(request)
        sequence = None if session is None else self._sequences.get(session)
        if now < self._changed_until or (session is None and now < self._appended_until):
            return {_HEADER: "current"}
        return {} if sequence is None else {_HEADER: f"messages={sequence}"}

    def add(self, request: Request[Any], answer: object) -> None:
        """Record the writes of a request."""
        if request.method == "GET" or request.path.endswith("/messages/compare"):
            return
        until = time.monotonic() + _CURRENT_SECONDS
        session = _session_of(request)
        is_append = request.path.endswith("/messages") and not request.changes_session
        if session is not None and is_append and isinstance(answer, list):
            self._appended_until = until
            self._add_sequences(session, answer)
            return
        self._changed_until = until
        if session is not None and request.method == "DELETE" and request.path.endswith(session):
            self._sequences.pop(session, None)

    def _add_sequences(self, session: str, answer: list[object]) -> None:
        sequences = [each.sequence for each in answer if isinstance(each, AppendedMessage)]
        self._sequences[session] = max([*sequences, self._sequences.pop(session, 0)])
        if len(self._sequences) > _MAX_SESSIONS:
            del self._sequences[next(iter(self._sequences))]


def _session_of(request: Request[Any]) -> str | None:
    match = _SESSION.match(request.path)
    return unquote(match[1]) if match else None
