"""SQL in files: the format, the statements of each module, and PostgreSQL's opinion of them."""

import ast
import importlib
import pkgutil
import re
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import psycopg
import pytest
from hatchling.builders.wheel import WheelBuilder

import ash_server.store
from ash_server.store.connections.pool import direct_url
from ash_server.store.schema.migrations import SCHEMA_FILE
from ash_server.store.statements import (
    NumberedSql,
    Sql,
    SqlPart,
    Statements,
    number_parameters,
    open_placeholders,
    parse_statements,
)

ROOT = Path(__file__).parents[3]
FILES = sorted({*(ROOT / "ash_server").rglob("*.sql")} - {SCHEMA_FILE})

TEXT = """
-- Statements of a test.

-- fragment: columns
-- The columns of a row.
id, title

-- name: get
-- One row.
SELECT {columns}
-- The first one.
FROM sessions
WHERE id = %(id)s AND metadata <> '{}' LIMIT {limit}

-- fragment: first
-- The first row of {query}.
SELECT * FROM ({query}) AS rows ORDER BY {order} LIMIT {limit}
"""


def parse(text: str, **values: SqlPart) -> Statements:
    return parse_statements(Path("test.sql"), text, values)


def test_reads_statements_and_fragments() -> None:
    sql = parse(TEXT, limit=5)

    assert {name: sql[name] for name in sql} == {
        "columns": "id, title",
        "get": "SELECT id, title\nFROM sessions\nWHERE id = %(id)s AND metadata <> '{}' LIMIT 5",
        "first": "SELECT * FROM ({query}) AS rows ORDER BY {order} LIMIT 5",
    }
    assert sql.get is sql["get"]
    assert sql.fragments == {"columns", "first"}


def test_fills_a_fragment_with_sql_and_literals() -> None:
    first = parse(TEXT, limit=5).first

    assert first.fill(query=Sql("SELECT"), order="it's") == (
        "SELECT * FROM (SELECT) AS rows ORDER BY 'it''s' LIMIT 5"
    )
    for parts in ({"query": 1}, {"query": 1, "order": 2, "table": 3}):
        with pytest.raises(ValueError, match=r"no value for it: (order|table)"):
            first.fill(**parts)


@pytest.mark.parametrize(
    ("text", "values", "message"),
    [
        ("-- name: a\n{b}", {}, "nothing before a defines b"),
        ("-- name: a\n{b}\n-- fragment: b\nid", {}, "nothing before a defines b"),
        ("-- name: a\nSELECT\n-- name: a\nSELECT", {}, "a is defined twice"),
        ("-- name: a\nSELECT", {"a": 1}, "a is defined twice"),
        ("-- name: a\nSELECT", {"b": 1}, "no statement uses b"),
        ("-- name: path\nSELECT", {}, "path is an attribute"),
        ("SELECT\n-- name: a\nSELECT", {}, "SQL before the first name"),
    ],
)
def test_refuses_a_file(text: str, values: dict[str, SqlPart], message: str) -> None:
    with pytest.raises(ValueError, match=rf"test\.sql: {message}"):
        parse(text, **values)


def test_refuses_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match=r"test\.sql has no statement 'get_all'"):
        parse(TEXT, limit=5).get_all  # noqa: B018  # the attribute is looked up


# --- The files of the package


def modules() -> Iterator[ModuleType]:
    for module in pkgutil.walk_packages(ash_server.store.__path__, "ash_server.store."):
        yield importlib.import_module(module.name)


def names_used(path: Path) -> set[str]:
    """Return the names that a module uses as `SQL.name` or `SQL["name"]`, or another one as `module.SQL.name`."""
    used = set()
    by_name = False
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="SQL"), attr=name):
                used.add(name)
            case ast.Subscript(value=ast.Name(id="SQL"), slice=ast.Constant(value=str() as name)):
                used.add(name)
            case ast.Subscript(value=ast.Name(id="SQL")):  # by a name in a table of the module
                by_name = True
    if by_name:
        texts = {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        used |= texts & {*parse_names(path.with_suffix(".sql"))}
    return used | {name for module, name in names_of_other_modules() if module == path.stem}


@cache
def names_of_other_modules() -> set[tuple[str, str]]:
    """Return the names that modules use as `module.SQL.name`, each with the module."""
    paths = (ROOT / "ash_server").rglob("*.py")
    return {found for path in paths for found in re.findall(r"\b(\w+)\.SQL\.(\w+)", path.read_text())}


def parse_names(path: Path) -> list[str]:
    return re.findall(r"^-- (?:name|fragment): (\w+)$", path.read_text(), re.MULTILINE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_modules_use_each_statement(path: Path) -> None:
    sql = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts)).SQL
    used = names_used(path.with_suffix(".py"))

    assert sql.path == path
    assert {*sql} - used - open_placeholders(path.read_text()) == set()
    assert used - {*sql} == set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_statement_has_a_description(path: Path) -> None:
    headers = re.findall(r"^-- (?:name|fragment): (\w+)\n(.*)$", path.read_text(), re.MULTILINE)

    assert [name for name, line in headers if not line.startswith("-- ")] == []


def prepared(sql: str) -> bytes:
    """Return a statement with the placeholders of PostgreSQL."""
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        name = found[1] or str(len(names))
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    return re.sub(r"%(?:\((\w+)\))?[sbt]|%%", number, sql).encode()


OF_EXTENSIONS = re.compile(r"\bpg_dist_|\brun_command_on_|\bFROM pg_stat_statements\b")
"""Tables and functions of extensions, which the server of the tests may lack."""


def test_postgresql_accepts_each_statement(database_url: str) -> None:
    refused: dict[str, str] = {}
    with psycopg.connect(direct_url(database_url), autocommit=True) as conn:
        for module in modules():
            for name, sql in executable(module):
                if OF_EXTENSIONS.search(sql):
                    continue
                result = conn.pgconn.prepare(b"", prepared(sql))
                if result.status != psycopg.pq.ExecStatus.COMMAND_OK:
                    refused[f"{module.__name__}.{name}"] = result.error_message.decode()

    assert refused == {}


def test_parameters_are_numbered_by_first_use() -> None:
    sql = Sql("SELECT %(title)b, id FROM sessions WHERE id = %(id)b OR title = %(title)b")

    numbered = number_parameters(sql)

    assert numbered == ("SELECT $1, id FROM sessions WHERE id = $2 OR title = $1", ("title", "id"))


@pytest.mark.parametrize("sql", ["SELECT %(id)s", "SELECT %b", "SELECT 5 %% 2"])
def test_only_named_binary_parameters_are_numbered(sql: str) -> None:
    with pytest.raises(ValueError, match="is not like"):
        number_parameters(Sql(sql))


def test_long_statements_have_numbered_parameters() -> None:
    """psycopg caches what it parses only up to 4,096 bytes and 50 parameters."""
    numbered = {sql for module in modules() for sql in numbered_constants(module)}

    parsed_each_time = {
        f"{module.__name__}.{name}"
        for module in modules()
        for name, sql in executable(module)
        if len(sql.encode()) > 4096 or len(set(re.findall(r"%\((\w+)\)", sql))) > 50
        if number_parameters(sql) not in numbered
    }

    assert parsed_each_time == set()


def numbered_constants(module: ModuleType) -> Iterator[NumberedSql]:
    for value in vars(module).values():
        each = value.values() if isinstance(value, dict) else [value]
        yield from (sql for sql in each if isinstance(sql, NumberedSql))


def executable(module: ModuleType) -> Iterator[tuple[str, Sql]]:
    """Yield the statements of a module's file, and those that the module makes of fragments."""
    for name, value in vars(module).items():
        if isinstance(value, Statements):
            yield from ((each, value[each]) for each in value if each not in value.fragments)
            continue
        filled = value if isinstance(value, dict) else {"": value}
        for key, sql in filled.items():
            is_statement = isinstance(sql, Sql) and re.match("SELECT|INSERT|UPDATE|DELETE|WITH", sql)
            if is_statement and not open_placeholders(sql):
                yield f"{name} {key}", sql


def test_wheel_contains_the_files(tmp_path: Path) -> None:
    [wheel] = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])

    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".sql")}
    assert packed == {str(path.relative_to(ROOT)) for path in (*FILES, SCHEMA_FILE)}
