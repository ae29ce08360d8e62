"""Build the content objects of valid blocks.

Only JSON names are accepted: `mime_type` in a block is an unknown key.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

from ash_shared.model.blocks import CLASSES, Block
from ash_shared.model.content import MessageContent

Validator = Callable[[Block], Any]
"""Returns the content object of a block. Raises ValidationError if the block is not valid."""

_adapter = TypeAdapter(list[MessageContent], config=ConfigDict(defer_build=True))


def typed_blocks(blocks: list[Block]) -> list[MessageContent]:
    """Return the content objects of blocks. Raises ValidationError if a block is not valid."""
    # Without the method of the adapter, which checks and passes eight options.
    content: list[MessageContent] = _adapter.validator.validate_python(blocks, by_alias=True, by_name=False)
    return content


@cache
def block_validators() -> Mapping[str, Validator]:
    """Return the validators of single blocks by `type`. They are built on first use, which is slow."""
    return {name: _validator(model) for name, model in CLASSES.items()}


def _validator(model: type[BaseModel]) -> Validator:
    validate = TypeAdapter(model).validator.validate_python
    has_aliases = any(field.alias for field in model.model_fields.values())
    return (
        partial(validate, by_alias=True, by_name=False) if has_aliases else validate
    )  # faster without options
