"""Read request bodies. The framework would also accept other media types, encodings and unknown fields.

JSON is decoded directly into a strict Struct: decoding stops at the first unknown field, so a rejected body is never
built in memory.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
from litestar import Request
from litestar.exceptions import InternalServerException
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler

from ash_server.api.http.guards.origin_guard import AnyConnection
from ash_server.api.http.headers import get_header
from ash_server.api.http.openapi.operations import BODY
from ash_server.api.http.problems import without_value
from ash_server.errors import (
    AshError,
    BatchTooLarge,
    BodyTimeout,
    BodyTooLarge,
    EmptyBatch,
    InvalidBody,
    InvalidJson,
    InvalidUtf8,
    MessageTooLarge,
    TooDeep,
    UnsupportedMediaType,
)
from ash_server.settings import Settings
from ash_shared.model.blocks import MAX_DEPTH
from ash_shared.records.json_text import MAX_VALUES, has_too_many_values

JSON = "application/json"
NDJSON = "application/x-ndjson"
TEXT = "text/plain"

BODY_ERRORS: tuple[type[AshError], ...] = (
    BodyTimeout,
    BodyTooLarge,
    InvalidBody,
    InvalidJson,
    InvalidUtf8,
    TooDeep,
    UnsupportedMediaType,
)

MAX_BATCH_SIZE = 1000
_DISCONNECTED = "The client disconnected."
_MAX_SCANNED_CHARACTERS = 2**20
"""Length of the part of a rejected body that is searched for deep nesting."""
_PARAMETERS = frozenset({"charset=utf-8", 'charset="utf-8"'})
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)
_DEPTH_CHANGE: Mapping[str, int] = {"[": 1, "{": 1, "]": -1, "}": -1}
_FIELD_ERROR = re.compile(r"(Object (?:contains unknown|missing required) field) `(.*)`", re.DOTALL)

T = TypeVar("T")


class Body(NamedTuple):
    media_type: str
    text: str


async def read_body(request: Request[Any, Any, Any], *media_types: str) -> Body:
    media_type = _check_media_type(request, media_types)
    try:
        return Body(media_type, (await request.body()).decode())
    except InternalServerException as error:  # the client disconnected, or is too slow
        raise BodyTimeout(_DISCONNECTED) from error
    except UnicodeDecodeError as error:
        raise InvalidUtf8(f"Byte {error.start} of the body is not valid UTF-8.") from error


async def check_no_body(connection: AnyConnection, handler: BaseRouteHandler) -> None:
    """Guard of all routes. Raises InvalidBody for a body that the operation does not document."""
    if not isinstance(handler, HTTPRouteHandler) or not handler.resolve_include_in_schema():
        return
    if BODY not in handler.opt and await _has_body(connection):
        raise InvalidBody("This operation does not accept a body.")


async def _has_body(connection: AnyConnection) -> bool:
    """True if the request has a body. Reads up to the first chunk that is not empty. Raises BodyTimeout."""
    if "transfer-encoding" not in connection.headers:
        return bool((get_header(connection.headers, "content-length") or "").strip("0"))
    while (message := await connection.receive())["type"] == "http.request":
        if message["body"] or not message["more_body"]:
            return bool(message["body"])
    raise BodyTimeout(_DISCONNECTED)


def decode_body(text: str, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(text)
    except RecursionError as error:
        raise TooDeep from error
    except msgspec.ValidationError as error:
        raise _validation_error(text, str(error)) from error
    except msgspec.DecodeError as error:
        raise InvalidJson(f"{error}.") from error


def check_size(content: str, settings: Settings, index: int | None = None) -> None:
    if len(content.encode()) > settings.max_message_bytes:
        raise MessageTooLarge(f"A message has at most {settings.max_message_bytes} bytes.", index=index)


def check_body_size(text: str, settings: Settings) -> None:
    if len(text.encode()) > settings.max_body_bytes:
        raise BodyTooLarge(f"This body has at most {settings.max_body_bytes} bytes.")


def check_count(batch: Sequence[object], item_name: str) -> None:
    if not batch:
        raise EmptyBatch(f"It contains no {item_name}.")
    if len(batch) > MAX_BATCH_SIZE:
        raise BatchTooLarge(f"A request contains at most {MAX_BATCH_SIZE} {item_name}s.")


def check_values(text: str) -> None:
    """Reject a text that would need much more memory once decoded. Raises BatchTooLarge."""
    if has_too_many_values(text):
        raise BatchTooLarge(f"A request contains at most {MAX_VALUES} JSON values.")


def _check_media_type(request: Request[Any, Any, Any], accepted: tuple[str, ...]) -> str:
    media_type, *parameters = (
        part.strip() for part in (get_header(request.headers, "content-type") or "").lower().split(";")
    )
    if media_type not in accepted or not _PARAMETERS.issuperset(parameters):
        raise UnsupportedMediaType(f"Send {' or '.join(accepted)}, in UTF-8.")
    if (get_header(request.headers, "content-encoding") or "identity").lower() != "identity":
        raise UnsupportedMediaType("Send the body without Content-Encoding.")
    return media_type


def _validation_error(text: str, error: str) -> AshError:
    """Translate the decoder's message, keeping the path and removing the value it may quote."""
    if _nests_too_deeply(text):
        return TooDeep(f"The maximum depth is {MAX_DEPTH} levels.")
    message, _, path = error.partition(" - at `")
    message, path = without_value(message), path.removesuffix("`") or "$"
    if field := _FIELD_ERROR.fullmatch(message):
        message, path = field[1], f"{path}.{field[2][:64]}"
    return InvalidBody(f"{message} at {path}.", errors=[{"path": path, "message": message}])


def _nests_too_deeply(text: str) -> bool:
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(text, 0, _MAX_SCANNED_CHARACTERS):
        depth += _DEPTH_CHANGE.get(token[0], 0)
        if depth > MAX_DEPTH:
            return True
    return False
