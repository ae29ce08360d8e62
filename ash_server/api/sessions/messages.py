"""Append, list, compare and delete the messages of a session."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from litestar import Controller, Request, Response, delete, get, post
from litestar.datastructures import State
from litestar.openapi import ResponseSpec
from litestar.params import FromPath, PathParameter, QueryParameter
from msgspec import UNSET, Meta, Raw, Struct, defstruct

from ash_server.api.http.bodies import (
    BODY_ERRORS,
    JSON,
    MAX_BATCH_SIZE,
    NDJSON,
    TEXT,
    Body,
    check_body_size,
    check_count,
    check_size,
    check_values,
    decode_body,
    read_body,
)
from ash_server.api.http.caching import cache_headers, has_current, not_modified, tag_of_messages
from ash_server.api.http.dependencies import InjectedReader, InjectedStore
from ash_server.api.http.guards.access import may_read, needs, record
from ash_server.api.http.openapi.operations import documents, text
from ash_server.api.http.parameters import ExpectedSequence, OnlyRole, format_parameter, id_parameter
from ash_server.api.http.problems import READ_ERRORS, TEXT_ERRORS, WRITE_ERRORS, error_responses
from ash_server.api.http.redaction import is_redacted
from ash_server.api.metrics import count_appended
from ash_server.api.sessions.sessions import check_metadata_depth
from ash_server.errors import (
    BatchTooLarge,
    DuplicateInBatch,
    EmptyBatch,
    IdConflict,
    InvalidId,
    InvalidParameter,
    MessageDeleted,
    MessageNotFound,
    MessageTooLarge,
    NulByte,
    SequenceMismatch,
)
from ash_server.offload import offload, offload_each
from ash_server.settings import Settings
from ash_server.store.conversation.redacted_rows import hide_chunk, hide_chunk_of_page
from ash_server.store.log.events import Appended
from ash_server.store.message_pages import MessageBlocks, MessageFilter, StoredMessage
from ash_server.store.prepare import MessageId, NewMessage
from ash_server.store.session_facts import to_milliseconds
from ash_server.store.text import check_text
from ash_server.transfer.importing.lines import MAX_LINE_BYTES
from ash_shared.model.message import LAST_SEQUENCE, Message, Role
from ash_shared.model.pages import (
    AppendedMessages,
    DifferentText,
    MessageComparison,
    MessagePage,
)

_BLANKS = " \t\r"
_NON_EMPTY_LINE = re.compile(r"[^\n]+")
_KINDS = r"(message|record|chunk|deleted)(,(message|record|chunk|deleted))*"

BlockType = Literal["text", "thinking", "tool_use", "tool_result", "image", "file", "raw"]


MessageSequence = Annotated[
    int, PathParameter(ge=1, le=LAST_SEQUENCE, description="The sequence of the message.")
]

WrittenAt = Annotated[
    datetime | None,
    QueryParameter(
        name="writtenAt",
        description="The time of events without a timestamp of their own, for example the modification time of a "
        "file. Default: now.",
    ),
]


class MessageDigest(Struct, forbid_unknown_fields=True):
    """A text to compare with the stored text of the same id."""

    id: MessageId
    sha256: Annotated[
        str, Meta(pattern="^[0-9a-f]{64}$", description="SHA-256 of the UTF-8 text, in hexadecimal.")
    ]


class Commit(Struct, forbid_unknown_fields=True, rename="camel"):
    """Messages and metadata that are stored together."""

    messages: list[NewMessage] = []
    metadata: Annotated[
        dict[str, Any] | None,
        Meta(
            description="Merged into the session's metadata key by key. A null value removes the key.",
            examples=[{"summary": "Two tests fail."}],
        ),
    ] = None
    expected_sequence: Annotated[
        Annotated[int, Meta(ge=0, le=LAST_SEQUENCE)] | None,
        Meta(description="The last sequence that the client knows; 0 if none."),
    ] = None


_CommitFields: Any = defstruct(
    "_CommitFields", [(name, Raw, Raw()) for name in Commit.__struct_fields__], rename="camel"
)
"""The fields of `Commit` as JSON. Other fields are skipped, so that a large body is not built in memory."""


AfterMessage = Annotated[
    int, QueryParameter(ge=0, le=LAST_SEQUENCE, description="Only messages after this sequence.")
]
BeforeMessage = Annotated[
    int | None,
    QueryParameter(ge=1, le=LAST_SEQUENCE, description="Only the last messages before this sequence."),
]
MessageLimit = Annotated[int, QueryParameter(ge=1, le=1000, description="Maximum number of messages.")]
WithBlocks = Annotated[bool, QueryParameter(description="Include the typed blocks.")]
WithText = Annotated[bool, QueryParameter(description="Include the stored text.")]
OnlyKinds = Annotated[
    str,
    QueryParameter(
        pattern=f"^{_KINDS}$",
        description="Only messages with these kinds, separated by commas. All kinds together have no gaps.",
    ),
]
OnlyBlockType = Annotated[
    BlockType | None, QueryParameter(description="Only messages that contain this type of block.")
]

_NOT_MODIFIED = {304: ResponseSpec(None, description="`If-None-Match` matches the current `ETag`.")}

_decoder = msgspec.json.Decoder(NewMessage | list[NewMessage])
_commit_decoder = msgspec.json.Decoder(Commit)
_fields_decoder: msgspec.json.Decoder[Struct] = msgspec.json.Decoder(_CommitFields)
_digest_decoder = msgspec.json.Decoder(list[MessageDigest])
_encode = msgspec.json.Encoder().encode

TextId = Annotated[str | None, id_parameter("The `id` of a message sent as `text/plain`.")]
TextFallbackId = Annotated[
    str | None, id_parameter("The `fallbackId` of a message sent as `text/plain`.", "fallbackId")
]
TextSource = Annotated[
    str | None, format_parameter("The format of a message sent as `text/plain`. Default: detected.")
]
TextRole = Annotated[
    Role | None, QueryParameter(description="The role of a message sent as `text/plain`. Default: detected.")
]

_APPEND_BODY = {
    JSON: Commit,
    NDJSON: text(
        "One message per line, stored verbatim; blank lines are skipped.",
        pattern=r"^[^\x00]*[^\x00 \t\r\n][^\x00]*$",
    ),
    TEXT: text("The text of one message.", pattern=r"^[^\x00]*$"),
}
_APPEND_RESPONSES = {
    200: ResponseSpec(AppendedMessages, description="No message was new.", generate_examples=False),
    **error_responses(
        *WRITE_ERRORS,
        *TEXT_ERRORS,
        *BODY_ERRORS,
        MessageTooLarge,
        BatchTooLarge,
        EmptyBatch,
        InvalidId,
        InvalidParameter,
        IdConflict,
        SequenceMismatch,
        DuplicateInBatch,
        NulByte,
    ),
}


async def append_messages(  # noqa: PLR0913  # one argument per parameter
    self: Controller,
    request: Request[Any, Any, Any],
    state: State,
    store: InjectedStore,
    session_id: FromPath[UUID],
    *,
    expected_sequence: ExpectedSequence = None,
    written_at: WrittenAt = None,
    id: TextId = None,
    fallback_id: TextFallbackId = None,
    source: TextSource = None,
    role: TextRole = None,
) -> Response[AppendedMessages]:
    """Append messages verbatim.

    Send an object with messages and metadata, NDJSON, or the text of one message as `text/plain`. A list of messages
    or a single one is accepted instead of the object. Everything is stored in one transaction, or nothing. For a
    message that is already stored the existing sequence is returned, so a request can be repeated if its response was
    lost.

    To compute metadata from a session, read the session, and send the metadata with its last sequence as
    `expectedSequence`; if another client was faster (`sequence_mismatch`), do both again. A repeated request changes
    no metadata: if some of its messages are stored already, only the others are appended.

    A list or NDJSON has up to 8 MiB; an object or a text up to 64 MiB, the limit of a line in an imported file. The
    only message of an object may be as large as its body.
    """
    body = await read_body(request, *_BODY_PARSERS, TEXT)
    of_text = {"id": id, "fallback_id": fallback_id, "source": source, "role": role}
    if body.media_type == TEXT:
        commit = Commit([NewMessage(body.text, **of_text)])  # type: ignore[arg-type]  # by name
    elif any(value is not None for value in of_text.values()):
        raise InvalidParameter("id, fallbackId, source and role in the query are for text/plain.")
    else:
        commit = _BODY_PARSERS[body.media_type](body, state.settings)
    stored = await store.messages.append(
        session_id,
        commit.messages,
        expected_sequence=_only(expected_sequence, commit.expected_sequence),
        metadata=commit.metadata,
        now=_milliseconds(written_at),
    )
    return appended_response("messages", stored)


class MessageController(Controller):
    path = "/api/sessions/{session_id:uuid}/messages"
    tags = ("messages",)

    append = post(
        opt=documents(body=_APPEND_BODY),
        operation_id="appendMessages",
        response_description="Stored; messages that were already stored have `created: false`.",
        responses=_APPEND_RESPONSES,
        request_max_body_size=MAX_LINE_BYTES,
    )(append_messages)

    append_at_old_address = post(
        ["/text", "/commit"], include_in_schema=False, request_max_body_size=MAX_LINE_BYTES
    )(append_messages)
    """Addresses of clients from before the first release."""

    @post(
        "/compare",
        opt=documents(body={JSON: list[MessageDigest]}),
        operation_id="compareMessages",
        response_description="The ids of equal texts, and the first stored text that differs, if the key can read it "
        "unredacted.",
        status_code=200,
        responses=error_responses(
            *WRITE_ERRORS, *TEXT_ERRORS, *BODY_ERRORS, EmptyBatch, BatchTooLarge, NulByte
        ),
    )
    async def compare(
        self, request: Request[Any, Any, Any], store: InjectedStore, session_id: FromPath[UUID]
    ) -> MessageComparison:
        """Compare texts with stored messages.

        Compares digests, so a program that sends a file again learns which lines are already stored without
        sending them. Texts are compared in the order of the request, up to the first difference.
        """
        batch = decode_body((await read_body(request, JSON)).text, _digest_decoder)
        check_count(batch, "message")
        for each in batch:
            check_text(each.id, "the id")
        digests = {each.id: bytes.fromhex(each.sha256) for each in batch}
        equal, deleted, different = await store.messages.compare_contents(session_id, digests)
        stored = None
        if different is not None:
            id, content = different
            # The text may be a stream chunk with a piece of a secret.
            shows = may_read(request.scope) and not is_redacted(request.scope)
            stored = DifferentText(id=id, content=content if shows else None)
        return MessageComparison(equal=equal, deleted=deleted or None, different=stored)

    @get(
        operation_id="listMessages",
        response_description="A page of messages.",
        responses={**_NOT_MODIFIED, **error_responses(*READ_ERRORS, *TEXT_ERRORS)},
    )
    async def list(  # noqa: PLR0913  # one argument per parameter of the query
        self,
        request: Request[Any, Any, Any],
        reader: InjectedReader,
        session_id: FromPath[UUID],
        *,
        after: AfterMessage = 0,
        before: BeforeMessage = None,
        limit: MessageLimit = 100,
        parsed: WithBlocks = False,
        content: WithText = True,
        kind: OnlyKinds = "message,record",
        role: OnlyRole = None,
        type: OnlyBlockType = None,
    ) -> Response[MessagePage]:
        """List messages.

        Messages are sorted by ascending sequence. To page forwards, start with `after=0` and continue with
        `nextAfter`; to poll for new messages, pass the last sequence received. To page backwards, start with
        `before` set to the largest number and continue with `prevBefore`. With filters, a page reads a limited
        number of messages: it may be short, or empty, although it has a cursor. Sequences have gaps only where
        filters omit messages. A deleted message has the kind `deleted`, and neither text nor blocks.
        """
        kinds: Any = kind.split(",")
        page = MessageFilter(after=after, before=before, limit=limit, kinds=kinds, role=role, type=type)
        rows, cursors = await reader(
            lambda store: store.messages.list_page(session_id, blocks=parsed and not content, **page),
            session_id,
        )
        tag = tag_of_messages(request.scope, rows, JSON, cursors)
        headers = cache_headers(request.scope, tag)
        if has_current(request, tag):
            return not_modified(headers, JSON)
        to_wire = partial(_to_wire, str(session_id), parsed=parsed, content=content)
        if is_redacted(request.scope):
            rows = await asyncio.to_thread(lambda page: list(map(hide_chunk_of_page, page)), rows)
        return _json_response({"messages": await offload_each(to_wire, rows)} | cursors, headers)

    @get(
        "/{sequence:int}",
        opt=documents(answer={JSON: Message, TEXT: text("The stored text.")}),
        operation_id="getMessage",
        response_description="The message.",
        responses={
            **_NOT_MODIFIED,
            **error_responses(*READ_ERRORS, *TEXT_ERRORS, MessageNotFound, MessageDeleted),
        },
    )
    async def get(
        self,
        request: Request[Any, Any, Any],
        reader: InjectedReader,
        session_id: FromPath[UUID],
        sequence: MessageSequence,
    ) -> Response[Message]:
        """Get one message.

        The message includes its typed blocks. With `Accept: text/plain`, the response is the stored text, byte
        for byte.
        """
        stored = await reader(lambda store: store.messages.get_message(session_id, sequence), session_id)
        media_type = request.accept.best_match([JSON, TEXT], JSON) or JSON
        tag = tag_of_messages(request.scope, [stored], media_type)
        headers = cache_headers(request.scope, tag)
        if has_current(request, tag):
            return not_modified(headers, media_type)
        if is_redacted(request.scope):
            stored = await offload(hide_chunk, stored)
        if media_type == TEXT:
            return Response[Any](stored.content.encode(), media_type=TEXT, headers=headers)
        return await _message_response(session_id, stored, headers)

    @delete(
        "/{sequence:int}",
        opt=needs("delete"),
        operation_id="deleteMessage",
        response_description="The message is deleted.",
        responses=error_responses(*WRITE_ERRORS, *TEXT_ERRORS, MessageNotFound),
    )
    async def delete(
        self,
        request: Request[Any, Any, Any],
        store: InjectedStore,
        session_id: FromPath[UUID],
        sequence: MessageSequence,
    ) -> None:
        """Delete one message.

        Deletes the text and all data derived from the text. The sequence and the id are not reused: another
        append, import or push of the same message stores nothing. Readers receive a `retraction` with the
        reason `deleted`. If events of other messages depend on the deleted message, a `reset` and the rebuilt
        events precede the retraction. Requires the scope `delete`.
        """
        if await store.messages.delete(session_id, sequence) is not None:
            await record(request, "message.delete", f"{session_id}/{sequence}")

    @post(
        "/pop",
        opt=needs("read", "delete"),
        operation_id="popMessage",
        response_description="The deleted message.",
        status_code=200,
        responses=error_responses(*WRITE_ERRORS, *TEXT_ERRORS, MessageNotFound),
    )
    async def pop(
        self, request: Request[Any, Any, Any], store: InjectedStore, session_id: FromPath[UUID]
    ) -> Response[Message]:
        """Delete the last message and return it.

        Concurrent requests receive different messages, and a repeated request deletes the previous message.
        Stream chunks are skipped. Requires the scopes `read` and `delete`.
        """
        stored = await store.messages.pop(session_id)
        if stored is None:
            raise MessageNotFound("The session has no message.")
        await record(request, "message.delete", f"{session_id}/{stored.sequence}")
        return await _message_response(session_id, stored)


def _parse_json(body: Body, settings: Settings) -> Commit:
    if _is_commit(body.text):
        return _parse_commit(body.text, settings)
    check_body_size(body.text, settings)
    decoded = decode_body(body.text, _decoder)
    return _check_batch(decoded if isinstance(decoded, list) else [decoded], settings)


def _is_commit(text: str) -> bool:
    """True for an object with a field of a commit."""
    try:
        fields = _fields_decoder.decode(text)
    except (msgspec.DecodeError, RecursionError):  # reported by the decoder of messages
        return False
    return bool(fields != _CommitFields())


def _parse_commit(text: str, settings: Settings) -> Commit:
    check_values(text)
    commit = decode_body(text, _commit_decoder)
    if len(commit.messages) != 1:
        check_sizes(settings, commit.messages)
    if commit.messages:
        check_count(commit.messages, "message")
    check_metadata_depth(commit.metadata)
    return commit


def _parse_ndjson(body: Body, settings: Settings) -> Commit:
    check_body_size(body.text, settings)
    return _check_batch(parse_lines(body), settings)


def _check_batch(batch: Sequence[NewMessage], settings: Settings) -> Commit:
    check_count(batch, "message")
    check_sizes(settings, batch)
    return Commit([*batch])


def _only(in_query: int | None, in_body: int | None) -> int | None:
    if in_query is not None and in_body is not None and in_query != in_body:
        raise InvalidParameter("expectedSequence in the query and in the body differ.")
    return in_body if in_query is None else in_query


def parse_lines(body: Body, source: str | None = None) -> list[NewMessage]:
    """Return a message for each non-blank line, at most one more than a batch may contain."""
    lines = (match[0] for match in _NON_EMPTY_LINE.finditer(body.text))
    return [
        NewMessage(line, source=source) for line in islice(filter(_is_not_blank, lines), MAX_BATCH_SIZE + 1)
    ]


def _is_not_blank(line: str) -> bool:
    return bool(line.strip(_BLANKS))


def check_sizes(settings: Settings, batch: Sequence[NewMessage]) -> None:
    """Raises MessageTooLarge."""
    for index, message in enumerate(batch):
        check_size(message.content, settings, index)


def _milliseconds(time: datetime | None) -> int | None:
    """Return a time as milliseconds since 1970. A time without a time zone is in UTC."""
    if time is None:
        return None
    return to_milliseconds(time if time.tzinfo else time.replace(tzinfo=UTC))


_BODY_PARSERS: Mapping[str, Callable[[Body, Settings], Commit]] = {
    JSON: _parse_json,
    NDJSON: _parse_ndjson,
}


def appended_response(what: Literal["events", "messages"], stored: Sequence[Appended]) -> Response[Any]:
    """Count the new entries and return their positions, with status 201 if any entry was created."""
    count_appended(what, stored)
    body = _encode({what: list(map(_to_entry, stored))})
    return Response(body, media_type=JSON, status_code=201 if any(each.created for each in stored) else 200)


def _to_entry(stored: Appended) -> dict[str, Any]:
    """Return an `AppendedMessage` or a `PostedEvent` as a dict, which is faster than these classes."""
    entry = {"id": stored.id, "sequence": stored.sequence, "created": stored.created}
    return {**entry, "deleted": True} if stored.deleted else entry


_EncodableMessage: Any = defstruct(
    "_EncodableMessage", [(name, Any, UNSET) for name in Message.model_fields], rename="camel"
)
"""The fields of `Message` as a struct, which is encoded faster than a dict."""


def _to_wire(
    session_id: str, stored: StoredMessage | MessageBlocks, *, parsed: bool, content: bool
) -> Struct:
    """Return the message with the stored JSON of its blocks, which is inserted without decoding."""
    is_deleted = stored.kind == "deleted"
    has_text = content and not is_deleted and isinstance(stored, StoredMessage)
    message: Struct = _EncodableMessage(
        id=stored.id,
        session_id=session_id,
        role=stored.role,
        kind=stored.kind,
        source=stored.source,
        content=stored.content if has_text else UNSET,
        sequence=stored.sequence,
        created_at=stored.created_at,
        parsed=Raw(stored.blocks_json()) if parsed and not is_deleted else UNSET,
    )
    return message


async def _message_response(
    session_id: UUID, stored: StoredMessage, headers: Mapping[str, str] | None = None
) -> Response[Any]:
    to_wire = partial(_to_wire, str(session_id), parsed=True, content=True)
    return _json_response(await offload(to_wire, stored), headers)


def _json_response(value: Struct | Mapping[str, Any], headers: Mapping[str, str] | None) -> Response[Any]:
    return Response(_encode(value), media_type=JSON, headers=headers)
