"""Error responses: problem details (RFC 9457) with a stable `code`, never with message contents."""

import logging
import re
import traceback
from collections.abc import Mapping
from itertools import groupby
from typing import Any, Self

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.openapi import ResponseSpec
from litestar.openapi.spec import Example
from litestar.types import ExceptionHandlersMap
from pydantic import ConfigDict, Field

from ash_server.errors import (
    ArchiveDamaged,
    AshError,
    BodyTooLarge,
    DatabaseUnavailable,
    DiskFull,
    HostNotAllowed,
    InvalidBody,
    InvalidParameter,
    KeyInvalid,
    KeyRequired,
    MethodNotAllowed,
    NotFound,
    OriginNotAllowed,
    RateLimited,
    SchemaMismatch,
    ScopeMissing,
    SecretMissing,
    SessionNotFound,
    WriteUnconfirmed,
)
from ash_shared.model.base import ABSENT, AshModel, Omittable

MEDIA_TYPE = "application/problem+json"

AnyRequest = Request[Any, Any, Any]

COMMON_ERRORS: tuple[type[AshError], ...] = (HostNotAllowed, InvalidBody, InvalidParameter)
"""Errors of every route."""
KEY_ERRORS = (
    KeyRequired,
    KeyInvalid,
    ScopeMissing,
    RateLimited,
    SecretMissing,
    DatabaseUnavailable,
    SchemaMismatch,
    DiskFull,
)
"""Errors of every route that needs a key."""
READ_ERRORS = (*COMMON_ERRORS, *KEY_ERRORS)
"""Errors of every route that uses the database."""
WRITE_ERRORS = (*READ_ERRORS, OriginNotAllowed, WriteUnconfirmed)
TEXT_ERRORS = (SessionNotFound, ArchiveDamaged)
"""Errors of every route that reads texts of a session, which may be cold."""

_log = logging.getLogger(__name__)


class FieldProblem(AshModel):
    """An invalid part of the request."""

    path: str
    """A JSONPath into the body (`$.content`), or the name of a parameter."""
    message: str


class Problem(AshModel):
    """Problem details (RFC 9457) of a failed request. They never contain message contents."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:ash:problem:session_not_found",
                    "title": "No session has this id.",
                    "status": 404,
                    "code": "session_not_found",
                }
            ]
        },
    )

    type: str
    """`urn:ash:problem:` followed by the code."""
    title: str
    """The meaning of the code; the same text for every occurrence."""
    status: int
    """The HTTP status."""
    code: str
    """Stable identifier for programs."""
    detail: Omittable[str] = ABSENT
    """Details about this request."""
    index: Omittable[int] = ABSENT
    """Index in the batch, counted from 0."""
    errors: Omittable[list[FieldProblem]] = ABSENT
    """The invalid parts of the request."""
    current_sequence: Omittable[int] = Field(default=ABSENT, alias="currentSequence")
    """With `sequence_mismatch` and `cursor_ahead`: the last sequence of the session's messages or events."""


def error_responses(*errors: type[AshError]) -> dict[int, ResponseSpec]:
    """Return the OpenAPI responses for the errors, by status, with an example for each code."""
    ordered = sorted(set(errors), key=lambda error: (error.status, error.code))
    return {
        status: _response_spec(list(group)) for status, group in groupby(ordered, lambda error: error.status)
    }


def handle_ash_error(_: AnyRequest, error: AshError) -> Response[bytes]:
    return _respond(error, error.headers)


def handle_http_exception(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    """Translate an error raised by the framework."""
    if (error_type := _FRAMEWORK_ERRORS.get(error.status_code)) is None:
        return handle_unexpected_error(request, error)
    errors = _field_problems(error)
    detail = f"{errors[0]['path']}: {errors[0]['message']}." if errors else None
    return _respond(error_type(detail, errors=errors), error.headers)


def handle_unexpected_error(request: AnyRequest, error: Exception) -> Response[bytes]:
    # Without the error's message, which may contain row values from PostgreSQL, and the path, which may contain names.
    stack, route = "".join(traceback.format_tb(error.__traceback__)), request.scope.get("path_template")
    _log.error("%s %s failed with %s\n%s", request.method, route, type(error).__name__, stack)
    return _respond(AshError())


def without_value(message: str) -> str:
    """Return the decoder's message without the value it may quote."""
    return _QUOTED_VALUE.sub("", message)


HANDLERS: ExceptionHandlersMap = {
    AshError: handle_ash_error,
    HTTPException: handle_http_exception,
    Exception: handle_unexpected_error,
}

_FRAMEWORK_ERRORS: Mapping[int, type[AshError]] = {
    400: InvalidParameter,
    404: NotFound,
    405: MethodNotAllowed,
    413: BodyTooLarge,
}
_QUOTED_VALUE = re.compile(r"(?<=^Invalid enum value) .*", re.DOTALL)
_HEADERS: Mapping[int, Mapping[str, str]] = {
    401: {"WWW-Authenticate": 'Bearer realm="Ash"'},
    503: {"Retry-After": "2"},
}


def _respond(error: AshError, headers: Mapping[str, str] | None = None) -> Response[bytes]:
    return Response(
        encode_problem(error),
        status_code=error.status,
        media_type=MEDIA_TYPE,
        headers={**(headers or {}), **_HEADERS.get(error.status, {})},
    )


def encode_problem(error: AshError) -> bytes:
    """Return the problem document of an error."""
    optional = {
        "detail": error.detail if error.detail != error.title else None,
        "index": error.index,
        **error.extra,
    }
    shown = {name: value for name, value in optional.items() if value is not None}
    return msgspec.json.encode({**_identity(type(error)), **shown})


def _identity(error: type[AshError]) -> dict[str, Any]:
    return {
        "type": f"urn:ash:problem:{error.code}",
        "title": error.title,
        "status": error.status,
        "code": error.code,
    }


def _field_problems(error: HTTPException) -> list[dict[str, str]] | None:
    if not isinstance(error, ValidationException) or not isinstance(error.extra, list):
        return None
    return [{"path": each.get("key", ""), "message": without_value(each["message"])} for each in error.extra]


class _Example(Example):
    @property
    def _exclude_fields(self) -> set[str]:
        return {"id"}  # the key in `examples`, not a field in OpenAPI


class _ErrorResponse(ResponseSpec):
    """The documentation of a response. Litestar copies it with each handler; this takes a fifth of creating the app."""

    def __deepcopy__(self, memo: object) -> Self:
        return self


def _response_spec(errors: list[type[AshError]]) -> ResponseSpec:
    return _ErrorResponse(
        data_container=Problem,
        description=" ".join(map(_describe, errors)),
        media_type=MEDIA_TYPE,
        generate_examples=False,
        examples=[_Example(id=error.code, summary=error.title, value=_identity(error)) for error in errors],
    )


def _describe(error: type[AshError]) -> str:
    return " ".join(filter(None, (f"`{error.code}`:", error.title, error.advice)))
