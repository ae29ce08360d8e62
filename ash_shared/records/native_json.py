"""A decoder of content that needs no translation, which checks blocks without building dicts."""

from collections.abc import Callable, Iterable
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, defstruct
from pydantic import BaseModel

from ash_shared.model.blocks import CLASSES, MAX_BLOCKS, with_minimum
from ash_shared.records.json_text import shallow_json


def native_decoder(levels: int, keys: Iterable[str]) -> Callable[[Raw], str | list[Any]]:
    """Return a decoder of a text, or of a list of native blocks that have only fields of their class and these keys.

    The content of a tool result is a text or a list of blocks too. The decoder raises ValueError or RecursionError for
    other content, for lists of more than MAX_BLOCKS blocks, and for values nested deeper than `levels`.
    """
    json = shallow_json(levels)
    optional = [(key, json | UnsetType, UNSET) for key in keys]
    base = defstruct("Base", optional, kw_only=True, gc=False, forbid_unknown_fields=True)
    result_content = str | _block_list(base, json, str)
    return msgspec.json.Decoder(str | _block_list(base, json, result_content)).decode


def _block_list(base: type[Struct], json: Any, result_content: Any) -> Any:
    """Return the type of a list of blocks; `result_content` is the type of the content of a tool result."""
    blocks = [_struct(model, base, json, result_content, tag=name) for name, model in CLASSES.items()]
    block: Any = Union[tuple(blocks)]  # noqa: UP007  # built at run time
    return Annotated[list[block], msgspec.Meta(max_length=MAX_BLOCKS)]


def _struct(
    model: type[BaseModel], base: type[Struct], json: Any, content: Any, *, tag: str | None = None
) -> type[Struct]:
    """Return a struct with the fields of a model; the literal `type` of a block is its tag.

    `json` is the type of fields with any JSON, `content` the type of the field `content`.
    """
    fields: list[Any] = []
    for name, field in model.model_fields.items():
        if get_origin(field.annotation) is Literal:
            continue
        own_type = content if name == "content" else _field_type(field.annotation, base, json)
        field_type = with_minimum(own_type, field)
        if field.is_required():
            fields.append((name, field_type, msgspec.field(name=field.alias)))
        else:
            fields.append((name, field_type | UnsetType, msgspec.field(default=UNSET, name=field.alias)))
    return defstruct(model.__name__, fields, bases=(base,), tag=tag, kw_only=True)


def _field_type(annotation: Any, base: type[Struct], json: Any) -> Any:
    """Return the type of the values that a model's field accepts; `json` is the type of any JSON."""
    if annotation is Any:
        return json
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _struct(annotation, base, json, json)
    origin = get_origin(annotation)
    if origin is None or origin is Literal:
        return annotation
    members = tuple(_field_type(member, base, json) for member in get_args(annotation))
    return Union[members] if origin in (Union, UnionType) else origin[members]  # noqa: UP007
