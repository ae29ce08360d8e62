"""The layers of the server (only repositories, the hub and heartbeats use connections), and names of classes."""

import ast
import inspect
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from psycopg import AsyncConnection

ROOT = Path(__file__).parents[2]
CALLERS = ("api", "cli", "transfer", "viewer")
MODULES = sorted(
    path.relative_to(ROOT) for folder in CALLERS for path in (ROOT / "ash_server" / folder).rglob("*.py")
)
CONNECTION_TYPES = {"AsyncConnection", "AsyncConnectionPool", "open_pool", "connect", "connect_directly"}


@pytest.mark.parametrize("path", [*MODULES, Path("ash_server/app.py")], ids=str)
def test_uses_no_connection(path: Path) -> None:
    imported = [
        (node.module or "", name.name)
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    ]

    assert [name for module, name in imported if "psycopg" in module and name in CONNECTION_TYPES] == []
    assert [name for module, name in imported if module == "ash_server.store" and name != "Store"] == []
    assert [(module, name) for module, name in imported if takes_connection(module, name)] == []


def takes_connection(module: str, name: str) -> bool:
    """True for `connect` and for functions of the storage layer with a parameter that is a connection."""
    if not module.startswith("ash_server.store."):
        return False
    value = getattr(import_module(module), name)
    if not inspect.isfunction(value):
        return False
    annotations = inspect.get_annotations(value).values()
    return name in CONNECTION_TYPES or AsyncConnection in annotations or "connect" in value.__annotations__


def test_detects_functions_that_take_connection() -> None:
    assert takes_connection("ash_server.store.messages", "append")
    assert takes_connection("ash_server.store.connections.pool", "connect")
    assert takes_connection("ash_server.store.conversation.standard_pages", "get_conversation")
    assert not takes_connection("ash_server.store.messages", "to_message")


def test_public_classes_and_types_have_names_of_their_own() -> None:
    paths = [
        path
        for package in ("ash_shared", "ash_client", "ash_stores", "ash_server")
        for path in (ROOT / package).rglob("*.py")
    ]
    defined = Counter(name for path in paths for name in type_names(path.read_text()))

    assert [name for name, count in defined.items() if count > 1] == []


MAX_MODULES = 14
FLAT_FOLDERS = {"ash_server/cli": "a file per command", "ash_shared/projections": "a file per projection"}


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
