"""Import each module of the server, and answer requests, with only the packages in requirements/server.txt.

python -m tests.pinned_imports
"""

import asyncio
import importlib
import pkgutil
import re
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType

REQUIREMENTS = Path(__file__).parents[1] / "requirements"

_PACKAGES = ("ash_shared", "ash_client", "ash_stores", "ash_server")
_OF_SDKS = {"ash_stores.claude_agent", "ash_stores.pydantic_ai"}
"""Modules for other packages, which users install themselves."""


def names(list_name: str) -> set[str]:
    """Return the normalized names of the packages in a list."""
    lines = (REQUIREMENTS / f"{list_name}.txt").read_text().splitlines()
    return {match[0] for line in lines if (match := re.match(r"[a-z0-9][a-z0-9.-]*", line))}


class _Unpinned(MetaPathFinder):
    """Makes modules of packages that are installed, but not in server.txt, as if absent."""

    def __init__(self) -> None:
        pinned = names("server") | {"ash-messages"}
        self._absent = {
            module
            for module, packages in packages_distributions().items()
            if pinned.isdisjoint(re.sub(r"[-_.]+", "-", package).lower() for package in packages)
        }

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] in self._absent:
            raise ModuleNotFoundError(f"{name} is not in requirements/server.txt", name=name)
        return None


def _import_everything() -> None:
    for package in map(importlib.import_module, _PACKAGES):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name not in _OF_SDKS:
                importlib.import_module(module.name)


async def _answer() -> None:
    from ash_server.app import create_app, openapi_json
    from ash_server.settings import Settings
    from tests.server.app_client import app_client

    openapi_json()
    app = create_app(Settings(), database_url="postgresql://127.0.0.1:1/nowhere")
    async with app_client(app) as client:
        for path in ("/health/live", "/docs"):
            (await client.get(path)).raise_for_status()


if __name__ == "__main__":
    sys.meta_path.insert(0, _Unpinned())
    _import_everything()
    asyncio.run(_answer())
