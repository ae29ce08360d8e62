"""Build the content objects of valid blocks."""

from collections.abc import Callable
from functools import partial
from typing import Any

from pydantic import BaseModel, TypeAdapter

from ash_shared.model.blocks import CLASSES, Block

Validator = Callable[[Any], Any]


class _Validators(dict[str, Validator]):
    """The validators of the block classes by `type`, each built on first use."""

    def __missing__(self, block_type: str) -> Validator:
        validator = self[block_type] = _wire_validator(CLASSES[block_type])
        return validator


def _wire_validator(model: type[BaseModel]) -> Validator:
    """Return the model's validator, which takes the wire's names alone: `mime_type` in a wire block is unknown data."""
    validate = TypeAdapter(model).validator.validate_python
    has_aliases = any(field.alias for field in model.model_fields.values())
    return partial(validate, by_alias=True, by_name=False) if has_aliases else validate


VALIDATORS = _Validators()
"""Raises KeyError for a type that is not in the vocabulary."""


def typed_block(block: Block) -> Any:
    """Return the object of a valid block."""
    return VALIDATORS[block["type"]](block)


def typed_blocks(blocks: list[Block]) -> list[Any]:
    """Return the objects of valid blocks."""
    return list(map(typed_block, blocks))
