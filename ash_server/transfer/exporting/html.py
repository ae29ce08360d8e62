"""A session as one page that stands alone: it opens from a disk, loads nothing, and has the viewer's own renderer."""

import re
from base64 import b64encode
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from functools import lru_cache
from hashlib import sha256
from html import escape
from string import Template
from typing import NamedTuple

from ash_server.db.sessions import Session
from ash_server.errors import SessionNotFound, SessionTooLarge
from ash_server.queries.projection_inputs import read_summary
from ash_server.queries.standard_pages import Connect, get_event_pages
from ash_server.viewer import WHOLE_STYLE, Viewer, script_of, viewer

ENTRY = "exported-page.js"

_HOLES = re.compile(r"\$events|\$summary")
_SEPARATOR = ",\n"
_PAGE, _PAGE_BYTES = 500, 1024 * 1024
_NOT_IN_SCRIPT = (("<", r"\u003c"), ("\u2028", r"\u2028"), ("\u2029", r"\u2029"))


class Frame(NamedTuple):
    """The page, but for what it shows."""

    style: str
    script: str
    policy: str
    """What a browser may do with it: run this script, apply this style, and nothing else."""
    licences: str


class Page(NamedTuple):
    """All of it but the events, which are separated by commas, and behind them the summary."""

    head: str
    between: str
    end: str


def frame() -> Frame:
    return _frame(viewer())


def page_of(session: Session) -> Page:
    now = viewer()
    style, script, policy, licences = _frame(now)
    texts = {
        "policy": escape(policy),
        "title": escape(f"{session.name} · Ash"),
        "icon": b64encode(now.assets["icon.svg"].content).decode(),
        "id": str(session.id),
        "style": style,
        "session": in_script(session.model_dump_json()),
        "script": script,
        "licences": licences,
    }
    parts = _HOLES.split(now.shells["exported"].template)
    return Page(*(Template(part).substitute(texts) for part in parts))


def in_script(document: str) -> str:
    """JSON that can stand in a script element: nothing that it says ends the element."""
    for character, escaped in _NOT_IN_SCRIPT:
        document = document.replace(character, escaped)
    return document


async def write_page(connect: Connect, session: Session) -> AsyncGenerator[bytes, None]:
    """The events of a stored session, a page of them at a time; between two of them no connection is taken."""
    page = page_of(session)
    yield page.head.encode()
    separator = ""
    async with aclosing(get_event_pages(connect, session.id, limit=_PAGE, most_bytes=_PAGE_BYTES)) as pages:
        async for found in pages:
            yield (separator + listed(event.wire() for event in found)).encode()
            separator = _SEPARATOR
    yield (page.between + await _summary(connect, session) + page.end).encode()


async def _summary(connect: Connect, session: Session) -> str:
    """`null` of a session that is too large for it, or is gone meanwhile."""
    try:
        return in_script((await read_summary(connect, session.id)).model_dump_json())
    except (SessionNotFound, SessionTooLarge):
        return "null"


def listed(events: Iterable[str]) -> str:
    """Each on a line of its own."""
    return in_script(_SEPARATOR.join(events))


@lru_cache(maxsize=1)
def _frame(now: Viewer) -> Frame:
    script = script_of(now.assets, ENTRY).replace("\r", "")
    style = now.assets[WHOLE_STYLE].content.decode().replace("\r", "").replace("</", r"<\/")
    policy = (
        f"default-src 'none'; script-src {_hashed(script)}; style-src {_hashed(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'; object-src 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    licences = "\n\n".join(f"{path}\n\n{text.strip()}" for path, text in now.licences.items())
    return Frame(style, script, policy, licences.replace("--", "- -"))


def _hashed(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
