"""A session as the next step needs it: the messages of a request, a prompt for a CLI, a summary.

Of the events only what the projection reads is kept, page by page, so that what nobody asks for takes no memory.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import msgspec
from litestar import Controller, Response, get
from litestar.params import FromPath, PathParameter
from pydantic import BaseModel, ConfigDict

from ash_server.api.bodies import JSON
from ash_server.api.operations import json_of_any, operation, text
from ash_server.api.pool import Pool
from ash_server.api.problems import READS, refusals
from ash_server.db.events import StoredEvent, check_cursor, get_events_since
from ash_server.errors import NotFound, SessionNotFound, SessionTooLarge
from ash_shared.events import CHUNKS
from ash_shared.normalize import Event
from ash_shared.projections import (
    SessionSummary,
    to_anthropic_messages,
    to_claude_prompt,
    to_codex_prompt,
    to_openai_messages,
    to_session_summary,
)

_PAGE, _PAGE_BYTES = 1000, 4 * 1024 * 1024
MOST_BYTES = 64 * 1024 * 1024
"""Of the events that are kept: twice what any API takes in a request."""

_MARKS = frozenset({"parentToolCallId", "sidechain"})
"""What every projection looks for in every payload."""
_BULKY = frozenset({"args", "content", "details", "raw", "result", "structured"})
"""What a summary never shows of a payload."""
_UNSAID = frozenset({"raw", "thinking_done"})
"""Types of which no projection shows the payload."""


class ProjectedMessages(BaseModel):
    """Messages as an API takes them."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    messages: list[dict[str, Any]]
    """The `messages` of a request that goes on with the conversation: of Chat Completions (`openai-messages`) or of
    Anthropic's Messages API (`anthropic-messages`)."""


class _Projection(NamedTuple):
    keep: Callable[[Event], Event]
    """The event with what is read of it."""
    write: Callable[[list[Event]], bytes]
    media_type: str


def _of_conversation(event: Event) -> Event:
    if event["type"] not in _UNSAID:
        return event
    payload = event["payload"]
    return {**event, "payload": {name: payload[name] for name in payload if name in _MARKS}}


def _of_summary(event: Event) -> Event:
    payload = _of_conversation(event)["payload"]
    return {**event, "payload": {name: payload[name] for name in payload if name not in _BULKY}}


def _messages(project: Callable[[list[Event]], list[dict[str, Any]]]) -> _Projection:
    return _Projection(
        _of_conversation, lambda events: msgspec.json.encode({"messages": project(events)}), JSON
    )


def _prompt(project: Callable[[list[Event]], str]) -> _Projection:
    return _Projection(_of_conversation, lambda events: project(events).encode(), "text/plain")


_PROJECTIONS: Mapping[str, _Projection] = {
    "anthropic-messages": _messages(to_anthropic_messages),
    "claude-prompt": _prompt(to_claude_prompt),
    "codex-prompt": _prompt(to_codex_prompt),
    "openai-messages": _messages(to_openai_messages),
    "session-summary": _Projection(
        _of_summary, lambda events: to_session_summary(events).model_dump_json().encode(), JSON
    ),
}

_ARGUMENTS = {"command": "pytest -q"}
_EXAMPLES: Mapping[str, Any] = {
    "openai-messages": {
        "messages": [
            {"role": "user", "content": "Which tests fail?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "shell", "arguments": '{"command": "pytest -q"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "1 failed: test_paths"},
            {"role": "assistant", "content": "Only test_paths."},
        ]
    },
    "anthropic-messages": {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Which tests fail?"}]},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "call_1", "name": "shell", "input": _ARGUMENTS}],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_1", "content": "1 failed: test_paths"}
                ],
            },
            {"role": "assistant", "content": [{"type": "text", "text": "Only test_paths."}]},
        ]
    },
    "session-summary": {
        "sessionId": "0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60",
        "title": "Which tests fail?",
        "lastText": "Only test_paths.",
        "lastRole": "assistant",
        "firstAt": 1793611910120,
        "lastAt": 1793611915002,
        "turns": 1,
        "userMessages": 1,
        "assistantMessages": 1,
        "toolCalls": {"shell": 1},
        "toolErrors": {},
        "errors": {},
        "unrecognised": 0,
        "compactions": 0,
        "subagents": 0,
        "agents": [],
        "awaitedAgents": 0,
        "isOpen": False,
        "openCalls": [],
        "isInterrupted": False,
    },
}
_PROMPT = """\
This is our conversation so far. Go on from where it ends.

<conversation>
<user>
Which tests fail?
</user>
<assistant>
Only test_paths.
</assistant>
</conversation>
"""


class ProjectionController(Controller):
    path = "/api/sessions/{session_id:uuid}/projections"
    tags = ("events",)

    @get(
        "/{name:str}",
        operation_id="projectSession",
        summary="Project a session for the next step",
        description="Made of the session's events. `openai-messages` and `anthropic-messages` are the messages of a "
        "request that goes on with the conversation; what the API would refuse (calls without a result, results "
        "without a call, empty messages) does not come out. `claude-prompt` and `codex-prompt` are the conversation "
        "as one text for that CLI. `session-summary` is the session at a glance, also while it runs.\n\n"
        "Thinking, pieces of streams and what was retracted are left out; a summary takes the place of what it sums "
        "up.",
        response_description="The projection: JSON, or for the prompts text.",
        responses=refusals(*READS, NotFound, SessionNotFound, SessionTooLarge),
        operation_class=operation(
            answers={
                200: {
                    JSON: json_of_any(ProjectedMessages, SessionSummary, **_EXAMPLES),
                    "text/plain": text("The prompt; empty where nothing was said.", prompt=_PROMPT),
                }
            }
        ),
    )
    async def get(
        self,
        pool: Pool,
        session_id: FromPath[UUID],
        name: Annotated[
            str, PathParameter(description="Which one.", schema_extra={"enum": sorted(_PROJECTIONS)})
        ],
    ) -> Response[bytes]:
        projection = _PROJECTIONS.get(name)
        if projection is None:
            raise NotFound(f"The projections are {', '.join(_PROJECTIONS)}.")
        events = await _read(pool, session_id, projection.keep)
        written = await asyncio.to_thread(projection.write, events)
        return Response(written, media_type=projection.media_type)


async def _read(pool: Pool, session_id: UUID, keep: Callable[[Event], Event]) -> list[Event]:
    """Where the session is rebuilt meanwhile, the newer reading follows behind a `reset`."""
    events: list[Event] = []
    size = 0
    async with pool.connection() as conn:
        await check_cursor(conn, session_id, 0)
    async with aclosing(_pages(pool, session_id)) as pages:
        async for page in pages:
            kept, kept_size = await asyncio.to_thread(_kept, page, keep)
            events += kept
            size += kept_size
            if size > MOST_BYTES:
                raise SessionTooLarge
    return events


async def _pages(pool: Pool, session_id: UUID) -> AsyncGenerator[list[StoredEvent], None]:
    after: int | None = 0
    while after is not None:
        async with pool.connection() as conn:
            page = await get_events_since(
                conn, session_id, after, limit=_PAGE, most_bytes=_PAGE_BYTES, collapse=True
            )
        yield page
        after = page[-1].sequence if page else None


def _kept(found: Sequence[StoredEvent], keep: Callable[[Event], Event]) -> tuple[list[Event], int]:
    """What is kept of a page, and about how large it is."""
    events = [keep(msgspec.json.decode(event.content)) for event in found if event.type not in CHUNKS]
    return events, sum(map(_size, events))


def _size(event: Event) -> int:
    return len(msgspec.json.encode(event))
