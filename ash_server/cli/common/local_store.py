"""The local store with the methods of a server's client."""

import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any, Unpack, cast
from uuid import UUID

from ash_client.requests import (
    ChangesQuery,
    EventQuery,
    LabelUpdate,
    MessageQuery,
    SearchQuery,
    SessionQuery,
    SessionUpdate,
    UsageQuery,
)
from ash_server.budgets.budgets import NewBudget, list_budgets, set_budget
from ash_server.cli.common.output.terminal import counted, warn
from ash_server.cli.common.server_store import StandardPage
from ash_server.keys.shares import ShareOptions, list_shares, share_session
from ash_server.retention.cold_policy import (
    NewColdPolicy,
    end_cold_policy,
    get_cold_policy,
    run_cold_policy,
    set_cold_policy,
)
from ash_server.retention.policy import (
    NewRetention,
    end_retention,
    get_retention,
    run_retention,
    set_retention,
)
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.drift import DriftReport
from ash_server.store.log.events import page_json, parse_types
from ash_server.store.message_pages import StoredMessage, to_message
from ash_server.store.usage.reports import default_prices
from ash_server.transfer.exporting.jsonl import FORMATS
from ash_server.transfer.findings import list_findings
from ash_shared.model.message import Message
from ash_shared.model.pages import MessagePage, SearchPage
from ash_shared.model.reports.changes import SessionChanges
from ash_shared.model.reports.cold import ColdPolicy, ColdRun
from ash_shared.model.reports.comparison import SessionComparison
from ash_shared.model.reports.facts import SessionFacts
from ash_shared.model.reports.projects import ProjectPage
from ash_shared.model.reports.retention import RetentionPolicy, RetentionRun
from ash_shared.model.session import Session, SessionPage
from ash_shared.model.shares import FindingList, NewShare, ShareList
from ash_shared.model.usage.budgets import BudgetPage, SetBudget
from ash_shared.model.usage.report import UsageReport

_MANY_PENDING = 20_000
"""Announce indexing if more events than this are pending, since it takes a while."""

_KEEP_SECONDS = 0.25
"""Time for the costs of sessions that a list by cost would compute each time."""

_INDEX_TIMEOUT = 2.0
"""Seconds to wait for another process, such as a server, that is indexing."""


class LocalStore:
    """The methods of `ServerStore`, on the local store."""

    url = None

    def __init__(self, store: Store) -> None:
        self.store = store

    async def list_sessions(self, **query: Unpack[SessionQuery]) -> SessionPage:
        filters: dict[str, Any] = dict(query)
        with_usage, with_activity = filters.pop("usage", False), filters.pop("activity", False)
        if filters.get("sort") == "cost" and not filters.get("after"):  # later pages are in the same order
            await self.store.usage.keep_costs(seconds=_KEEP_SECONDS)
        page = await self.store.sessions.list_sessions(**filters)
        if with_activity:
            sessions = await self.store.sessions.with_activity(page.sessions)
            page = page.model_copy(update={"sessions": sessions})
        return await self.store.usage.add_to(page) if with_usage else page

    async def list_projects(
        self, *, after: str | None = None, limit: int = 100, usage: bool = False
    ) -> ProjectPage:
        prices = await default_prices() if usage else None
        return await self.store.sessions.list_projects(after=after, limit=limit, prices=prices)

    async def sessions(self, **query: Unpack[SessionQuery]) -> AsyncGenerator[Session, None]:
        while True:
            page = await self.list_sessions(**query)
            for session in page.sessions:
                yield session
            if page.next_after is None:
                return
            query["after"] = page.next_after

    async def get_sessions(self, ids: Iterable[UUID]) -> list[Session]:
        return await self.store.sessions.get_many(list(ids))

    async def list_messages(self, session: UUID, **query: Unpack[MessageQuery]) -> MessagePage:
        filters: Any = dict(query)
        filters.pop("content", None)
        parsed = filters.pop("parsed", True)
        if "kind" in filters:
            filters["kinds"] = filters.pop("kind").split(",")
        rows, cursors = await self.store.messages.list_page(session, **filters)
        messages = [to_message(session, row, parsed=parsed) for row in cast(list[StoredMessage], rows)]
        return MessagePage(
            messages=messages, next_after=cursors.get("nextAfter"), prev_before=cursors.get("prevBefore")
        )

    async def get_facts(self, session: UUID) -> SessionFacts:
        return await self.store.sessions.get_facts(session)

    async def get_changes(self, session: UUID, **query: Unpack[ChangesQuery]) -> SessionChanges:
        return await self.store.conversation.read_changes(session, **query)

    async def compare_sessions(self, a: UUID, b: UUID) -> SessionComparison:
        return await self.store.conversation.compare(a, b)

    async def get_message(self, session: UUID, sequence: int) -> Message:
        return await self.store.messages.get_message_parsed(session, sequence)

    async def list_standard_messages(self, session: UUID, *, after: int, limit: int) -> StandardPage:
        page = await self.store.conversation.get_page(session, after=after, limit=limit)
        return StandardPage([message.model_dump_json() for message in page.messages], page.next_after)

    async def events_page(self, session: UUID, **query: Unpack[EventQuery]) -> bytes:
        filters: Any = dict(query)
        types = filters.pop("type", None)
        filters["types"] = None if types is None else parse_types(types)
        return page_json(*await self.store.events.get_stored_page(session, **filters))

    async def search(self, q: str, **query: Unpack[SearchQuery]) -> SearchPage:
        """Index all pending events first, without a time limit, so that the search covers everything stored."""
        filters: Any = dict(query)
        pending = await _index_pending(self.store)
        page = await self.store.search.find(q, **filters)
        return page.model_copy(update={"pending": pending}) if pending else page

    async def read_lines(self, session: UUID, format: str, *, redacts: bool) -> AsyncGenerator[bytes, None]:
        async with aclosing(FORMATS[format].export(self.store, session, redacts=redacts)) as chunks:
            async for chunk in chunks:
                yield chunk

    def stream_atif(self, session: UUID, *, redacts: bool) -> AsyncGenerator[bytes, None]:
        return self.store.conversation.stream_atif(session, redacts=redacts)

    def stream_otlp(self, session: UUID, *, redacts: bool) -> AsyncGenerator[bytes, None]:
        return self.store.conversation.stream_otlp(session, redacts=redacts)

    async def read_drift(self, *, limit: int) -> DriftReport:
        return await self.store.drift.report(limit=limit)

    async def get_usage(self, **query: Unpack[UsageQuery]) -> UsageReport:
        filters: Any = dict(query)
        return await self.store.usage.report(**filters)

    async def list_budgets(self) -> BudgetPage:
        return await list_budgets(self.store)

    async def set_budget(self, new: NewBudget) -> SetBudget:
        return await set_budget(self.store, Settings.load(), new)

    async def delete_budget(self, budget: UUID) -> None:
        await self.store.budgets.delete(self.store.tenant, budget)

    async def get_retention(self) -> RetentionPolicy:
        return await get_retention(self.store)

    async def set_retention(self, new: NewRetention) -> RetentionPolicy:
        return await set_retention(self.store, new)

    async def end_retention(self) -> None:
        await end_retention(self.store)

    async def run_retention(self, *, is_dry_run: bool) -> RetentionRun:
        return await run_retention(self.store, is_dry_run=is_dry_run)

    async def get_cold_policy(self) -> ColdPolicy:
        return await get_cold_policy(self.store)

    async def set_cold_policy(self, new: NewColdPolicy) -> ColdPolicy:
        return await set_cold_policy(self.store, new)

    async def end_cold_policy(self) -> None:
        await end_cold_policy(self.store)

    async def run_cold_policy(self, *, is_dry_run: bool) -> ColdRun:
        return await run_cold_policy(self.store, is_dry_run=is_dry_run)

    async def update_session(self, session: UUID, **changes: Unpack[SessionUpdate]) -> Session:
        fields: Any = changes
        return await self.store.sessions.update(session, **fields)

    async def update_labels(self, session: UUID, **changes: Unpack[LabelUpdate]) -> Session:
        return await self.store.sessions.update_labels(session, **changes)

    async def share_session(self, session: UUID, options: ShareOptions) -> NewShare:
        return await share_session(self.store, Settings.load(), session, options)

    async def list_shares(self, session: UUID) -> ShareList:
        return await list_shares(self.store, session)

    async def revoke_share(self, session: UUID, share: UUID) -> None:
        await self.store.shares.revoke(self.store.tenant, session, share)

    async def list_findings(self, session: UUID) -> FindingList:
        return await list_findings(self.store, session)

    async def delete_session(self, session: UUID) -> None:
        await self.store.sessions.delete(session)

    async def remove_message(self, session: UUID, sequence: int) -> bool:
        return await self.store.messages.delete(session, sequence) is not None


async def _index_pending(store: Store) -> int:
    """Index pending events and return how many another process is still indexing."""
    pending = await store.search.count_pending()
    if pending > _MANY_PENDING:
        warn(f"indexing {counted(pending, 'event')} first; this is needed only once")
    deadline = time.monotonic() + _INDEX_TIMEOUT
    while not await store.search.index_pending():
        if time.monotonic() > deadline:
            return await store.search.count_pending()
    return 0
