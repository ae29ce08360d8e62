"""Request bodies: read by hand, since the framework accepts other types, other encodings and other fields.

What enters as JSON is decoded straight into a strict Struct: a field it does not know ends the decoding, so that no
body is built in memory that would be refused anyway.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec
from litestar import Request
from litestar.exceptions import InternalServerException

from ash_server.api.http.headers import header
from ash_server.api.http.problems import without_value
from ash_server.errors import (
    AshError,
    BodyTimeout,
    BodyTooLarge,
    InvalidBody,
    InvalidJson,
    InvalidUtf8,
    MessageTooLarge,
    TooDeep,
    UnsupportedMediaType,
)
from ash_server.settings import Settings
from ash_shared.model.blocks import MAX_DEPTH

JSON = "application/json"
NDJSON = "application/x-ndjson"

BODY_REFUSALS: tuple[type[AshError], ...] = (
    BodyTimeout,
    BodyTooLarge,
    InvalidBody,
    InvalidJson,
    InvalidUtf8,
    TooDeep,
    UnsupportedMediaType,
)

SECONDS = 30
"""For the whole body to arrive."""
_EXAMINED = 2**20
"""How much of a body is searched for deep nesting; one refused for another reason may be much larger."""
_PARAMETERS = frozenset({"charset=utf-8", 'charset="utf-8"'})
_NESTING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)
_STEP: Mapping[str, int] = {"[": 1, "{": 1, "]": -1, "}": -1}
_FIELD = re.compile(r"(Object (?:contains unknown|missing required) field) `(.*)`", re.DOTALL)

T = TypeVar("T")


class Body(NamedTuple):
    media_type: str
    text: str


async def read_body(request: Request[Any, Any, Any], *media_types: str) -> Body:
    media_type = _media_type(request, media_types)
    try:
        async with asyncio.timeout(SECONDS):
            body = await request.body()
        return Body(media_type, body.decode())
    except TimeoutError as error:
        raise BodyTimeout(f"It took longer than {SECONDS} seconds.") from error
    except InternalServerException as error:  # the framework's word for a client that left
        raise BodyTimeout("It broke off.") from error
    except UnicodeDecodeError as error:
        raise InvalidUtf8(f"Byte {error.start} of the body cannot be part of UTF-8.") from error


def decode_body(text: str, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(text)
    except RecursionError as error:
        raise TooDeep from error
    except msgspec.ValidationError as error:
        raise _refusal(text, str(error)) from error
    except msgspec.DecodeError as error:
        raise InvalidJson(f"{error}.") from error


def check_size(content: str, settings: Settings, index: int | None = None) -> None:
    if len(content.encode()) > settings.max_message_bytes:
        raise MessageTooLarge(f"A message has at most {settings.max_message_bytes} bytes.", index=index)


def _media_type(request: Request[Any, Any, Any], accepted: tuple[str, ...]) -> str:
    media_type, *parameters = (
        part.strip() for part in (header(request.headers, "content-type") or "").lower().split(";")
    )
    if media_type not in accepted or not _PARAMETERS.issuperset(parameters):
        raise UnsupportedMediaType(f"Send {' or '.join(accepted)}, in UTF-8.")
    if (header(request.headers, "content-encoding") or "identity").lower() != "identity":
        raise UnsupportedMediaType("Send the body as it is, without Content-Encoding.")
    return media_type


def _refusal(text: str, error: str) -> AshError:
    """Of what the decoder says, with the place it names and without the value it may quote."""
    if _nests_too_deeply(text):
        return TooDeep(f"At most {MAX_DEPTH} levels are read.")
    message, _, path = error.partition(" - at `")
    message, path = without_value(message), path.removesuffix("`") or "$"
    if field := _FIELD.fullmatch(message):
        message, path = field[1], f"{path}.{field[2][:64]}"
    return InvalidBody(f"{message} at {path}.", errors=[{"path": path, "message": message}])


def _nests_too_deeply(text: str) -> bool:
    depth = 0
    for token in _NESTING.finditer(text, 0, _EXAMINED):
        depth += _STEP.get(token[0], 0)
        if depth > MAX_DEPTH:
            return True
    return False
