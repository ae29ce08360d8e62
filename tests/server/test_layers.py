"""The layers of the server: only repositories and the hub use connections."""

import ast
import inspect
from importlib import import_module
from pathlib import Path

import pytest
from psycopg import AsyncConnection

ROOT = Path(__file__).parents[2]
CALLERS = ("api", "cli", "transfer", "viewer")
MODULES = sorted(
    path.relative_to(ROOT) for folder in CALLERS for path in (ROOT / "ash_server" / folder).rglob("*.py")
)
CONNECTION_TYPES = {"AsyncConnection", "AsyncConnectionPool", "open_pool", "connect"}


@pytest.mark.parametrize("path", [*MODULES, Path("ash_server/app.py")], ids=str)
def test_uses_no_connection(path: Path) -> None:
    imported = [
        (node.module or "", name.name)
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    ]

    assert [name for module, name in imported if "psycopg" in module and name in CONNECTION_TYPES] == []
    assert [name for module, name in imported if module == "ash_server.db"] == []
    assert [(module, name) for module, name in imported if takes_connection(module, name)] == []


def takes_connection(module: str, name: str) -> bool:
    """True for `connect` and for functions of the storage layer with a parameter that is a connection."""
    if not module.startswith(("ash_server.db.", "ash_server.queries.")):
        return False
    value = getattr(import_module(module), name)
    if not inspect.isfunction(value):
        return False
    annotations = inspect.get_annotations(value).values()
    return name in CONNECTION_TYPES or AsyncConnection in annotations or "connect" in value.__annotations__


def test_detects_functions_that_take_connection() -> None:
    assert takes_connection("ash_server.db.messages", "append")
    assert takes_connection("ash_server.db.connection", "connect")
    assert takes_connection("ash_server.queries.standard_pages", "get_conversation")
    assert not takes_connection("ash_server.db.messages", "to_message")
