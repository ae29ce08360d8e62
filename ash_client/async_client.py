"""The asynchronous client. `make client` generates `sync_client` from it."""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Self, TypeVar, Unpack

import httpx2

from ash_client import connection, requests
from ash_client.connection import SILENCE_SECONDS
from ash_client.errors import ApiError
from ash_client.own_writes import OwnWrites
from ash_client.requests import (
    ChangesQuery,
    CountQuery,
    EventQuery,
    LabelUpdate,
    MessageQuery,
    MessageToAppend,
    NewSessionFields,
    Request,
    SearchQuery,
    SessionId,
    SessionQuery,
    SessionUpdate,
    UsageQuery,
)
from ash_client.retry import NEVER, Attempts, Retry
from ash_client.server_events import ServerEvent, ServerEventParser
from ash_shared.model.events import ChatEvent
from ash_shared.model.health import Health
from ash_shared.model.message import Message
from ash_shared.model.pages import AppendedMessage, EventPage, MessageComparison, MessagePage, SearchPage
from ash_shared.model.reports.changes import SessionChanges
from ash_shared.model.reports.comparison import SessionComparison
from ash_shared.model.reports.facts import SessionFacts
from ash_shared.model.reports.projects import ProjectPage
from ash_shared.model.reports.session_counts import SessionCounts
from ash_shared.model.session import Session, SessionPage, SessionResume, TagList
from ash_shared.model.shares import FindingList
from ash_shared.model.usage.budgets import BudgetPage
from ash_shared.model.usage.report import UsageReport

T = TypeVar("T")


class AsyncAshClient:
    """A connection to a server, for tasks on a single event loop. Every method raises ApiError."""

    def __init__(self, url: str, key: str | None = None, *, retry: Retry = Retry()) -> None:  # noqa: B008
        """Raises ApiError for a URL that does not begin with http:// or https://."""
        self.url = connection.check_url(url)
        """Without a trailing slash."""
        self._retry = retry
        self._written = OwnWrites()
        self._http = httpx2.AsyncClient(**connection.options(self.url, key))

    @classmethod
    def from_env(cls, *, retry: Retry = Retry()) -> Self:  # noqa: B008  # immutable
        """Connect to ASH_URL, by default the server on this machine, with the key ASH_KEY, if it is set."""
        return cls(*connection.from_environment(os.environ), retry=retry)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def health(self) -> Health:
        """Return the versions of the server. Needs no key."""
        return await self.send(requests.get_health())

    async def check_version(self) -> None:
        """Raises ApiError `other_version` if this client cannot work with the server."""
        requests.check_version(await self.health())

    async def list_sessions(self, **query: Unpack[SessionQuery]) -> SessionPage:
        """Return a page, most recent activity first; `next_after` is the `after` of the next page."""
        return await self.send(requests.list_sessions(**query))

    async def sessions(self, **query: Unpack[SessionQuery]) -> AsyncGenerator[Session, None]:
        """Yield all sessions, page by page."""
        while True:
            page = await self.list_sessions(**query)
            for session in page.sessions:
                yield session
            if page.next_after is None:
                return
            query["after"] = page.next_after

    async def count_sessions(self, **query: Unpack[CountQuery]) -> SessionCounts:
        """Count sessions by the values of each filter. A filter does not narrow its own counts."""
        return await self.send(requests.count_sessions(**query))

    async def get_session(self, session: SessionId) -> Session:
        return await self.send(requests.get_session(session))

    async def get_resume(self, session: SessionId) -> SessionResume:
        """Return the command that continues the session in its agent, or the reason why there is none."""
        return await self.send(requests.get_resume(session))

    async def list_findings(self, session: SessionId) -> FindingList:
        """Return the kinds and places of the secrets in a session, never their values."""
        return await self.send(requests.list_findings(session))

    async def get_facts(self, session: SessionId) -> SessionFacts:
        """Return the place and the counts of a session, its tools, files and last plan."""
        return await self.send(requests.get_facts(session))

    async def get_changes(self, session: SessionId, **query: Unpack[ChangesQuery]) -> SessionChanges:
        """Return the changed files; `turn` and `path` select some."""
        return await self.send(requests.get_changes(session, **query))

    async def compare_sessions(self, a: SessionId, b: SessionId) -> SessionComparison:
        """Return the facts, tools, files and prompts of two sessions side by side."""
        return await self.send(requests.compare_sessions(a, b))

    async def create_session(self, **fields: Unpack[NewSessionFields]) -> Session:
        """Create a session; with an `external_id`, return the existing session with the same source and name."""
        return await self.send(requests.create_session(**fields))

    async def update_session(self, session: SessionId, **changes: Unpack[SessionUpdate]) -> Session:
        """Change the title, or replace the metadata as a whole."""
        return await self.send(requests.update_session(session, **changes))

    async def update_labels(self, session: SessionId, **changes: Unpack[LabelUpdate]) -> Session:
        """Change the star, the archive, tags or the note; absent fields stay as they are."""
        return await self.send(requests.update_labels(session, **changes))

    async def list_projects(
        self, *, after: str | None = None, limit: int = 100, usage: bool = False
    ) -> ProjectPage:
        """Return a page of projects, most recent activity first; `next_after` is the `after` of the next page."""
        return await self.send(requests.list_projects(after, limit, usage=usage))

    async def list_tags(self) -> TagList:
        """Return the tags of sessions that are not archived, most used first."""
        return await self.send(requests.list_tags())

    async def delete_session(self, session: SessionId, *, expected_sequence: int | None = None) -> None:
        """Delete a session with its messages and events, if it ends with this sequence."""
        await self.send(requests.delete_session(session, expected_sequence))

    async def end_session(self, session: SessionId) -> None:
        """Close the open texts, tool calls and turns of a stream that has ended."""
        await self.send(requests.end_session(session))

    async def append(
        self,
        session: SessionId,
        messages: Iterable[str | bytes | MessageToAppend],
        *,
        source: str | None = None,
    ) -> list[AppendedMessage]:
        """Store texts verbatim, in batches, and return one entry per text.

        Each text has an id, so a retry stores it once: the one it is given, else one derived from the provider's own id
        in the text, else a random one. If a batch is refused, those before it are stored.
        """
        return [
            each for batch in requests.append(session, messages, source) for each in await self.send(batch)
        ]

    async def commit(
        self,
        session: SessionId,
        messages: Iterable[MessageToAppend] = (),
        *,
        metadata: Mapping[str, Any] | None = None,
        expected_sequence: int | None = None,
    ) -> list[AppendedMessage]:
        """Append messages and change metadata in one transaction, if the session ends with this sequence.

        `metadata` is merged into the session's metadata, key by key; None removes a key. Repeating a commit changes
        nothing if all messages are stored; if only some are stored, the metadata stays as it is. Without messages, only
        the metadata changes. Raises ApiError `sequence_mismatch` with the `currentSequence` in its problem.
        """
        return await self.send(requests.commit(session, messages, metadata, expected_sequence))

    async def compare_messages(self, session: SessionId, contents: Mapping[str, bytes]) -> MessageComparison:
        """Compare texts, by message id, with the stored ones, up to the first that differs; only digests are sent."""
        return await self.send(requests.compare_messages(session, contents))

    async def list_messages(self, session: SessionId, **query: Unpack[MessageQuery]) -> MessagePage:
        """Return a page of messages with their typed blocks, in ascending order."""
        return await self.send(requests.list_messages(session, **query))

    async def messages(
        self, session: SessionId, **query: Unpack[MessageQuery]
    ) -> AsyncGenerator[Message, None]:
        """Yield all messages after `after`, page by page."""
        while True:
            page = await self.list_messages(session, **query)
            for message in page.messages:
                yield message
            if page.next_after is None:
                return
            query["after"] = page.next_after

    async def delete_message(self, session: SessionId, sequence: int) -> None:
        """Delete the text of a message and everything derived from it; its sequence is not used again."""
        await self.send(requests.delete_message(session, sequence))

    async def pop_message(self, session: SessionId) -> Message | None:
        """Delete the last message and return it; None if there is none. Not repeated if the answer is lost."""
        try:
            return await self.send(requests.pop_message(session))
        except ApiError as error:
            if error.code != "message_not_found":
                raise
            return None

    async def list_events(self, session: SessionId, **query: Unpack[EventQuery]) -> EventPage:
        """Return a page of events, in ascending order."""
        return await self.send(requests.list_events(session, **query))

    async def events(
        self, session: SessionId, **query: Unpack[EventQuery]
    ) -> AsyncGenerator[ChatEvent, None]:
        """Yield all stored events after `after`, page by page."""
        while True:
            page = await self.list_events(session, **query)
            for event in page.events:
                yield event
            if page.next_after is None:
                return
            query["after"] = page.next_after

    async def post_events(self, session: SessionId, events: Sequence[Mapping[str, Any]]) -> None:
        await self.send(requests.post_events(session, events))

    async def follow(
        self, session: SessionId, *, after: int = 0, collapse: bool = False
    ) -> AsyncGenerator[ChatEvent, None]:
        """Yield the events after a sequence, then each new one; each once and in order, across lost connections.

        Ends with an ApiError: `session_not_found` if the session is deleted, `cursor_ahead` if it is replaced by a
        shorter one, or the last error if the server does not answer for the time of `retry`.
        """
        attempts = Attempts(self._retry)
        while True:
            try:
                stream = self.stream_events(session, after=after, collapse=collapse)
                async with aclosing(stream) as events:
                    async for event in events:
                        attempts.succeed()
                        if event.sequence is not None and event.sequence > after:
                            after = event.sequence
                            yield event.read()
            except ApiError as error:
                await asyncio.sleep(attempts.delay_after(error))

    async def stream_events(
        self, session: SessionId, *, after: int = 0, collapse: bool = False
    ) -> AsyncGenerator[ServerEvent, None]:
        """Yield server-sent events, without typing them. Raises ApiError when the connection is lost."""
        parser = ServerEventParser()
        request = requests.follow(session, after, collapse=collapse)
        async with self.open(request, accept="text/event-stream", silence=SILENCE_SECONDS) as response:
            async for chunk in response.aiter_raw():
                for event in parser.feed(chunk):
                    if event.name == "closed" and event.sequence is None:
                        raise connection.closed(self.url, event)
                    yield event
        raise connection.closed(self.url)

    async def search(self, q: str, **query: Unpack[SearchQuery]) -> SearchPage:
        """Search the texts of all sessions, newest results first."""
        return await self.send(requests.search(q, **query))

    async def get_usage(self, **query: Unpack[UsageQuery]) -> UsageReport:
        """Return tokens and costs at API prices, by day or by other dimensions."""
        return await self.send(requests.get_usage(**query))

    async def list_budgets(self) -> BudgetPage:
        """Return the budgets, each with the cost of its current period."""
        return await self.send(requests.list_budgets())

    async def export(self, session: SessionId, format: str = "jsonl") -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the imported file in chunks; with the format `events`, the events, one per line."""
        async with self.open(requests.export(session, format), accept="application/x-ndjson") as response:
            async for chunk in response.aiter_raw():
                yield chunk

    async def send(self, request: Request[T], retry: Retry | None = None) -> T:
        """Send a request until it is answered, and return the answer. `retry` replaces the client's `retry`."""
        try:
            return await self._send(request, retry or self._retry)
        except ApiError as error:
            if requests.may_be_other_version(request, error):
                await self._check_version_once()
            raise

    async def _check_version_once(self) -> None:
        """Raises ApiError `other_version` if the server says that it has another version."""
        try:
            health = await self._send(requests.get_health(), NEVER)
        except ApiError:
            return
        requests.check_version(health)

    async def _send(self, request: Request[T], retry: Retry) -> T:
        attempts = Attempts(retry, is_repeatable=request.is_repeatable)
        while True:
            try:
                async with self.open(request) as response:
                    answer = request.answer(await response.aread())
            except ApiError as error:
                await asyncio.sleep(attempts.delay_after(error))
            else:
                attempts.succeed()
                self._written.add(request, answer)
                return answer

    @asynccontextmanager
    async def open(
        self,
        request: Request[Any],
        *,
        accept: str = "application/json",
        silence: float = connection.TIMEOUT_SECONDS,
    ) -> AsyncGenerator[httpx2.Response, None]:
        """Send a request once, and yield the response before its body is read."""
        with connection.translated_errors(self.url):
            async with self._http.stream(
                **connection.arguments(self.url, request, self._written, accept, silence)
            ) as response:
                if response.status_code >= 400:
                    raise connection.to_error(response, await response.aread())
                yield response
