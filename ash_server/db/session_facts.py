"""What the messages of a session tell of it: when it was, what it is called, who wrote it.

Whose the title is decides whether it may be replaced: the first prompt names a session that has no other name, the
names that a tool gives take the place of that and of each other, and what a person gave stays.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from ash_server.db.text import storable
from ash_shared.model.message import Description

UNNAMED, FROM_PROMPT, FROM_TOOL, FROM_PERSON = 0, 1, 2, 3
"""The ranks of titles."""

_LONGEST = 200

_TIMES = range(1, 253_402_300_800_000)
"""Milliseconds since 1970 that a clock may have told: until the year 10000."""


class SessionFacts(NamedTuple):
    """What some messages of a session tell together. None where they tell nothing."""

    source: str = "unknown"
    """The first that is known."""
    first_at: datetime | None = None
    last_at: datetime | None = None
    title: str | None = None
    title_rank: int = UNNAMED
    first_prompt: str | None = None
    client_version: str | None = None
    provider_session_id: str | None = None

    def then(self, later: "SessionFacts") -> "SessionFacts":
        """What these and later messages tell together."""
        renamed = later.title_rank > self.title_rank or later.title_rank == FROM_TOOL
        named = later if renamed else self
        return SessionFacts(
            source=later.source if self.source == "unknown" else self.source,
            first_at=min(filter(None, (self.first_at, later.first_at)), default=None),
            last_at=max(filter(None, (self.last_at, later.last_at)), default=None),
            title=named.title,
            title_rank=named.title_rank,
            first_prompt=self.first_prompt or later.first_prompt,
            client_version=later.client_version or self.client_version,
            provider_session_id=later.provider_session_id or self.provider_session_id,
        )


MERGE = f"""
    source = CASE source WHEN 'unknown' THEN %(source)b ELSE source END,
    first_at = least(first_at, %(first_at)b),
    last_at = greatest(last_at, %(last_at)b),
    title = CASE
        WHEN %(title_rank)b::int2 > title_rank OR (%(title_rank)b::int2 = {FROM_TOOL} AND title_rank = {FROM_TOOL})
        THEN %(title)b ELSE title END,
    title_rank = greatest(title_rank, %(title_rank)b::int2),
    first_prompt = coalesce(first_prompt, %(first_prompt)b),
    client_version = coalesce(%(client_version)b, client_version),
    provider_session_id = coalesce(%(provider_session_id)b, provider_session_id)
"""
"""`SessionFacts.then` in SQL: what a session's row is set to when messages are added to it."""

RENEW = f"""
    source = CASE source WHEN 'unknown' THEN %(source)b ELSE source END,
    first_at = %(first_at)b,
    last_at = %(last_at)b,
    title = CASE title_rank WHEN {FROM_PERSON} THEN title ELSE %(title)b END,
    title_rank = CASE title_rank WHEN {FROM_PERSON} THEN title_rank ELSE %(title_rank)b::int2 END,
    first_prompt = %(first_prompt)b,
    client_version = %(client_version)b,
    provider_session_id = %(provider_session_id)b
"""
"""What it is set to when all of its messages have told."""


def facts_of(messages: Sequence[Description]) -> SessionFacts:
    times = [time for each in messages if (time := each.facts.timestamp) is not None and time in _TIMES]
    prompt = _first(each.prompt for each in messages)
    title, rank = _title(messages, prompt)
    return SessionFacts(
        source=next((each.source for each in messages if each.source != "unknown"), "unknown"),
        first_at=moment(min(times)) if times else None,
        last_at=moment(max(times)) if times else None,
        title=title,
        title_rank=rank,
        first_prompt=prompt,
        client_version=_first(each.facts.client_version for each in reversed(messages)),
        provider_session_id=_first(each.facts.session_id for each in reversed(messages)),
    )


def moment(milliseconds: int | None) -> datetime | None:
    """None for a time that no clock told."""
    if milliseconds is None or milliseconds not in _TIMES:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _title(messages: Sequence[Description], prompt: str | None) -> tuple[str | None, int]:
    if named := _first(each.facts.title for each in reversed(messages)):
        return named, FROM_TOOL
    return prompt, FROM_PROMPT if prompt else UNNAMED


def _first(told: Iterable[str | None]) -> str | None:
    """The first of these that tells something, on one line."""
    found = (" ".join(storable(text).split()) for text in told if text)
    return next((text[:_LONGEST] for text in found if text), None)
