"""A session as the next step needs it: the messages of a request, a prompt for a CLI, a summary."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import msgspec
from litestar import Controller, Response, get
from litestar.params import FromPath, PathParameter
from pydantic import BaseModel, ConfigDict

from ash_server.api.http.bodies import JSON
from ash_server.api.http.connections import Pool
from ash_server.api.http.operations import json_of_any, operation, text
from ash_server.api.http.problems import READS, refusals
from ash_server.errors import NotFound, SessionNotFound, SessionTooLarge
from ash_server.queries.projection_inputs import read_conversation, read_summary
from ash_shared.eventlog import Event
from ash_shared.projections import (
    SessionSummary,
    to_anthropic_messages,
    to_claude_prompt,
    to_codex_prompt,
    to_openai_messages,
)


class ProjectedMessages(BaseModel):
    """Messages as an API takes them."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    messages: list[dict[str, Any]]
    """The `messages` of a request that goes on with the conversation: of Chat Completions (`openai-messages`) or of
    Anthropic's Messages API (`anthropic-messages`)."""


class _Projection(NamedTuple):
    make: Callable[[Pool, UUID], Awaitable[bytes]]
    media_type: str


def _of_conversation(write: Callable[[list[Event]], bytes], media_type: str) -> _Projection:
    async def make(pool: Pool, session_id: UUID) -> bytes:
        events = await read_conversation(pool.connection, session_id)
        return await asyncio.to_thread(write, events)

    return _Projection(make, media_type)


def _messages(project: Callable[[list[Event]], list[dict[str, Any]]]) -> _Projection:
    return _of_conversation(lambda events: msgspec.json.encode({"messages": project(events)}), JSON)


def _prompt(project: Callable[[list[Event]], str]) -> _Projection:
    return _of_conversation(lambda events: project(events).encode(), "text/plain")


async def _summary(pool: Pool, session_id: UUID) -> bytes:
    return (await read_summary(pool.connection, session_id)).model_dump_json().encode()


_PROJECTIONS: Mapping[str, _Projection] = {
    "anthropic-messages": _messages(to_anthropic_messages),
    "claude-prompt": _prompt(to_claude_prompt),
    "codex-prompt": _prompt(to_codex_prompt),
    "openai-messages": _messages(to_openai_messages),
    "session-summary": _Projection(_summary, JSON),
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
        "models": {"claude-sonnet-4-5": 1},
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
        written = await projection.make(pool, session_id)
        return Response(written, media_type=projection.media_type)
