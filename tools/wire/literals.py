"""Extract the names of records and events from a file of a package."""

import ast
import json
import mmap
import os
import re
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tools.wire.declarations import Declarations

_SCHEMA_TIMEOUT = 60


class Literal(NamedTuple):
    name: str
    place: str
    """Where the package has it: the name of a type or of a definition, or a description of the code."""


Extractor = Callable[[Path], Iterator[Literal]]


def union(name: str, path: str = "type", second: str | None = None) -> Extractor:
    """Return an extractor of the literals of a TypeScript union under a path such as `type` or `payload.type`.

    With a second path, members with literals under both are `first/second`.
    """

    def extract(file: Path) -> Iterator[Literal]:
        declarations = Declarations(file.read_text())
        for member in declarations.members(name):
            more = declarations.literals_at(member, second) if second else []
            for value in declarations.literals_at(member, path):
                for literal in [f"{value}/{each}" for each in more] or [value]:
                    yield Literal(literal, member.name)

    return extract


def cases(file: Path) -> Iterator[Literal]:
    """Yield the strings that Python code compares with `match`."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.match_case):
            for pattern in ast.walk(node.pattern):
                if isinstance(pattern, ast.Constant) and isinstance(pattern.value, str):
                    yield Literal(pattern.value, f'case "{pattern.value}"')


def matches(pattern: str, place: str, name: str = "{}") -> Extractor:
    """Return an extractor of the first group of a pattern in a program; `name` makes a literal of a group."""
    compiled = re.compile(pattern.encode())

    def extract(file: Path) -> Iterator[Literal]:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as code:
            for group in sorted({match[1].decode() for match in compiled.finditer(code)}):
                yield Literal(name.format(group), place.format(group))

    return extract


_PAIR = rb'(?:"[\w-]+"|[\w$]+):"[\w-]+"'


def table_keys(anchor: str) -> Extractor:
    """Return an extractor of the keys of each JavaScript object, all of strings, that has this key."""
    table = re.compile(rb'\{(?:%b,)*"%b":"[\w-]+"(?:,%b)*\}' % (_PAIR, anchor.encode(), _PAIR))
    key = re.compile(rb'"?([\w-]+)"?:"')

    def extract(file: Path) -> Iterator[Literal]:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as code:
            for place in re.finditer(rb'"%b":"' % anchor.encode(), code):
                start = code.rfind(b"{", 0, place.start())
                match = table.match(code, start)
                for name in key.findall(match[0]) if match else ():
                    yield Literal(name.decode(), f"table with `{anchor}`")

    return extract


def printed_schema(arguments: list[str], file_name: str, extract: Extractor) -> Extractor:
    """Return an extractor that runs a program for the schema it prints, with an empty home and environment."""

    def run(program: Path) -> Iterator[Literal]:
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        with tempfile.TemporaryDirectory() as home:
            environment = {"HOME": home, "CODEX_HOME": home, "PATH": os.defpath}
            command = [str(program), *arguments, "--out", f"{home}/schema"]
            subprocess.run(
                command, env=environment, cwd=home, timeout=_SCHEMA_TIMEOUT, check=True, capture_output=True
            )
            yield from extract(Path(home, "schema", file_name))

    return run


def schema(definition: str, name: str = "{}") -> Extractor:
    """Return an extractor of the types of a definition of a JSON Schema, or of its root for an empty name."""

    def extract(file: Path) -> Iterator[Literal]:
        document = json.loads(file.read_text())
        node = document["definitions"][definition] if definition else document
        for literal in _schema_types(node, document.get("definitions", {})):
            yield Literal(name.format(literal), definition or document.get("title", "root"))

    return extract


def _schema_types(node: Any, definitions: dict[str, Any]) -> Iterator[str]:
    for option in node.get("oneOf", ()) or node.get("anyOf", ()):
        target = definitions[option["$ref"].rpartition("/")[2]] if "$ref" in option else option
        yield from _schema_types(target, definitions)
        type_schema = target.get("properties", {}).get("type", {})
        yield from type_schema.get("enum", [type_schema["const"]] if "const" in type_schema else [])
