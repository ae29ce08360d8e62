"""The comparison of two stored sessions."""

import asyncio
from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec

from ash_server.errors import SessionNotFound
from ash_server.prices import PriceFiles
from ash_server.redaction import redact, redact_name
from ash_server.store.connections.pool import Connect
from ash_server.store.conversation.redacted_rows import redact_session
from ash_server.store.facts.report import read_facts
from ash_server.store.log.events import StoredEvent, get_events
from ash_server.store.log.tool_calls import MAX_TOOL
from ash_server.store.usage.reports import prices_or_none
from ash_server.store.usage.session_usage import SessionUsage, read_session_usage
from ash_shared.model.reports.comparison import SessionComparison
from ash_shared.model.reports.facts import SessionFacts
from ash_shared.projections.comparison import (
    MAX_PROMPTS,
    PROMPT_EVENTS,
    ComparedSession,
    PromptLog,
    compare_sessions,
)

_PAGE = 500


async def read_comparison(
    connect: Connect, a: UUID, b: UUID, *, files: PriceFiles | None = None, redacts: bool = False
) -> SessionComparison:
    """Compare two sessions: facts, tools, files and the first 1,000 prompts of each.

    `files` are the files of prices, ASH_PRICES and the installed list by default. `redacts`: compare and return texts
    without secrets. Raises SessionNotFound, which names the session.
    """
    facts = [await _read_facts(connect, name, id) for name, id in (("a", a), ("b", b))]
    prices, _ = await prices_or_none(files)
    async with connect() as conn:
        usage = await read_session_usage(conn, prices, {a, b})
    sides = [await _read_side(connect, _with_usage(each, usage), redacts=redacts) for each in facts]
    return await asyncio.to_thread(compare_sessions, *sides)


async def _read_facts(connect: Connect, name: str, session_id: UUID) -> SessionFacts:
    try:
        async with connect() as conn:
            return await read_facts(conn, session_id)
    except SessionNotFound:
        raise SessionNotFound(f"No session has the id {name}={session_id}.") from None


def _with_usage(facts: SessionFacts, usage: Mapping[UUID, SessionUsage]) -> SessionFacts:
    own, total = usage[facts.session.id]
    session = facts.session.model_copy(update={"usage": own, "total_usage": total})
    return facts.model_copy(update={"session": session})


async def _read_side(connect: Connect, facts: SessionFacts, *, redacts: bool) -> ComparedSession:
    log, after, is_complete = PromptLog(redact if redacts else str), 0, False
    while not is_complete and len(log.prompts) <= MAX_PROMPTS:
        async with connect() as conn:
            page = await get_events(
                conn, facts.session.id, after=after, limit=_PAGE, types=list(PROMPT_EVENTS)
            )
        is_complete = not page
        if page:
            await asyncio.to_thread(_add_page, log, page)
            after = page[-1].sequence
    shown = await asyncio.to_thread(_redacted, facts) if redacts else facts
    return ComparedSession(shown, log.prompts[:MAX_PROMPTS], len(log.prompts) > MAX_PROMPTS)


def _add_page(log: PromptLog, page: Sequence[StoredEvent]) -> None:
    for stored in page:
        log.add(msgspec.json.decode(stored.wire_bytes()))


def _redacted(facts: SessionFacts) -> SessionFacts:
    """Redact what is compared: the session, and the names of tools and files."""
    tools = [each.model_copy(update={"tool": redact_name(each.tool, MAX_TOOL)}) for each in facts.tools]
    files = [each.model_copy(update={"path": redact(each.path)}) for each in facts.files]
    return facts.model_copy(update={"session": redact_session(facts.session), "tools": tools, "files": files})
