"""Build the content objects of valid blocks."""

from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter

from ash_shared.model.blocks import CLASSES, Block

Validator = Callable[[Any], Any]


class _Validators(dict[str, Validator]):
    """The validators of the block classes by `type`, each built on first use."""

    def __missing__(self, block_type: str) -> Validator:
        validator = self[block_type] = TypeAdapter(CLASSES[block_type]).validator.validate_python
        return validator


VALIDATORS = _Validators()
"""Raises KeyError for a type that is not in the vocabulary."""


def typed_block(block: Block) -> Any:
    """Return the object of a valid block."""
    return VALIDATORS[block["type"]](block)


def typed_blocks(blocks: list[Block]) -> list[Any]:
    """Return the objects of valid blocks."""
    return list(map(typed_block, blocks))
