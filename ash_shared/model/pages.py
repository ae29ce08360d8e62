"""Pages of messages, events and search results, as the API returns them."""

from datetime import datetime
from uuid import UUID

from pydantic import ConfigDict, Field

from ash_shared.model.base import ABSENT, AshModel, Omittable
from ash_shared.model.events import ChatEvent
from ash_shared.model.message import Message, Role


class AppendedMessage(AshModel):
    """The stored position of a message."""

    id: str
    sequence: int
    created: bool
    """False if the same message was already stored."""
    deleted: Omittable[bool] = ABSENT
    """True if it was stored before and deleted; it is not stored again."""


class AppendedMessages(AshModel):
    """One entry per message of the request, in the same order."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"messages": [{"id": "run-7/line-12", "sequence": 12, "created": True}]}]
        }
    )

    messages: list[AppendedMessage]


class DifferentText(AshModel):
    id: str
    content: Omittable[str] = ABSENT
    """The stored text; absent without the scope `read` and for redacted requests."""


class MessageComparison(AshModel):
    """Which texts are stored."""

    equal: list[str]
    """The ids of stored texts that are equal, before the first one that differs."""
    deleted: Omittable[list[str]] = ABSENT
    """Earlier ids with deleted texts, which are not stored again."""
    different: Omittable[DifferentText] = ABSENT
    """The first stored text that differs. Texts after it were not compared."""


class TranscriptClaim(AshModel):
    """The session to compare a transcript with next, or its new, empty session."""

    session_id: UUID = Field(alias="sessionId")
    external_id: Omittable[str] = Field(default=ABSENT, alias="externalId")
    has_names: bool = Field(alias="hasNames")
    """False if the names of its transcript are not known yet."""
    path: Omittable[str] = ABSENT
    """Where the transcript was seen last; absent until a transfer is complete."""
    message_count: int = Field(alias="messageCount")
    is_mirror: bool = Field(alias="isMirror", default=False)
    """True if a program has stored records of the transcript one by one: they are lines, too."""
    replaced_by: Omittable[UUID] = Field(default=ABSENT, alias="replacedBy")
    """For prompts alone: the stored session with their transcript. The prompts are then not stored again."""


class MessagePage(AshModel):
    """Messages in ascending order of sequence."""

    messages: list[Message]
    next_after: Omittable[int] = Field(default=ABSENT, alias="nextAfter")
    """The `after` of the next page; absent on the last page."""
    prev_before: Omittable[int] = Field(default=ABSENT, alias="prevBefore")
    """On a page requested with `before`: the `before` of the previous page; absent on the first page."""


class EventPage(AshModel):
    """Events in ascending order of sequence."""

    events: list[ChatEvent]
    next_after: Omittable[int] = Field(default=ABSENT, alias="nextAfter")
    """The `after` of the next page; absent on the last page."""
    prev_before: Omittable[int] = Field(default=ABSENT, alias="prevBefore")
    """The `before` of the previous page; absent on the first page."""


class MatchedEvent(AshModel):
    """A matching event with the part of its text around the match."""

    sequence: Omittable[int] = ABSENT
    """Sequence of the stored message it was derived from; absent if the event was posted."""
    event_id: str = Field(alias="eventId")
    event_sequence: int = Field(alias="eventSequence")
    """Its sequence in the log of the session."""
    type: str
    """The type of the event: `user_message`, `assistant_done`, `tool_call` …"""
    role: Role
    """The author of the text: `tool` for tool results, `system` for texts of neither the user nor the assistant."""
    created_at: datetime = Field(alias="createdAt")
    """The timestamp of the event."""
    snippet: str
    """The part of the text around the match, on one line."""
    marks: list[tuple[int, int]]
    """Start and end of each match in the snippet, in UTF-16 code units as in JavaScript. Empty if the match is spelled
    differently in the text than in the query."""


class SearchResult(MatchedEvent):
    """An event that matches a search."""

    session_id: UUID = Field(alias="sessionId")
    title: Omittable[str] = ABSENT
    """The title of the session."""
    external_id: Omittable[str] = Field(default=ABSENT, alias="externalId")
    """The external id of a session without a title."""
    source: str
    """The format of the session."""
    agent: Omittable[str] = ABSENT
    """The agent that wrote the session, if it is not the first one of its format; `metadata.agent` of the session."""
    matches: int
    """Number of matching events in its session, at most 1,000."""
    at_least: Omittable[bool] = Field(default=ABSENT, alias="atLeast")
    """True if the session may have more matching events than `matches`: of a frequent word, only the last events are
    counted."""


class SearchPage(AshModel):
    """A page of results, newest first."""

    results: list[SearchResult]
    next_after: Omittable[str] = Field(default=ABSENT, alias="nextAfter")
    """Opaque cursor; absent on the last page. A page may be short, or empty, and have one."""
    pending: Omittable[int] = ABSENT
    """Number of stored events that are not indexed yet; absent if there are none."""
    cold_sessions: Omittable[int] = Field(default=ABSENT, alias="coldSessions")
    """Number of cold sessions, at most 1,000, which are not searched. Absent if there are none, and in a search of one
    session."""
    suggestions: Omittable[list[str]] = ABSENT
    """Queries with similar stored words, if there are no results."""
