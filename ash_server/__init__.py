"""Ash's server: the store of agent messages and its REST API, command line, live view, import and export."""

# Without `typing`, which takes longer to import than this package: `ash statusline` is called after each answer.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ash_server.store import Store
    from ash_server.store.prepare import NewMessage

__all__ = ["NewMessage", "Store"]

_MODULES = {"NewMessage": "ash_server.store.prepare", "Store": "ash_server.store"}


def __getattr__(name: str) -> "Any":
    # Imported on first use: most modules of the package need neither.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
