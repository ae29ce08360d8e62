"""Measure which share of the content of messages a parser kept."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

_STRUCTURAL_KEYS = frozenset({"role", "type"})
"""Keys with values that a class, or the message around the content, may express."""
_UNTYPED = frozenset({"raw", "non_standard"})


class Kept(NamedTuple):
    """Shares of the strings and numbers of the content that a parser kept."""

    anywhere: float
    typed: float
    """Outside of blocks for unknown content."""


def kept(messages: Iterable[bytes], shown: Iterable[Any]) -> Kept:
    total = lost = untyped = 0
    for raw, blocks in zip(messages, shown, strict=True):
        expected = _leaves(_content(json.loads(raw)))
        total += expected.total()
        lost += (expected - _leaves(blocks)).total()
        untyped += (expected - _leaves(_without_raw(blocks))).total()
    return Kept(1 - lost / total, 1 - untyped / total)


def _content(record: dict[str, Any]) -> Any:
    """Return the content of a line or of a response of any API."""
    if "choices" in record:
        return [choice["message"] for choice in record["choices"]]
    if "candidates" in record:
        return [candidate.get("content") for candidate in record["candidates"]]
    if "output" in record:
        return record["output"]
    return record["message"]["content"] if "message" in record else record["content"]


def _without_raw(blocks: Any) -> Any:
    if not isinstance(blocks, list):
        return blocks
    return [block for block in blocks if not (isinstance(block, dict) and block.get("type") in _UNTYPED)]


def _leaves(value: Any) -> Counter[tuple[type, Any]]:
    return Counter((type(leaf), leaf) for leaf in _walk(value))


def _walk(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = [item for key, item in value.items() if key not in _STRUCTURAL_KEYS]
    elif not isinstance(value, list | tuple):
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            yield value
        return
    for child in value:
        yield from _walk(child)
