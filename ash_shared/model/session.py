"""Sessions as the API returns them."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from ash_shared.model.base import ABSENT, AshModel, Omittable
from ash_shared.model.usage.answers import Cause
from ash_shared.model.usage.report import UsageCounts

MAX_MACHINE = 253
"""Characters of the host name of a client."""


PROMPTS_OF: Mapping[str, str] = {"claude": "claude_history"}
"""Sources of sessions of prompts alone, by the source of their transcripts."""


class SessionLabels(AshModel):
    """Labels that people set, apart from the messages."""

    starred: bool
    archived: bool
    """Left out of lists, unless they ask for archived sessions."""
    tags: list[str]
    note: str
    """Markdown; empty without a note."""


class Tag(AshModel):
    name: str
    sessions: int
    """Number of sessions with the tag that are not archived."""


class TagList(AshModel):
    """Tags, most used first."""

    tags: list[Tag]


class SessionActivity(AshModel):
    """The current activity of a session, according to its messages."""

    state: Literal["calling", "writing", "thinking", "working", "waiting", "ended"]
    """calling: a tool runs; writing, thinking: a text is streamed; working: a turn is open without either; waiting: a
    call asks the person; ended: no turn is open."""
    tool: Omittable[str] = ABSENT
    """The tool of the latest call without a result, or of the one that asks the person."""
    argument: Omittable[str] = ABSENT
    """The beginning of its most important argument, in one line and without secrets."""
    since: Omittable[datetime] = ABSENT
    """The time of the call."""


class Session(AshModel):
    """A conversation, without its messages."""

    id: UUID
    source: str
    """The format of its messages; `unknown` until a message identifies it."""
    external_id: Omittable[str] = Field(default=ABSENT, alias="externalId")
    """Its name in the system it comes from."""
    parent_id: Omittable[UUID] = Field(default=ABSENT, alias="parentId")
    """The session it was forked from or started by. Absent unless that session is stored."""
    parent_external_id: Omittable[str] = Field(default=ABSENT, alias="parentExternalId")
    """The `externalId` of the session it was forked from or started by, if that session is not stored; its id if the
    writer named only that."""
    path: Omittable[str] = ABSENT
    """Where the imported transcript was seen last, if that is no longer `externalId`."""
    copy_of: Omittable[UUID] = Field(default=ABSENT, alias="copyOf")
    """The session that this one copies or forks, and begins like. Absent unless the original is stored."""
    copied_messages: Omittable[int] = Field(default=ABSENT, alias="copiedMessages")
    """The number of messages at the beginning that are copies. Their usage counts only in the other session. Without
    `copyOf`, the transcript itself states that they are another session's."""
    replaced_by: Omittable[UUID] = Field(default=ABSENT, alias="replacedBy")
    """The session with the whole transcript, for a session of prompts alone. Lists, counts, searches and reports leave
    the session of prompts out."""
    agent_id: Omittable[str] = Field(default=ABSENT, alias="agentId")
    """The subagent that wrote the session, by its id in the parent's events: `agentId` in the result of the call that
    started it, or `targetSessionId` and `fromSessionId`. Absent for main sessions and if unknown."""
    title: Omittable[str] = ABSENT
    """The title set by a person, else by the tool, else the beginning of the first prompt."""
    prompt: Omittable[str] = ABSENT
    """The beginning of the first prompt, unless it is the title."""
    created_at: datetime = Field(alias="createdAt")
    updated_at: datetime = Field(alias="updatedAt")
    """Time of the last append or change."""
    first_at: Omittable[datetime] = Field(default=ABSENT, alias="firstAt")
    """The earliest time of a message; absent if no message has a time."""
    last_at: Omittable[datetime] = Field(default=ABSENT, alias="lastAt")
    """The latest time of a message."""
    file_modified_at: Omittable[datetime] = Field(default=ABSENT, alias="fileModifiedAt")
    """When the imported file was last modified: the last activity if no message has a time."""
    message_count: int = Field(alias="messageCount")
    event_count: int = Field(alias="eventCount")
    error_count: int = Field(alias="errorCount")
    """Number of events that report an error or a failed tool."""
    unrecognised_count: int = Field(alias="unrecognisedCount")
    """Number of `raw` events: records of an unknown type."""
    project: Omittable[str] = ABSENT
    """The root of the repository, from the first folder."""
    folder: Omittable[str] = ABSENT
    """The first working folder of the agent."""
    branch: Omittable[str] = ABSENT
    """The last Git branch."""
    commit: Omittable[str] = ABSENT
    """The first Git commit."""
    machine: Omittable[str] = ABSENT
    """The host name of the client that stored it."""
    key_id: Omittable[UUID] = Field(default=ABSENT, alias="keyId")
    """The key that stored it."""
    person: Omittable[str] = ABSENT
    """The name of this key."""
    cause: Omittable[Cause] = ABSENT
    """The cause of the first turn; absent for a subagent."""
    duration_ms: Omittable[int] = Field(default=ABSENT, alias="durationMs")
    """From `firstAt` to `lastAt`."""
    active_ms: Omittable[int] = Field(default=ABSENT, alias="activeMs")
    """The part of `durationMs` in turns, without waiting for a person. Absent, like the following fields, for a session
    that an earlier version stored, until `ash reindex`."""
    prompt_count: Omittable[int] = Field(default=ABSENT, alias="promptCount")
    """Number of messages of a person. Like the following counts, it includes copied messages."""
    turn_count: Omittable[int] = Field(default=ABSENT, alias="turnCount")
    """Number of turns with an answer."""
    tool_call_count: Omittable[int] = Field(default=ABSENT, alias="toolCallCount")
    tool_failure_count: Omittable[int] = Field(default=ABSENT, alias="toolFailureCount")
    """Number of calls that failed or were denied."""
    files_changed: Omittable[int] = Field(default=ABSENT, alias="filesChanged")
    """Number of paths in edits, writes, deletions and moves that succeeded; commands of a shell are not counted."""
    lines_added: Omittable[int] = Field(default=ABSENT, alias="linesAdded")
    lines_removed: Omittable[int] = Field(default=ABSENT, alias="linesRemoved")
    models: Omittable[list[str]] = ABSENT
    """The models of its answers, in alphabetical order."""
    labels: Omittable[SessionLabels] = ABSENT
    """Absent for a session without labels."""
    usage: Omittable[UsageCounts] = ABSENT
    """Tokens and costs; only in lists that ask for them."""
    total_usage: Omittable[UsageCounts] = Field(default=ABSENT, alias="totalUsage")
    """`usage` plus the usage of stored subagent sessions, at any depth; absent without such sessions."""
    activity: Omittable[SessionActivity] = ABSENT
    """Only in the stream of sessions and in lists that ask for it, for sessions changed within 10 minutes."""
    metadata: dict[str, Any]
    """Metadata set by the writer. Unless set, `sessionId` is the provider's id of the session and `cliVersion` the
    version of the tool, both from the messages; `agent` is the agent that wrote the imported transcript, if it is not
    the first one of its format: `openclaude`."""

    @property
    def agent(self) -> str:
        """The agent that wrote it: the one in the metadata, else the first one of the format."""
        return agent_in(self.metadata) or self.source

    @property
    def name(self) -> str:
        """The title, else the name of the transcript, else the id."""
        transcript = None if self.external_id is None else transcript_name(self.external_id)
        return next(name for name in (self.title, transcript, str(self.id)) if name is not None)


def agent_in(metadata: Mapping[str, Any]) -> str | None:
    """Return the agent that the metadata of a session names."""
    agent = metadata.get("agent")
    return agent if isinstance(agent, str) else None


def transcript_name(path: str) -> str:
    """Return the name of a session without a title: the file without its suffix, and the project.

    Claude Code and Cursor name the folder of a project's transcripts after the path of the project. In other folders of
    CLIs, the path does not name the project. All transcripts of Copilot CLI are called `events.jsonl`, in a folder
    named after the session. The same as `transcriptName` in viewer/lib/title-text.js.
    """
    segments = [each for each in re.split(r"[/\\]+", path) if each]
    if segments[:1] == ["session-state"] and segments[2:] == ["events.jsonl"]:
        return segments[1]
    file = re.sub(r"(?<=.)\.jsonl?(\.zst)?\Z", "", segments[-1]) if segments else path
    project = ""
    if re.match(r"[/\\]|[A-Za-z]:[/\\]", path):
        project = "".join(segments[-2:-1])
    elif segments[:1] == ["projects"] and len(segments) > 2:
        project = segments[1]
    return " · ".join(filter(None, (file, project.lstrip("-"))))


class SessionPage(AshModel):
    """A page of sessions, most recent activity first."""

    sessions: list[Session]
    next_after: Omittable[str] = Field(default=ABSENT, alias="nextAfter")
    """Opaque cursor; absent on the last page."""
    prices_error: Omittable[str] = Field(default=ABSENT, alias="pricesError")
    """Why the usage has no costs at API prices: a file of prices is invalid."""
    costs_outdated: Omittable[bool] = Field(default=ABSENT, alias="costsOutdated")
    """True in a list by cost if its order follows earlier prices or earlier usage: too many costs have changed, and the
    server is still computing them. Within the page, the order is right."""


class SessionResume(AshModel):
    """The command that continues a session in its agent."""

    arguments: Omittable[list[str]] = ABSENT
    """The program and its arguments, to run in `folder` without a shell. Absent if the session cannot be continued."""
    folder: Omittable[str] = ABSENT
    """The absolute path of the folder where the session began, on `machine`. Absent if no record states it."""
    machine: Omittable[str] = ABSENT
    """The host name of the client that stored the session. Absent if unknown."""
    command: Omittable[str] = Field(default=ABSENT, examples=["cd /srv/site && claude --resume 3f0c…"])
    """The same as a quoted line for a POSIX shell. Absent without a folder, and for a folder on Windows."""
    reason: Omittable[str] = ABSENT
    """The reason why there are no arguments."""


def active_at(session: Session) -> datetime:
    """Return the time of the last activity, the sort key of lists.

    The latest time of a message, else the modification time of the imported file; the time of the last append
    if that is earlier, or if there is neither.
    """
    last = session.file_modified_at if session.last_at is None else session.last_at
    return session.updated_at if last is None else min(last, session.updated_at)
