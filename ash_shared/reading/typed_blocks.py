"""Build the content objects of valid blocks."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from pydantic import BaseModel, TypeAdapter

from ash_shared.model.blocks import CLASSES, Block

Validator = Callable[[Block], Any]


@cache
def block_validators() -> Mapping[str, Validator]:
    """Return the validators of the block classes by `type`. They are built on first use, which is slow."""
    return {block_type: _wire_validator(model) for block_type, model in CLASSES.items()}


def _wire_validator(model: type[BaseModel]) -> Validator:
    """Return the model's validator, which accepts only JSON names: `mime_type` in a block is an unknown key."""
    validate = TypeAdapter(model).validator.validate_python
    has_aliases = any(field.alias for field in model.model_fields.values())
    return partial(validate, by_alias=True, by_name=False) if has_aliases else validate


def typed_blocks(blocks: list[Block]) -> list[Any]:
    """Return the content objects of valid blocks."""
    validators = block_validators()
    return [validators[block["type"]](block) for block in blocks]
