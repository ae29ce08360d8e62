"""Compare the names of the packages with the tables of the providers and the reviewed list of ignored names."""

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from ash_shared import RawContent, parse_message_content
from tools.wire.literals import Literal
from tools.wire.sources import NameList

IGNORED_FILE = Path(__file__).with_name("ignored.toml")


class Ignored(NamedTuple):
    """Names that are in no stored record, for one reason."""

    lists: tuple[str, ...]
    reason: str
    places: dict[str, str]
    """By name, what shows it in the package: the name of a type, or a short piece of code."""


class Compared(NamedTuple):
    names: NameList
    version: str
    known: list[str]
    ignored: list[str]
    unknown: list[Literal]


def is_unknown(record: dict[str, Any], source: str) -> bool:
    """Return True if the provider has no row for the record or for a block in it."""
    blocks = parse_message_content(json.dumps(record), source)
    return any(isinstance(block, RawContent) and block.reason == "unknown_type" for block in blocks)


def read_ignored(text: str) -> list[Ignored]:
    """Return the reviewed names. Raises ValueError if a reason or a place is missing, or a name is there twice."""
    groups = [
        Ignored(tuple(group["lists"]), group["reason"], group["names"])
        for group in tomllib.loads(text)["ignored"]
    ]
    pairs = [(title, name) for group in groups for title in group.lists for name in group.places]
    if len(pairs) != len(set(pairs)):
        raise ValueError("a name is ignored twice")
    if not all(group.reason and all(group.places.values()) for group in groups):
        raise ValueError("each ignored name needs a reason and a place")
    return groups


def compare(
    each: NameList, version: str, literals: Iterable[Literal], ignored: Iterable[Ignored]
) -> Compared:
    by_name = {literal.name: literal for literal in literals}
    missing = {name for name in by_name if is_unknown(each.to_record(name), each.source)}
    reviewed = {name for group in ignored if each.title in group.lists for name in group.places}
    return Compared(
        each,
        version,
        sorted(by_name.keys() - missing),
        sorted(missing & reviewed),
        [by_name[name] for name in sorted(missing - reviewed)],
    )


def find_stale(compared: Iterable[Compared], ignored: Iterable[Ignored]) -> list[str]:
    """Return the ignored names that a package no longer has, or a provider now knows."""
    used = {(each.names.title, name) for each in compared for name in each.ignored}
    return [
        f"{' and '.join(group.lists)}: {name}"
        for group in ignored
        for name in group.places
        if used.isdisjoint((title, name) for title in group.lists)
    ]
