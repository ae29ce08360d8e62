"""The layers of the server: imports lead down, only the store and heartbeats use connections. Names of classes."""

import ast
import inspect
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest
from psycopg import AsyncConnection

ROOT = Path(__file__).parents[2]
CALLERS = ("api", "cli", "keys", "live", "transfer", "viewer")
USES_CONNECTIONS = {Path("ash_server/live/heartbeat.py"), Path("ash_server/live/replica.py")}
"""They check databases, on connections of their own."""
MODULES = sorted(
    {path.relative_to(ROOT) for folder in CALLERS for path in (ROOT / "ash_server" / folder).rglob("*.py")}
    - USES_CONNECTIONS
)
CONNECTION_TYPES = {"AsyncConnection", "AsyncConnectionPool", "open_pool", "connect", "connect_directly"}


@pytest.mark.parametrize("path", [*MODULES, Path("ash_server/app.py")], ids=str)
def test_uses_neither_connections_nor_sql(path: Path) -> None:
    imported = [
        (node.module or "", name.name)
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    ]

    assert [name for module, name in imported if "psycopg" in module and name in CONNECTION_TYPES] == []
    assert [name for module, name in imported if module == "ash_server.store" and name != "Store"] == []
    assert [(module, name) for module, name in imported if takes_connection(module, name)] == []
    assert [(module, name) for module, name in imported if name in ("SQL", "Sql", "statements")] == []


def takes_connection(module: str, name: str) -> bool:
    """True for `connect` and for functions of the storage layer with a parameter that is a connection."""
    if not module.startswith("ash_server.store."):
        return False
    value = getattr(import_module(module), name)
    if not inspect.isfunction(value):
        return False
    annotations = inspect.get_annotations(value).values()
    return name in CONNECTION_TYPES or AsyncConnection in annotations or "connect" in value.__annotations__


SERVER = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / "ash_server").rglob("*.py")
}


def imported_modules(name: str) -> Iterator[str]:
    """Yield the modules of the server that a module imports, also within functions and for types."""
    for node in ast.walk(ast.parse(SERVER[name].read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in SERVER else node.module


@cache
def server_imports() -> Mapping[str, set[str]]:
    """Return the modules that each module imports. Parsing all files takes seconds, in each process that collects."""
    return {name: {each for each in imported_modules(name) if each in SERVER} for name in SERVER}


def imports_between_parts(package: str) -> dict[str, set[str]]:
    """Return the modules and folders of a package, and which others of them each imports."""

    def part(module: str) -> str:
        below = module.removeprefix(f"{package}.")
        return "" if below == module else below.partition(".")[0]

    imports: dict[str, set[str]] = {}
    for name, imported in server_imports().items():
        imports.setdefault(part(name), set()).update(map(part, imported))
    return {name: others - {name, ""} for name, others in imports.items() if name}


def circle_in(imports: Mapping[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.slow
def test_no_modules_import_each_other() -> None:
    assert circle_in(server_imports()) == []


@pytest.mark.parametrize("package", ["ash_server", "ash_server.store"])
def test_imports_lead_down(package: str) -> None:
    imports = imports_between_parts(package)

    assert len(imports) > 10
    assert circle_in(imports) == []


def test_finds_an_import_that_leads_up() -> None:
    assert circle_in({"api": {"store"}, "store": {"errors"}}) == []
    assert circle_in({"api": {"store"}, "store": {"live"}, "live": {"store"}}) in (
        ["live", "store", "live"],
        ["store", "live", "store"],
    )


def test_detects_functions_that_take_connection() -> None:
    assert takes_connection("ash_server.store.messages", "append")
    assert takes_connection("ash_server.store.connections.pool", "connect")
    assert takes_connection("ash_server.store.conversation.standard_pages", "get_conversation")
    assert not takes_connection("ash_server.store.messages", "to_message")


@pytest.mark.slow
def test_public_classes_and_types_have_names_of_their_own() -> None:
    paths = [
        path
        for package in ("ash_shared", "ash_client", "ash_stores", "ash_server")
        for path in (ROOT / package).rglob("*.py")
    ]
    defined = Counter(name for path in paths for name in type_names(path.read_text()))

    assert [name for name, count in defined.items() if count > 1] == []


MAX_MODULES = 14
FLAT_FOLDERS = {
    "ash_server/cli": "a file per command",
    "ash_shared/projections": "a file per projection",
    "ash_shared/providers": "a file per format",
}


def test_folders_are_small() -> None:
    modules = Counter(
        str(path.parent.relative_to(ROOT))
        for package in ("ash_shared", "ash_client", "ash_stores", "ash_server")
        for path in (ROOT / package).rglob("*.py")
        if path.name != "__init__.py"
    )

    assert {folder for folder, count in modules.items() if count > MAX_MODULES} == FLAT_FOLDERS.keys()


def type_names(source: str) -> Iterator[str]:
    """Return the public names in camel case that a module defines."""
    for node in ast.parse(source).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = (
            [node.name] if isinstance(node, ast.ClassDef) else [getattr(each, "id", "") for each in targets]
        )
        yield from (name for name in names if len(name) > 1 and name[0].isupper() and not name.isupper())
