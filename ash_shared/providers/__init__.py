"""Every wire format Ash reads, one module each.

A module in this package that defines `PROVIDER` is a provider: nothing else has to be edited. Providers never
import each other.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ash_shared.blocks import Block
from ash_shared.message import Kind, Role

Record = dict[str, Any]
"""The decoded JSON object of one stored text."""


class RecordReading(NamedTuple):
    """What a provider reads in one record."""

    kind: Kind
    role: Role
    blocks: list[Block]


@dataclass(frozen=True, slots=True)
class Provider:
    """All that Ash knows of one wire format."""

    source: str
    """The name that sessions and messages carry as their `source`."""
    recognizes: Callable[[Record], bool]
    """Whether a record is of this format, judged by the record alone."""
    read: Callable[[Record], RecordReading]
    """Reads a record, recognised or declared to be of this format. Raises AttributeError, KeyError or TypeError where
    the record is not what its type promises, and the whole record becomes one `raw` block; LimitExceeded where it is
    too large."""
    read_block: Callable[[Any], Block]
    """Reads one bare content block. Raises LimitExceeded alone, for a list inside it that is too long."""
    uuid: Callable[[Record], str | None] = lambda record: None
    """The provider's own id of the record."""


def discover() -> Mapping[str, Provider]:
    """The providers of this package by source, in the order of their modules' names."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = (importlib.import_module(f"{__name__}.{name}") for name in names)
    providers: list[Provider] = [module.PROVIDER for module in modules if hasattr(module, "PROVIDER")]
    return {provider.source: provider for provider in providers}
