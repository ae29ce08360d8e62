"""The report of `ash drift --report`: the unknown records without their values."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from typing import Any, NamedTuple

from ash_server.cli.drift.shapes import Shape, is_literal, shape_of
from ash_shared import MessageContent, RawContent
from ash_shared.model.message import UNKNOWN_SOURCE
from ash_shared.providers import discover

_MAX_SHAPES = 5
"""Per type."""
_OTHER = "other"
"""Replaces sources and versions that may be data."""
_RELEASE = r"\d{1,6}(?:\.\d{1,6}){0,3}"
_PRERELEASE = r"[-.]?(?:alpha|beta|canary|dev|next|nightly|preview|rc)[.-]?\d{0,8}"
_VERSION = re.compile(f"v?{_RELEASE}(?:{_PRERELEASE})?")


class _Kind(NamedTuple):
    source: str
    raw_type: str | None
    reason: str


class Shapes:
    """The distinct shapes of unknown and malformed blocks, a few of each kind."""

    def __init__(self) -> None:
        self._by_kind: defaultdict[_Kind, dict[str, Shape]] = defaultdict(dict)

    def add(self, source: str, content: Iterable[MessageContent]) -> None:
        for block in content:
            if isinstance(block, RawContent) and block.reason in ("unknown_type", "malformed"):
                shapes = self._by_kind[_to_kind(source, block.raw_type, block.reason)]
                if len(shapes) < _MAX_SHAPES:
                    shape = shape_of(block.raw)
                    shapes[json.dumps(shape, sort_keys=True)] = shape

    def of(self, kind: _Kind) -> list[Shape]:
        return list(self._by_kind[kind].values())


def to_bug_report(groups: Iterable[Mapping[str, Any]], shapes: Shapes) -> str:
    """Return the report as JSON; groups that differ only in replaced names are one."""
    versions: defaultdict[_Kind, Counter[str]] = defaultdict(Counter)
    for group in groups:
        kind = _to_kind(group["source"], group.get("rawType"), group["reason"])
        versions[kind][_to_version(group.get("clientVersion", ""))] += group["count"]
    drift = [
        {
            "source": kind.source,
            "rawType": kind.raw_type,
            "reason": kind.reason,
            "count": counts.total(),
            "clientVersions": dict(counts),
            "shapes": shapes.of(kind),
        }
        for kind, counts in versions.items()
    ]
    return json.dumps({"ash": version("ash-messages"), "drift": drift}, indent=2) + "\n"


def _to_kind(source: str, raw_type: str | None, reason: str) -> _Kind:
    known_source = source if source in _sources() else _OTHER
    return _Kind(known_source, raw_type if raw_type and is_literal(raw_type) else None, reason)


@cache
def _sources() -> frozenset[str]:
    return frozenset({*discover(), UNKNOWN_SOURCE})


def _to_version(client_version: str) -> str:
    return client_version if _VERSION.fullmatch(client_version) else _OTHER
