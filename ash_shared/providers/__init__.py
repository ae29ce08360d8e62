"""The wire formats that Ash reads: one module or package per provider.

Every module here that defines `PROVIDER` is a provider; there is no other list. Providers never import
each other.
"""

import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from ash_shared.records.contract import Marks, Provider, Record, WireType
from ash_shared.records.fingerprints import BODY_KEYS


class Providers(dict[str, Provider]):
    """Providers by source, in the order of recognition."""

    def __init__(self, providers: Iterable[Provider]) -> None:
        super().__init__((provider.source, provider) for provider in providers)
        self._list_checks = [
            (provider.recognizes_list, provider) for provider in self.values() if provider.recognizes_list
        ]
        by_bit = {1 << index: provider for index, provider in enumerate(self.values())}
        self._providers = _Subsets(by_bit)
        self._without_marks = sum(bit for bit, provider in by_bit.items() if provider.marks is None)
        marks = {bit: provider.marks for bit, provider in by_bit.items() if provider.marks}
        self._by_type = _index({bit: {name.partition(".")[0] for name in marks[bit].types} for bit in marks})
        self._by_typed_key = _index({bit: marks[bit].typed_keys for bit in marks})
        self._typed_keys = frozenset(self._by_typed_key)
        self._untyped_keys = _untyped_keys(marks)
        self._untyped_names = frozenset(self._untyped_keys)

    def recognize_list(self, values: list[Any]) -> Provider | None:
        """Return the first provider that recognises a top-level list as one record."""
        for recognizes, provider in self._list_checks:
            if recognizes(values):
                return provider
        return None

    def recognize(self, record: Record) -> tuple[Provider, WireType] | None:
        """Return the first provider that recognises a record, with the record's row.

        Providers are skipped if their marks exclude the record.
        """
        for provider in self._providers[self._candidates(record)]:
            row = provider.recognize(record)
            if row is not None:
                return provider, row
        return None

    def _candidates(self, record: Record) -> int:
        """Return the bits of the providers that may recognise a record, by their marks."""
        wire_type = record.get("type")
        if wire_type.__class__ is str:
            candidates = self._by_type.get(wire_type.partition(".")[0], 0)
            for name in self._typed_keys.intersection(record):
                candidates |= self._by_typed_key[name]
        else:
            candidates, possible = 0, -1
            for name in self._untyped_names.intersection(record):
                marked, allowed = self._untyped_keys[name]
                candidates |= marked
                if record[name] is not None:
                    possible &= allowed
            candidates &= possible
        return candidates | self._without_marks


class _Subsets(dict[int, list[Provider]]):
    """The providers of each combination of bits, filled on first use."""

    def __init__(self, by_bit: Mapping[int, Provider]) -> None:
        super().__init__()
        self._by_bit = by_bit

    def __missing__(self, bits: int) -> list[Provider]:
        self[bits] = [provider for bit, provider in self._by_bit.items() if bit & bits]
        return self[bits]


def _untyped_keys(marks: Mapping[int, Marks]) -> Mapping[str, tuple[int, int]]:
    """Return, for each key of an untyped record, the bits of providers that it marks, and that allow it."""
    marked = _index({bit: marks[bit].untyped_keys for bit in marks})
    allowed = _index({bit: marks[bit].body_keys for bit in marks})
    return {
        name: (marked.get(name, 0), allowed.get(name, 0) if name in BODY_KEYS else -1)
        for name in BODY_KEYS.union(marked)
    }


def _index(names: Mapping[int, Iterable[str]]) -> dict[str, int]:
    """Return the bits of the providers of each name."""
    index = defaultdict[str, int](int)
    for bit, provider_names in names.items():
        for name in provider_names:
            index[name] |= bit
    return dict(index)


def discover() -> Providers:
    """Load the providers of this package by source, in the order of their module names."""
    names = sorted(name for _, name, _ in pkgutil.iter_modules(__path__) if not name.startswith("_"))
    modules = (importlib.import_module(f"{__name__}.{name}") for name in names)
    providers: list[Provider] = [module.PROVIDER for module in modules if hasattr(module, "PROVIDER")]
    return Providers(providers)
