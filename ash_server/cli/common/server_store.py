"""The client of a server, with what only commands read."""

from collections.abc import AsyncGenerator, Iterable
from dataclasses import replace
from typing import Any, NamedTuple, Unpack
from uuid import UUID

import msgspec

from ash_client import ApiError, AsyncAshClient, requests
from ash_client.requests import EventQuery, Request, SessionId
from ash_server.budgets.budgets import NewBudget
from ash_server.errors import MessageDeleted, SessionNotFound
from ash_server.keys.shares import ShareOptions
from ash_server.retention.cold_policy import NewColdPolicy, NewColdRun
from ash_server.retention.policy import NewRetention, NewRetentionRun
from ash_server.store.drift import DriftReport
from ash_shared.model.keys import OwnKey
from ash_shared.model.message import Message
from ash_shared.model.reports.cold import ColdPolicy, ColdRun
from ash_shared.model.reports.retention import RetentionPolicy, RetentionRun
from ash_shared.model.session import Session
from ash_shared.model.shares import NewShare, ShareList
from ash_shared.model.usage.budgets import SetBudget


class StandardPage(NamedTuple):
    """A page of standard messages."""

    messages: list[str]
    """Each as JSON."""
    next_after: int | None


class _StandardPage(msgspec.Struct, rename="camel"):
    messages: list[msgspec.Raw]
    next_after: int | None = None


_standard_pages = msgspec.json.Decoder(_StandardPage)


class ServerStore(AsyncAshClient):
    """The client of a server, with what only commands read."""

    async def get_sessions(self, ids: Iterable[SessionId]) -> list[Session]:
        """Return the sessions that exist."""
        found = list[Session]()
        for id in ids:
            try:
                found.append(await self.get_session(id))
            except ApiError as error:
                if error.code != SessionNotFound.code:
                    raise
        return found

    async def get_message(self, session: SessionId, sequence: int) -> Message:
        path = f"/api/sessions/{session}/messages/{sequence}"
        return await self.send(Request("GET", path, Message.model_validate_json))

    async def list_standard_messages(self, session: SessionId, *, after: int, limit: int) -> StandardPage:
        query = {"after": after, "limit": limit}
        page = await self.send(
            Request("GET", f"/api/sessions/{session}/standard-messages", _standard_pages.decode, query)
        )
        return StandardPage([bytes(message).decode() for message in page.messages], page.next_after)

    async def events_page(self, session: SessionId, **query: Unpack[EventQuery]) -> bytes:
        """Return the page as the API sends it."""
        return await self.send(Request("GET", f"/api/sessions/{session}/events", bytes, query))

    def read_lines(self, session: SessionId, format: str, *, redacts: bool) -> AsyncGenerator[bytes, None]:
        request = requests.export(session, format)
        query = {**request.query, **_redaction(redacts=redacts)}
        return self._stream(replace(request, query=query), "application/x-ndjson")

    def stream_atif(self, session: SessionId, *, redacts: bool) -> AsyncGenerator[bytes, None]:
        return self._stream_projection(session, "atif", redacts=redacts)

    def stream_otlp(self, session: SessionId, *, redacts: bool) -> AsyncGenerator[bytes, None]:
        return self._stream_projection(session, "otlp", redacts=redacts)

    def _stream_projection(
        self, session: SessionId, name: str, *, redacts: bool
    ) -> AsyncGenerator[bytes, None]:
        path = f"/api/sessions/{session}/projections/{name}"
        return self._stream(Request("GET", path, bytes, _redaction(redacts=redacts)), "application/json")

    async def _stream(self, request: Request[Any], accept: str) -> AsyncGenerator[bytes, None]:
        async with self.open(request, accept=accept) as response:
            async for chunk in response.aiter_raw():
                yield chunk

    async def read_drift(self, *, limit: int) -> DriftReport:
        return await self.send(
            Request("GET", "/api/drift", DriftReport.model_validate_json, {"limit": limit})
        )

    async def get_key(self) -> OwnKey:
        return await self.send(Request("GET", "/api/key", OwnKey.model_validate_json))

    async def set_budget(self, new: NewBudget) -> SetBudget:
        body = msgspec.json.encode(new)
        return await self.send(Request("PUT", "/api/budgets", SetBudget.model_validate_json, body=body))

    async def delete_budget(self, budget: UUID) -> None:
        await self.send(Request("DELETE", f"/api/budgets/{budget}", _nothing))

    async def get_retention(self) -> RetentionPolicy:
        return await self.send(Request("GET", "/api/retention", RetentionPolicy.model_validate_json))

    async def set_retention(self, new: NewRetention) -> RetentionPolicy:
        body = msgspec.json.encode(new)
        return await self.send(
            Request("PUT", "/api/retention", RetentionPolicy.model_validate_json, body=body)
        )

    async def end_retention(self) -> None:
        await self.send(Request("DELETE", "/api/retention", _nothing))

    async def run_retention(self, *, is_dry_run: bool) -> RetentionRun:
        body = msgspec.json.encode(NewRetentionRun(dry_run=is_dry_run))
        return await self.send(
            Request("POST", "/api/retention/runs", RetentionRun.model_validate_json, body=body)
        )

    async def get_cold_policy(self) -> ColdPolicy:
        return await self.send(Request("GET", "/api/cold", ColdPolicy.model_validate_json))

    async def set_cold_policy(self, new: NewColdPolicy) -> ColdPolicy:
        body = msgspec.json.encode(new)
        return await self.send(Request("PUT", "/api/cold", ColdPolicy.model_validate_json, body=body))

    async def end_cold_policy(self) -> None:
        await self.send(Request("DELETE", "/api/cold", _nothing))

    async def run_cold_policy(self, *, is_dry_run: bool) -> ColdRun:
        body = msgspec.json.encode(NewColdRun(dry_run=is_dry_run))
        return await self.send(Request("POST", "/api/cold/runs", ColdRun.model_validate_json, body=body))

    async def share_session(self, session: SessionId, options: ShareOptions) -> NewShare:
        fields = {
            "follow": options.follows,
            "subagents": options.subagents,
            "redacted": options.redacted,
            "expiresInHours": options.hours,
        }
        path = f"/api/sessions/{session}/shares"
        body = msgspec.json.encode(fields)
        return await self.send(
            Request("POST", path, NewShare.model_validate_json, body=body, is_repeatable=False)
        )

    async def list_shares(self, session: SessionId) -> ShareList:
        path = f"/api/sessions/{session}/shares"
        return await self.send(Request("GET", path, ShareList.model_validate_json))

    async def revoke_share(self, session: SessionId, share: UUID) -> None:
        await self.send(Request("DELETE", f"/api/sessions/{session}/shares/{share}", _nothing))

    async def remove_message(self, session: SessionId, sequence: int) -> bool:
        """Delete a message; return False if it was already deleted."""
        try:
            await self.get_message(session, sequence)
        except ApiError as error:
            if error.code == MessageDeleted.code:
                return False
            raise
        await self.delete_message(session, sequence)
        return True


def _nothing(_: bytes) -> None:
    return None


def _redaction(*, redacts: bool) -> dict[str, int]:
    return {"redact": 1} if redacts else {}
