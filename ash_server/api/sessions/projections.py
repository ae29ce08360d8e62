"""Projections of a session: messages for a request, a prompt for a CLI, a summary, attributes, traces, a trajectory."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeAlias
from uuid import UUID

import msgspec
from litestar import Controller, Request, Response, get
from litestar.params import FromPath, PathParameter
from litestar.response import Stream
from pydantic import ConfigDict, Field

from ash_server.api.http.bodies import JSON
from ash_server.api.http.dependencies import InjectedReader
from ash_server.api.http.openapi.operations import documents, text
from ash_server.api.http.problems import READ_ERRORS, TEXT_ERRORS, error_responses
from ash_server.api.http.redaction import is_redacted, mark_as_redacted
from ash_server.api.http.streaming import buffered, start_response
from ash_server.errors import NotFound, SessionChanged, SessionTooLarge
from ash_server.redaction import redact_text
from ash_server.store import Store
from ash_server.store.conversation.conversation_reader import ConversationReader
from ash_server.store.conversation.projection_inputs import MAX_BYTES, MAX_READS
from ash_server.store.conversation.standing_events import EventPart
from ash_shared.eventlog import Event
from ash_shared.model.base import ABSENT, AshModel, Omittable
from ash_shared.projections import (
    CODEX_INTRODUCTION,
    AnthropicFold,
    ClaudePromptFold,
    CodexPromptFold,
    OpenAiFold,
    PromptElement,
    PromptTags,
    SessionSummary,
    UiMessageFold,
)


class ProjectedMessages(AshModel):
    """Messages in the format of a provider's API."""

    messages: list[dict[str, Any]]
    """The `messages` of a request that continues the conversation, for Chat Completions (`openai-messages`) or
    Anthropic's Messages API (`anthropic-messages`); or the session as `UIMessage`s of Vercel's AI SDK (`ui-messages`).
    """


class GenAiAttributes(AshModel):
    """OpenTelemetry GenAI attributes of the last model call. Unknown attributes are absent."""

    model_config = ConfigDict(extra="allow")

    operation: Literal["chat"] = Field(alias="gen_ai.operation.name")
    conversation_id: str = Field(alias="gen_ai.conversation.id")
    """The id of the session."""
    provider: Omittable[str] = Field(default=ABSENT, alias="gen_ai.provider.name")
    request_model: Omittable[str] = Field(default=ABSENT, alias="gen_ai.request.model")
    """The model, if the recorded answer has no response id."""
    response_model: Omittable[str] = Field(default=ABSENT, alias="gen_ai.response.model")
    response_id: Omittable[str] = Field(default=ABSENT, alias="gen_ai.response.id")
    finish_reasons: Omittable[list[str]] = Field(default=ABSENT, alias="gen_ai.response.finish_reasons")
    """In the terms of the conventions, such as `stop` for `end_turn`."""
    system_instructions: Omittable[list[dict[str, Any]]] = Field(
        default=ABSENT, alias="gen_ai.system_instructions"
    )
    tool_definitions: Omittable[list[dict[str, Any]]] = Field(default=ABSENT, alias="gen_ai.tool.definitions")
    """The tools of the last request in the first lines of the session."""
    input_messages: Omittable[list[dict[str, Any]]] = Field(default=ABSENT, alias="gen_ai.input.messages")
    """The conversation before the answer."""
    output_messages: Omittable[list[dict[str, Any]]] = Field(default=ABSENT, alias="gen_ai.output.messages")
    """The last answer."""
    input_tokens: Omittable[int] = Field(default=ABSENT, alias="gen_ai.usage.input_tokens")
    """Including tokens read from or written to a cache."""
    output_tokens: Omittable[int] = Field(default=ABSENT, alias="gen_ai.usage.output_tokens")


class AtifTrajectory(AshModel):
    """A trajectory in the Agent Trajectory Interchange Format (ATIF), valid by the models of Harbor."""

    model_config = ConfigDict(extra="allow")

    schema_version: str
    """`ATIF-v1.7`, or `ATIF-v1.8` if the trajectory contains audio."""
    session_id: Omittable[str] = ABSENT
    """The id of the session."""
    agent: dict[str, Any]
    """The name, version and model of the agent, and the definitions of its tools."""
    steps: list[dict[str, Any]]
    """The messages of the conversation, with the results of their calls."""
    final_metrics: Omittable[dict[str, Any]] = ABSENT
    """The sums of tokens and costs."""
    subagent_trajectories: Omittable[list[dict[str, Any]]] = ABSENT
    """The trajectories of subagents."""


class OtlpTraces(AshModel):
    """A session as OpenTelemetry traces, which `/v1/traces` accepts as JSON."""

    resource_spans: list[dict[str, Any]] = Field(alias="resourceSpans")
    """The spans in OTLP/JSON; each turn is a trace."""


class _Projection(NamedTuple):
    render: Callable[[ConversationReader, UUID, bool], Awaitable[bytes]]
    """Renders a session; redacted if the last argument is true."""
    media_type: str


class _Fold(Protocol):
    """Folds the events of a session, in order and without retracted ones, into messages."""

    def add(self, event: Event, size: int, /) -> None: ...

    def size(self) -> int:
        """Return the size of the events in the messages that `take` left."""
        ...

    def take(self, max_size: int | None, /) -> list[Any]:
        """Return and forget the messages that later events do not change; calls wait up to a size."""
        ...

    def end(self) -> list[Any]: ...


_Encode: TypeAlias = Callable[[Any], bytes]


async def _stream_texts(
    parts: AsyncGenerator[EventPart, None], fold: _Fold, encode: _Encode, *, redacts: bool
) -> AsyncGenerator[list[bytes], None]:
    """Yield the encoded messages of a fold, at least one at a time. Raises SessionTooLarge."""

    def encode_all(messages: Iterable[Any]) -> list[bytes]:
        texts = map(encode, messages)
        # Redacts secrets that only the whole message shows.
        return [redact_text(text.decode()).encode() for text in texts] if redacts else list(texts)

    def add(part: EventPart) -> list[bytes]:
        for event, size in zip(part.events, part.sizes, strict=True):
            fold.add(event, size)
        return encode_all(fold.take(MAX_BYTES))

    async with aclosing(parts):
        async for part in parts:
            texts = await asyncio.to_thread(add, part)
            if texts:
                yield texts
            elif fold.size() > MAX_BYTES:
                raise SessionTooLarge
    if texts := await asyncio.to_thread(lambda: encode_all(fold.end())):
        yield texts


class _Streamed(NamedTuple):
    """A projection that is sent while the session is read."""

    render: Callable[[ConversationReader, UUID, bool], AsyncGenerator[bytes, None]]
    """Raises SessionNotFound, SessionChanged; SessionTooLarge for a very large message."""
    media_type: str = JSON


def _messages(fold: Callable[[], _Fold], encode: _Encode, *, whole: bool = False) -> _Streamed:
    async def render(
        conversation: ConversationReader, session_id: UUID, redacts: bool
    ) -> AsyncGenerator[bytes, None]:
        events = conversation.stream_standing(session_id, whole=whole, redacts=redacts)
        separator = b'{"messages":['
        async with aclosing(_stream_texts(events, fold(), encode, redacts=redacts)) as parts:
            async for texts in parts:
                yield separator + b",".join(texts)
                separator = b","
        yield b"]}" if separator == b"," else separator + b"]}"

    return _Streamed(render)


async def _render_codex_prompt(
    conversation: ConversationReader, session_id: UUID, redacts: bool
) -> AsyncGenerator[bytes, None]:
    events = conversation.stream_standing(session_id, redacts=redacts)
    start, separator = f"{CODEX_INTRODUCTION}\n\n".encode(), b"\n\n"
    async with aclosing(_stream_texts(events, CodexPromptFold(), str.encode, redacts=redacts)) as parts:
        async for texts in parts:
            yield start + separator.join(texts)
            start = separator
    if start is separator:
        yield b"\n"


async def _render_claude_prompt(
    conversation: ConversationReader, session_id: UUID, redacts: bool
) -> AsyncGenerator[bytes, None]:
    """Read the session twice, because no text may contain one of the tags."""
    tags, is_empty = PromptTags(), True

    def avoid(element: PromptElement) -> bytes:
        tags.avoid(element)
        return b""

    events = conversation.stream_standing(session_id, redacts=redacts)
    async with aclosing(_stream_texts(events, ClaudePromptFold(), avoid, redacts=False)) as parts:
        async for _ in parts:
            is_empty = False
            if len(tags) > _MAX_TAGS:
                raise SessionTooLarge
    if is_empty:
        return

    def write(element: PromptElement) -> bytes:
        if not tags.allows(element):
            raise SessionChanged
        return tags.write(element).encode()

    start = tags.begin().encode()
    events = conversation.stream_standing(session_id, redacts=redacts)
    async with aclosing(_stream_texts(events, ClaudePromptFold(), write, redacts=redacts)) as parts:
        async for texts in parts:
            yield start + b"\n".join(texts)
            start = b"\n"
    yield tags.end().encode()


_MAX_TAGS = 1_000_000
"""Different tags in the texts of a session."""


def _encode_ascii(message: Any) -> bytes:
    """Encode as ASCII JSON, because values of events may contain lone surrogates."""
    return json.dumps(message, separators=(",", ":")).encode()


async def _render_summary(conversation: ConversationReader, session_id: UUID, _: bool) -> bytes:
    return (await conversation.read_summary(session_id, is_bounded=True)).model_dump_json().encode()


def _render_atif(
    conversation: ConversationReader, session_id: UUID, redacts: bool
) -> AsyncGenerator[bytes, None]:
    return conversation.stream_atif(session_id, redacts=redacts)


def _render_otel_genai(
    conversation: ConversationReader, session_id: UUID, redacts: bool
) -> AsyncGenerator[bytes, None]:
    return conversation.stream_otel_genai(session_id, redacts=redacts)


def _render_otlp(
    conversation: ConversationReader, session_id: UUID, redacts: bool
) -> AsyncGenerator[bytes, None]:
    return conversation.stream_otlp(session_id, redacts=redacts)


PROJECTIONS: Mapping[str, _Projection | _Streamed] = {
    "anthropic-messages": _messages(AnthropicFold, msgspec.json.encode),
    "atif": _Streamed(_render_atif),
    "claude-prompt": _Streamed(_render_claude_prompt, "text/plain"),
    "codex-prompt": _Streamed(_render_codex_prompt, "text/plain"),
    "openai-messages": _messages(OpenAiFold, msgspec.json.encode),
    "otel-genai": _Streamed(_render_otel_genai),
    "otlp": _Streamed(_render_otlp),
    "session-summary": _Projection(_render_summary, JSON),
    "ui-messages": _messages(UiMessageFold, _encode_ascii, whole=True),
}


class ProjectionController(Controller):
    path = "/api/sessions/{session_id:uuid}/projections"
    tags = ("events",)

    @get(
        "/{name:str}",
        opt=documents(
            answer={
                JSON: ProjectedMessages | GenAiAttributes | SessionSummary | AtifTrajectory | OtlpTraces,
                "text/plain": text("The prompt; empty for an empty conversation."),
            }
        ),
        operation_id="projectSession",
        response_description="The projection: JSON, or text for the prompts.",
        responses=error_responses(*READ_ERRORS, *TEXT_ERRORS, NotFound, SessionChanged, SessionTooLarge),
    )
    async def get(
        self,
        request: Request[Any, Any, Any],
        reader: InjectedReader,
        session_id: FromPath[UUID],
        name: Annotated[
            str,
            PathParameter(
                description="The name of the projection.", schema_extra={"enum": sorted(PROJECTIONS)}
            ),
        ],
    ) -> Response[bytes] | Stream:
        """Project a session.

        Derives a projection from the session's events:

        `openai-messages` and `anthropic-messages`: the messages of an API request that continues the
        conversation. Content that the API would reject is left out (calls without results, results without
        calls, empty messages).

        `claude-prompt` and `codex-prompt`: the conversation as a single text for this CLI.

        `session-summary`: an overview of the session, including a session that is still running.

        `otel-genai`: the OpenTelemetry GenAI attributes of the last model call, with its answer and the
        conversation before it.

        `otlp`: the whole session as OpenTelemetry traces in OTLP/JSON, with a span for each turn, answer and
        tool call. A span contains only the new input of its call.

        `atif`: the whole session as a trajectory in the Agent Trajectory Interchange Format, with the
        trajectories of its subagents. Images and recordings are `data:` URLs.

        `ui-messages`: the whole session as `UIMessage`s of Vercel's AI SDK. They pass `validateUIMessages`.

        Stream chunks and retracted content are omitted. Thinking is omitted except in `otel-genai`, `otlp`,
        `atif` and `ui-messages`. A compaction summary replaces the summarized content except in `otlp`,
        `atif` and `ui-messages`.

        Messages and prompts are sent while the session is read, so sessions may have any length. If an error
        occurs after the first bytes, the response ends without its last chunk, and its JSON is incomplete. A
        result that follows its call after more than 1,000 messages or 64 MiB counts as missing; after more
        than 100 messages in `ui-messages`, it is data of a later message. `atif`, `otlp` and `otel-genai` are
        sent while a long session is read for the second time; in `atif`, a result more than 64 MiB after its
        call is a step of its own.
        """
        projection = PROJECTIONS.get(name)
        if projection is None:
            raise NotFound(f"The projections are {', '.join(PROJECTIONS)}.")
        redacts = is_redacted(request.scope)
        if isinstance(projection, _Streamed):
            response = await reader(lambda store: _start(projection, store, session_id, redacts), session_id)
            if redacts:
                mark_as_redacted(request.scope)
            return response
        content = await reader(
            lambda store: projection.render(store.conversation, session_id, redacts), session_id
        )
        return Response(content, media_type=projection.media_type)


async def _start(
    projection: _Streamed, store: Store, session_id: UUID, redacts: bool
) -> Response[bytes] | Stream:
    """Return the body if it is short, otherwise a stream. Begins again if the session changes before the response."""
    for _ in range(MAX_READS):
        chunks = buffered(projection.render(store.conversation, session_id, redacts))
        with suppress(SessionChanged):
            return await start_response(chunks, media_type=projection.media_type)
    raise SessionChanged
