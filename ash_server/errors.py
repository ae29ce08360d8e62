"""Everything Ash refuses, one class per stable `code`.

A class says what is wrong; an instance says where. Neither ever carries the content of a message: errors are
logged, sent back and shown, and what agents write is nobody else's business.
"""

from typing import Any


class AshError(Exception):
    """A refusal that a caller can understand and act on."""

    status: int = 500
    code: str = "internal_error"
    title: str = "Something went wrong inside Ash."

    def __init__(self, detail: str | None = None, *, index: int | None = None, **extra: Any) -> None:
        super().__init__(detail or self.title)
        self.detail = detail or self.title
        self.index = index
        """Which message of a batch is meant, counted from 0."""
        self.extra = extra
        """Further members of the problem document, named as on the wire."""


class InvalidId(AshError):
    status, code, title = 400, "invalid_id", "An id is a text of 1 to 255 characters."


class InvalidJson(AshError):
    status, code, title = 400, "invalid_json", "The body is not valid JSON."


class InvalidUtf8(AshError):
    status, code, title = 400, "invalid_utf8", "The text is not valid UTF-8."


class InvalidParameter(AshError):
    status, code, title = 400, "invalid_parameter", "A parameter has a value it cannot have."


class InvalidBody(AshError):
    """Carries `errors`."""

    status, code, title = 400, "invalid_body", "The body does not have the shape that the route reads."


class EmptyBatch(AshError):
    status, code, title = 400, "empty_batch", "The batch is empty."


class TooDeep(AshError):
    status, code, title = 400, "too_deep", "The body is nested too deeply."


class OriginNotAllowed(AshError):
    status, code, title = (
        403,
        "origin_not_allowed",
        "A page of another origin may not change or follow anything here.",
    )


class NotFound(AshError):
    status, code, title = 404, "not_found", "There is nothing at this address."


class SessionNotFound(AshError):
    status, code, title = 404, "session_not_found", "No session has this id."


class MessageNotFound(AshError):
    status, code, title = 404, "message_not_found", "The session has no message with this sequence."


class MethodNotAllowed(AshError):
    status, code, title = 405, "method_not_allowed", "This address does not answer to this method."


class BodyTimeout(AshError):
    status, code, title = 408, "body_timeout", "The body did not arrive in time."


class IdConflict(AshError):
    status, code, title = 409, "id_conflict", "Another message or event of the session has this id."


class SequenceMismatch(AshError):
    """Carries `currentSequence`."""

    status, code, title = 409, "sequence_mismatch", "The session has gone on since the expected sequence."


class CursorAhead(AshError):
    """Carries `currentSequence`."""

    status, code, title = 409, "cursor_ahead", "The cursor is past the last entry of the session."


class BodyTooLarge(AshError):
    status, code, title = 413, "body_too_large", "The body is larger than the server accepts."


class MessageTooLarge(AshError):
    status, code, title = 413, "message_too_large", "The message is larger than the server accepts."


class BatchTooLarge(AshError):
    status, code, title = 413, "batch_too_large", "The batch holds more than the server accepts."


class UnsupportedMediaType(AshError):
    status, code, title = 415, "unsupported_media_type", "The body has a media type the route does not read."


class HostNotAllowed(AshError):
    status, code, title = 421, "host_not_allowed", "The server does not go by the name in the Host header."


class DuplicateInBatch(AshError):
    status, code, title = 422, "duplicate_in_batch", "The batch names the same id twice."


class SessionTooLarge(AshError):
    status, code, title = (
        422,
        "session_too_large",
        "The session is too large to be put together as one answer.",
    )


class NulByte(AshError):
    status, code, title = 422, "nul_byte", "PostgreSQL cannot keep a text that holds a NUL character."


class UpgradeRequired(AshError):
    status, code, title = 426, "upgrade_required", "This address speaks WebSocket alone."


class DatabaseUnavailable(AshError):
    status, code, title = 503, "database_unavailable", "The database does not answer."


class SchemaMismatch(AshError):
    status, code, title = 503, "schema_mismatch", "The database is not of this version of Ash."
