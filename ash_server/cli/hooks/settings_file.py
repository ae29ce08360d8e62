"""Edits of a settings file as text: only one member changes, every other byte stays."""

import json
import re
from collections.abc import Iterator, Mapping
from json import JSONDecodeError, JSONDecoder
from typing import Any, NamedTuple

from ash_server.errors import AshError

OWN = re.compile(r"\bash'? hooks run [a-z_]+\b")
"""Matches the commands of Ash."""

_SPACE = re.compile(r"[ \t\r\n]*")
_INDENT = re.compile(r"\{\s*\n([ \t]+)")

_Hooks = dict[str, Any]


class SettingsFileInvalid(AshError):
    status, code, title = 409, "settings_file_invalid", "The settings file is not as expected."


class HooksMember(NamedTuple):
    """How a JSON file contains hooks: a member of the outermost object, with a list per event."""

    key: str = "hooks"
    has_groups: bool = True
    """Entries of a list are groups with a list `hooks`; else they are the hooks themselves."""
    command: str = "command"
    """The field with the command of a hook."""
    header: Mapping[str, Any] = {}
    """Members of a new file."""
    is_own_member: bool = False
    """Nobody else writes to this member."""
    is_own_file: bool = False
    """The file contains nothing but the hooks of Ash."""

    def add(self, text: str | None, entries: Mapping[str, Mapping[str, Any]]) -> str:
        """Return the text with one more entry per event. Raises SettingsFileInvalid.

        Earlier entries of Ash are replaced. None: there is no file.
        """
        hooks = self._without_own(self._read_hooks(text))
        for event, entry in entries.items():
            added = {"hooks": [dict(entry)]} if self.has_groups else dict(entry)
            hooks[event] = [*hooks.get(event, []), added]
        empty = json.dumps(self.header, indent=2) + "\n"
        return self._with_value(empty if _is_blank(text) else str(text), hooks)

    def remove(self, text: str | None) -> str | None:
        """Return the text without the entries of Ash; None: remove the file. Raises SettingsFileInvalid."""
        hooks = self._read_hooks(text)
        remaining = self._without_own(hooks)
        if remaining == hooks:
            return text
        removed = self._with_value(str(text), remaining)
        is_empty = self.is_own_file and json.loads(removed) == self.header
        return None if is_empty else removed

    def commands(self, text: str | None) -> dict[str, str]:
        """Return the command of Ash for each event that has one. Raises SettingsFileInvalid."""
        return {event: hook[self.command] for event, hook in self._own_hooks(text).items()}

    def is_current(self, text: str | None, entries: Mapping[str, Mapping[str, Any]]) -> bool:
        """True if the file has these entries. Raises SettingsFileInvalid."""
        return self._own_hooks(text) == entries

    def _own_hooks(self, text: str | None) -> dict[str, Any]:
        return {
            event: hook
            for event, entries in self._read_hooks(text).items()
            if isinstance(entries, list)
            for entry in entries
            for hook in (_grouped(entry) if self.has_groups else [entry])
            if self._is_own(hook)
        }

    def _read_hooks(self, text: str | None) -> _Hooks:
        """Return the value of the member. Raises SettingsFileInvalid."""
        try:
            settings = {} if _is_blank(text) else json.loads(str(text))
        except (JSONDecodeError, RecursionError) as error:
            raise SettingsFileInvalid(f"it is not valid JSON: {error}") from error
        hooks = settings.get(self.key, {}) if isinstance(settings, dict) else None
        if not isinstance(hooks, dict) or not (self.is_own_member or _has_lists(hooks)):
            raise SettingsFileInvalid(f"it has no object {self.key!r} with a list per event")
        return hooks

    def _without_own(self, hooks: _Hooks) -> _Hooks:
        if self.is_own_member:
            if hooks and not OWN.search(json.dumps(hooks)):
                raise SettingsFileInvalid(f"its {self.key!r} does not belong to Ash")
            return {}
        without = self._without_own_groups if self.has_groups else self._without_own_hooks
        remaining = {event: without(entries) for event, entries in hooks.items()}
        return {event: entries for event, entries in remaining.items() if entries or not hooks[event]}

    def _without_own_groups(self, groups: list[Any]) -> list[Any]:
        result = []
        for group in groups:
            hooks = self._without_own_hooks(_grouped(group))
            if hooks == _grouped(group):
                result.append(group)
            elif hooks:
                result.append({**group, "hooks": hooks})
        return result

    def _without_own_hooks(self, hooks: list[Any]) -> list[Any]:
        return [each for each in hooks if not self._is_own(each)]

    def _is_own(self, hook: Any) -> bool:
        return isinstance(hook, dict) and bool(OWN.search(str(hook.get(self.command, ""))))

    def _with_value(self, text: str, hooks: _Hooks) -> str:
        """Replace the value of the member, and remove the member if nothing is in it."""
        members = list(_members(text))
        index = next((index for index, member in enumerate(members) if member.key == self.key), None)
        found = _INDENT.match(text.lstrip())
        indent = found[1] if found else "  "
        value = json.dumps(hooks, indent=indent, ensure_ascii=False).replace("\n", f"\n{indent}")
        if index is not None and hooks:
            return text[: members[index].value] + value + text[members[index].end :]
        if index is not None:
            return _remove(text, members, index)
        if members:
            return f'{text[: members[-1].end]},\n{indent}"{self.key}": {value}{text[members[-1].end :]}'
        return re.sub(r"\{\s*\}", lambda _: f'{{\n{indent}"{self.key}": {value}\n}}', text, count=1)


class _Member(NamedTuple):
    """The place of a member of the outermost object."""

    key: str
    start: int
    value: int
    end: int


def _is_blank(text: str | None) -> bool:
    return not (text and text.strip())


def _has_lists(hooks: _Hooks) -> bool:
    return all(isinstance(entries, list) for entries in hooks.values())


def _grouped(group: Any) -> list[Any]:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    return hooks if isinstance(hooks, list) else []


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
