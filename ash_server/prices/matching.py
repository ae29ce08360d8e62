"""The model of a price list that has a given name.

The lists match by prefixes and parts of names, so `kimi-k2.5-highspeed` would cost as much as `kimi-k2.5`. A match
counts here only if the rest of the name is a date, a version or an alias.
"""

import re
from collections.abc import Iterable, Iterator

from genai_prices import types

_REST = re.compile(
    r"(?:[-@:.]?(?:20\d{2}-?\d{2}-?\d{2}|\d{2,4}-\d{2,4}|\d{2,8}|latest|default|preview|exp|thinking|v\d+)|:\d+)*"
)
_BEFORE = re.compile(r"(?:[a-z]{2,6}(?:-gov)?\.)?(?:[a-z0-9]+[./])?")


def find_model(models: Iterable[types.ModelInfo], name: str) -> types.ModelInfo | None:
    known = list(models)
    return next((each for spelling in _spellings(name) for each in known if _is_named(each, spelling)), None)


def _is_named(model: types.ModelInfo, name: str) -> bool:
    return name == model.id.lower() or _covers(model.match, name)


def _spellings(name: str) -> Iterator[str]:
    """Yield the name, and with dashes in its date: `gpt-5.2-20251211` is listed as `gpt-5.2-2025-12-11`."""
    yield name
    if (dashed := re.sub(r"-(20\d\d)(\d\d)(\d\d)(?=$|[-:])", r"-\1-\2-\3", name)) != name:
        yield dashed


def _covers(clause: types.MatchLogic, name: str) -> bool:
    match clause:
        case types.ClauseOr(clauses):
            return any(_covers(each, name) for each in clauses)
        case types.ClauseAnd(clauses):
            return clause.is_match(name) and any(_covers(each, name) for each in clauses)
        case types.ClauseStartsWith(text) | types.ClauseEndsWith(text) | types.ClauseContains(text):
            return clause.is_match(name) and _is_certain(text.lower(), name)
        case _:
            return clause.is_match(name)


def _is_certain(text: str, name: str) -> bool:
    before, _, after = name.partition(text)
    return bool(_BEFORE.fullmatch(before) and _REST.fullmatch(after))
