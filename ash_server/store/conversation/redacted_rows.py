"""Redacted rows of the store, for exports and for clients that see only redacted texts.

Markdown, snippets and the like are made from redacted rows, because a secret is not recognised once it has been cut,
escaped or encoded.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from ash_server.redaction import redact_json, redact_name, redact_text
from ash_server.redaction.chunks import hide_event_texts, hide_texts
from ash_server.store.log.events import StoredEvent
from ash_server.store.message_pages import MessageBlocks, StoredMessage
from ash_shared.model.message import StandardMessage
from ash_shared.model.session import Session
from ash_shared.parsing.parsed_text import parse_text
from ash_shared.records.steps import Chunk


def redact_session(session: Session) -> Session:
    redacted = Session.model_validate_json(redact_json(session.model_dump_json()))
    names = {name: getattr(session, name) for name in ("title", "prompt")}
    return redacted.model_copy(
        update={name: redact_name(text) for name, text in names.items() if isinstance(text, str)}
    )


def redact_standard_message(message: StandardMessage) -> StandardMessage:
    # Pydantic's own decoder limits the depth of the message, and blocks alone may have as many levels.
    return StandardMessage.model_validate(json.loads(redact_json(message.model_dump_json())))


def redact_standard_messages(messages: Iterable[StandardMessage]) -> list[StandardMessage]:
    return list(map(redact_standard_message, messages))


def redact_message(message: StoredMessage) -> StoredMessage:
    message = hide_chunk(message)
    return replace(message, content=redact_text(message.content))


def redact_event(event: StoredEvent) -> StoredEvent:
    event = hide_event_chunk(event)
    return replace(event, content=redact_json(event.content.decode()).encode())


def json_encoder(*, redacts: bool, **options: Any) -> Callable[[Any], bytes]:
    """Return a function that encodes values as `json.dumps` does with these options; `redacts`: without secrets.

    The whole text is redacted, because some secrets are not in one string.
    """

    def encode(value: Any) -> bytes:
        text = json.dumps(value, **options)
        return (redact_text(text) if redacts else text).encode()

    return encode


def hide_chunk(message: StoredMessage) -> StoredMessage:
    """Return the message; a stream chunk, or a message that contains one, loses its texts."""
    if not _has_chunks(message):
        return message
    return replace(message, content=hide_texts(message.content.encode()).decode())


def hide_chunk_of_page(row: StoredMessage | MessageBlocks) -> StoredMessage | MessageBlocks:
    if isinstance(row, StoredMessage):
        return hide_chunk(row)
    if row.is_copied:  # from a complete message
        return row
    return replace(row, content=hide_texts(row.content)) if _has_chunks(row) else row


def _has_chunks(row: StoredMessage | MessageBlocks) -> bool:
    """True for a piece of an answer. In some formats, such as Gemini's, each piece is a message."""
    if row.kind != "message":
        return row.kind == "chunk"
    return any(isinstance(step, Chunk) for step in parse_text(row.content, row.source).steps(row.source))


def hide_event_chunk(event: StoredEvent) -> StoredEvent:
    """Return the event; a stream chunk loses its texts."""
    return replace(event, content=hide_event_texts(event.type, event.content))


def hide_event_chunks(events: Iterable[StoredEvent]) -> list[StoredEvent]:
    return [hide_event_chunk(event) for event in events]
