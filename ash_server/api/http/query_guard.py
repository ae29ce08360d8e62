"""What the framework lets pass in an address: unknown and repeated names, odd spellings of a number, broken escapes.

One guard reads each query once and holds it against the parameters that the route declares.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any, Literal, NamedTuple, get_args, get_origin
from urllib.parse import unquote_to_bytes
from uuid import UUID

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.params import QueryParameter
from litestar.typing import FieldDefinition

from ash_server.errors import InvalidParameter, NotFound

ANY_QUERY = {"any_query": True}
"""The option of pages: what else stands in their address is their scripts' business."""

_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class _Format(NamedTuple):
    pattern: re.Pattern[str]
    expected: str


_TEXT = _Format(re.compile(r"[^\0\r\n]*"), "one line of text without a NUL")
_FORMATS: Mapping[Any, _Format] = {
    int: _Format(re.compile(r"[0-9]{1,16}"), "a whole number, written in digits alone"),
    bool: _Format(re.compile(r"true|false"), "true or false"),
    UUID: _Format(
        re.compile("[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"), "an id such as those that Ash gives"
    ),
    datetime: _Format(
        re.compile(
            r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
            r"([Zz]|[+-][0-9]{2}:[0-9]{2})?"
        ),
        "a time such as 2026-11-02T09:14:07Z",
    ),
}


async def check_address(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    _check_path(connection)
    if ANY_QUERY.items() <= connection.route_handler.opt.items():
        return
    declared = _declared(connection.route_handler)  # what guards are given is a copy of it for each request
    seen: set[str] = set()
    for name, value in _pairs(connection.scope["query_string"]):
        if name not in declared:
            raise _refusal(name, "is not a parameter of this address")
        if name in seen:
            raise _refusal(name, "is given more than once")
        if not declared[name].pattern.fullmatch(value):
            raise _refusal(name, f"must be {declared[name].expected}")
        seen.add(name)


def _check_path(connection: ASGIConnection[Any, Any, Any, Any]) -> None:
    """One thing, one address: `int` would also read 1_000, and `UUID` braces."""
    path = connection.scope["path"].casefold()
    segments = path.split("/")
    for value in map(str.casefold, map(str, connection.path_params.values())):
        is_there = path.endswith(value) if value.startswith("/") else value in segments
        if not is_there:
            raise NotFound


def _pairs(query: bytes) -> Iterator[tuple[str, str]]:
    for pair in filter(None, query.split(b"&")):
        name, _, value = pair.partition(b"=")
        yield _decoded(name), _decoded(value)


def _decoded(piece: bytes) -> str:
    if _BROKEN_ESCAPE.search(piece):
        raise InvalidParameter("The query holds a % that does not begin an escape.")
    try:
        return unquote_to_bytes(piece.replace(b"+", b" ")).decode()
    except UnicodeDecodeError as error:
        raise InvalidParameter("The query is not UTF-8.") from error


@cache
def _declared(handler: BaseRouteHandler) -> Mapping[str, _Format]:
    fields = handler.parsed_fn_signature.parameters
    return {
        field.kwarg_definition.name or name: _format(field)
        for name, field in fields.items()
        if isinstance(field.kwarg_definition, QueryParameter)
    }


def _format(field: FieldDefinition) -> _Format:
    types = (field.annotation, *get_args(field.annotation))
    choices = [choice for each in types if get_origin(each) is Literal for choice in get_args(each)]
    if choices:
        return _Format(re.compile("|".join(choices)), f"one of {', '.join(choices)}")
    return next((_FORMATS[each] for each in types if each in _FORMATS), _TEXT)


def _refusal(name: str, message: str) -> InvalidParameter:
    shown = name[:64]
    return InvalidParameter(f"{shown!r} {message}.", errors=[{"path": shown, "message": f"It {message}."}])
