"""Build the input of a call value by value, as JSON text that grows at its end."""

from typing import Any

import msgspec

from ash_shared.eventlog.state import UnfinishedJson
from ash_shared.records.json_fields import parse_json_path

_encode = msgspec.json.Encoder().encode


def add_value(json: UnfinishedJson, path: str, value: Any) -> str | None:
    """Return the text that a value adds; None if its place is not the end. A string continues one at the same path.

    Strings and containers stay open. List items are expected in order.
    """
    keys, containers = parse_json_path(path), json.containers
    depth = _common_depth(containers, keys)
    is_string = isinstance(value, str)
    if depth == len(containers) == len(keys):
        return _text(value)[1:-1] if json.is_in_string and is_string else None
    text = ""
    if containers:
        if depth in (len(containers), len(keys)) or not _is_next(containers[depth], keys[depth]):
            return None
        inner = UnfinishedJson(containers[depth + 1 :], json.is_in_string)
        text = f"{json_end(inner)},{_enter(keys[depth])[1:]}"
        containers[depth:] = [_with_key(containers[depth], keys[depth])]
        depth += 1
    text += "".join(map(_enter, keys[depth:]))
    containers += [[key] if isinstance(key, str) else 1 for key in keys[depth:]]
    json.is_in_string = is_string
    return text + (_text(value)[:-1] if is_string else _text(value))


def json_end(json: UnfinishedJson) -> str:
    """Return what completes the text."""
    ends = ["]" if isinstance(container, int) else "}" for container in reversed(json.containers)]
    return '"' * json.is_in_string + "".join(ends)


def _common_depth(containers: list[list[str] | int], keys: list[str | int]) -> int:
    """Return the number of open containers with the entry at these keys as their last one."""
    depth = 0
    for container, key in zip(containers, keys, strict=False):
        if key != (container - 1 if isinstance(container, int) else container[-1]):
            break
        depth += 1
    return depth


def _is_next(container: list[str] | int, key: str | int) -> bool:
    """True if the key belongs to a new entry of the container."""
    if isinstance(container, int):
        return isinstance(key, int) and key >= container
    return isinstance(key, str) and key not in container


def _with_key(container: list[str] | int, key: str | int) -> list[str] | int:
    return container + 1 if isinstance(container, int) else [*container, str(key)]


def _enter(key: str | int) -> str:
    """Return the text from the beginning of a container to its entry of this key."""
    return "[" if isinstance(key, int) else f"{{{_text(key)}:"


def _text(value: Any) -> str:
    return _encode(value).decode()
