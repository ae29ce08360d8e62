"""Edits of a settings file as text: only the value of `hooks` changes, every other byte stays."""

import json
import re
from collections.abc import Iterator, Mapping
from json import JSONDecodeError, JSONDecoder
from typing import Any, NamedTuple

from ash_server.errors import AshError

_KEY = "hooks"
_OWN = re.compile(r"\bash'? hooks run (?:claude|codex)\b")
_SPACE = re.compile(r"[ \t\r\n]*")
_INDENT = re.compile(r"\{\s*\n([ \t]+)")

_Hooks = dict[str, Any]


class SettingsFileInvalid(AshError):
    status, code, title = 409, "settings_file_invalid", "The settings file is not as expected."


class _Member(NamedTuple):
    """The place of a member of the outermost object."""

    key: str
    start: int
    value: int
    end: int


def add_entries(text: str | None, entries: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text of a settings file with one more entry per event. Raises SettingsFileInvalid.

    Earlier entries of Ash are replaced. None: there is no file.
    """
    hooks = _without_own(_read_hooks(text))
    for event, entry in entries.items():
        hooks[event] = [*hooks.get(event, []), {"hooks": [dict(entry)]}]
    return _replace("{}\n" if _is_blank(text) else str(text), hooks)


def remove_entries(text: str | None) -> str | None:
    """Return the text of a settings file without the entries of Ash. Raises SettingsFileInvalid."""
    hooks = _read_hooks(text)
    remaining = _without_own(hooks)
    return text if remaining == hooks else _replace(str(text), remaining)


def own_commands(text: str | None) -> dict[str, str]:
    """Return the command of Ash for each event that has one. Raises SettingsFileInvalid."""
    return {
        event: handler["command"]
        for event, groups in _read_hooks(text).items()
        for group in groups
        for handler in _handlers(group)
        if _is_own(handler)
    }


def _read_hooks(text: str | None) -> _Hooks:
    """Return the value of `hooks`: lists of groups by event. Raises SettingsFileInvalid."""
    try:
        settings = {} if _is_blank(text) else json.loads(str(text))
    except (JSONDecodeError, RecursionError) as error:
        raise SettingsFileInvalid(f"it is not valid JSON: {error}") from error
    hooks = settings.get(_KEY, {}) if isinstance(settings, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in hooks.values()):
        raise SettingsFileInvalid(f"it has no object {_KEY!r} with a list per event")
    return hooks


def _is_blank(text: str | None) -> bool:
    return not (text and text.strip())


def _without_own(hooks: _Hooks) -> _Hooks:
    remaining = {event: _without_own_groups(groups) for event, groups in hooks.items()}
    return {event: groups for event, groups in remaining.items() if groups or not hooks[event]}


def _without_own_groups(groups: list[Any]) -> list[Any]:
    result = []
    for group in groups:
        handlers = [each for each in _handlers(group) if not _is_own(each)]
        if handlers == _handlers(group):
            result.append(group)
        elif handlers:
            result.append({**group, "hooks": handlers})
    return result


def _handlers(group: Any) -> list[Any]:
    handlers = group.get("hooks") if isinstance(group, dict) else None
    return handlers if isinstance(handlers, list) else []


def _is_own(handler: Any) -> bool:
    return isinstance(handler, dict) and bool(_OWN.search(str(handler.get("command", ""))))


def _replace(text: str, hooks: _Hooks) -> str:
    """Replace the value of `hooks`, and remove the member if nothing is in it."""
    members = list(_members(text))
    index = next((index for index, member in enumerate(members) if member.key == _KEY), None)
    found = _INDENT.match(text.lstrip())
    indent = found[1] if found else "  "
    value = json.dumps(hooks, indent=indent, ensure_ascii=False).replace("\n", f"\n{indent}")
    if index is not None and hooks:
        return text[: members[index].value] + value + text[members[index].end :]
    if index is not None:
        return _remove(text, members, index)
    if members:
        return f'{text[: members[-1].end]},\n{indent}"{_KEY}": {value}{text[members[-1].end :]}'
    return re.sub(r"\{\s*\}", lambda _: f'{{\n{indent}"{_KEY}": {value}\n}}', text, count=1)


def _remove(text: str, members: list[_Member], index: int) -> str:
    """Remove a member with its comma."""
    if index:
        return text[: members[index - 1].end] + text[members[index].end :]
    if len(members) > 1:
        return text[: members[0].start] + text[members[1].start :]
    return text[: text.index("{") + 1] + text[text.rindex("}") :]


def _members(text: str) -> Iterator[_Member]:
    """Yield the members of the outermost object of valid JSON."""
    decoder = JSONDecoder()
    at = _after_space(text, text.index("{") + 1)
    while text[at] != "}":
        key, end = decoder.raw_decode(text, at)
        value = _after_space(text, _after_space(text, end) + 1)
        start, end = at, decoder.raw_decode(text, value)[1]
        yield _Member(key, start, value, end)
        at = _after_space(text, end)
        if text[at] == ",":
            at = _after_space(text, at + 1)


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
