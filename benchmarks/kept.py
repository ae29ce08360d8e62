"""How much of what a message says can be found in what a parser made of it."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

_SAID_BESIDE = frozenset({"role", "type"})
"""Keys whose values a class, or the message around the content, may say as well."""
_UNTYPED = frozenset({"raw", "non_standard"})


class Kept(NamedTuple):
    """Shares of the strings and numbers of the content."""

    anywhere: float
    typed: float
    """Outside of blocks that only say that they were not understood."""


def kept(messages: Iterable[bytes], shown: Iterable[Any]) -> Kept:
    total = lost = untyped = 0
    for raw, blocks in zip(messages, shown, strict=True):
        wanted = _leaves(_content(json.loads(raw)))
        total += wanted.total()
        lost += (wanted - _leaves(blocks)).total()
        untyped += (wanted - _leaves(_without_raw(blocks))).total()
    return Kept(1 - lost / total, 1 - untyped / total)


def _content(record: dict[str, Any]) -> Any:
    """What a line or an answer of any API says."""
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
        value = [item for key, item in value.items() if key not in _SAID_BESIDE]
    elif not isinstance(value, list | tuple):
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            yield value
        return
    for child in value:
        yield from _walk(child)
