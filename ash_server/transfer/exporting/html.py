"""Export a session as one self-contained HTML page with the viewer's renderer: opens from disk, loads nothing."""

import asyncio
import re
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from functools import lru_cache
from hashlib import sha256
from html import escape
from string import Template
from typing import NamedTuple

from ash_server.errors import SessionNotFound
from ash_server.prices.errors import PricesError
from ash_server.redaction import redact_json
from ash_server.store import Store
from ash_server.store.conversation.redacted_rows import redact_event, redact_session
from ash_server.store.log.events import StoredEvent
from ash_server.transfer.exporting.page_changes import PageChanges
from ash_server.viewer import BUNDLED_STYLE, Viewer, bundled_script, viewer
from ash_shared.model.session import Session
from ash_shared.model.usage.report import UsageCounts

ENTRY, ENTRY_WITH_FORMULAS = "exported-page.js", "exported-formulas-page.js"

_PLACEHOLDERS = re.compile(r"\$events|\$summary|\$usage|\$changes|\$script")
_USAGE_FIELDS = {*UsageCounts.model_fields, "with_subagents"}
_SEPARATOR = ",\n"
_MAX_PAGE_EVENTS, _MAX_PAGE_BYTES = 500, 1024 * 1024
_SCRIPT_ESCAPES = (("<", r"\u003c"), ("\u2028", r"\u2028"), ("\u2029", r"\u2029"))


class PageParts(NamedTuple):
    """The parts that are the same for all sessions."""

    style: str
    script: str
    script_with_formulas: str
    policy: str
    """Content-Security-Policy that allows only these scripts and this style."""
    licences: str


class ExportedPage(NamedTuple):
    """The page without its data: the events, separated by commas, go between `head` and `after_events`, the summary
    before `after_summary`, the usage before `after_usage`, the changes before `after_changes`, a script before `end`.
    """

    head: str
    after_events: str
    after_summary: str
    after_usage: str
    after_changes: str
    end: str
    script: str
    script_with_formulas: str

    def ending(self, *, has_formulas: bool) -> str:
        """Return what follows the changes."""
        return f"{self.after_changes}{self.script_with_formulas if has_formulas else self.script}{self.end}"


def frame() -> PageParts:
    return _frame(viewer())


def build_page(session: Session) -> ExportedPage:
    current = viewer()
    frame = _frame(current)
    texts = {
        "policy": escape(frame.policy),
        "title": escape(f"{session.name} · Ash"),
        "icon": b64encode(current.assets["icon.svg"].content).decode(),
        "id": str(session.id),
        "style": frame.style,
        "session": escape_script(session.model_dump_json()),
        "licences": frame.licences,
    }
    parts = _PLACEHOLDERS.split(current.shells["exported"].template)
    filled = [Template(part).substitute(texts) for part in parts]
    head, after_events, after_summary, after_usage, after_changes, end = filled
    scripts = frame.script, frame.script_with_formulas
    return ExportedPage(head, after_events, after_summary, after_usage, after_changes, end, *scripts)


def escape_script(document: str) -> str:
    """Escape JSON for a script element, so that no text in it ends the element."""
    for character, escaped in _SCRIPT_ESCAPES:
        document = document.replace(character, escaped)
    return document


async def write_html(store: Store, session: Session, *, redacts: bool = False) -> AsyncGenerator[bytes, None]:
    """Yield the page with a stored session's events, holding no connection between two pages of events."""
    page, changes = build_page(redact_session(session) if redacts else session), PageChanges(session)
    yield page.head.encode()
    separator = ""
    reader = store.conversation
    async with aclosing(
        reader.stream_event_pages(session.id, limit=_MAX_PAGE_EVENTS, max_bytes=_MAX_PAGE_BYTES)
    ) as pages:
        async for events in pages:
            yield (separator + await _join(events, changes, redacts=redacts)).encode()
            separator = _SEPARATOR
    summary = await _summary_json(store, session, redacts=redacts)
    yield f"{page.after_events}{summary}{page.after_summary}".encode()
    yield (await _usage_json(store, session) + page.after_usage).encode()
    yield (await _changes_json(changes) + page.ending(has_formulas=changes.has_formulas)).encode()


async def write_shared_html(
    store: Store, session: Session, select: Callable[[StoredEvent], bool], *, redacts: bool
) -> AsyncGenerator[bytes, None]:
    """Yield the page with some events of a session and their changes, without its summary and usage."""
    page, changes = build_page(redact_session(session) if redacts else session), PageChanges(session)
    yield page.head.encode()
    separator = ""
    async with aclosing(
        store.conversation.stream_event_pages(session.id, limit=_MAX_PAGE_EVENTS, max_bytes=_MAX_PAGE_BYTES)
    ) as pages:
        async for events in pages:
            selected = [event for event in events if select(event)]
            yield (separator + await _join(selected, changes, redacts=redacts)).encode() if selected else b""
            separator = _SEPARATOR if selected else separator
    yield f"{page.after_events}null{page.after_summary}null{page.after_usage}".encode()
    yield (await _changes_json(changes) + page.ending(has_formulas=changes.has_formulas)).encode()


async def _join(events: Sequence[StoredEvent], changes: PageChanges, *, redacts: bool) -> str:
    """Return the events as JSON, and add their changes."""
    shown = await asyncio.to_thread(lambda: list(map(redact_event, events))) if redacts else events
    await asyncio.to_thread(changes.add, shown)
    return join_events(event.wire() for event in shown)


async def _changes_json(changes: PageChanges) -> str:
    return escape_script(await asyncio.to_thread(changes.json))


async def _summary_json(store: Store, session: Session, *, redacts: bool) -> str:
    """Return the summary as JSON, without computed costs, which the usage has; `null` for a deleted session."""
    try:
        read = await store.conversation.read_summary(session.id, is_priced=False)
    except SessionNotFound:
        return "null"
    summary = read.model_dump_json()
    return escape_script(redact_json(summary) if redacts else summary)


async def _usage_json(store: Store, session: Session) -> str:
    """Return the usage with its cost as JSON, as in a report; `null` without usage or prices."""
    try:
        report = await store.usage.report(by=["session"], session=session.id)
    except PricesError:
        return "null"
    row = next((row for row in report.rows if row.session and row.session.id == session.id), None)
    return "null" if row is None else row.model_dump_json(include=_USAGE_FIELDS)


def join_events(events: Iterable[str]) -> str:
    """Join events with commas, one per line."""
    return escape_script(_SEPARATOR.join(events))


@lru_cache(maxsize=1)
def _frame(current: Viewer) -> PageParts:
    script, with_formulas = (
        bundled_script(current.assets, entry).replace("\r", "") for entry in (ENTRY, ENTRY_WITH_FORMULAS)
    )
    style = current.assets[BUNDLED_STYLE].content.decode().replace("\r", "").replace("</", r"<\/")
    policy = (
        f"default-src 'none'; script-src {_csp_hash(script)} {_csp_hash(with_formulas)}; "
        f"style-src {_csp_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'; object-src 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    licences = "\n\n".join(f"{path}\n\n{text.strip()}" for path, text in current.licences.items())
    return PageParts(style, script, with_formulas, policy, licences.replace("--", "- -"))


def _csp_hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
