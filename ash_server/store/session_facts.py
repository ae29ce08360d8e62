"""Facts about a session derived from its messages: times, title, source, client.

The rank of a title decides whether it is replaced: a tool's title replaces the first prompt and earlier titles of
the tool; a name that the person gave in the tool replaces these and earlier names; a title set in Ash stays.

`collect_facts`, `RecordFacts.merge` and the SQL have the same rules, for speed in three forms; a test compares them.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from ash_server.store.statements import statements
from ash_server.store.text import storable
from ash_shared.model.message import Description
from ash_shared.model.usage.answers import Cause
from ash_shared.parsing.projects import project_of
from ash_shared.records.inherited import InheritedRecords
from ash_shared.records.system_text import typed_text

UNNAMED, FROM_PROMPT, FROM_TOOL, RENAMED, FROM_PERSON = 0, 1, 2, 3, 4
"""The ranks of titles. RENAMED: by the person, in the tool; FROM_PERSON: by a person, in Ash."""

_REPLACED_BY_LATER = (FROM_TOOL, RENAMED)
"""Ranks of titles that later ones of the same rank replace."""

_MAX_LENGTH = 200

MAX_PROJECT = 1000
"""Characters of a project, a branch and a commit."""

MAX_FOLDER = 4096
"""Characters of a folder. A longer one is none: a part would be another folder."""

_TIMES = range(1, 253_402_300_800_000)
"""Plausible timestamps in milliseconds since 1970: before the year 10000."""


class RecordFacts(NamedTuple):
    """Facts from some messages of a session. None means that no message has the fact."""

    source: str = "unknown"
    """The first known source."""
    first_at: datetime | None = None
    last_at: datetime | None = None
    title: str | None = None
    title_priority: int = UNNAMED
    first_prompt: str | None = None
    client_version: str | None = None
    provider_session_id: str | None = None
    agent_id: str | None = None
    """Empty for a main session."""
    project: str | None = None
    """The project of the first known folder."""
    stated_cost: int | None = None
    """The last cost that the agent states for the session, in nano-dollars."""
    stated_models: list[str] | None = None
    """The models with a part of this cost."""
    folder: str | None = None
    """The first known folder."""
    branch: str | None = None
    """The last known Git branch."""
    git_commit: str | None = None
    """The first known Git commit."""
    cause: Cause | None = None
    """What sent the first prompt."""

    def merge(self, later: "RecordFacts") -> "RecordFacts":
        """Combine with the facts of later messages."""
        is_later = later.title_priority == self.title_priority and later.title_priority in _REPLACED_BY_LATER
        stated = self if later.stated_cost is None else later
        named = later if later.title_priority > self.title_priority or is_later else self
        return RecordFacts(
            source=later.source if self.source == "unknown" else self.source,
            first_at=min(filter(None, (self.first_at, later.first_at)), default=None),
            last_at=max(filter(None, (self.last_at, later.last_at)), default=None),
            title=named.title,
            title_priority=named.title_priority,
            first_prompt=self.first_prompt or later.first_prompt,
            client_version=later.client_version or self.client_version,
            provider_session_id=later.provider_session_id or self.provider_session_id,
            agent_id=later.agent_id if self.agent_id is None else self.agent_id,
            project=later.project if self.project is None else self.project,
            stated_cost=stated.stated_cost,
            stated_models=stated.stated_models,
            folder=later.folder if self.folder is None else self.folder,
            branch=later.branch or self.branch,
            git_commit=self.git_commit or later.git_commit,
            cause=self.cause or later.cause,
        )


SQL = statements(__file__, from_tool=FROM_TOOL, renamed=RENAMED, from_person=FROM_PERSON)


def collect_facts(messages: Sequence[Description], inherited: InheritedRecords | None = None) -> RecordFacts:
    """Return the facts of some messages. `inherited` is the place in the session before them, if they are not its
    first ones; it then is the place after them."""
    times = [
        time
        for each in messages
        for time in (each.header.timestamp, each.header.last_timestamp)
        if time is not None and time in _TIMES
    ]
    inherited = InheritedRecords() if inherited is None else inherited
    own = [each for each in messages if inherited.follow(each.header)]
    prompt = _first_text(each.prompt for each in own)
    title, rank = _title(own, prompt)
    stated = next((each.header.stated_total for each in reversed(own) if each.header.stated_total), None)
    return RecordFacts(
        source=next((each.source for each in messages if each.source != "unknown"), "unknown"),
        first_at=to_datetime(min(times)) if times else None,
        last_at=to_datetime(max(times)) if times else None,
        title=title,
        title_priority=rank,
        first_prompt=prompt,
        client_version=_first_text(each.header.client_version for each in reversed(messages)),
        provider_session_id=_first_text(each.header.session_id for each in reversed(own)),
        agent_id=_agent_id(own),
        project=_project(own),
        stated_cost=stated and stated.cost,
        stated_models=stated and [storable(model)[:_MAX_LENGTH] for model in stated.models],
        folder=_first_name((each.header.folder for each in own), MAX_FOLDER),
        branch=_first_name(each.header.branch for each in reversed(own)),
        git_commit=_first_name(each.header.commit for each in own),
        cause=next((each.cause for each in own if each.cause is not None), None),
    )


def _first_name(names: Iterable[str | None], length: int = MAX_PROJECT) -> str | None:
    """Return the first name that is neither blank nor too long: redaction would not recognise a cut secret."""
    stored = (storable(name) for name in names if name and len(name) <= length)
    return next((name for name in stored if name.strip()), None)


def _project(messages: Sequence[Description]) -> str | None:
    """Return the project of the first folder that a message names."""
    for header in (each.header for each in messages):
        project = project_of(header.folder, header.root)
        if project is not None and storable(project):
            return storable(project)[:MAX_PROJECT]
    return None


def _agent_id(messages: Sequence[Description]) -> str | None:
    """Return the first agent that a message names; empty for a main session."""
    first = next((each.header.agent for each in messages if each.header.agent is not None), None)
    return first and _first_text([first])


def to_datetime(milliseconds: int | None) -> datetime | None:
    """Return the time of a timestamp; None if it is implausible."""
    if milliseconds is None or milliseconds not in _TIMES:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def to_milliseconds(moment: datetime) -> int:
    """Return the timestamp of a time."""
    return round(moment.timestamp() * 1000)


def _title(messages: Sequence[Description], prompt: str | None) -> tuple[str | None, int]:
    headers = [each.header for each in reversed(messages) if each.header.title is not None]
    for rank in (RENAMED, FROM_TOOL):
        titles = (each.title or "" for each in headers if each.is_title_of_person == (rank == RENAMED))
        if named := _first_text(map(typed_text, titles)):
            return named, rank
    return prompt, FROM_PROMPT if prompt else UNNAMED


def shorten(title: str) -> str | None:
    """Return a tool's title as it is stored; None if it is blank."""
    return _first_text([typed_text(title)])


def _first_text(texts: Iterable[str | None]) -> str | None:
    """Return the first non-blank text, shortened and on one line."""
    lines = (" ".join(storable(text).split()) for text in texts if text)
    return next((line[:_MAX_LENGTH] for line in lines if line), None)
