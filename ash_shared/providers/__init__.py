"""The wire formats that Ash reads: one module or package per provider.

Every module here that defines `PROVIDER` is a provider; there is no other list of them. Providers never import
each other.
"""

import importlib
import pkgutil
from collections.abc import Iterable

from ash_shared.providers._kit.contract import Provider, Record


class Providers(dict[str, Provider]):
    """Providers by source, in the order in which recognition tries them."""

    def __init__(self, providers: Iterable[Provider]) -> None:
        super().__init__((provider.source, provider) for provider in providers)
        self._by_bit = {1 << index: provider for index, provider in enumerate(self.values())}
        self._without_marks = sum(bit for bit, provider in self._by_bit.items() if provider.marks is None)
        self._by_mark: dict[str, int] = {}
        for bit, provider in self._by_bit.items():
            for mark in {mark.partition(".")[0] for mark in provider.marks or ()}:
                self._by_mark[mark] = self._by_mark.get(mark, 0) | bit

    def recognize(self, record: Record) -> Provider | None:
        """Return the first provider that recognises a record. Providers none of whose marks occur in it are skipped."""
        candidates, by_mark = self._without_marks, self._by_mark
        for name in record:
            if name in by_mark:
                candidates |= by_mark[name]
        wire_type = record.get("type")
        if wire_type.__class__ is str:
            candidates |= by_mark.get(wire_type.partition(".")[0], 0)
        while candidates:
            bit = candidates & -candidates
            if self._by_bit[bit].recognizes(record):
                return self._by_bit[bit]
            candidates ^= bit
        return None


def discover() -> Providers:
    """Load the providers of this package by source, in the order of their module names."""
    names = sorted(name for _, name, _ in pkgutil.iter_modules(__path__) if not name.startswith("_"))
    modules = (importlib.import_module(f"{__name__}.{name}") for name in names)
    providers: list[Provider] = [module.PROVIDER for module in modules if hasattr(module, "PROVIDER")]
    return Providers(providers)
