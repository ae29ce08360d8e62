"""Send the new spans of all sessions, once or until the process ends.

A session is read again when its counts or its time of change differ from those at its last reading. They are listed
before the session is read, so no message is missed, in whatever order writers commit. Only spans with new ids are sent.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from ash_client import ApiError
from ash_client.requests import SessionQuery
from ash_server.cli.common.client import is_unavailable
from ash_server.cli.common.error_messages import error_message
from ash_server.cli.common.output.terminal import counted, warn
from ash_server.cli.common.read_store import ReadStore, session_named
from ash_server.cli.forward.backend import Backend, BackendUnavailable, OtlpSpan
from ash_server.cli.forward.sent_spans import SentSpans
from ash_server.errors import AshError, DatabaseUnavailable, SessionNotFound, SessionTooLarge
from ash_shared.model.session import Session

MAX_SPANS, MAX_BYTES = 500, 4 * 1024 * 1024
"""Limits of a request, before compression."""
MAX_DOCUMENT_BYTES = 256 * 1024 * 1024
"""Size of the traces of a session."""
_SESSIONS_PAGE = 1000
_MIN_PAUSE = 2.0
_PAUSE_PER_SECOND, _PAUSE_PER_IDLE_SECOND = 3, 10
"""The pause after a pass, as a multiple of its duration; the second if nothing was sent."""
_MAX_PAUSE = 60.0
_IDLE = " idle"
"""Ends the state of a session when its last turn was sent, too."""
_SCOPE = "ash"


class ForwardOptions(NamedTuple):
    filters: SessionQuery
    sessions: Sequence[str]
    """References of sessions; empty for all."""
    idle: float
    """Seconds without a change after which the last turn is complete."""
    redacts: bool


@dataclass
class Sums:
    """Counts of a pass over the sessions."""

    spans: int = 0
    """Spans that the backend has accepted."""
    sessions: set[UUID] = field(default_factory=set)
    rejected: int = 0
    """Spans that the backend has rejected."""
    unread: int = 0
    """Sessions that are too large to export."""


class Forwarder:
    def __init__(self, store: ReadStore, backend: Backend, sent: SentSpans, options: ForwardOptions) -> None:
        self._store = store
        self._backend = backend
        self._sent = sent
        self._options = options
        self._states = sent.states()
        self._from_ash: dict[UUID, bool] = {}

    async def run_once(self, sums: Sums) -> None:
        """Send new spans, and count them. Raises BackendRefuses, BackendUnavailable, and errors of the store."""
        async with aclosing(self._sessions()) as sessions:
            async for session in sessions:
                await self._forward(session, sums)

    async def run(self, show: Callable[[Sums], None]) -> None:
        """Send new spans, again and again. Raises BackendRefuses."""
        was_available = True
        while True:
            start, sums = time.monotonic(), Sums()
            try:
                await self.run_once(sums)
                was_available = True
            except (ApiError, AshError, psycopg.OperationalError) as error:
                if not _is_temporary(error):
                    raise
                if was_available:
                    warn(f"{error_message(error)}; trying again")
                was_available = False
            finally:
                show(sums)
            times = _PAUSE_PER_SECOND if sums.sessions else _PAUSE_PER_IDLE_SECOND
            pause = max(_MIN_PAUSE, times * (time.monotonic() - start))
            await asyncio.sleep(min(pause, _MAX_PAUSE))

    async def _sessions(self) -> AsyncGenerator[Session, None]:
        if self._options.sessions:
            for reference in self._options.sessions:
                yield await session_named(self._store, reference)
            return
        filters: SessionQuery = {**self._options.filters, "limit": _SESSIONS_PAGE, "archived": "include"}
        async for session in self._store.sessions(**filters):
            yield session

    async def _forward(self, session: Session, sums: Sums) -> None:
        state, known = _state(session), self._states.get(session.id)
        is_idle = self._is_idle(session)
        if known is not None and known.removesuffix(_IDLE) == state and (known != state or not is_idle):
            return
        if session.message_count and not await self._is_from_ash(session):
            try:
                is_idle = await self._send(session, sums, is_idle=is_idle)
            except (ApiError, AshError) as error:
                if getattr(error, "code", None) == SessionNotFound.code:
                    return  # deleted meanwhile
                if getattr(error, "code", None) != SessionTooLarge.code:
                    raise
                sums.unread += 1
                warn(f"{session.id}: {error_message(error)}")
        state += _IDLE if is_idle else ""
        self._sent.set_state(session.id, state)
        self._states[session.id] = state

    async def _send(self, session: Session, sums: Sums, *, is_idle: bool) -> bool:
        """Send the new spans, and return whether the last turn was complete."""
        document = await self._read(session.id)
        if is_idle:  # unless it has changed since it was listed
            [now] = await self._store.get_sessions([session.id]) or [session]
            is_idle = _state(now) == _state(session)
        sent = self._sent.spans(session.id)
        for by_resource in document["resourceSpans"]:
            for by_scope in by_resource["scopeSpans"]:
                spans = by_scope["spans"] if is_idle else complete_spans(by_scope["spans"])
                new = [span for span in spans if span["spanId"] not in sent]
                for batch in batches(new):
                    receipt = await self._backend.send(by_resource["resource"], by_scope["scope"], batch)
                    self._sent.add(session.id, (span["spanId"] for span in batch))
                    sums.spans += len(batch) - receipt.rejected
                    sums.rejected += receipt.rejected
                    sums.sessions.add(session.id)
                    if receipt.rejected or receipt.reason:
                        problem = f"{counted(receipt.rejected, 'span')} of {session.id} rejected"
                        warn(f"{problem}: {receipt.reason}" if receipt.reason else problem)
        return is_idle

    async def _read(self, session_id: UUID) -> Any:
        """Return the whole document, because only its end shows which spans are complete. Raises SessionTooLarge."""
        content = bytearray()
        async with aclosing(self._store.stream_otlp(session_id, redacts=self._options.redacts)) as parts:
            async for part in parts:
                content += part
                if len(content) > MAX_DOCUMENT_BYTES:
                    raise SessionTooLarge
        return await asyncio.to_thread(json.loads, content)

    def _is_idle(self, session: Session) -> bool:
        return (datetime.now(UTC) - session.updated_at).total_seconds() >= self._options.idle

    async def _is_from_ash(self, session: Session) -> bool:
        """True for a session of spans that Ash has sent: servers that forward to each other would send them forever."""
        if session.source != "otel":
            return False
        if session.id not in self._from_ash:
            page = await self._store.list_messages(session.id, limit=1, parsed=False)
            self._from_ash[session.id] = any(_scope(str(each.content)) == _SCOPE for each in page.messages)
        return self._from_ash[session.id]


def complete_spans(spans: Sequence[OtlpSpan]) -> list[OtlpSpan]:
    """Return the spans that no later message changes: without the last turn and the last answer.

    Results of calls do not end an answer: its other parts and its usage may follow.
    """
    if not spans:
        return []
    turn = spans[-1]["spanId"]  # ends its trace
    answer = next((span["spanId"] for span in reversed(spans) if span["name"].startswith("chat")), None)
    return [span for span in spans if span["spanId"] not in (turn, answer)]


def batches(spans: Sequence[OtlpSpan]) -> Iterator[list[OtlpSpan]]:
    """Yield the spans in parts of at most MAX_SPANS and MAX_BYTES; a larger span is alone."""
    batch: list[OtlpSpan] = []
    total = 0
    for span in spans:
        size = len(json.dumps(span, ensure_ascii=False).encode())
        if batch and (total + size > MAX_BYTES or len(batch) == MAX_SPANS):
            yield batch
            batch, total = [], 0
        batch.append(span)
        total += size
    if batch:
        yield batch


def _state(session: Session) -> str:
    return f"{session.message_count} {session.event_count} {session.updated_at.isoformat()}"


def _scope(content: str) -> Any:
    try:
        return json.loads(content)["resourceSpans"][0]["scopeSpans"][0]["scope"]["name"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def _is_temporary(error: Exception) -> bool:
    if isinstance(error, ApiError):
        return is_unavailable(error)
    return isinstance(error, (BackendUnavailable, DatabaseUnavailable, psycopg.OperationalError))
