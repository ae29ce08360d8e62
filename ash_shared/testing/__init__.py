"""Test vectors: texts and the blocks they must parse to, for parsers of Ash's formats in any language.

The vectors are JSON files in the folder `vectors` of this package; its README describes their format. Only this part
of the library reads files, and `import ash_shared` does not import it.
"""

import json
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any, Literal, NamedTuple

__all__ = ["Failure", "Vector", "check", "exact", "groups", "vectors"]

_FOLDER = files(__name__) / "vectors"


class Vector(NamedTuple):
    """One text and its expected blocks."""

    group: str
    """The name of its file: a format, or `edges` for texts without a format."""
    name: str
    """Unique in its group."""
    why: str
    raw: str
    """The exact text."""
    source: str | None
    """The declared source; None if the format must be recognised."""
    expected: list[dict[str, Any]]
    """The blocks as JSON."""
    kind: Literal["message", "record", "chunk"]
    role: Literal["user", "assistant", "system", "tool"]


class Failure(NamedTuple):
    """A vector and the wrong result of a parser: blocks, or the exception it raised."""

    vector: Vector
    got: Any


def groups() -> list[str]:
    """Return the names of all groups, sorted."""
    names = (entry.name for entry in _FOLDER.iterdir())
    return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))


def vectors(*names: str) -> Iterator[Vector]:
    """Yield the vectors of the given groups, by default all, in file order."""
    for group in names or groups():
        for fields in json.loads((_FOLDER / f"{group}.json").read_text(encoding="utf-8")):
            yield Vector(group=group, **fields)


def check(parse: Callable[[str, str | None], Any], *names: str) -> list[Failure]:
    """Return the vectors that a parser parses differently.

    `parse` accepts a text and its declared source, and returns the blocks as decoded JSON.
    """
    results = ((vector, _outcome(parse, vector)) for vector in vectors(*names))
    return [Failure(vector, got) for vector, got in results if exact(got) != exact(vector.expected)]


def exact(value: Any) -> str:
    """Return a JSON value as text for comparison: true, 1 and 1.0 differ, the order of keys does not matter."""
    return json.dumps(value, sort_keys=True, indent=1, default=repr)


def _outcome(parse: Callable[[str, str | None], Any], vector: Vector) -> Any:
    try:
        return parse(vector.raw, vector.source)
    except Exception as raised:  # noqa: BLE001  # any exception of the parser is its failure
        return raised
