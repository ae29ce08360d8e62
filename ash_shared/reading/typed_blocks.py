"""Build the content objects of valid blocks."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic_core import CoreSchema, SchemaValidator, core_schema

from ash_shared.model.blocks import CLASSES, Block

Validator = Callable[[Block], Any]


@cache
def block_validators() -> Mapping[str, Validator]:
    """Return the validators of the block classes by `type`. They are built on first use, which is slow."""
    return {name: SchemaValidator(schema).validate_python for name, schema in _block_schemas().items()}


@cache
def _list_validator() -> Callable[[list[Block]], list[Any]]:
    blocks = core_schema.tagged_union_schema(_block_schemas(), "type")
    return SchemaValidator(core_schema.list_schema(blocks)).validate_python


def _block_schemas() -> dict[str, CoreSchema]:
    return {name: _wire_schema(model) for name, model in CLASSES.items()}


def _wire_schema(model: type[BaseModel]) -> CoreSchema:
    """Return the model's schema, but with JSON names only: `mime_type` in a block is an unknown key."""
    schema: Any = TypeAdapter(model).core_schema
    return {**schema, "config": {**schema["config"], "validate_by_name": False}}


def typed_blocks(blocks: list[Block]) -> list[Any]:
    """Return the content objects of valid blocks."""
    return _list_validator()(blocks)
