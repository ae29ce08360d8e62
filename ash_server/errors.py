"""All errors of the server, one class per stable `code`.

Errors never contain message contents, because they are logged and returned to clients.
"""

from collections.abc import Mapping
from typing import Any


class AshError(Exception):
    """An error that the caller can handle."""

    status: int = 500
    code: str = "internal_error"
    title: str = "Internal error."
    advice: str | None = None
    """What was stored and what to do, for the documentation of the API; the title alone is in the response."""
    headers: Mapping[str, str] = {}
    """Headers of the response."""

    def __init__(self, detail: str | None = None, *, index: int | None = None, **extra: Any) -> None:
        super().__init__(detail or self.title)
        self.detail = detail or self.title
        self.index = index
        """Index in the batch, counted from 0."""
        self.extra = extra
        """Further fields of the problem document, named as in JSON."""


class InvalidId(AshError):
    status, code, title = 400, "invalid_id", "An id has 1 to 255 characters."


class InvalidJson(AshError):
    status, code, title = 400, "invalid_json", "The body is not valid JSON."


class InvalidUtf8(AshError):
    status, code, title = 400, "invalid_utf8", "The text is not valid UTF-8."


class InvalidRequest(AshError):
    status, code, title = 400, "invalid_request", "The request is not valid HTTP."


class InvalidParameter(AshError):
    status, code, title = 400, "invalid_parameter", "A parameter is invalid."


class InvalidBody(AshError):
    """Carries `errors`."""

    status, code, title = 400, "invalid_body", "The body does not match the schema of the route."


class EmptyBatch(AshError):
    status, code, title = 400, "empty_batch", "The batch is empty."


class TooDeep(AshError):
    status, code, title = 400, "too_deep", "The body is nested too deeply."


class KeyRequired(AshError):
    status, code, title = 401, "key_required", "The request needs a key: `Authorization: Bearer ash_…`."


class KeyInvalid(AshError):
    """The same for keys that never existed, were revoked, or have expired."""

    status, code, title = 401, "key_invalid", "The key is not valid."


class ScopeMissing(AshError):
    status, code, title = 403, "scope_missing", "The key does not allow this."


class OriginNotAllowed(AshError):
    status, code, title = (
        403,
        "origin_not_allowed",
        "Pages of other origins may neither change nor subscribe to anything.",
    )


class NotFound(AshError):
    status, code, title = 404, "not_found", "No resource has this path."


class SessionNotFound(AshError):
    status, code, title = 404, "session_not_found", "No session has this id."


class TenantNotFound(AshError):
    status, code, title = 404, "tenant_not_found", "No tenant has this name."


class MessageNotFound(AshError):
    status, code, title = 404, "message_not_found", "The session has no message with this sequence."


class MethodNotAllowed(AshError):
    status, code, title = 405, "method_not_allowed", "The route does not support this method."


class BodyTimeout(AshError):
    status, code, title = 408, "body_timeout", "The body was not received completely."


class HeadersTimeout(AshError):
    status, code, title = 408, "headers_timeout", "The headers were not received completely."


class ShareRefused(AshError):
    status, code, title = 409, "share_refused", "The session cannot be shared."


class IdConflict(AshError):
    status, code, title = 409, "id_conflict", "A different message or event of the session has this id."


class SequenceMismatch(AshError):
    """Carries `currentSequence`."""

    status, code, title = 409, "sequence_mismatch", "The session has messages after the expected sequence."


class SessionChanged(AshError):
    status, code, title = (
        409,
        "session_changed",
        "The session was deleted, replaced or rebuilt while it was read.",
    )


class CursorAhead(AshError):
    """Carries `currentSequence`."""

    status, code, title = 409, "cursor_ahead", "The cursor is after the last event of the session."


class MessageDeleted(AshError):
    status, code, title = 410, "message_deleted", "The message was deleted."


class BodyTooLarge(AshError):
    status, code, title = 413, "body_too_large", "The body exceeds the size limit."


class MessageTooLarge(AshError):
    status, code, title = 413, "message_too_large", "The message exceeds the size limit."


class BatchTooLarge(AshError):
    status, code, title = 413, "batch_too_large", "The batch exceeds the size limit."


class UnsupportedMediaType(AshError):
    status, code, title = 415, "unsupported_media_type", "The route does not accept this media type."


class HostNotAllowed(AshError):
    status, code, title = 421, "host_not_allowed", "The Host header is not a name of this server."


class DuplicateInBatch(AshError):
    status, code, title = 422, "duplicate_in_batch", "The batch contains an id more than once."


class SessionMismatch(AshError):
    status, code, title = 422, "session_mismatch", "The `sessionId` of the event names another session."


class SessionTooLarge(AshError):
    status, code, title = (
        422,
        "session_too_large",
        "The session is too large for one response.",
    )


class InvalidBudget(AshError):
    status, code, title = 422, "invalid_budget", "The budget cannot be set."


class InvalidRetention(AshError):
    status, code, title = 422, "invalid_retention", "The retention policy cannot be set."


class InvalidReport(AshError):
    status, code, title = (
        422,
        "invalid_report",
        "The dimensions or the time zone of the report are not valid.",
    )


class NulByte(AshError):
    status, code, title = 422, "nul_byte", "Text cannot contain NUL characters."


class UpgradeRequired(AshError):
    status, code, title = 426, "upgrade_required", "This route requires a WebSocket upgrade."


class RateLimited(AshError):
    status, code, title = 429, "rate_limited", "The key sends more requests than it may."

    def __init__(self, detail: str | None = None, *, retry_after: int = 1) -> None:
        super().__init__(detail)
        self.headers = {"Retry-After": str(retry_after)}


class HeadersTooLarge(AshError):
    status, code, title = 431, "headers_too_large", "The request line and headers exceed the size limit."


class ServerStopped(AshError):
    """Ends streams."""

    status, code, title = 503, "server_stopped", "The server has stopped."


class SecretMissing(AshError):
    status, code, title = 503, "secret_missing", "The server has no secret to check keys with."


class DatabaseUnavailable(AshError):
    status, code, title = 503, "database_unavailable", "The database is unavailable."


class ArchiveDamaged(AshError):
    status, code, title = 503, "archive_damaged", "The archive of the session is missing or damaged."
    advice = "Restore the database from a backup; `ash cold verify` lists the damaged archives."

    def __init__(self, detail: str = title) -> None:
        super().__init__(f"{detail} {self.advice}")


class SessionCold(AshError):
    status, code, title = 503, "session_cold", "A replica cannot restore the texts of the session."


class WriteUnconfirmed(DatabaseUnavailable):
    """The connection was lost after the statements were sent: PostgreSQL may have committed them."""

    status, code, title = 503, "write_unconfirmed", "The database did not confirm the write."
    advice = "It may be stored; repeat it with the same ids."


class SchemaMismatch(AshError):
    status, code, title = 503, "schema_mismatch", "The database schema belongs to another version of Ash."


class DiskFull(AshError):
    status, code, title = 507, "disk_full", "The disk of the database is full."
    advice = "Nothing was stored."


def missing_package_message(error: ModuleNotFoundError) -> str:
    """Return one line that names the missing package and says how to install it."""
    package = (error.name or "").partition(".")[0]
    return f"ash-messages is installed without {package}; `pip install PATH/TO/CLONE` installs everything it needs"
