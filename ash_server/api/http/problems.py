"""Every answer that is not a success: problem details (RFC 9457) with a stable `code`, never with contents."""

import logging
import re
import traceback
from collections.abc import Mapping
from itertools import groupby
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.openapi import ResponseSpec
from litestar.openapi.spec import Example
from litestar.types import ExceptionHandlersMap
from psycopg import OperationalError
from psycopg.errors import UndefinedColumn, UndefinedTable
from pydantic import MISSING, BaseModel, ConfigDict, Field

from ash_server.errors import (
    AshError,
    BodyTooLarge,
    DatabaseUnavailable,
    HostNotAllowed,
    InvalidParameter,
    MethodNotAllowed,
    NotFound,
    OriginNotAllowed,
    SchemaMismatch,
)

MEDIA_TYPE = "application/problem+json"

AnyRequest = Request[Any, Any, Any]

ALWAYS: tuple[type[AshError], ...] = (HostNotAllowed, InvalidParameter)
"""How any route may refuse."""
READS = (*ALWAYS, DatabaseUnavailable, SchemaMismatch)
"""How a route may refuse that reads the database."""
WRITES = (*READS, OriginNotAllowed)

_log = logging.getLogger(__name__)


class FieldProblem(BaseModel):
    """One thing that is wrong, and where it is."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    path: str
    """A JSONPath into the body (`$.content`), or the name of a parameter."""
    message: str


class Problem(BaseModel):
    """Why a request was refused or failed (RFC 9457). It never repeats the contents of a message."""

    model_config = ConfigDict(
        use_attribute_docstrings=True,
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
    """`urn:ash:problem:` and the code."""
    title: str
    """What the code means, the same each time."""
    status: int
    """The HTTP status."""
    code: str
    """Stable: made for programs to compare."""
    detail: str | MISSING = MISSING
    """What is special about this occurrence."""
    index: int | MISSING = MISSING
    """Which message of a batch is meant, counted from 0."""
    errors: list[FieldProblem] | MISSING = MISSING
    """What is wrong with the request, piece by piece."""
    current_sequence: int | MISSING = Field(default=MISSING, alias="currentSequence")
    """With `sequence_mismatch`: the last sequence of the session."""


def refusals(*errors: type[AshError]) -> dict[int, ResponseSpec]:
    """The part of a route's documentation that says how it refuses, with an example of each code."""
    ordered = sorted(errors, key=lambda error: (error.status, error.code))
    return {
        status: _documented(list(group)) for status, group in groupby(ordered, lambda error: error.status)
    }


def on_refusal(_: AnyRequest, error: AshError) -> Response[bytes]:
    return _respond(error)


def on_http_exception(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    """What the framework refuses by itself: the same document, in our words."""
    if (refusal := _OF_FRAMEWORK.get(error.status_code)) is None:
        return on_failure(request, error)
    errors = _field_problems(error)
    detail = f"{errors[0]['path']}: {errors[0]['message']}." if errors else None
    return _respond(refusal(detail, errors=errors), error.headers)


def on_database_error(_: AnyRequest, error: OperationalError) -> Response[bytes]:
    _log.warning("the database does not answer: %s", type(error).__name__)
    return _respond(DatabaseUnavailable())


def on_missing_schema(_: AnyRequest, error: UndefinedTable | UndefinedColumn) -> Response[bytes]:
    _log.warning("the database is not of this version: %s", type(error).__name__)
    return _respond(SchemaMismatch())


def on_failure(request: AnyRequest, error: Exception) -> Response[bytes]:
    # Where it happened, without the error's own text: PostgreSQL puts the row into it.
    place = "".join(traceback.format_tb(error.__traceback__))
    _log.error("%s %s failed with %s\n%s", request.method, request.url.path, type(error).__name__, place)
    return _respond(AshError())


def without_value(message: str) -> str:
    """What a decoder complains about, without the value that it may quote."""
    return _QUOTED_VALUE.sub("", message)


HANDLERS: ExceptionHandlersMap = {
    AshError: on_refusal,
    HTTPException: on_http_exception,
    OperationalError: on_database_error,
    UndefinedTable: on_missing_schema,
    UndefinedColumn: on_missing_schema,
    Exception: on_failure,
}

_OF_FRAMEWORK: Mapping[int, type[AshError]] = {
    400: InvalidParameter,
    404: NotFound,
    405: MethodNotAllowed,
    413: BodyTooLarge,
}
_QUOTED_VALUE = re.compile(r"(?<=^Invalid enum value) .*", re.DOTALL)
_RETRY_SECONDS = "2"


def _respond(error: AshError, headers: Mapping[str, str] | None = None) -> Response[bytes]:
    return Response(
        msgspec.json.encode(_document(error)),
        status_code=error.status,
        media_type=MEDIA_TYPE,
        headers={**(headers or {}), **({"Retry-After": _RETRY_SECONDS} if error.status == 503 else {})},
    )


def _document(error: AshError) -> dict[str, Any]:
    optional = {
        "detail": error.detail if error.detail != error.title else None,
        "index": error.index,
        **error.extra,
    }
    return {
        **_identity(type(error)),
        **{name: value for name, value in optional.items() if value is not None},
    }


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
        return {"id"}  # the name under which it is listed, which OpenAPI does not know inside of it


def _documented(errors: list[type[AshError]]) -> ResponseSpec:
    return ResponseSpec(
        data_container=Problem,
        description=" ".join(f"`{error.code}`: {error.title}" for error in errors),
        media_type=MEDIA_TYPE,
        generate_examples=False,
        examples=[_Example(id=error.code, summary=error.title, value=_identity(error)) for error in errors],
    )
