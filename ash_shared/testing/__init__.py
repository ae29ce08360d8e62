"""Texts and what reading them gives: what a parser of Ash's formats, in any language, can be held to.

The vectors are plain JSON in the folder `vectors` of this package; its README states their form. This is the one
part of the library that reads files, its own, and `import ash_shared` does not import it.
"""

import json
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any, Literal, NamedTuple

__all__ = ["Failure", "Vector", "check", "exact", "groups", "vectors"]

_FOLDER = files(__name__) / "vectors"


class Vector(NamedTuple):
    """One text and what reading it gives."""

    group: str
    """The file it stands in: a format, or `edges` for texts that are of no format."""
    name: str
    """Unique in its group."""
    why: str
    raw: str
    """The text, exactly."""
    source: str | None
    """The writer's hint; None where the text has to tell for itself."""
    expected: list[dict[str, Any]]
    """All the blocks, as their JSON."""
    kind: Literal["message", "record", "chunk"]
    role: Literal["user", "assistant", "system", "tool"]


class Failure(NamedTuple):
    """A vector and what a parser made of its text instead: blocks, or the exception it raised."""

    vector: Vector
    got: Any


def groups() -> list[str]:
    """The names of all groups, sorted."""
    names = (entry.name for entry in _FOLDER.iterdir())
    return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))


def vectors(*names: str) -> Iterator[Vector]:
    """The vectors of these groups, of all groups where none is named, in the order they are written."""
    for group in names or groups():
        for written in json.loads((_FOLDER / f"{group}.json").read_text(encoding="utf-8")):
            yield Vector(group=group, **written)


def check(parse: Callable[[str, str | None], Any], *names: str) -> list[Failure]:
    """The vectors of these groups that a parser reads otherwise; none where it keeps to all.

    `parse` takes a text and the writer's hint, and gives the blocks as decoded JSON.
    """
    results = ((vector, _outcome(parse, vector)) for vector in vectors(*names))
    return [Failure(vector, got) for vector, got in results if exact(got) != exact(vector.expected)]


def exact(value: Any) -> str:
    """A JSON value as text that is the same for equal values only: true is not 1, nor is 1.0, and the order of keys is
    nothing."""
    return json.dumps(value, sort_keys=True, indent=1, default=repr)


def _outcome(parse: Callable[[str, str | None], Any], vector: Vector) -> Any:
    try:
        return parse(vector.raw, vector.source)
    except Exception as raised:  # noqa: BLE001  # whatever a parser raises is its failure
        return raised
