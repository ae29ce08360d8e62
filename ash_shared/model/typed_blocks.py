"""Build the content objects of valid blocks."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import CoreSchema, SchemaValidator, core_schema

from ash_shared.model.blocks import CLASSES, Block

Validator = Callable[[Block], Any]


@cache
def block_validators() -> Mapping[str, Validator]:
    """Return the validators of the block classes by `type`. They are built on first use, which is slow."""
    return {
        name: _validator(schema) if _has_aliases(name) else SchemaValidator(schema).validate_python
        for name, schema in _block_schemas().items()
    }


def _has_aliases(name: str) -> bool:
    """True if JSON names differ from the names in the class. A validator without arguments is a third faster."""
    return any(field.alias for field in CLASSES[name].model_fields.values())


@cache
def _list_validator() -> Callable[[list[Block]], list[Any]]:
    blocks = core_schema.tagged_union_schema(_block_schemas(), "type")
    return _validator(core_schema.list_schema(blocks))


def _block_schemas() -> dict[str, CoreSchema]:
    schemas: dict[str, Any] = {name: TypeAdapter(model).core_schema for name, model in CLASSES.items()}
    return {name: {**schema} for name, schema in schemas.items()}  # builds the schemas that pydantic deferred


def _validator(schema: CoreSchema) -> Callable[[Any], Any]:
    """Return a function that accepts JSON names only: `mime_type` in a block is an unknown key.

    This is an argument of the call: pydantic ignores a schema's configuration if the class has a validator.
    """
    return partial(SchemaValidator(schema).validate_python, by_alias=True, by_name=False)


def typed_blocks(blocks: list[Block]) -> list[Any]:
    """Return the content objects of valid blocks."""
    return _list_validator()(blocks)
