"""The messages of a session: appended as they are, read by their place, each with its typed blocks where asked for."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from litestar import Controller, Request, Response, get, post
from litestar.datastructures import State
from litestar.openapi import ResponseSpec
from litestar.params import FromPath, PathParameter, QueryParameter
from msgspec import UNSET, Raw, Struct, UnsetType
from pydantic import MISSING, BaseModel, ConfigDict, Field

from ash_server.api.http.bodies import BODY_REFUSALS, JSON, NDJSON, Body, check_size, decode_body, read_body
from ash_server.api.http.connections import Pool
from ash_server.api.http.operations import MOST_IN_BATCH, json_list_of, json_of, operation, text
from ash_server.api.http.problems import READS, WRITES, refusals
from ash_server.api.http.write_connections import Writers
from ash_server.db import messages
from ash_server.db.events import Appended
from ash_server.db.messages import StoredMessage
from ash_server.db.pagination import may_go_on
from ash_server.errors import (
    BatchTooLarge,
    DuplicateInBatch,
    EmptyBatch,
    IdConflict,
    InvalidId,
    MessageNotFound,
    MessageTooLarge,
    NulByte,
    SequenceMismatch,
    SessionNotFound,
)
from ash_server.ingest import NewMessage, prepare_message
from ash_server.offload import offload, offload_each
from ash_server.settings import Settings
from ash_shared.model.message import LAST_SEQUENCE, Message, Role
from ash_shared.reading.parse import parse_message_content_json

_BLANKS = " \t\r"
_LINE_OF_TEXT = re.compile(r"[^\n]+")
_KINDS = r"(message|record|chunk)(,(message|record|chunk))*"

BlockType = Literal["text", "thinking", "tool_use", "tool_result", "image", "file", "raw"]


class AppendedMessage(BaseModel):
    """Where a message is now."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    id: str
    sequence: int
    created: bool
    """False where the same message was stored before."""


class AppendedMessages(BaseModel):
    """One for each message that was sent, in that order."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"messages": [{"id": "run-7/line-12", "sequence": 12, "created": True}]}]
        }
    )

    messages: list[AppendedMessage]


class MessagePage(BaseModel):
    """Messages in ascending order of their sequence."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    messages: list[Message]
    next_after: int | MISSING = Field(default=MISSING, alias="nextAfter")
    """The `after` of the next page; absent where nothing more can be there."""
    prev_before: int | MISSING = Field(default=MISSING, alias="prevBefore")
    """On a page that was asked for with `before`: the `before` of the page ahead of it, where there may be one."""


class _Message(Struct, rename="camel"):
    """`Message` as the wire has it, with the blocks as bytes that were never objects."""

    id: str
    session_id: str
    role: str
    kind: str
    source: str
    content: str | UnsetType
    sequence: int
    created_at: datetime
    parsed: Raw | UnsetType


class _Page(Struct, rename="camel"):
    messages: list[_Message]
    next_after: int | UnsetType
    prev_before: int | UnsetType


ExpectedSequence = Annotated[
    int | None,
    QueryParameter(
        name="expectedSequence",
        ge=0,
        le=LAST_SEQUENCE,
        schema_extra={"minimum": 0},  # which the framework drops of a parameter that may be left out
        description="The last sequence the writer knows of (0: none). Where the session has gone on since, "
        "nothing is stored.",
    ),
]

_decoder = msgspec.json.Decoder(NewMessage | list[NewMessage])
_encode = msgspec.json.Encoder().encode

_LINE = '{"type":"assistant","uuid":"5b0c","message":{"role":"assistant","content":[{"type":"text","text":"Done."}]}}'
_MESSAGE = {
    "id": "run-7/line-12",
    "sessionId": "0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60",
    "role": "assistant",
    "kind": "message",
    "source": "claude",
    "content": _LINE,
    "sequence": 12,
    "createdAt": "2026-11-02T09:31:55.002817Z",
    "parsed": [{"type": "text", "text": "Done."}],
}

_APPEND_BODY = {
    JSON: json_list_of(
        NewMessage,
        one={"content": _LINE, "id": "run-7/line-12"},
        several=[{"content": _LINE}, {"content": "plain words", "role": "user"}],
    ),
    NDJSON: text(
        "One message per line, each kept as it stands; blank lines are passed over.",
        pattern=r"^[^\x00]*[^\x00 \t\r\n][^\x00]*$",
        lines=f'{{"type":"user","message":{{"role":"user","content":"Go on."}}}}\n{_LINE}\n',
    ),
}
_APPEND_REFUSALS = refusals(
    *WRITES,
    *BODY_REFUSALS,
    SessionNotFound,
    MessageTooLarge,
    BatchTooLarge,
    EmptyBatch,
    InvalidId,
    IdConflict,
    SequenceMismatch,
    DuplicateInBatch,
    NulByte,
)


class MessageController(Controller):
    path = "/api/sessions/{session_id:uuid}/messages"
    tags = ("messages",)

    @post(
        operation_id="appendMessages",
        summary="Append messages, verbatim",
        description="One message, a list of them, or NDJSON. All are stored or none. A message that is stored "
        "already is answered with the sequence it has, so a request whose answer was lost may simply be repeated.",
        response_description="They are stored; those that were stored before have `created: false`.",
        responses={
            200: ResponseSpec(
                AppendedMessages,
                description="All of them were stored before, each with this same text.",
                generate_examples=False,
            ),
            **_APPEND_REFUSALS,
        },
        operation_class=operation(body=_APPEND_BODY),
    )
    async def append(
        self,
        request: Request[Any, Any, Any],
        state: State,
        writers: Writers,
        session_id: FromPath[UUID],
        expected_sequence: ExpectedSequence = None,
    ) -> Response[AppendedMessages]:
        sent = _READERS[(body := await read_body(request, *_READERS)).media_type](body)
        check_count(sent, "message")
        new = await described(state.settings, session_id, sent)
        async with writers.connection(session_id) as conn:
            stored = await messages.append(conn, session_id, new, expected_sequence=expected_sequence)
        state.hub.wake(session_id)
        return report(stored)

    @get(
        operation_id="listMessages",
        summary="List messages",
        description="In ascending order. Go forwards with `after` (begin at 0, go on with `nextAfter`, or with the "
        "last sequence you saw to ask for what is new), backwards with `before` (begin with the largest number, "
        "go on with `prevBefore`). The sequences of a session have no gap, but a filter shows only some of them.",
        response_description="A page of messages.",
        responses=refusals(*READS, SessionNotFound),
        operation_class=operation(
            answers={200: {JSON: json_of(MessagePage, parsed={"messages": [_MESSAGE], "nextAfter": 12})}}
        ),
    )
    async def list(  # noqa: PLR0913  # one argument per parameter of the query
        self,
        pool: Pool,
        session_id: FromPath[UUID],
        *,
        after: Annotated[
            int, QueryParameter(ge=0, le=LAST_SEQUENCE, description="Only those after this sequence.")
        ] = 0,
        before: Annotated[
            int | None,
            QueryParameter(
                ge=1, le=LAST_SEQUENCE, description="Only those before this sequence, and of them the last."
            ),
        ] = None,
        limit: Annotated[
            int, QueryParameter(ge=1, le=1000, description="The most messages to answer.")
        ] = 100,
        parsed: Annotated[bool, QueryParameter(description="Whether to add the typed blocks.")] = False,
        content: Annotated[bool, QueryParameter(description="Whether to send the stored text.")] = True,
        kind: Annotated[
            str, QueryParameter(pattern=f"^{_KINDS}$", description="Only these kinds, separated by commas.")
        ] = "message,record",
        role: Annotated[Role | None, QueryParameter(description="Only those of this role.")] = None,
        type: Annotated[
            BlockType | None, QueryParameter(description="Only those that have a block of this type.")
        ] = None,
    ) -> Response[MessagePage]:
        kinds: Any = kind.split(",")
        async with pool.connection() as conn:
            found = await messages.list_messages(
                conn, session_id, after=after, before=before, limit=limit, kinds=kinds, role=role, type=type
            )
        goes_on = may_go_on(found, limit)
        to_wire = partial(_to_wire, str(session_id), parsed=parsed, content=content)
        return _json(
            _Page(
                messages=await offload_each(to_wire, found),
                next_after=found[-1].sequence if goes_on and before is None else UNSET,
                prev_before=found[0].sequence if goes_on and before is not None else UNSET,
            )
        )

    @get(
        "/{sequence:int}",
        operation_id="getMessage",
        summary="Get one message",
        description="With its typed blocks; or, for `Accept: text/plain`, the stored text alone, byte for byte.",
        response_description="The message.",
        responses=refusals(*READS, SessionNotFound, MessageNotFound),
        operation_class=operation(
            answers={
                200: {
                    JSON: json_of(Message, message=_MESSAGE),
                    "text/plain": text("The stored text.", text=_LINE),
                }
            }
        ),
    )
    async def get(
        self,
        request: Request[Any, Any, Any],
        pool: Pool,
        session_id: FromPath[UUID],
        sequence: Annotated[
            int, PathParameter(ge=1, le=LAST_SEQUENCE, description="Its place in the session.")
        ],
    ) -> Response[Message]:
        async with pool.connection() as conn:
            stored = await messages.get_message(conn, session_id, sequence)
        if request.accept.best_match([JSON, "text/plain"]) == "text/plain":
            return Response[Any](stored.content.encode(), media_type="text/plain")
        to_wire = partial(_to_wire, str(session_id), parsed=True, content=True)
        return _json(await offload(to_wire, stored))


def _read_json(body: Body) -> list[NewMessage]:
    sent = decode_body(body.text, _decoder)
    return sent if isinstance(sent, list) else [sent]


def read_lines(body: Body, source: str | None = None) -> list[NewMessage]:
    """Of this source, if it is said. No more of them than show that they are too many."""
    lines = (match[0] for match in _LINE_OF_TEXT.finditer(body.text))
    return [
        NewMessage(line, source=source) for line in islice(filter(_is_not_blank, lines), MOST_IN_BATCH + 1)
    ]


def _is_not_blank(line: str) -> bool:
    return bool(line.strip(_BLANKS))


async def described(
    settings: Settings, session_id: UUID, sent: Sequence[NewMessage]
) -> list[messages.PreparedMessage]:
    """The messages to append. Raises MessageTooLarge."""
    for index, message in enumerate(sent):
        check_size(message.content, settings, index)
    return await offload_each(partial(_describe, session_id), sent)


def _describe(session_id: UUID, sent: NewMessage) -> messages.PreparedMessage:
    return prepare_message(session_id, sent.content, id=sent.id, role=sent.role, source=sent.source)


_READERS = {JSON: _read_json, NDJSON: read_lines}


def check_count(sent: Sequence[object], what: str) -> None:
    if not sent:
        raise EmptyBatch(f"It holds no {what}.")
    if len(sent) > MOST_IN_BATCH:
        raise BatchTooLarge(f"At most {MOST_IN_BATCH} {what}s are taken at once.")


def report(stored: Sequence[Appended]) -> Response[AppendedMessages]:
    reports = [AppendedMessage(**each._asdict()) for each in stored]
    return Response(AppendedMessages(messages=reports), status_code=status_of(stored))


def status_of(stored: Iterable[Appended]) -> int:
    """Of every append: whether it has made anything."""
    return 201 if any(each.created for each in stored) else 200


def _to_wire(session_id: str, stored: StoredMessage, *, parsed: bool, content: bool) -> _Message:
    return _Message(
        id=stored.id,
        session_id=session_id,
        role=stored.role,
        kind=stored.kind,
        source=stored.source,
        content=stored.content if content else UNSET,
        sequence=stored.sequence,
        created_at=stored.created_at,
        parsed=Raw(parse_message_content_json(stored.content, stored.source)) if parsed else UNSET,
    )


def _json(value: _Page | _Message) -> Response[Any]:
    return Response(_encode(value), media_type=JSON)
