"""The wire formats that Ash reads: one module or package per provider.

Every module here that defines `PROVIDER` is a provider; no other file lists it. Providers never import each other.
"""

import importlib
import pkgutil
from collections.abc import Iterable

from ash_shared.providers._kit.contract import Provider, Record


class Providers(dict[str, Provider]):
    """Providers by source, in the order in which they are asked."""

    def __init__(self, providers: Iterable[Provider]) -> None:
        super().__init__((provider.source, provider) for provider in providers)
        self._by_bit = {1 << place: provider for place, provider in enumerate(self.values())}
        self._unmarked = sum(bit for bit, provider in self._by_bit.items() if provider.marks is None)
        self._marked: dict[str, int] = {}
        for bit, provider in self._by_bit.items():
            for mark in {mark.partition(".")[0] for mark in provider.marks or ()}:
                self._marked[mark] = self._marked.get(mark, 0) | bit

    def recognize(self, record: Record) -> Provider | None:
        """The first that recognises a record; asked are only those that have a mark in it."""
        asked, marked = self._unmarked, self._marked
        for name in record:
            if name in marked:
                asked |= marked[name]
        wire = record.get("type")
        if wire.__class__ is str:
            asked |= marked.get(wire.partition(".")[0], 0)
        while asked:
            bit = asked & -asked
            if self._by_bit[bit].recognizes(record):
                return self._by_bit[bit]
            asked ^= bit
        return None


def discover() -> Providers:
    """The providers of this package by source, in the order of their modules' names."""
    names = sorted(name for _, name, _ in pkgutil.iter_modules(__path__) if not name.startswith("_"))
    modules = (importlib.import_module(f"{__name__}.{name}") for name in names)
    providers: list[Provider] = [module.PROVIDER for module in modules if hasattr(module, "PROVIDER")]
    return Providers(providers)
