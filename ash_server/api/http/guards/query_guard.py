"""Strict validation of paths and queries.

The framework accepts unknown and repeated parameters, unusual spellings of numbers and invalid escapes. This guard
checks each query against the parameters that the route declares.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Literal, NamedTuple, get_args, get_origin
from urllib.parse import unquote_to_bytes
from uuid import UUID

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.params import QueryParameter
from litestar.typing import FieldDefinition

from ash_server.api.http.redaction import PARAMETER, VALUES, check_parameter
from ash_server.errors import InvalidParameter, NotFound

ANY_QUERY = {"any_query": True}
"""Route option of pages, which accept any parameter: their scripts read them."""

_INVALID_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class _Format(NamedTuple):
    pattern: re.Pattern[str]
    expected: str
    may_repeat: bool = False


_TEXT = _Format(re.compile(r"[^\0\r\n]*"), "one line of text without a NUL")
_COMMON = {PARAMETER: _Format(re.compile("|".join(VALUES)), "0 or 1")}
"""Parameters of every route."""
_FORMATS: Mapping[Any, _Format] = {
    int: _Format(re.compile(r"[0-9]{1,16}"), "a whole number in decimal digits"),
    bool: _Format(re.compile(r"true|false"), "true or false"),
    UUID: _Format(re.compile("[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"), "a UUID"),
    datetime: _Format(
        re.compile(
            r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
            r"([Zz]|[+-][0-9]{2}:[0-9]{2})?"
        ),
        "a time such as 2026-11-02T09:14:07Z",
    ),
}


async def check_path_and_query(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    _check_path(connection)
    check_parameter(connection.scope)
    if ANY_QUERY.items() <= connection.route_handler.opt.items():
        return
    declared = _declared_parameters(connection.route_handler)  # cached: guards get a copy per request
    names: set[str] = set()
    for name, value in _parse_query(connection.scope["query_string"]):
        if name not in declared:
            raise _invalid_parameter(name, "is not a parameter of this route")
        if name in names and not declared[name].may_repeat:
            raise _invalid_parameter(name, "is repeated")
        if not declared[name].pattern.fullmatch(value):
            raise _invalid_parameter(name, f"must be {declared[name].expected}")
        names.add(name)


def _check_path(connection: ASGIConnection[Any, Any, Any, Any]) -> None:
    """Accept only the canonical spelling of path parameters: `int` also parses 1_000, and `UUID` accepts braces."""
    path = connection.scope["path"].casefold()
    segments = path.split("/")
    for value in map(str.casefold, map(str, connection.path_params.values())):
        is_verbatim = path.endswith(value) if value.startswith("/") else value in segments
        if not is_verbatim:
            raise NotFound


def _parse_query(query: bytes) -> Iterator[tuple[str, str]]:
    for pair in filter(None, query.split(b"&")):
        name, _, value = pair.partition(b"=")
        yield _decode(name), _decode(value)


def _decode(part: bytes) -> str:
    if _INVALID_ESCAPE.search(part):
        raise InvalidParameter("The query contains an invalid percent escape.")
    try:
        return unquote_to_bytes(part.replace(b"+", b" ")).decode()
    except UnicodeDecodeError as error:
        raise InvalidParameter("The query is not valid UTF-8.") from error


@cache
def _declared_parameters(handler: BaseRouteHandler) -> Mapping[str, _Format]:
    fields = handler.parsed_fn_signature.parameters
    providers = [provide for name, provide in handler.resolve_dependencies().items() if name in fields]
    signatures = [fields, *(provide.parsed_fn_signature.parameters for provide in providers)]
    own = {
        field.kwarg_definition.name or name: _format(field)
        for signature in signatures
        for name, field in signature.items()
        if isinstance(field.kwarg_definition, QueryParameter)
    }
    return own | _COMMON


def _format(field: FieldDefinition) -> _Format:
    types = (field.annotation, *get_args(field.annotation))
    lists = [each for each in types if get_origin(each) is list]
    return _format_of(get_args(lists[0]))._replace(may_repeat=True) if lists else _format_of(types)


def _format_of(types: Sequence[Any]) -> _Format:
    choices = [choice for each in types if get_origin(each) is Literal for choice in get_args(each)]
    if choices:
        return _Format(re.compile("|".join(choices)), f"one of {', '.join(choices)}")
    return next((_FORMATS[each] for each in types if each in _FORMATS), _TEXT)


def _invalid_parameter(name: str, message: str) -> InvalidParameter:
    path = name[:64]
    return InvalidParameter(f"{path!r} {message}.", errors=[{"path": path, "message": f"It {message}."}])
