"""Read the unions of a TypeScript declaration file, without a compiler.

Only the types that vendors generate for records are understood: aliases, interfaces, enums, unions, intersections and
objects. Everything else, such as a function or a conditional type, is an unknown type without literals.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

_MAX_DEPTH = 100
"""Nested types; a deeper one is unknown."""

_TOKEN = re.compile(
    r"""
    (?P<skip> \s+ | //[^\n]* | /\*.*?\*/ )
    | (?P<text> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' | `(?:[^`\\]|\\.)*` )
    | (?P<name> [A-Za-z_$][\w$]* )
    | (?P<mark> => | \.\.\. | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_OPENING = {"{": "}", "(": ")", "[": "]", "<": ">"}
_ENDS = frozenset({";", ",", *_OPENING.values()})
_MODIFIERS = frozenset({"readonly", "keyof", "typeof", "unique", "infer", "static", "public"})


class Token(NamedTuple):
    kind: str
    value: str
    """The text of a string without its quotes, else the token itself."""


class Reference(NamedTuple):
    """A name, and the member of an enum in `Name.MEMBER`."""

    name: str
    member: str | None


@dataclass(frozen=True)
class Text:
    value: str


@dataclass(frozen=True)
class Object:
    properties: dict[str, "Type"]


@dataclass(frozen=True)
class Union:
    members: list["Type"]


@dataclass(frozen=True)
class Intersection:
    members: list["Type"]


Type = Text | Object | Union | Intersection | Reference | None
"""A type; None for one that is not understood."""


class Member(NamedTuple):
    """A member of a union: its name, or the name of the union for an object written inside it."""

    name: str
    properties: dict[str, Type]


class Declarations:
    """The types that a declaration file defines, by name."""

    def __init__(self, text: str) -> None:
        self._types: dict[str, Type] = {}
        self._enums: dict[str, dict[str, str]] = {}
        _Reader(_tokens(text)).read_into(self._types, self._enums)

    def members(self, union: str) -> list[Member]:
        """Return the objects of a union, of nested ones too. Raises KeyError if the file does not define it."""
        return list(self._members(self._types[union], union, 0))

    def literals(self, type_: Type, depth: int = 0) -> list[str]:
        """Return the strings that a type allows."""
        if depth > _MAX_DEPTH:
            return []
        match type_:
            case Text(value):
                return [value]
            case Union(members):
                return [value for member in members for value in self.literals(member, depth + 1)]
            case Reference(name, member) if name in self._enums:
                values = self._enums[name]
                return list(values.values()) if member is None else [values[member]]
            case Reference(name, _):
                return self.literals(self._types.get(name), depth + 1)
        return []

    def literals_at(self, member: Member, path: str) -> list[str]:
        """Return the strings that a member allows under a path such as `type` or `syncEvent.type`."""
        first, *rest = path.split(".")
        type_ = member.properties.get(first)
        if not rest:
            return self.literals(type_)
        inner = self._members(type_, member.name, 0)
        return [value for each in inner for value in self.literals_at(each, ".".join(rest))]

    def _members(self, type_: Type, name: str, depth: int) -> Iterator[Member]:
        if depth > _MAX_DEPTH:
            return
        match type_:
            case Object(properties):
                yield Member(name, properties)
            case Union(members):
                for member in members:
                    yield from self._members(member, name, depth + 1)
            case Intersection(members):
                yield from self._intersected(members, name, depth)
            case Reference(other, _):
                yield from self._members(self._types.get(other), other, depth + 1)

    def _intersected(self, types: list[Type], name: str, depth: int) -> Iterator[Member]:
        """Yield each combination of the members of several types; a later property replaces an earlier one."""
        alternatives = [list(self._members(type_, name, depth + 1)) for type_ in types]
        for combination in product(*filter(None, alternatives)):
            properties = {key: type_ for member in combination for key, type_ in member.properties.items()}
            yield Member(name, properties)


def _tokens(text: str) -> list[Token]:
    return [
        Token(kind, value[1:-1] if kind == "text" else value)
        for match in _TOKEN.finditer(text)
        if (kind := match.lastgroup or "skip") != "skip" and (value := match[0])
    ]


class _Reader:
    """A position in the tokens. A type that is not understood ends before the next `;`, `,` or closing bracket."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def read_into(self, types: dict[str, Type], enums: dict[str, dict[str, str]]) -> None:
        while self._at < len(self._tokens):
            keyword, name = self._value(), self._value(1)
            is_declared = self._kind() == "name" and self._kind(1) == "name"
            if is_declared and keyword == "type" and self._value(2) in ("=", "<"):
                self._at += 2
                self._skip_parameters()
                if self._accept("="):
                    types.setdefault(name, self._union(0))
            elif is_declared and keyword == "interface":
                self._at += 2
                types.setdefault(name, self._interface())
            elif is_declared and keyword == "enum":
                self._at += 2
                enums.setdefault(name, self._enum())
            else:
                self._at += 1

    def _kind(self, ahead: int = 0) -> str:
        return self._tokens[self._at + ahead].kind if self._at + ahead < len(self._tokens) else ""

    def _value(self, ahead: int = 0) -> str:
        return self._tokens[self._at + ahead].value if self._at + ahead < len(self._tokens) else ""

    def _is_mark(self, *values: str) -> bool:
        return self._kind() == "mark" and self._value() in values

    def _accept(self, value: str) -> bool:
        accepted = self._is_mark(value)
        self._at += accepted
        return accepted

    def _skip_parameters(self) -> None:
        if self._is_mark("<"):
            self._skip_brackets()

    def _skip_brackets(self) -> None:
        """Skip a bracket and everything inside it; `=>` is one token, so it closes nothing."""
        open_brackets = 0
        while self._at < len(self._tokens):
            if self._is_mark(*_OPENING):
                open_brackets += 1
            elif self._is_mark(*_OPENING.values()):
                open_brackets -= 1
            self._at += 1
            if not open_brackets:
                return

    def _skip_to_end(self) -> None:
        """Skip the rest of a property or declaration."""
        while self._at < len(self._tokens) and not self._is_mark(*_ENDS):
            if self._is_mark(*_OPENING):
                self._skip_brackets()
            else:
                self._at += 1

    def _interface(self) -> Type:
        self._skip_parameters()
        bases: list[Type] = []
        while self._at < len(self._tokens) and not self._is_mark("{"):
            if self._kind() == "name" and self._value() != "extends":
                bases.append(self._reference())
                self._skip_parameters()
            else:
                self._at += 1
        own = self._object(0)
        return Intersection([*bases, own]) if bases else own

    def _enum(self) -> dict[str, str]:
        values: dict[str, str] = {}
        self._accept("{")
        while self._at < len(self._tokens) and not self._accept("}"):
            name, has_value = self._value(), self._value(1) == "="
            self._at += 1 + has_value
            if has_value and self._kind() == "text":
                values[name] = self._value()
            self._skip_to_end()
            self._accept(",")
        return values

    def _union(self, depth: int) -> Type:
        self._accept("|")
        members = [self._intersection(depth)]
        while self._accept("|"):
            members.append(self._intersection(depth))
        if not self._is_mark(*_ENDS) and self._value() in ("extends", "is", "?", "=>"):
            self._skip_to_end()
            return None
        return Union(members) if len(members) > 1 else members[0]

    def _intersection(self, depth: int) -> Type:
        members = [self._postfixed(depth)]
        while self._accept("&"):
            members.append(self._postfixed(depth))
        return Intersection(members) if len(members) > 1 else members[0]

    def _postfixed(self, depth: int) -> Type:
        """Read a type, and drop it if an index or the brackets of an array follow."""
        type_ = self._primary(depth)
        while self._is_mark("["):
            self._skip_brackets()
            type_ = None
        return type_

    def _primary(self, depth: int) -> Type:
        while self._kind() == "name" and self._value() in _MODIFIERS and self._kind(1) == "name":
            self._at += 1
        if depth > _MAX_DEPTH:
            self._skip_to_end()
            return None
        if self._kind() == "name":
            reference = self._reference()
            self._skip_parameters()
            return reference
        if self._is_mark("{"):
            return self._object(depth + 1)
        if self._is_mark("("):
            return self._parenthesized(depth + 1)
        return self._text_or_unknown()

    def _text_or_unknown(self) -> Type:
        if self._is_mark("[", "<"):
            self._skip_brackets()
            return None
        if self._is_mark(*_ENDS) or self._at == len(self._tokens):
            return None
        token = self._tokens[self._at]
        self._at += 1
        return Text(token.value) if token.kind == "text" else None

    def _parenthesized(self, depth: int) -> Type:
        """Read a type in brackets, or skip a function."""
        start = self._at
        self._skip_brackets()
        if self._accept("=>"):
            self._union(depth)
            return None
        self._at = start + 1
        type_ = self._union(depth)
        self._accept(")")
        return type_

    def _reference(self) -> Reference:
        """Read a name with dots: of a namespace and a type, or of an enum and a member."""
        names = [self._value()]
        self._at += 1
        while self._is_mark(".") and self._kind(1) == "name":
            names.append(self._value(1))
            self._at += 2
        if len(names) > 1 and names[-1].isupper():
            return Reference(names[-2], names[-1])
        return Reference(names[-1], None)

    def _object(self, depth: int) -> Object:
        properties: dict[str, Type] = {}
        self._accept("{")
        while self._at < len(self._tokens) and not self._accept("}"):
            before = self._at
            self._property(properties, depth)
            if self._at == before:
                self._at += 1
        return Object(properties)

    def _property(self, properties: dict[str, Type], depth: int) -> None:
        while self._kind() == "name" and self._value() in _MODIFIERS and self._kind(1) in ("name", "text"):
            self._at += 1
        if self._kind() in ("name", "text"):
            name = self._value()
            self._at += 1
            self._accept("?")
            if self._accept(":"):
                properties[name] = self._union(depth + 1)
        self._skip_to_end()
        if self._is_mark(";", ","):
            self._at += 1
